//! Events as they are: a new user inspects a topic, maps its fields and runs; then a field of the pipeline breaks.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use ostar_tests::{
    daemon::{Daemon, Settings},
    kafka::Kafka,
    orders::{self, Order, PLACES},
    python::output,
    state,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{PROGRAM, Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "inspect_says_what_each_field_would_get_and_what_looks_wrong",
        inspect,
    ),
    (
        "a_field_that_breaks_in_the_stream_is_told_by_metrics_log_and_state",
        broken_field,
    ),
    (
        "a_field_that_breaks_in_the_stream_of_a_scorer_is_told_by_the_learner",
        broken_field_of_a_scorer,
    ),
];

const TRAINING: usize = 2_000;
/// Events of a block.
const BLOCK: usize = 250;

/// A bundle that `ostard fit` made of labelled orders.
pub(crate) fn fitted() -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("orders.jsonl");
    orders::write_labelled(&data, &orders::draw(TRAINING, 0.3, 1))?;
    let mut fit = Command::new(PROGRAM);
    fit.arg("fit").arg("--data").arg(&data);
    fit.arg("--out").arg(folder.path().join("bundle"));
    output(fit.args(["--epochs", "5"]))?;
    Ok(folder)
}

fn events(orders: &[Order], change: impl Fn(&mut Value, usize)) -> Vec<Vec<u8>> {
    let numbered = orders.iter().enumerate();
    let event = |(number, order): (usize, &Order)| {
        let mut event = order.event(number);
        change(&mut event, number);
        event.to_string().into_bytes()
    };
    numbered.map(event).collect()
}

/// Runs `ostard inspect` as a person at a terminal would.
fn look(kafka: &Kafka, folder: &TempDir, topic: &str, places: bool) -> Result<String> {
    let mut command = Command::new(PROGRAM);
    command.args(["inspect", "--format", "table", "--topic", topic]);
    command.args(["--brokers", &kafka.bootstrap()]);
    command.arg("--bundle").arg(folder.path().join("bundle"));
    for (key, value) in PLACES.iter().filter(|_| places) {
        command.args(["--set", &format!("{key}={value}")]);
    }
    output(&mut command)
}

fn inspect(kafka: &Kafka) -> Result<()> {
    let folder = fitted()?;
    let orders = orders::draw(150, 0.4, 2);
    let topic = |name: &str, change: &dyn Fn(&mut Value, usize)| -> Result<()> {
        kafka.create_topic(name, 2, &[])?;
        let events = events(&orders, change);
        let (left, right) = events.split_at(70);
        kafka.produce_at(name, 0, left, None)?;
        kafka.produce_at(name, 1, right, None)
    };
    topic("shop", &|_, _| ())?;
    topic("shop-renamed", &|event, _| {
        let price = event["item"]["price"].take();
        event["item"] = json!({"amount": price, "tags": event["item"]["tags"]});
    })?;
    topic("shop-cents", &|event, _| {
        let price = event["item"]["price"].as_f64().unwrap_or_default();
        event["item"]["price"] = json!(1_000.0 * price);
    })?;
    topic("shop-half", &|event, number| {
        if number % 2 == 0 {
            event["item"]["price"] = Value::Null;
        }
    })?;
    let expect = |text: &str, words: &[&str]| -> Result<()> {
        let missing = words.iter().find(|words| !text.contains(**words));
        ensure!(missing.is_none(), "{missing:?} is not in\n{text}");
        Ok(())
    };
    // Before anything is mapped, every field is missing and is found elsewhere.
    let unmapped = look(kafka, &folder, "shop", false)?;
    expect(
        &unmapped,
        &[
            "100 events of topic shop, 0 could be used",
            "100 rejected: missing_input",
            "`price` is missing in 100 % of events; it looks renamed: `item.price` has what `price` had in training",
        ],
    )?;
    let mut flat = Command::new(PROGRAM);
    flat.args([
        "inspect",
        "--format",
        "table",
        "--topic",
        "shop",
        "--brokers",
    ]);
    flat.arg(kafka.bootstrap()).arg("--bundle");
    flat.arg(folder.path().join("bundle"));
    let flat = output(flat.args(["--set", "events.flat=true"]))?;
    expect(
        &flat,
        &[
            "`price` is missing in 100.0 % of events, in 0.0 % in training; it looks renamed: `item.price` has what \
             `price` had in training. Set events.fields.price = \"item.price\"",
            "`geo.country` has what `country` had in training",
            "`item.tags` has what `tags` had in training",
        ],
    )?;
    let mapped = look(kafka, &folder, "shop", true)?;
    expect(
        &mapped,
        &[
            "100 events of topic shop, 100 could be used, 100 have an id",
            "price    number    /item/price  number  0 %",
            "Nothing looks wrong.",
        ],
    )?;
    let renamed = look(kafka, &folder, "shop-renamed", true)?;
    expect(
        &renamed,
        &["it looks renamed: `item.amount` has what `price` had in training"],
    )?;
    let cents = look(kafka, &folder, "shop-cents", true)?;
    expect(
        &cents,
        &[
            "`price` is beyond training's range in",
            "as if its unit had changed: about 1000 times training's",
        ],
    )?;
    let half = look(kafka, &folder, "shop-half", true)?;
    expect(
        &half,
        &["`price` is missing in 50.0 % of events, in 0.0 % in training"],
    )?;
    ensure!(!half.contains("looks renamed"), "{half}");

    kafka.create_topic("shop-empty", 1, &[])?;
    let empty = look(kafka, &folder, "shop-empty", true).map_err(|error| error.to_string());
    ensure!(
        empty
            .as_ref()
            .is_err_and(|error| error.contains("has no events")),
        "{empty:?}"
    );
    Ok(())
}

