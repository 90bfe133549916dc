//! Predictions, dead letters and late labels.

use std::time::Duration;

use anyhow::{Context, ensure};
use ostar_connectors::{
    event::{EventMeta, Offsets, Reject, RejectReason, Rejected},
    kafka::{
        DeadLetterSettings, LabelReader, OutputError, OutputSettings, Outputs, ParkedSettings,
        Polled, PredictionSettings,
    },
    proto::{Prediction, Version},
};
use ostar_tests::kafka::Kafka;
use rdkafka::{
    ClientConfig, Message,
    consumer::{BaseConsumer, Consumer},
    message::{Headers, OwnedMessage},
};

use crate::{TIMEOUT, Test, settings};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "outputs_are_delivered_with_headers_that_name_their_event",
        outputs_are_delivered_with_headers_that_name_their_event,
    ),
    (
        "a_flush_without_a_broker_fails_and_succeeds_when_it_is_back",
        a_flush_without_a_broker_fails_and_succeeds_when_it_is_back,
    ),
    (
        "labels_are_read_from_the_start_set_then_from_where_it_was_or_as_told",
        labels_are_read_from_the_start_set_then_from_where_it_was_or_as_told,
    ),
];

fn outputs_are_delivered_with_headers_that_name_their_event(
    kafka: &mut Kafka,
) -> anyhow::Result<()> {
    kafka.create_topic("predictions", 1, &[])?;
    kafka.create_topic("dead", 1, &[])?;
    let mut outputs = open(kafka, "predictions", Some("dead"))?;
    outputs.send_prediction(&event(3, 17), &prediction("mail-1"))?;
    outputs.send_dead_letter(&Rejected {
        reject: Reject::new(RejectReason::Malformed, "expected value at line 1 column 1"),
        partition: 4,
        offset: 18,
        key: Some(b"a key that is long".to_vec()),
        key_size: 18,
        payload: vec![b'x'; 100],
        size: 100,
    })?;
    outputs.flush(TIMEOUT)?;

    let sent = read_one(kafka, "predictions")?;
    ensure!(sent.key() == Some(&b"mail-1"[..]));
    let value: serde_json::Value = serde_json::from_slice(sent.payload().context("payload")?)?;
    let expected = serde_json::json!({
        "id": "mail-1", "probabilities": [0.25, 0.75], "class": 1, "class_name": "spam",
        "version": {"epoch": 2, "step": 5},
    });
    ensure!(value == expected, "{value}");
    let origin = [
        ("ostar-topic", "events"),
        ("ostar-partition", "3"),
        ("ostar-offset", "17"),
    ];
    check_headers(&sent, &origin)?;

    let dead = read_one(kafka, "dead")?;
    ensure!(dead.payload() == Some(&[b'x'; 10][..]), "cut to ten bytes");
    let headers = [
        ("ostar-topic", "events"),
        ("ostar-partition", "4"),
        ("ostar-offset", "18"),
        ("ostar-reason", "malformed"),
        ("ostar-detail", "expected value at line 1 column 1"),
        ("ostar-size", "100"),
        ("ostar-key-size", "18"),
    ];
    ensure!(dead.key() == Some(&b"a key that"[..]), "cut to ten bytes");
    check_headers(&dead, &headers)
}

fn a_flush_without_a_broker_fails_and_succeeds_when_it_is_back(
    kafka: &mut Kafka,
) -> anyhow::Result<()> {
    kafka.create_topic("patient", 1, &[])?;
    let mut outputs = open(kafka, "patient", None)?;
    outputs.send_prediction(&event(0, 0), &prediction("first"))?;
    outputs.flush(TIMEOUT)?;

    kafka.stop()?;
    outputs.send_prediction(&event(0, 1), &prediction("second"))?;
    let flushed = outputs.flush(Duration::from_millis(200));
    let waiting = matches!(flushed, Err(OutputError::Timeout { waiting: 1, .. }));
    ensure!(waiting, "{flushed:?}");

    kafka.restart()?;
    outputs.flush(TIMEOUT)?;
    outputs.flush(Duration::ZERO)?;
    let messages = read_all(kafka, "patient", 2)?;
    let keys: Vec<_> = messages.iter().map(|message| message.key()).collect();
    ensure!(keys == [Some(&b"first"[..]), Some(b"second")], "{keys:?}");
    Ok(())
}

