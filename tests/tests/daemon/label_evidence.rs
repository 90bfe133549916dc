//! Labels as evidence: asked for, answered, and taken at block borders.

use std::{collections::BTreeSet, process::Command};

use anyhow::{Context, Result, ensure};
use ostar_tests::{gaussians, kafka::Kafka};
use serde_json::{Value, json};

use crate::{PROGRAM, Place, Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[(
    "requests_wait_for_their_topic_and_answers_are_wanted_no_longer",
    late_topic,
)];

const LEARNED: &str = "ostar_learned_events_total";

fn event(number: usize, row: &[f32]) -> Vec<u8> {
    gaussians::json(&format!("event-{number}"), row)
}

fn label(id: &str, class: u32) -> Vec<u8> {
    let label = gaussians::CLASSES[class as usize];
    json!({"id": id, "label": label}).to_string().into_bytes()
}

/// Ids in the order in which they were asked for.
fn requested(kafka: &Kafka, topic: &str) -> Result<Vec<String>> {
    let values = kafka.values(topic)?;
    let id = |value: &Vec<u8>| {
        let request: Value = serde_json::from_slice(value)?;
        ensure!(
            request["predictions"]["frozen"].is_string() && request["block"].is_u64(),
            "{request}"
        );
        Ok(request["id"].as_str().context("an id")?.to_owned())
    };
    values.iter().map(id).collect()
}

fn late_topic(kafka: &mut Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("wanted", 1, &[])?;
    kafka.create_topic("wanted-labels", 1, &[])?;
    let settings = place
        .settings(kafka, "wanted", "state")
        .with("events.format", "json")
        .with("labels.topic", "wanted-labels")
        .with("labels.settle", "0s")
        .with("labels.requests.random_per_block", "3")
        .with("labels.requests.topic", "wanted-requests");
    let (rows, classes) = gaussians::draw(750, 0.5, 0.0, 5);
    let events: Vec<_> = rows
        .iter()
        .enumerate()
        .map(|(n, row)| event(n, row))
        .collect();
    kafka.produce("wanted", 0, &events[..250])?;
    let daemon = start(&settings)?;
    daemon.metric_is(LEARNED, 250.0)?;
    daemon.metric_is("ostar_condition{condition=\"label_requests\"}", 1.0)?;
    // Across a restart, too.
    daemon.stop_cleanly()?;
    let daemon = start(&settings)?;
    daemon.logged("learning from the stream")?;
    kafka.create_topic("wanted-requests", 1, &[])?;
    daemon.metric_reaches("ostar_label_requests_total{reason=\"random\"}", 3.0)?;
    let ids: BTreeSet<String> = requested(kafka, "wanted-requests")?.into_iter().collect();
    ensure!(ids.len() >= 3, "{ids:?}");
    let wanted = || -> Result<BTreeSet<String>> {
        let address = daemon.address("grpc_address")?;
        let output = Command::new(PROGRAM)
            .args([
                "labels",
                "wanted",
                "--format",
                "json",
                "--address",
                &address,
            ])
            .output()?;
        ensure!(output.status.success(), "{output:?}");
        let requests: Vec<Value> = serde_json::from_slice(&output.stdout)?;
        let ids = requests.iter().filter_map(|request| request["id"].as_str());
        Ok(ids.map(str::to_owned).collect())
    };
    ensure!(wanted()? == ids, "{:?} {ids:?}", wanted());
    let answers = ids.iter().map(|id| {
        let number: usize = id.trim_start_matches("event-").parse().unwrap_or(0);
        label(id, classes[number])
    });
    kafka.produce("wanted-labels", 0, answers)?;
    // Labels take effect with the next block.
    kafka.produce("wanted", 0, &events[250..500])?;
    daemon.metric_is(LEARNED, 250.0)?;
    let left = wanted()?;
    ensure!(left.is_disjoint(&ids), "{left:?} {ids:?}");
    daemon.stop_cleanly()
}
