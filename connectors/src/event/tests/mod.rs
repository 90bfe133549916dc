mod fuzz;
mod places;
mod properties;

use std::collections::BTreeMap;

use ostar_bundle::{
    Input,
    fields::{Field, FieldKind, FieldSchema},
};

use super::*;
use crate::proto;

/// All that need no schema.
const FORMATS: [EventFormat; 3] = EventFormat::PLAIN;

const LATENT: Input = Input::Latent { width: 3 };

fn settings(format: EventFormat) -> EventSettings {
    EventSettings {
        format,
        ..EventSettings::default()
    }
}

fn fields() -> Input {
    let field = |name: &str, kind| Field {
        name: name.into(),
        kind,
    };
    let number = FieldKind::Number {
        mean: 1.0,
        deviation: 2.0,
    };
    Input::Fields(FieldSchema {
        fields: vec![
            field("price", number),
            field("country", FieldKind::Category),
            field("subject", FieldKind::Text),
        ],
        buckets: 1000,
    })
}

fn decode_with(
    settings: &EventSettings,
    input: &Input,
    payload: &[u8],
    record: RecordMeta<'_>,
) -> Result<Chunk, Reject> {
    let decoder = Decoder::new(settings, input, 2).unwrap();
    let mut chunk = Chunk::new(InputRows::new(input, 2));
    let before = format!("{chunk:?}");
    let decoded = decoder.decode(payload, record, &mut chunk);
    match decoded {
        Ok(()) => Ok(chunk),
        Err(reject) => {
            let is_untouched = before == format!("{chunk:?}");
            assert!(is_untouched, "a refused event left something behind");
            Err(reject)
        }
    }
}

fn json(input: &Input, text: &str) -> Result<Chunk, Reject> {
    let settings = settings(EventFormat::Json);
    decode_with(&settings, input, text.as_bytes(), RecordMeta::default())
}

fn reason(input: &Input, text: &str) -> &'static str {
    json(input, text).unwrap_err().reason.as_str()
}

fn dense(chunk: &Chunk) -> Vec<f32> {
    match chunk.rows.inputs() {
        ostar_engine::Inputs::Dense(rows) => {
            let values = rows.values();
            (0..values.len()).map(|n| values.get(n) as f32).collect()
        }
        ostar_engine::Inputs::Fields(_) => panic!("expected numbers"),
    }
}

