use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    sync::mpsc,
    thread,
};

use ostar_bundle::{
    Input,
    fields::{Field, FieldKind, FieldSchema},
};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::event::{
    Chunk, Decoder, InputRows, RecordMeta, RegistrySettings,
    collector::{Collector, HeaderNames},
};

/// A registry that answers by path, and tells the header lines of every request.
fn registry(answers: &[(&str, u16, String)]) -> (String, mpsc::Receiver<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answers: BTreeMap<String, (u16, String)> = answers
        .iter()
        .map(|(path, status, body)| ((*path).to_owned(), (*status, body.clone())))
        .collect();
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut lines = Vec::new();
            for line in BufReader::new(&stream).lines().map_while(Result::ok) {
                if line.is_empty() {
                    break;
                }
                lines.push(line);
            }
            let path = lines.first().and_then(|line| line.split(' ').nth(1));
            let known = path.and_then(|path| answers.get(path));
            let (status, body) = known.cloned().unwrap_or((404, "{}".into()));
            let length = body.len();
            // Before the answer, after which the test looks.
            if sender.send(lines).is_err() {
                return;
            }
            let _ = write!(
                &stream,
                "HTTP/1.1 {status} x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
        }
    });
    (url, requests)
}

fn input() -> Input {
    Input::Fields(FieldSchema {
        fields: vec![Field {
            name: "price".into(),
            kind: FieldKind::Number {
                mean: 0.0,
                deviation: 1.0,
            },
        }],
        buckets: 1,
    })
}

fn settings(url: &str, format: EventFormat) -> EventSettings {
    EventSettings {
        format,
        registry: RegistrySettings {
            url: Some(url.into()),
            ..RegistrySettings::default()
        },
        ..EventSettings::default()
    }
}

fn avro(fields: serde_json::Value) -> String {
    let schema = json!({"type": "record", "name": "Order", "fields": fields});
    json!({"schema": schema.to_string()}).to_string()
}

/// An event with an id in front.
fn event(id: u32, body: &[u8]) -> Vec<u8> {
    [&[0], &id.to_be_bytes()[..], body].concat()
}

/// Fetches and decodes, as the daemon does.
fn decode(decoder: &Decoder, payload: &[u8]) -> Result<Result<f64, Reject>, RegistryAway> {
    if let Some(id) = decoder.schema_to_fetch(payload) {
        decoder.fetch_schema(id, 0)?;
    }
    let mut chunk = Chunk::new(InputRows::new(&input(), 2));
    let decoded = decoder.decode(payload, RecordMeta::default(), &mut chunk);
    Ok(decoded.map(|()| match chunk.rows.inputs() {
        ostar_engine::Inputs::Fields(rows) => rows.numbers.get(0),
        ostar_engine::Inputs::Dense(_) => panic!("fields"),
    }))
}

const PRICE: &str = "price";