fn labels_are_read_from_the_start_set_then_from_where_it_was_or_as_told(
    kafka: &mut Kafka,
) -> anyhow::Result<()> {
    kafka.create_topic("labels", 1, &[])?;
    kafka.produce("labels", 0, ["old"])?;
    let settings = settings(kafka, "events");
    let nowhere = Offsets::new();
    let mut labels = LabelReader::open(&settings, "labels", &nowhere, TIMEOUT)?;
    ensure!(next_label(&mut labels)? == b"old");
    ostar_tests::until("the end of the topic", TIMEOUT, || {
        labels.poll(Duration::from_millis(100))?;
        Ok(labels.is_at_end().then_some(()))
    })?;
    labels.close()?;

    kafka.produce("labels", 0, ["meanwhile"])?;
    let mut labels = LabelReader::open(&settings, "labels", &nowhere, TIMEOUT)?;
    ensure!(next_label(&mut labels)? == b"meanwhile");
    labels.close()?;
    // A checkpoint knows better than the group.
    let checkpoint = Offsets::from([(0, 0)]);
    let mut labels = LabelReader::open(&settings, "labels", &checkpoint, TIMEOUT)?;
    ensure!(next_label(&mut labels)? == b"old");
    Ok(())
}

fn next_label(labels: &mut LabelReader) -> anyhow::Result<Vec<u8>> {
    ostar_tests::until("a label", TIMEOUT, || {
        match labels.poll(Duration::from_millis(100))? {
            Polled::Record(record) => Ok(record.payload().map(<[u8]>::to_vec)),
            Polled::Idle | Polled::Notice(_) => Ok(None),
        }
    })
}

fn open(kafka: &Kafka, predictions: &str, dead: Option<&str>) -> anyhow::Result<Outputs> {
    let predictions = PredictionSettings {
        topic: Some(predictions.to_owned()),
        ..PredictionSettings::default()
    };
    let dead_letters = DeadLetterSettings {
        topic: dead.map(str::to_owned),
        max_bytes: 10,
        ..DeadLetterSettings::default()
    };
    let settings = settings(kafka, "events");
    let (parked, outputs) = (ParkedSettings::default(), OutputSettings::default());
    Ok(Outputs::open(
        &settings,
        &predictions,
        &dead_letters,
        &parked,
        &outputs,
        None,
    )?)
}

fn event(partition: i32, offset: i64) -> EventMeta {
    EventMeta {
        id: None,
        time_ms: 0,
        recorded_ms: 0,
        partition,
        offset,
    }
}

fn prediction(id: &str) -> Prediction {
    Prediction {
        id: id.to_owned(),
        probabilities: vec![0.25, 0.75],
        class: 1,
        class_name: "spam".to_owned(),
        version: Some(Version { epoch: 2, step: 5 }),
    }
}

/// Reads with plain rdkafka, as any other consumer would.
fn read_all(kafka: &Kafka, topic: &str, count: usize) -> anyhow::Result<Vec<OwnedMessage>> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka.plaintext());
    config.set("group.id", "reader");
    config.set("auto.offset.reset", "earliest");
    let consumer: BaseConsumer = config.create()?;
    consumer.subscribe(&[topic])?;
    let mut messages = Vec::new();
    ostar_tests::until("outputs", TIMEOUT, || {
        if let Some(message) = consumer.poll(Duration::from_millis(100)) {
            messages.push(message?.detach());
        }
        Ok((messages.len() >= count).then_some(()))
    })?;
    Ok(messages)
}

fn read_one(kafka: &Kafka, topic: &str) -> anyhow::Result<OwnedMessage> {
    let messages = read_all(kafka, topic, 1)?;
    messages.into_iter().next().context("a message")
}

fn check_headers(message: &OwnedMessage, expected: &[(&str, &str)]) -> anyhow::Result<()> {
    let headers = message.headers().context("headers")?;
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let found = headers.iter().map(|header| {
        let value = header.value.map(text).unwrap_or_default();
        (header.key.to_owned(), value)
    });
    let found: Vec<_> = found.collect();
    let expected = expected
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    ensure!(found == expected.collect::<Vec<_>>(), "{found:?}");
    Ok(())
}
