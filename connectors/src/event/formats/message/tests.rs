use std::collections::BTreeMap;

use ostar_bundle::{
    Input,
    fields::{Field, FieldKind, FieldSchema},
};
use proptest::prelude::*;
use prost::Message;
use prost_reflect::{DynamicMessage, MapKey, Value};

use super::*;
use crate::event::{Chunk, Decoder, EventFormat, EventSettings, InputRows, RecordMeta, Reject};

const PROTO: &str = r#"
    syntax = "proto3";
    package shop;
    import "google/protobuf/timestamp.proto";
    import "google/protobuf/wrappers.proto";
    enum Kind { NEW = 0; USED = 1; }
    message Item { double price = 1; repeated string tags = 2; Item next = 3; }
    message Order {
        string id = 7;
        google.protobuf.Timestamp at = 2;
        Item item = 3;
        Kind kind = 4;
        sint32 count = 5;
        optional int64 weight = 6;
        google.protobuf.FloatValue rebate = 8;
        map<string, string> attributes = 9;
        repeated fixed32 numbers = 10;
        repeated float latent = 11;
    }
"#;

const FIELDS: [(&str, &str); 8] = [
    ("price", "item.price"),
    ("tags", "item.tags"),
    ("kind", "kind"),
    ("count", "count"),
    ("weight", "weight"),
    ("rebate", "rebate"),
    ("origin", "attributes.origin"),
    ("numbers", "numbers"),
];

fn descriptors() -> (tempfile::TempDir, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("order.proto");
    std::fs::write(&file, PROTO).unwrap();
    let set = protox::compile([&file], [folder.path()]).unwrap();
    let bytes = set.encode_to_vec();
    std::fs::write(folder.path().join("order.pb"), &bytes).unwrap();
    (folder, bytes)
}

fn input() -> Input {
    let number = FieldKind::Number {
        mean: 0.0,
        deviation: 1.0,
    };
    let kind = |name: &str| match name {
        "tags" | "kind" | "origin" | "numbers" => FieldKind::Category,
        _ => number,
    };
    let fields = FIELDS.iter().map(|(name, _)| Field {
        name: (*name).into(),
        kind: kind(name),
    });
    Input::Fields(FieldSchema {
        fields: fields.collect(),
        buckets: 100,
    })
}

fn settings(folder: &tempfile::TempDir) -> EventSettings {
    let fields = FIELDS.iter();
    EventSettings {
        format: EventFormat::Protobuf,
        schema_file: Some(folder.path().join("order.pb")),
        message: Some("shop.Order".into()),
        time_field: "at".into(),
        fields: fields
            .map(|(name, path)| ((*name).to_owned(), (*path).to_owned()))
            .collect::<BTreeMap<_, _>>(),
        ..EventSettings::default()
    }
}

fn order(bytes: &[u8]) -> DynamicMessage {
    let pool = DescriptorPool::decode(bytes).unwrap();
    let message = |name: &str| DynamicMessage::new(pool.get_message_by_name(name).unwrap());
    let mut item = message("shop.Item");
    item.set_field_by_name("price", Value::F64(9.5));
    let tags = ["a", "b"].map(|tag| Value::String(tag.into()));
    item.set_field_by_name("tags", Value::List(tags.into()));
    let mut at = message("google.protobuf.Timestamp");
    at.set_field_by_name("seconds", Value::I64(1_767_225_600));
    at.set_field_by_name("nanos", Value::I32(123_000_000));
    let mut order = message("shop.Order");
    order.set_field_by_name("id", Value::String("o-1".into()));
    order.set_field_by_name("at", Value::Message(at));
    order.set_field_by_name("item", Value::Message(item));
    order.set_field_by_name("kind", Value::EnumNumber(1));
    order.set_field_by_name("count", Value::I32(-7));
    let origin = (MapKey::String("origin".into()), Value::String("DE".into()));
    order.set_field_by_name("attributes", Value::Map([origin].into()));
    let numbers = vec![Value::U32(3), Value::U32(4)];
    order.set_field_by_name("numbers", Value::List(numbers));
    order
}

fn read(decoder: &Decoder, payload: &[u8]) -> Result<(Chunk, Vec<Cell<'static>>), Reject> {
    let mut chunk = Chunk::new(InputRows::new(&input(), 2));
    decoder.decode(payload, RecordMeta::default(), &mut chunk)?;
    Ok((chunk, decoder.fields(payload)?))
}