#[test]
fn a_schema_is_fetched_once_and_what_cannot_be_used_has_its_reason() {
    let int = avro(json!([{"name": PRICE, "type": "int"}]));
    let long = avro(json!([{"name": "x", "type": "string"}, {"name": PRICE, "type": "long"}]));
    let other = avro(json!([{"name": "y", "type": "int"}]));
    let protobuf = json!({"schema": "message X {}", "schemaType": "PROTOBUF"}).to_string();
    let (url, requests) = registry(&[
        ("/schemas/ids/1", 200, int),
        ("/schemas/ids/2", 200, long),
        ("/schemas/ids/3", 200, other),
        ("/schemas/ids/4", 200, protobuf),
        ("/schemas/ids/5", 500, String::new()),
        ("/schemas/ids/6", 200, "{\"schema\": ".into()),
        (
            "/schemas/ids/7",
            200,
            json!({"schema": "no schema"}).to_string(),
        ),
    ]);
    let decoder = Decoder::new(&settings(&url, EventFormat::Avro), &input(), 2).unwrap();
    for _ in 0..3 {
        assert_eq!(decode(&decoder, &event(1, &[14])).unwrap().unwrap(), 7.0);
        let evolved = event(2, &[2, b'a', 16]);
        assert_eq!(decode(&decoder, &evolved).unwrap().unwrap(), 8.0);
    }
    assert_eq!(requests.try_iter().count(), 2, "one request a schema");
    let reason = |payload: &[u8]| {
        let refused = decode(&decoder, payload).unwrap().unwrap_err();
        refused.reason.as_str()
    };
    assert_eq!(reason(&event(3, &[2])), "incompatible_schema");
    assert_eq!(reason(&event(4, &[2])), "incompatible_schema");
    assert_eq!(reason(&event(7, &[2])), "incompatible_schema");
    assert_eq!(reason(&event(99, &[2])), "unknown_schema");
    assert_eq!(reason(&event(1, &[])), "malformed");
    assert_eq!(reason(b"{}"), "malformed");
    for away in [5, 6] {
        let told = decode(&decoder, &event(away, &[2])).unwrap_err();
        assert!(
            told.to_string().contains(&format!("/schemas/ids/{away}")),
            "{told}"
        );
    }
    let waits: Vec<_> = (0..20)
        .map(|tries| decoder.fetch_schema(5, tries).unwrap_err().retry_after)
        .collect();
    assert!(waits.is_sorted() && waits[19] == LAST_RETRY, "{waits:?}");
}

#[test]
fn references_are_fetched_and_credentials_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (password, token) = (folder.path().join("password"), folder.path().join("token"));
    fs::write(&password, "s3cret\n").unwrap();
    fs::write(&token, "t0ken\n").unwrap();
    let inner =
        json!({"type": "record", "name": "Item", "fields": [{"name": PRICE, "type": "double"}]});
    let outer =
        json!({"type": "record", "name": "Order", "fields": [{"name": "item", "type": "Item"}]});
    let reference = json!([{"name": "Item", "subject": "a/item", "version": 2}]);
    let outer = json!({"schema": outer.to_string(), "references": reference}).to_string();
    let inner = json!({"schema": inner.to_string(), "subject": "a/item", "id": 8}).to_string();
    let (url, requests) = registry(&[
        ("/schemas/ids/9", 200, outer),
        ("/subjects/a%2Fitem/versions/2", 200, inner),
    ]);
    let mut settings = settings(&url, EventFormat::Avro);
    settings.fields.insert(PRICE.into(), "item.price".into());
    for (token_file, expected) in [
        (None, "Basic b3N0YXJkOnMzY3JldA=="),
        (Some(token), "Bearer t0ken"),
    ] {
        settings.registry.username = Some("ostard".into());
        settings.registry.password_file = Some(password.clone());
        settings.registry.token_file = token_file;
        let decoder = Decoder::new(&settings, &input(), 2).unwrap();
        let payload = event(9, &2.5_f64.to_le_bytes());
        assert_eq!(decode(&decoder, &payload).unwrap().unwrap(), 2.5);
        for request in requests.try_iter() {
            let sent = request
                .iter()
                .any(|line| line.eq_ignore_ascii_case(&format!("authorization: {expected}")));
            assert!(sent, "{request:?}");
        }
    }
}