fn settings(kafka: &Kafka, folder: &TempDir, topic: &str) -> Settings {
    let bundle = folder.path().join("bundle");
    let checkpoints = folder.path().join("state");
    let settings = Settings::new(&kafka.bootstrap(), topic, &bundle, &checkpoints)
        .with("learner.block", &BLOCK.to_string())
        .with("learner.steps_per_block", "0")
        .with("learner.method.window", "1000")
        .with("learner.method.threads", "1")
        .with("learner.nice", "0");
    let places = PLACES.iter();
    places.fold(settings, |settings, (key, value)| settings.with(key, value))
}

fn why(daemon: &Daemon) -> Result<String> {
    let address = daemon.address("grpc_address")?;
    let mut command = Command::new(PROGRAM);
    output(command.args(["state", "--why", "--address", &address]))
}

/// Orders after the unit of the price has changed.
fn broken_prices() -> Vec<Vec<u8>> {
    events(&orders::draw(15 * BLOCK, 0.3, 4), |event, _| {
        let price = event["item"]["price"].as_f64().unwrap_or_default();
        event["item"]["price"] = json!(1_000.0 * price);
    })
}

fn broken_field(kafka: &Kafka) -> Result<()> {
    let folder = fitted()?;
    kafka.create_topic("stream", 1, &[])?;
    let healthy = orders::draw(30 * BLOCK, 0.3, 3);
    kafka.produce_at("stream", 0, events(&healthy, |_, _| ()), None)?;
    let daemon = start(&settings(kafka, &folder, "stream"))?;
    daemon.metric_reaches("ostar_learned_events_total", healthy.len() as f64)?;
    daemon.metric_is("ostar_inputs_watched", 3.0)?;
    for field in ["price", "country", "tags"] {
        daemon.metric_is(&format!("ostar_input_broken{{field=\"{field}\"}}"), 0.0)?;
    }
    let text = why(&daemon)?;
    ensure!(!text.contains("A field of the input broke"), "{text}");
    kafka.produce_at("stream", 0, broken_prices(), None)?;
    daemon.metric_is("ostar_input_broken{field=\"price\"}", 1.0)?;
    daemon.metric_reaches("ostar_input_beyond_ratio{field=\"price\"}", 0.5)?;
    daemon.metric_is("ostar_input_alarms_total", 1.0)?;
    let logged = daemon.logged("a field of the input broke")?;
    ensure!(logged["field"] == "price", "{logged}");
    daemon.metric_reaches("ostar_label_shift_refuted", 1.0)?;
    let text = why(&daemon)?;
    let line = text
        .lines()
        .find(|line| line.starts_with("A field of the input broke"));
    let line = line.with_context(|| text.clone())?;
    ensure!(
        line.contains("`price` is beyond training's range"),
        "{line}"
    );
    ensure!(line.contains("OstardFieldBroken"), "{line}");
    daemon.metric_is("ostar_input_broken{field=\"country\"}", 0.0)?;
    // A restart remembers it.
    daemon.metric_reaches("ostar_learned_events_total", (45 * BLOCK) as f64)?;
    daemon.stop_cleanly()?;
    let daemon = start(&settings(kafka, &folder, "stream"))?;
    daemon.metric_is("ostar_input_broken{field=\"price\"}", 1.0)?;
    daemon.stop_cleanly()
}

/// The learner sees no events: every fourth sample carries its input.
fn broken_field_of_a_scorer(kafka: &Kafka) -> Result<()> {
    let folder = fitted()?;
    for topic in ["sold", "sold-samples", "sold-parked"] {
        kafka.create_topic(topic, 1, &[])?;
    }
    kafka.create_topic("sold-state", 1, &state::TOPIC)?;
    let shared = settings(kafka, &folder, "sold")
        .without("checkpoints.folder")
        .with("checkpoints.store", "kafka")
        .with("checkpoints.topic", "sold-state")
        .with("samples.topic", "sold-samples")
        .with("samples.per_second", "100000000")
        .with("parked.topic", "sold-parked");
    let scorer = start(&shared.clone().with("role", "scorer"))?;
    let learner = start(&shared.with("role", "learner"))?;
    let healthy = orders::draw(30 * BLOCK, 0.3, 3);
    kafka.produce_at("sold", 0, events(&healthy, |_, _| ()), None)?;
    learner.metric_reaches("ostar_learned_events_total", healthy.len() as f64)?;
    learner.metric_is("ostar_inputs_watched", 3.0)?;
    for field in ["price", "country", "tags"] {
        learner.metric_is(&format!("ostar_input_broken{{field=\"{field}\"}}"), 0.0)?;
    }
    kafka.produce_at("sold", 0, broken_prices(), None)?;
    learner.metric_is("ostar_input_broken{field=\"price\"}", 1.0)?;
    learner.metric_is("ostar_input_broken{field=\"country\"}", 0.0)?;
    let logged = learner.logged("a field of the input broke")?;
    ensure!(logged["field"] == "price", "{logged}");
    scorer.stop_cleanly()?;
    learner.stop_cleanly()
}
