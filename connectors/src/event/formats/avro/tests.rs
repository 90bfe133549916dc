use apache_avro::Schema;
use ostar_bundle::{
    Input,
    fields::{Field, FieldKind, FieldSchema},
};
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::event::{
    Cell, EventSettings, Reject, TimeUnit,
    collector::{Collector, HeaderNames},
    formats::Format,
    layout::Layout,
    places::{self, Node},
};

const FIELDS: [&str; 6] = ["price", "tags", "kind", "count", "ok", "origin"];

fn events() -> Value {
    serde_json::from_str(include_str!("../../../../tests/avro/events.json")).unwrap()
}

fn wanted() -> Node {
    let number = FieldKind::Number {
        mean: 0.0,
        deviation: 1.0,
    };
    let kinds = [
        number,
        FieldKind::Category,
        FieldKind::Category,
        number,
        number,
        FieldKind::Category,
    ];
    let fields = FIELDS.iter().zip(kinds).map(|(name, kind)| Field {
        name: (*name).into(),
        kind,
    });
    let input = Input::Fields(FieldSchema {
        fields: fields.collect(),
        buckets: 100,
    });
    let place = |(name, path): (&str, &str)| (name.to_owned(), path.to_owned());
    let settings = EventSettings {
        fields: [
            ("price", "item.price"),
            ("tags", "/item/tags"),
            ("origin", "attributes.origin"),
        ]
        .map(place)
        .into(),
        ..settings()
    };
    places::tree(&settings, &Layout::new(&input, 2)).unwrap()
}

fn settings() -> EventSettings {
    EventSettings {
        time_field: "at".into(),
        time_unit: TimeUnit::S,
        ..EventSettings::default()
    }
}

fn names() -> HeaderNames {
    HeaderNames::new(&settings())
}

fn compile(writer: &Schema, reader: Option<&Schema>) -> Result<Program, String> {
    Program::compile(writer, &[], reader, &wanted(), 16)
}

fn schema(events: &Value, name: &str) -> Schema {
    Schema::parse(&events["schemas"][name]).unwrap()
}

fn read<'a, 'p>(
    program: &'p Program,
    payload: &'p [u8],
    names: &'a HeaderNames,
) -> Result<Collector<'a, 'p>, Reject> {
    let mut event = Collector::fields(names, FIELDS.len());
    program.read(payload, &mut event)?;
    Ok(event)
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|place| u8::from_str_radix(&hex[place..place + 2], 16).unwrap())
        .collect()
}

#[test]
fn events_of_two_schemas_are_read_as_fastavro_reads_them() {
    let events = events();
    let reader = schema(&events, "reader");
    let names = names();
    let mut count = 0;
    for name in ["first", "second"] {
        let writer = schema(&events, name);
        let program = compile(&writer, Some(&reader)).unwrap();
        for case in events["cases"].as_array().unwrap() {
            if case["writer"] != name {
                continue;
            }
            count += 1;
            let payload = bytes(case["payload"].as_str().unwrap());
            let event = read(&program, &payload, &names).unwrap();
            assert_eq!(event.header.id.as_deref(), case["id"].as_str());
            assert_eq!(event.header.time_ms, case["time_ms"].as_i64());
            for (field, cell) in FIELDS.iter().zip(event.cells()) {
                let expected = &case[*field];
                let cell = cell.unwrap_or(Cell::Missing);
                let same = match &cell {
                    Cell::Number(number) => expected.as_f64() == Some(*number),
                    Cell::Integer(number) => expected.as_f64() == Some(*number as f64),
                    other => serde_json::to_value(other).unwrap() == *expected,
                };
                assert!(same, "{field} is {cell:?}, expected {expected} in {case}");
            }
        }
    }
    assert_eq!(count, 80);
}