#[test]
fn json_events_carry_id_time_and_input_among_other_things() {
    let text =
        r#"{"meta": {"a": [1, {"b": null}]}, "id": "e1", "latent": [1, -2.5, 3e0], "time_ms": 17}"#;
    let chunk = json(&LATENT, text).unwrap();
    assert_eq!(dense(&chunk), [1.0, -2.5, 3.0]);
    assert_eq!(chunk.events[0].id.as_deref(), Some("e1"));
    assert_eq!(chunk.events[0].time_ms, 17);
    let number = json(&LATENT, r#"{"id": 9007199254740993, "latent": [1, 2, 3]}"#).unwrap();
    assert_eq!(number.events[0].id.as_deref(), Some("9007199254740993"));
}

#[test]
fn a_time_too_far_ahead_is_rejected_in_every_format_and_an_old_one_is_not() {
    const WRITTEN: i64 = 1_700_000_000_000;
    const YEAR_2100: i64 = 4_102_444_800_000;
    let row = Row::Dense(vec![1.0, 2.0, 3.0]);
    for format in FORMATS {
        let settings = settings(format);
        let encoder = Encoder::new(&settings, &LATENT, 2).unwrap();
        let decode = |time_ms, timestamp_ms| {
            let record = RecordMeta {
                timestamp_ms,
                ..RecordMeta::default()
            };
            let payload = encoder.encode(None, Some(time_ms), &row);
            decode_with(&settings, &LATENT, &payload, record)
        };
        let old = decode(0, Some(WRITTEN)).unwrap();
        assert_eq!(old.events[0].recorded_ms, WRITTEN);
        // The year 2100 by the event, by its record, and by an event whose record has no time.
        let mut ahead = vec![decode(0, Some(YEAR_2100))];
        if format.has_names() {
            ahead.extend([decode(YEAR_2100, Some(WRITTEN)), decode(YEAR_2100, None)]);
        }
        for refused in ahead {
            let refused = refused.unwrap_err();
            assert_eq!(
                refused.reason,
                RejectReason::BadTime,
                "{format:?}: {refused}"
            );
        }
    }
    let text = format!(r#"{{"fields": {{"price": 1}}, "time_ms": {YEAR_2100}}}"#);
    assert_eq!(reason(&fields(), &text), "bad_time");
}

#[test]
fn an_event_without_id_or_time_has_those_of_its_record() {
    let record = RecordMeta {
        partition: 4,
        offset: 5,
        timestamp_ms: Some(6),
        key: Some(b"key"),
    };
    let row = Row::Dense(vec![1.0, 2.0, 3.0]);
    for format in FORMATS {
        let settings = settings(format);
        let payload = Encoder::new(&settings, &LATENT, 2)
            .unwrap()
            .encode(None, None, &row);
        let chunk = decode_with(&settings, &LATENT, &payload, record).unwrap();
        let expected = EventMeta {
            id: Some("key".into()),
            time_ms: 6,
            recorded_ms: 6,
            partition: 4,
            offset: 5,
        };
        assert_eq!(chunk.events, [expected]);
        let binary = RecordMeta {
            key: Some(&[0xff, 0xfe]),
            ..record
        };
        let chunk = decode_with(&settings, &LATENT, &payload, binary).unwrap();
        assert_eq!(chunk.events[0].id, None);
    }
}

#[test]
fn whatever_is_wrong_with_json_has_its_reason() {
    let deep = |levels: usize| {
        let (open, close) = ("[".repeat(levels - 1), "]".repeat(levels - 1));
        format!(r#"{{"latent": [1, 2, 3], "x": {open}{close}}}"#)
    };
    for (text, expected) in [
        ("", "empty"),
        ("nonsense", "malformed"),
        (r#"{"latent": [1, 2, 3]"#, "malformed"),
        (r#"{"latent": [1, 2, 3]} x"#, "malformed"),
        (r#"{"latent": [1, 2, NaN]}"#, "malformed"),
        (r#"{"latent": [1, 2, 3], "latent": [1, 2, 3]}"#, "malformed"),
        (
            r#"{"id": "a", "id": "b", "latent": [1, 2, 3]}"#,
            "malformed",
        ),
        ("[1, 2, 3]", "wrong_type"),
        (r#"{"latent": [1, 2, "3"]}"#, "wrong_type"),
        (r#"{"latent": [1, 2, null]}"#, "wrong_type"),
        (r#"{"latent": {"0": 1}}"#, "wrong_type"),
        (r#"{"latent": null}"#, "wrong_type"),
        (r#"{"id": 1.5, "latent": [1, 2, 3]}"#, "wrong_type"),
        (r#"{"time_ms": "now", "latent": [1, 2, 3]}"#, "wrong_type"),
        (r#"{"latent": [1, 2]}"#, "wrong_width"),
        (r#"{"latent": [1, 2, 3, 4, 5]}"#, "wrong_width"),
        (r#"{"latent": [1, 2, 1e39]}"#, "not_finite"),
        // Fits into 32 bits, and a product of two of them does not.
        (r#"{"latent": [1, 2, -2e15]}"#, "not_finite"),
        (r#"{"latent": [1, 2, 1e999]}"#, "not_finite"),
        (r#"{"dense": [1, 2, 3]}"#, "missing_input"),
        ("{}", "missing_input"),
        (&deep(17), "too_deep"),
        (&deep(90), "too_deep"),
        (&deep(100_000), "too_deep"),
    ] {
        assert_eq!(reason(&LATENT, text), expected, "{text:.100}");
    }
    assert!(json(&LATENT, &deep(16)).is_ok());
    let large = format!(r#"{{"latent": [1, 2, 3], "x": "{}"}}"#, "x".repeat(1 << 20));
    assert_eq!(reason(&LATENT, &large), "too_large");
    let long = format!(r#"{{"id": "{}", "latent": [1, 2, 3]}}"#, "x".repeat(257));
    assert_eq!(reason(&LATENT, &long), "bad_id");
}

#[test]
fn probabilities_must_be_a_distribution() {
    for (text, expected) in [
        (r#"{"probabilities": [0.3, 0.6]}"#, "not_a_distribution"),
        (r#"{"probabilities": [-0.5, 1.5]}"#, "not_a_distribution"),
        (r#"{"probabilities": [1]}"#, "wrong_width"),
    ] {
        assert_eq!(reason(&Input::Probabilities, text), expected, "{text}");
    }
    assert!(
        json(
            &Input::Probabilities,
            r#"{"probabilities": [0.3333, 0.6666]}"#
        )
        .is_ok()
    );
    assert!(json(&Input::Logits, r#"{"logits": [-3, 60]}"#).is_ok());
}

#[test]
fn named_fields_are_the_same_nested_flat_and_in_protobuf() {
    let nested =
        r#"{"fields": {"price": 3, "country": 49, "subject": "Hi \"you\"", "x": [1]}, "id": "a"}"#;
    let nested = json(&fields(), nested).unwrap();
    let flat = EventSettings {
        flat: true,
        ..settings(EventFormat::Json)
    };
    let text =
        br#"{"price": 3.0, "country": "49", "subject": "hi you", "id": "a", "more": {"y": 1}}"#;
    let flat = decode_with(&flat, &fields(), text, RecordMeta::default()).unwrap();
    let row = Row::Fields(BTreeMap::from([
        ("price".to_owned(), Cell::Integer(3)),
        ("country".to_owned(), Cell::Integer(49)),
        ("subject".to_owned(), Cell::Text("Hi you".into())),
    ]));
    let protobuf = settings(EventFormat::Protobuf);
    let encoder = Encoder::new(&protobuf, &fields(), 2).unwrap();
    let payload = encoder.encode(Some("a"), None, &row);
    let protobuf = decode_with(&protobuf, &fields(), &payload, RecordMeta::default()).unwrap();
    let rows = |chunk: &Chunk| format!("{:?}", chunk.rows);
    assert_eq!(rows(&nested), rows(&flat));
    assert_eq!(rows(&nested), rows(&protobuf));
    assert_eq!(nested.events, flat.events);
    assert_eq!(nested.events, protobuf.events);
}

#[test]
fn missing_fields_are_fine_and_wrong_ones_are_not() {
    let all_missing = json(&fields(), r#"{"fields": {"price": null}}"#).unwrap();
    assert_eq!(all_missing.rows.len(), 1);
    for (text, expected) in [
        (r#"{"fields": {"price": "cheap"}}"#, "wrong_type"),
        (r#"{"fields": {"price": [1]}}"#, "wrong_type"),
        (r#"{"fields": {"country": 1.5}}"#, "wrong_type"),
        (r#"{"fields": [1]}"#, "wrong_type"),
        (r#"{"fields": {"price": 1e300}}"#, "not_finite"),
        (r#"{"fields": {"price": 1e20}}"#, "not_finite"),
        (r#"{"fields": {"price": 1, "price": 2}}"#, "malformed"),
        (r#"{"price": 1}"#, "missing_input"),
    ] {
        assert_eq!(reason(&fields(), text), expected, "{text}");
    }
}

#[test]
fn raw_and_protobuf_events_are_checked_alike() {
    let refused = |format, payload: &[u8]| {
        let refused = decode_with(&settings(format), &LATENT, payload, RecordMeta::default());
        refused.unwrap_err().reason.as_str()
    };
    assert_eq!(refused(EventFormat::Raw, &[0; 11]), "wrong_width");
    assert_eq!(refused(EventFormat::Raw, &[0; 16]), "wrong_width");
    assert_eq!(refused(EventFormat::Raw, &[0xff; 12]), "not_finite");
    assert_eq!(refused(EventFormat::Raw, &[]), "empty");
    assert_eq!(refused(EventFormat::Protobuf, &[0xff; 12]), "malformed");
    let no_input = [10, 1, b'x'];
    assert_eq!(refused(EventFormat::Protobuf, &no_input), "missing_input");
    let encoded = |input: &Input, values: &[f32]| {
        let encoder = Encoder::new(&settings(EventFormat::Protobuf), input, 2).unwrap();
        encoder.encode(None, None, &Row::Dense(values.to_vec()))
    };
    let other_kind = encoded(&Input::Dense { width: 3 }, &[1.0; 3]);
    assert_eq!(refused(EventFormat::Protobuf, &other_kind), "missing_input");
    let wide = encoded(&LATENT, &[1.0; 4]);
    assert_eq!(refused(EventFormat::Protobuf, &wide), "wrong_width");
    let infinite = encoded(&LATENT, &[1.0, f32::INFINITY, 1.0]);
    assert_eq!(refused(EventFormat::Protobuf, &infinite), "not_finite");
}

#[test]
fn inputs_of_requests_are_checked_as_events_are() {
    let decoder = Decoder::new(&EventSettings::default(), &LATENT, 2).unwrap();
    let mut rows = InputRows::new(&LATENT, 2);
    let latent = |values: &[f32]| proto::Input {
        kind: Some(proto::input::Kind::Latent(proto::Vector {
            values: values.to_vec(),
        })),
    };
    decoder
        .push_input(latent(&[1.0, 2.0, 3.0]), &mut rows)
        .unwrap();
    let short = decoder.push_input(latent(&[1.0]), &mut rows).unwrap_err();
    assert_eq!(
        short.to_string(),
        "wrong_width: `latent` has 1 numbers, expected 3"
    );
    let none = decoder.push_input(proto::Input { kind: None }, &mut rows);
    assert_eq!(none.unwrap_err().reason, RejectReason::MissingInput);
    assert_eq!(rows.len(), 1);
}

#[test]
fn settings_that_cannot_carry_the_input_are_refused_at_the_start() {
    let raw = Decoder::new(&settings(EventFormat::Raw), &fields(), 2).unwrap_err();
    assert!(raw.to_string().starts_with("events.format is raw"), "{raw}");
    let flat = EventSettings {
        flat: true,
        ..EventSettings::default()
    };
    let flat = Decoder::new(&flat, &LATENT, 2).unwrap_err();
    assert!(
        flat.to_string().starts_with("events.flat is true"),
        "{flat}"
    );
}
