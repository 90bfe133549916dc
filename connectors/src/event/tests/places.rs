//! Fields that are somewhere else than by default.

use super::*;

fn placed(fields: &[(&str, &str)], format: EventFormat) -> EventSettings {
    let named = fields.iter();
    EventSettings {
        fields: named
            .map(|(name, path)| ((*name).to_owned(), (*path).to_owned()))
            .collect(),
        ..settings(format)
    }
}

const PLACES: [(&str, &str); 2] = [("price", "/item/price"), ("country", "geo.country")];

fn rows(chunk: &Chunk) -> String {
    format!("{:?}", chunk.rows)
}

#[test]
fn fields_are_read_from_where_the_settings_say() {
    let settings = EventSettings {
        id_field: "/meta/id".into(),
        time_field: "/meta/at".into(),
        ..placed(&PLACES, EventFormat::Json)
    };
    let text = br#"{"meta": {"id": 17, "at": "1970-01-01T00:00:02Z", "x": [1]}, "subject": "Hi you",
        "item": {"price": 3, "name": "x"}, "geo": {"country": "DE", "deep": {"er": [[1]]}}, "price": 9}"#;
    let read = decode_with(&settings, &fields(), text, RecordMeta::default()).unwrap();
    assert_eq!(read.events[0].id.as_deref(), Some("17"));
    assert_eq!(read.events[0].time_ms, 2_000);
    let plain = r#"{"fields": {"price": 3, "country": "DE", "subject": "Hi you"}}"#;
    assert_eq!(rows(&read), rows(&json(&fields(), plain).unwrap()));

    // Whatever is not there is missing; what is of another type is not.
    let read = |text: &str| {
        decode_with(&settings, &fields(), text.as_bytes(), RecordMeta::default())
            .map(|chunk| rows(&chunk))
    };
    let missing = rows(&json(&fields(), r#"{"fields": {}}"#).unwrap());
    for text in [
        "{}",
        r#"{"item": null}"#,
        r#"{"item": {}, "geo": {"x": 1}}"#,
    ] {
        assert_eq!(read(text).unwrap(), missing, "{text}");
    }
    for (text, reason) in [
        (r#"{"item": "book"}"#, "wrong_type"),
        (r#"{"item": {"price": {"euro": 3}}}"#, "wrong_type"),
        (r#"{"item": {"price": "cheap"}}"#, "wrong_type"),
        (r#"{"item": {"price": 1, "price": 2}}"#, "malformed"),
        (
            r#"{"item": {"price": 1}, "item": {"price": 2}}"#,
            "malformed",
        ),
        (r#"{"meta": {"at": "yesterday"}}"#, "wrong_type"),
        (r#"{"item": {"price": 1}"#, "malformed"),
    ] {
        assert_eq!(read(text).unwrap_err().reason.as_str(), reason, "{text}");
    }
}

#[test]
fn elements_of_arrays_are_named_by_their_numbers_and_whole_arrays_are_bags() {
    let places = [("price", "/items/1/price"), ("country", "/items/0/tags")];
    let settings = placed(&places, EventFormat::Json);
    let text = br#"{"items": [{"tags": ["a", 7, null]}, {"price": 4}, {"price": 5}]}"#;
    let read = decode_with(&settings, &fields(), text, RecordMeta::default()).unwrap();
    let ostar_engine::Inputs::Fields(found) = read.rows.inputs() else {
        panic!("fields");
    };
    assert_eq!(found.numbers.get(0), 1.5);
    assert_eq!(found.offsets, [0, 2, 2]);
    let short = br#"{"items": [{"tags": []}]}"#;
    assert!(decode_with(&settings, &fields(), short, RecordMeta::default()).is_ok());
}

#[test]
fn one_value_may_be_several_fields_and_vectors_have_places_too() {
    let settings = placed(
        &[("country", "a.b"), ("subject", "/a/b")],
        EventFormat::Json,
    );
    let text = br#"{"a": {"b": "De"}}"#;
    let twice = decode_with(&settings, &fields(), text, RecordMeta::default()).unwrap();
    let plain = r#"{"fields": {"country": "De", "subject": "De"}}"#;
    assert_eq!(rows(&twice), rows(&json(&fields(), plain).unwrap()));
    let settings = placed(&[("latent", "/model/embedding")], EventFormat::Json);
    let text = br#"{"model": {"embedding": [1, 2, 3]}, "latent": [9]}"#;
    let read = decode_with(&settings, &LATENT, text, RecordMeta::default()).unwrap();
    assert_eq!(dense(&read), [1.0, 2.0, 3.0]);
}

#[test]
fn encoders_put_values_where_decoders_look() {
    let row = Row::Fields(BTreeMap::from([
        ("price".to_owned(), Cell::Number(3.5)),
        ("country".to_owned(), Cell::Text("DE".into())),
        ("subject".to_owned(), Cell::Text("hi you".into())),
    ]));
    for format in [EventFormat::Json, EventFormat::Protobuf] {
        let settings = EventSettings {
            time_unit: TimeUnit::Us,
            ..placed(&PLACES, format)
        };
        let encoder = Encoder::new(&settings, &fields(), 2).unwrap();
        let payload = encoder.encode(Some("a"), Some(5), &row);
        let read = decode_with(&settings, &fields(), &payload, RecordMeta::default()).unwrap();
        let plain = r#"{"fields": {"price": 3.5, "country": "DE", "subject": "hi you"}}"#;
        assert_eq!(rows(&read), rows(&json(&fields(), plain).unwrap()));
        assert_eq!(read.events[0].id.as_deref(), Some("a"));
        assert_eq!(read.events[0].time_ms, 5);
        let decoder = Decoder::new(&settings, &fields(), 2).unwrap();
        let paths: Vec<_> = decoder
            .leaves(&payload)
            .into_iter()
            .map(|leaf| leaf.path)
            .collect();
        let place = match format {
            EventFormat::Json => "item.price",
            _ => "/item/price",
        };
        assert!(paths.contains(&place.to_owned()), "{paths:?}");
    }
}

#[test]
fn places_that_cannot_be_are_refused_by_name() {
    let refused = |settings: &EventSettings, input: &Input| {
        Decoder::new(settings, input, 2).unwrap_err().to_string()
    };
    let unknown = refused(&placed(&[("prize", "a")], EventFormat::Json), &fields());
    assert_eq!(
        unknown,
        "events.fields has `prize`, expected fields of the bundle: `price`, `country`, `subject`"
    );
    let inside = placed(&[("price", "a"), ("country", "a.b")], EventFormat::Json);
    let inside = refused(&inside, &fields());
    assert!(
        inside.contains("would be an object and a value"),
        "{inside}"
    );
    let latent = placed(&[("price", "a")], EventFormat::Json);
    assert!(refused(&latent, &LATENT).contains("expected `latent` alone"));
    let vector = placed(&[("latent", "a")], EventFormat::Protobuf);
    assert!(refused(&vector, &LATENT).contains("events.fields is set"));
}
