//! Avro, Protobuf and JSON Schema events of a real registry, written by Confluent's own serialisers.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use ostar_tests::{
    daemon::Settings,
    kafka::Kafka,
    link::Quality,
    orders::{self, Order},
    python::{environment, script},
    registry::Registry,
};
use serde_json::{Value, json};

use crate::{Test, fields::fitted, start};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "avro_events_evolve_without_a_restart_and_bad_ones_are_counted_exactly",
        avro,
    ),
    (
        "protobuf_events_evolve_without_a_restart_and_bad_ones_are_counted_exactly",
        protobuf,
    ),
    (
        "json_schema_events_are_read_and_those_of_an_unknown_schema_are_not",
        json_schema,
    ),
];

const EVENTS: usize = 1_000;

/// How long a registry is away, in addition to its start: REGISTRY_AWAY seconds, by default 2.
fn away() -> Duration {
    let seconds = std::env::var("REGISTRY_AWAY");
    Duration::from_secs(seconds.ok().and_then(|text| text.parse().ok()).unwrap_or(2))
}

/// Three versions of an order: the second promotes and adds, the third renames and keeps the old name as an alias.
fn versions() -> [Value; 3] {
    let item = |price: Value| {
        json!({"type": "record", "name": "Item", "fields": [
            {"name": "tags", "type": {"type": "array", "items": "string"}}, price]})
    };
    let order = |item: Value, more: Value| {
        let mut fields = vec![
            json!({"name": "id", "type": "string"}),
            json!({"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}),
            json!({"name": "item", "type": item}),
            json!({"name": "country", "type": ["null", "string"], "default": null}),
        ];
        fields.extend(more.as_array().cloned().unwrap_or_default());
        json!({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})
    };
    let price = |kind: &str| json!({"name": "price", "type": kind});
    let colour = json!([{"name": "colour", "type": "string", "default": "red"}]);
    let renamed = json!({"name": "amount", "aliases": ["price"], "type": "double"});
    [
        order(item(price("float")), json!([])),
        order(item(price("double")), colour.clone()),
        order(item(renamed), colour),
    ]
}

fn event(order: &Order, number: usize, price: &str) -> Value {
    json!({
        "id": format!("order-{number}"), "at": 1_767_225_600_000_i64 + number as i64, "colour": "blue",
        "item": {"tags": order.tags, price: order.price}, "country": order.country,
    })
}

/// Sends events through Confluent's serialiser.
fn produce(
    kafka: &Kafka,
    registry: &Registry,
    topic: &str,
    format: &str,
    schema: &Path,
    events: &[Value],
) -> Result<()> {
    let python = environment("registry", "registry.txt")?;
    let mut command = Command::new(python);
    command.arg(script("registry_producer.py"));
    command.args([
        "--brokers",
        &kafka.bootstrap(),
        "--registry",
        &registry.url(),
    ]);
    command.args(["--topic", topic, "--format", format, "--schema"]);
    command.arg(schema).stdin(Stdio::piped());
    let mut process = command.spawn().context("python")?;
    let mut input = process.stdin.take().context("standard input")?;
    for event in events {
        writeln!(input, "{event}")?;
    }
    drop(input);
    let status = process.wait()?;
    ensure!(status.success(), "registry_producer.py: {status}");
    Ok(())
}

fn settings(kafka: &Kafka, folder: &Path, topic: &str, registry: &Registry) -> Settings {
    let (bundle, state) = (folder.join("bundle"), folder.join(topic));
    Settings::new(&kafka.bootstrap(), topic, &bundle, &state)
        .with("events.registry.url", &registry.url())
        .with("events.registry.timeout", "2s")
        .with("events.time_field", "at")
        .with("events.fields.price", "item.price")
        .with("events.fields.tags", "item.tags")
        .with("learner.block", "250")
        .with("learner.steps_per_block", "0")
        .with("learner.method.window", "1000")
        .with("learner.method.threads", "1")
        .with("learner.nice", "0")
        .with("dead_letters.max_ratio", "0.5")
}

fn avro(kafka: &Kafka) -> Result<()> {
    let folder = fitted()?;
    let mut registry = Registry::start()?;
    let topic = "avro-orders";
    kafka.create_topic(topic, 1, &[])?;
    let other =
        json!({"type": "record", "name": "Other", "fields": [{"name": "x", "type": "int"}]});
    let register = |registry: &Registry| -> Result<Vec<u64>> {
        let mut ids = Vec::new();
        for version in versions() {
            ids.push(registry.register(topic, "AVRO", &version)?);
        }
        ids.push(registry.register("something-else", "AVRO", &other)?);
        Ok(ids)
    };
    let ids = register(&registry)?;
    let orders = orders::draw(EVENTS, 0.3, 7);
    let events = |price: &str| -> Vec<Value> {
        let numbered = orders.iter().enumerate();
        numbered
            .map(|(number, order)| event(order, number, price))
            .collect()
    };
    let files: Vec<_> = (0..3)
        .map(|n| folder.path().join(format!("{n}.avsc")))
        .collect();
    for (file, version) in files.iter().zip(versions()) {
        fs::write(file, version.to_string())?;
    }
    produce(kafka, &registry, topic, "avro", &files[0], &events("price"))?;
    let daemon =
        start(&settings(kafka, folder.path(), topic, &registry).with("events.format", "avro"))?;
    daemon.metric_is("ostar_learned_events_total", EVENTS as f64)?;
    // One in a hundred is bad in one of four ways.
    let prefixed = |id: u32, body: &[u8]| [&[0], &id.to_be_bytes()[..], body].concat();
    let mut bad = Vec::new();
    for _ in 0..EVENTS / 100 {
        bad.push(prefixed(999_999, b"x"));
        bad.push(prefixed(ids[3] as u32, &[2]));
        bad.push(prefixed(ids[0] as u32, &[200]));
        bad.push(b"{\"id\": 1}".to_vec());
    }
    kafka.produce_at(topic, 0, &bad, None)?;
    produce(kafka, &registry, topic, "avro", &files[1], &events("price"))?;
    daemon.metric_is("ostar_learned_events_total", 2.0 * EVENTS as f64)?;
    let each = (EVENTS / 100) as f64;
    for (reason, count) in [
        ("unknown_schema", each),
        ("incompatible_schema", each),
        ("malformed", 2.0 * each),
    ] {
        let series = format!("ostar_events_rejected_total{{reason=\"{reason}\"}}");
        daemon.metric_is(&series, count)?;
    }
    // The third version is written, and the registry is away when it is to be read.
    daemon.stop_cleanly()?;
    produce(
        kafka,
        &registry,
        topic,
        "avro",
        &files[2],
        &events("amount"),
    )?;
    registry.kill()?;
    // A registry without schemas would make all events bad: the daemon reaches it when they are registered again.
    let (link, linked) = registry.link()?;
    link.set(Quality::Cut);
    let settings = settings(kafka, folder.path(), topic, &registry)
        .with("events.format", "avro")
        .with("events.registry.url", &linked);
    let daemon = start(&settings)?;
    daemon.logged("reading waits for the schema registry")?;
    ensure!(
        daemon.metric("ostar_events_total{outcome=\"accepted\"}")? == Some(0.0),
        "nothing can be read"
    );
    ensure!(
        daemon.get("/readyz")?.0 == 200,
        "predictions are served meanwhile"
    );
    thread::sleep(away());
    registry.restart()?;
    ensure!(
        register(&registry)? == ids,
        "the registry numbers schemas anew"
    );
    link.set(Quality::Good);
    daemon.logged("the schema registry answers again")?;
    daemon.metric_is("ostar_events_total{outcome=\"accepted\"}", EVENTS as f64)?;
    daemon.metric_is("ostar_learned_events_total", EVENTS as f64)?;
    // The renamed price was found by its alias.
    daemon.metric_is("ostar_input_broken{field=\"price\"}", 0.0)?;
    let missing = daemon.metric("ostar_input_missing_ratio{field=\"price\"}")?;
    ensure!(missing == Some(0.0), "{missing:?}");
    daemon.stop_cleanly()
}

/// Two versions of an order; its message is not the first of the file. The second has a field more and another order.
fn messages() -> [String; 2] {
    let order = |item: &str, more: &str| {
        format!(
            "syntax = \"proto3\"; package shop; message Unused {{ string x = 1; }} message Order {{ message Item {{ {item} \
             repeated string tags = 2; }} string id = 1; int64 at = 2; {more} Item item = 3; optional string country = 4; }}"
        )
    };
    [
        order("float price = 1;", ""),
        order("double price = 5;", "string colour = 7;"),
    ]
}

/// An order as its bytes: id, price of the item as a float, country.
fn order_bytes(number: usize, order: &Order) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
    let price = [&[1 << 3 | 5][..], &(order.price as f32).to_le_bytes()].concat();
    let id = format!("order-{number}");
    [
        field(1, id.as_bytes()),
        field(3, &price),
        field(4, order.country.as_bytes()),
    ]
    .concat()
}

fn protobuf(kafka: &Kafka) -> Result<()> {
    let folder = fitted()?;
    let registry = Registry::start()?;
    let topic = "protobuf-orders";
    kafka.create_topic(topic, 1, &[])?;
    let orders = orders::draw(EVENTS, 0.3, 9);
    let events = |more: bool| -> Vec<Value> {
        let numbered = orders.iter().enumerate();
        let written = numbered.map(|(number, order)| {
            let mut event = event(order, number, "price");
            if !more && let Some(object) = event.as_object_mut() {
                object.remove("colour");
            }
            event
        });
        written.collect()
    };
    let mut files = Vec::new();
    for (number, source) in messages().iter().enumerate() {
        let name = folder.path().join(format!("order-{number}.proto"));
        fs::write(&name, source)?;
        let set = protox::compile([&name], [folder.path()])?;
        let file = name.with_extension("pb");
        fs::write(&file, prost::Message::encode_to_vec(&set))?;
        files.push(file);
    }
    produce(
        kafka,
        &registry,
        topic,
        "protobuf",
        &files[0],
        &events(false),
    )?;
    let (link, linked) = registry.link()?;
    let settings = settings(kafka, folder.path(), topic, &registry)
        .with("events.format", "protobuf")
        .with("events.registry.url", &linked);
    let daemon = start(&settings)?;
    daemon.metric_is("ostar_learned_events_total", EVENTS as f64)?;
    // Registered as a source, as other languages' clients do it.
    let source = registry.register_text("orders-by-source", "PROTOBUF", &messages()[0])? as u32;
    let other = "syntax = \"proto3\"; message Other { int32 x = 1; }";
    let other = registry.register_text("something-else", "PROTOBUF", other)? as u32;
    let prefixed =
        |id: u32, path: &[u8], body: &[u8]| [&[0], &id.to_be_bytes()[..], path, body].concat();
    let mut bad = Vec::new();
    for _ in 0..EVENTS / 100 {
        bad.push(prefixed(999_999, &[0], b"x"));
        bad.push(prefixed(other, &[0], &[8, 1]));
        // The first message has nothing that is wanted.
        bad.push(prefixed(source, &[0], &[10, 0]));
        // There is no tenth one.
        bad.push(prefixed(source, &[2, 18], &[10, 0]));
        bad.push(prefixed(source, &[2, 2], &[10, 200]));
        bad.push(b"{\"id\": 1}".to_vec());
    }
    kafka.produce_at(topic, 0, &bad, None)?;
    let numbered = orders.iter().enumerate();
    let by_source = numbered.map(|(n, order)| prefixed(source, &[2, 2], &order_bytes(n, order)));
    kafka.produce_at(topic, 0, by_source.collect::<Vec<_>>(), None)?;
    daemon.metric_is("ostar_learned_events_total", 2.0 * EVENTS as f64)?;
    // The second version comes while the registry is away.
    link.set(Quality::Cut);
    produce(
        kafka,
        &registry,
        topic,
        "protobuf",
        &files[1],
        &events(true),
    )?;
    daemon.logged("reading waits for the schema registry")?;
    thread::sleep(away());
    let accepted = daemon.metric("ostar_events_total{outcome=\"accepted\"}")?;
    ensure!(accepted == Some(2.0 * EVENTS as f64), "{accepted:?}");
    link.set(Quality::Good);
    daemon.logged("the schema registry answers again")?;
    daemon.metric_is("ostar_learned_events_total", 3.0 * EVENTS as f64)?;
    let each = (EVENTS / 100) as f64;
    for (reason, count) in [
        ("unknown_schema", each),
        ("incompatible_schema", 2.0 * each),
        ("malformed", 3.0 * each),
    ] {
        let series = format!("ostar_events_rejected_total{{reason=\"{reason}\"}}");
        daemon.metric_is(&series, count)?;
    }
    let missing = daemon.metric("ostar_input_missing_ratio{field=\"price\"}")?;
    ensure!(missing == Some(0.0), "{missing:?}");
    daemon.stop_cleanly()
}

fn json_schema(kafka: &Kafka) -> Result<()> {
    let folder = fitted()?;
    let registry = Registry::start()?;
    let topic = "json-orders";
    kafka.create_topic(topic, 1, &[])?;
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", "type": "object",
        "properties": {"id": {"type": "string"}},
    });
    let file = folder.path().join("order.json");
    fs::write(&file, schema.to_string())?;
    let orders = orders::draw(EVENTS, 0.3, 8);
    let numbered = orders.iter().enumerate();
    let events: Vec<Value> = numbered
        .map(|(n, order)| event(order, n, "price"))
        .collect();
    produce(kafka, &registry, topic, "json", &file, &events)?;
    let unknown = [&[0, 0, 1, 0, 0][..], b"{}"].concat();
    kafka.produce_at(topic, 0, [unknown], None)?;
    let daemon = start(&settings(kafka, folder.path(), topic, &registry))?;
    daemon.metric_is("ostar_learned_events_total", EVENTS as f64)?;
    daemon.metric_is(
        "ostar_events_rejected_total{reason=\"unknown_schema\"}",
        1.0,
    )?;
    daemon.stop_cleanly()
}