#[test]
fn json_events_of_a_registry_are_read_without_their_prefix() {
    let schema = json!({"schema": "{}", "schemaType": "JSON"}).to_string();
    let (url, _requests) = registry(&[("/schemas/ids/1", 200, schema)]);
    let settings = EventSettings {
        flat: true,
        ..settings(&url, EventFormat::Json)
    };
    let decoder = Decoder::new(&settings, &input(), 2).unwrap();
    let payload = event(1, br#"{"price": 3}"#);
    assert_eq!(decode(&decoder, &payload).unwrap().unwrap(), 3.0);
    let unknown = decode(&decoder, &event(2, b"{}")).unwrap().unwrap_err();
    assert_eq!(unknown.reason, RejectReason::UnknownSchema);
    let away = EventSettings {
        registry: RegistrySettings {
            // Nobody listens there.
            url: Some("http://ann:hunter2@127.0.0.1:1".into()),
            ..RegistrySettings::default()
        },
        ..settings
    };
    let decoder = Decoder::new(&away, &input(), 2).unwrap();
    let told = decode(&decoder, &payload).unwrap_err().to_string();
    assert!(told.contains("http://ann:***@127.0.0.1:1/"), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
}

const ORDER: &str = r#"
    syntax = "proto3";
    package shop;
    import "item.proto";
    import "google/protobuf/timestamp.proto";
    message Other { string name = 1; }
    message Order {
        message Inner { double price = 1; }
        shop.Item item = 1;
        double price = 2;
        google.protobuf.Timestamp at = 3;
    }
"#;
const ITEM: &str = r#"syntax = "proto3"; package shop; message Item { double price = 1; }"#;

/// A double in a field.
fn double(field: u8, value: f64) -> Vec<u8> {
    [&[field << 3 | 1][..], &value.to_le_bytes()].concat()
}

fn protobuf(schema: &str, references: serde_json::Value) -> String {
    json!({"schema": schema, "schemaType": "PROTOBUF", "references": references}).to_string()
}

#[test]
fn protobuf_messages_of_a_registry_are_found_by_their_numbers_and_bad_ones_have_their_reason() {
    let reference = json!([{"name": "item.proto", "subject": "item", "version": 1}]);
    let item = protobuf(ITEM, json!([]));
    let descriptor = prost_types::FileDescriptorProto {
        // Python's client registers encoded descriptors.
        name: Some("x.proto".into()),
        syntax: Some("proto3".into()),
        message_type: vec![prost_types::DescriptorProto {
            name: Some("X".into()),
            field: vec![prost_types::FieldDescriptorProto {
                name: Some(PRICE.into()),
                number: Some(4),
                label: Some(1),
                r#type: Some(1),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let encoded = base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        prost::Message::encode_to_vec(&descriptor),
    );
    let (url, requests) = registry(&[
        ("/schemas/ids/1", 200, protobuf(ORDER, reference)),
        ("/subjects/item/versions/1", 200, item),
        ("/schemas/ids/2", 200, protobuf(&encoded, json!([]))),
        ("/schemas/ids/3", 200, protobuf("message {", json!([]))),
        (
            "/schemas/ids/4",
            200,
            avro(json!([{"name": PRICE, "type": "int"}])),
        ),
        (
            "/schemas/ids/5",
            200,
            protobuf("import \"none.proto\";", json!([])),
        ),
    ]);
    let decoder = Decoder::new(&settings(&url, EventFormat::Protobuf), &input(), 2).unwrap();
    let prefixed = |id: u32, path: &[u8], body: Vec<u8>| event(id, &[path, &body].concat());
    // The second message, and the one inside it.
    for (path, field) in [(&[2, 2][..], 2), (&[4, 2, 0], 1)] {
        let payload = prefixed(1, path, double(field, 2.5));
        assert_eq!(decode(&decoder, &payload).unwrap().unwrap(), 2.5);
    }
    // No numbers name the first message.
    let payload = prefixed(2, &[0], double(4, 7.0));
    assert_eq!(decode(&decoder, &payload).unwrap().unwrap(), 7.0);
    assert_eq!(requests.try_iter().count(), 3, "one request a schema");
    let refused = |payload: &[u8]| decode(&decoder, payload).unwrap().unwrap_err();
    for (payload, reason) in [
        (prefixed(1, &[0], vec![10, 0]), "incompatible_schema"),
        (prefixed(1, &[2, 18], vec![]), "malformed"),
        (prefixed(1, &[0x80], vec![]), "malformed"),
        (prefixed(1, &[2, 2], vec![17, 0]), "malformed"),
        (prefixed(3, &[0], vec![]), "incompatible_schema"),
        (prefixed(4, &[0], vec![]), "incompatible_schema"),
        (prefixed(5, &[0], vec![]), "incompatible_schema"),
        (prefixed(99, &[0], vec![]), "unknown_schema"),
        (b"\x01\x00".to_vec(), "malformed"),
    ] {
        assert_eq!(refused(&payload).reason.as_str(), reason, "{payload:?}");
    }
    // With a name, another message of the same schema is not taken.
    let settings = EventSettings {
        message: Some("shop.Order".into()),
        ..settings(&url, EventFormat::Protobuf)
    };
    let decoder = Decoder::new(&settings, &input(), 2).unwrap();
    let inner = prefixed(1, &[4, 2, 0], double(1, 2.5));
    let refused = decode(&decoder, &inner).unwrap().unwrap_err();
    assert!(
        refused.to_string().contains("expected shop.Order"),
        "{refused}"
    );
}

/// A seed of each kind of schema, and bytes of events.
#[test]
fn fuzz_registry_answers() {
    let wanted = |format| {
        let settings = settings("http://127.0.0.1:1", format);
        let layout = Layout::new(&input(), 2);
        let tree = crate::event::places::tree(&settings, &layout).unwrap();
        Schemas::new(&settings, &layout, tree).unwrap()
    };
    let schemas = [EventFormat::Avro, EventFormat::Protobuf, EventFormat::Json].map(wanted);
    let references = json!([{"name": "item.proto", "subject": "a", "version": 1}]);
    let seeds = [
        avro(
            json!([{"name": PRICE, "type": ["null", "int"]}, {"name": "x", "type": {"type": "map", "values": "long"}}]),
        ),
        protobuf(ORDER, references),
        protobuf(ITEM, json!([])),
        json!({"schema": "{}", "schemaType": "JSON"}).to_string(),
    ];
    let seeds = seeds.map(String::into_bytes);
    let item = Named {
        name: "item.proto".into(),
        schema: ITEM.into(),
    };
    ostar_fuzzing::fuzz!("registry_answers", seeds, |bytes: &[u8]| {
        let Ok(registered) = serde_json::from_slice::<Registered>(bytes) else {
            return;
        };
        for schemas in &schemas {
            let known = schemas.compile(1, &registered, std::slice::from_ref(&item));
            schemas.kept.lock().unwrap().insert(1, known);
            for body in [
                &[][..],
                &[0, 9, 0, 0, 0, 0, 0, 0, 4, 64],
                &[2, 2, 2],
                &[0; 40],
            ] {
                let payload = event(1, body);
                if let Ok((format, body)) = schemas.format_of(&payload) {
                    let names = HeaderNames::default();
                    let _ = format.read(body, &mut Collector::fields(&names, 1));
                }
            }
        }
    });
}

#[test]
fn avro_with_a_schema_file_has_no_prefix_and_needs_one_of_the_two() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("order.avsc");
    let text = r#"{"type": "record", "name": "X", "fields": [{"name": "price", "type": "int"}]}"#;
    fs::write(&file, text).unwrap();
    let mut settings = EventSettings {
        format: EventFormat::Avro,
        schema_file: Some(file.clone()),
        ..EventSettings::default()
    };
    let decoder = Decoder::new(&settings, &input(), 2).unwrap();
    assert_eq!(decode(&decoder, &[14]).unwrap().unwrap(), 7.0);
    fs::write(&file, "{").unwrap();
    let broken = Decoder::new(&settings, &input(), 2)
        .unwrap_err()
        .to_string();
    assert!(broken.contains("expected an Avro schema"), "{broken}");
    settings.schema_file = None;
    let none = Decoder::new(&settings, &input(), 2)
        .unwrap_err()
        .to_string();
    assert!(
        none.contains("events.registry.url or events.schema_file"),
        "{none}"
    );
}

proptest! {
    #[test]
    fn no_answer_of_a_registry_panics(answer in r#"[\[\]{}",:a-z0-9\\ -]{0,80}"#, status in prop::sample::select(vec![200_u16, 404, 500])) {
        let schema = json!({"schema": answer}).to_string();
        let (url, _requests) = registry(&[("/schemas/ids/1", status, answer), ("/schemas/ids/2", 200, schema)]);
        let decoder = Decoder::new(&settings(&url, EventFormat::Avro), &input(), 2).unwrap();
        for id in [1, 2] {
            let _ = decode(&decoder, &event(id, &[2, 2]));
        }
    }
}