#[test]
fn a_message_of_ones_own_is_read_by_its_descriptor() {
    let (folder, bytes) = descriptors();
    let decoder = Decoder::new(&settings(&folder), &input(), 2).unwrap();
    let (chunk, cells) = read(&decoder, &order(&bytes).encode_to_vec()).unwrap();
    assert_eq!(chunk.events[0].id.as_deref(), Some("o-1"));
    assert_eq!(chunk.events[0].time_ms, 1_767_225_600_123);
    let texts = |texts: &[&'static str]| Cell::Texts(texts.iter().map(|t| (*t).into()).collect());
    let expected = [
        Cell::Number(9.5),
        texts(&["a", "b"]),
        Cell::Text("USED".into()),
        Cell::Number(-7.0),
        Cell::Missing,
        Cell::Missing,
        Cell::Text("DE".into()),
        texts(&["3", "4"]),
    ];
    assert_eq!(cells, expected);
}

#[test]
fn zeros_that_are_not_written_are_zeros_and_what_can_be_absent_is_missing() {
    let (folder, bytes) = descriptors();
    let decoder = Decoder::new(&settings(&folder), &input(), 2).unwrap();
    let pool = DescriptorPool::decode(&bytes[..]).unwrap();
    let mut order = DynamicMessage::new(pool.get_message_by_name("shop.Order").unwrap());
    order.set_field_by_name("id", Value::String("x".into()));
    let (_, cells) = read(&decoder, &order.encode_to_vec()).unwrap();
    assert_eq!(cells[2], Cell::Text("NEW".into()));
    assert_eq!(cells[3], Cell::Number(0.0));
    // The item is not there, and so neither is its price.
    assert_eq!(cells[0], Cell::Missing);
    assert_eq!(cells[4], Cell::Missing);
    let item = DynamicMessage::new(pool.get_message_by_name("shop.Item").unwrap());
    order.set_field_by_name("item", Value::Message(item));
    let wrapper = pool.get_message_by_name("google.protobuf.FloatValue");
    let wrapper = DynamicMessage::new(wrapper.unwrap());
    order.set_field_by_name("rebate", Value::Message(wrapper));
    let (_, cells) = read(&decoder, &order.encode_to_vec()).unwrap();
    assert_eq!(
        (&cells[0], &cells[5]),
        (&Cell::Number(0.0), &Cell::Number(0.0))
    );
}

#[test]
fn vectors_are_lists_of_numbers_and_what_cannot_be_is_refused_by_name() {
    let (folder, bytes) = descriptors();
    let mut settings = EventSettings {
        fields: BTreeMap::new(),
        ..settings(&folder)
    };
    let latent = Input::Latent { width: 2 };
    let decoder = Decoder::new(&settings, &latent, 2).unwrap();
    let pool = DescriptorPool::decode(&bytes[..]).unwrap();
    let mut order = DynamicMessage::new(pool.get_message_by_name("shop.Order").unwrap());
    order.set_field_by_name(
        "latent",
        Value::List(vec![Value::F32(1.5), Value::F32(-2.0)]),
    );
    let mut chunk = Chunk::new(InputRows::new(&latent, 2));
    let payload = order.encode_to_vec();
    let decoded = decoder.decode(&payload, RecordMeta::default(), &mut chunk);
    decoded.unwrap();
    assert_eq!(chunk.len(), 1);
    let refused =
        |settings: &EventSettings| Decoder::new(settings, &input(), 2).unwrap_err().to_string();
    settings.message = Some("shop.Ordr".into());
    assert!(refused(&settings).contains("there is no message shop.Ordr"));
    settings.message = Some("shop.Item".into());
    settings.fields.insert("price".into(), "next.price".into());
    assert!(Decoder::new(&settings, &input(), 2).is_ok());
    settings
        .fields
        .insert("price".into(), "next.tags.price".into());
    let wrong = refused(&settings);
    assert!(
        wrong.contains("shop.Item.tags: is a value or a list"),
        "{wrong}"
    );
    settings.message = None;
    assert!(refused(&settings).contains("events.message"));
}

proptest! {
    #[test]
    fn no_bytes_panic(payload in prop::collection::vec(any::<u8>(), 1..200), cut in any::<prop::sample::Index>()) {
        let (folder, bytes) = descriptors();
        let decoder = Decoder::new(&settings(&folder), &input(), 2).unwrap();
        let _ = read(&decoder, &payload);
        let mut whole = order(&bytes).encode_to_vec();
        whole.truncate(cut.index(whole.len()));
        whole.extend(&payload);
        let _ = read(&decoder, &whole);
        let _ = Plan::compile(&payload, "shop.Order", &Node::Numbers);
    }
}

/// The first byte says whether the rest is a descriptor set or a payload.
#[test]
fn fuzz_descriptor_sets() {
    let (folder, bytes) = descriptors();
    let decoder = Decoder::new(&settings(&folder), &input(), 2).unwrap();
    let latent = Input::Latent { width: 2 };
    let layout = crate::event::layout::Layout::new(&latent, 2);
    let places = EventSettings {
        fields: BTreeMap::new(),
        ..settings(&folder)
    };
    let wanted = crate::event::places::tree(&places, &layout).unwrap();
    let tagged = |tag: u8, bytes: &[u8]| [&[tag], bytes].concat();
    let seeds = [tagged(0, &bytes), tagged(1, &order(&bytes).encode_to_vec())];
    ostar_fuzzing::fuzz!("descriptor_sets", seeds, |bytes: &[u8]| {
        match bytes.split_first() {
            Some((0, set)) => drop(Plan::compile(set, "shop.Order", &wanted)),
            Some((_, payload)) => drop(read(&decoder, payload)),
            None => (),
        }
    });
}