#[test]
fn without_a_readers_schema_the_writers_aliases_count_and_dropped_fields_are_missing() {
    let events = events();
    let program = compile(&schema(&events, "second"), None).unwrap();
    let cases = events["cases"].as_array().unwrap();
    let case = cases
        .iter()
        .find(|case| case["writer"] == "second")
        .unwrap();
    let payload = bytes(case["payload"].as_str().unwrap());
    let names = names();
    let event = read(&program, &payload, &names).unwrap();
    let cells = event.cells();
    let kind = cells[2].as_ref().unwrap();
    assert_eq!(kind.to_string(), case["kind"].as_str().unwrap());
    assert_eq!(cells[4], None);
}

#[test]
fn a_schema_that_cannot_give_what_is_wanted_is_refused_in_words() {
    let refused = |text: &str| {
        let writer = Schema::parse_str(text).unwrap();
        compile(&writer, None).unwrap_err()
    };
    let record =
        |fields: &str| format!(r#"{{"type": "record", "name": "X", "fields": [{fields}]}}"#);
    let other = refused(&record(r#"{"name": "y", "type": "int"}"#));
    assert!(other.contains("none of the fields"), "{other}");
    let map = refused(&record(
        r#"{"name": "kind", "type": {"type": "map", "values": "int"}}"#,
    ));
    assert_eq!(map, "`kind`: it has a map where a value is wanted");
    let scalar = refused(&record(r#"{"name": "item", "type": "string"}"#));
    assert_eq!(
        scalar,
        "`item`: it has a single value where an object is wanted"
    );
    assert!(refused("\"string\"").contains("where an object is wanted"));
}

#[test]
fn hostile_payloads_end_soon() {
    let text = r#"{"type": "record", "name": "X", "fields": [
        {"name": "count", "type": "int"},
        {"name": "nothing", "type": {"type": "array", "items": "null"}},
        {"name": "self", "type": ["null", "X"]}]}"#;
    let program = compile(&Schema::parse_str(text).unwrap(), None).unwrap();
    let names = names();
    // 2^62 elements of no bytes.
    let many = [
        2, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01, 0, 0,
    ];
    assert!(read(&program, &many, &names).is_ok());
    // Records in records.
    let deep: Vec<u8> = [2, 0, 2].repeat(1_000);
    let refused = read(&program, &deep, &names).err().unwrap();
    assert_eq!(refused.reason.as_str(), "too_deep");
    for (payload, words) in [
        (&[2, 0, 4][..], "an index is 2"),
        (&[2, 0][..], "ends within"),
        (&[2, 0, 0, 9][..], "1 bytes are left"),
        (&[0xff; 11][..], "more than 64 bits"),
        (
            &[0xfe, 0xff, 0xff, 0xff, 0x7f, 0, 0][..],
            "expected 32 bits",
        ),
    ] {
        let refused = read(&program, payload, &names).err().unwrap();
        assert_eq!(refused.reason.as_str(), "malformed");
        assert!(refused.detail.contains(words), "{refused}");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(payload in prop::collection::vec(any::<u8>(), 0..300), cut in any::<prop::sample::Index>()) {
        let events = events();
        let program = compile(&schema(&events, "first"), None).unwrap();
        let names = names();
        let _ = read(&program, &payload, &names);
        // Also what begins well.
        let mut whole = bytes(events["cases"][0]["payload"].as_str().unwrap());
        let place = cut.index(whole.len());
        whole.truncate(place);
        whole.extend(payload);
        let _ = read(&program, &whole, &names);
    }
}

#[test]
fn fuzz_avro_events() {
    let events = events();
    let (first, second) = (schema(&events, "first"), schema(&events, "second"));
    let programs = [
        compile(&first, None).unwrap(),
        compile(&second, Some(&first)).unwrap(),
    ];
    let cases = events["cases"].as_array().unwrap().iter();
    let seeds = cases.map(|case| bytes(case["payload"].as_str().unwrap()));
    let seeds: Vec<_> = seeds.collect();
    let names = names();
    ostar_fuzzing::fuzz!("avro_events", seeds, |payload: &[u8]| {
        for program in &programs {
            if let Ok(event) = read(program, payload, &names) {
                assert_eq!(event.cells().len(), FIELDS.len());
            }
        }
    });
}
