//! Labels as evidence: asked for, answered, and taken at block borders.

use std::{collections::BTreeSet, process::Command, thread, time::Duration};

use anyhow::{Context, Result, ensure};
use ostar_engine::Generator;
use ostar_harness::Place;
use ostar_tests::{
    daemon::TIMEOUT,
    daemon::{checkpoint_reaches, newest_checkpoint, same_state},
    gaussians,
    kafka::Kafka,
    until,
};
use serde_json::{Value, json};

use crate::{PROGRAM, Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "requests_wait_for_their_topic_and_answers_are_wanted_no_longer",
        late_topic,
    ),
    (
        "ten_kills_with_labels_under_way_leave_the_state_of_an_uninterrupted_run",
        ten_kills,
    ),
];

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

fn late_topic(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("wanted", 1, &[])?;
    kafka.create_topic("wanted-labels", 1, &[])?;
    let settings = place
        .settings(kafka, "wanted", "state")
        .with("events.format", "json")
        .with("labels.topic", "wanted-labels")
        .with("labels.settle", "0s")
        // However slow the machine is, a block waits for its labels.
        .with("labels.patience", "3m")
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

const KILLS: usize = 10;
/// Two blocks.
const EVENTS_PER_LIFE: usize = 500;

fn ten_kills(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    // The broker's times: a record can be read as soon as it has its time, so that a replay takes the same labels.
    let broker_times = [("message.timestamp.type", "LogAppendTime")];
    kafka.create_topic("evidence", 1, &broker_times)?;
    kafka.create_topic("evidence-labels", 1, &broker_times)?;
    let settings = |name: &str| {
        place
            .settings(kafka, "evidence", name)
            .with("events.format", "json")
            .with("labels.topic", "evidence-labels")
            .with("labels.settle", "500ms")
            .with("labels.patience", "2m")
            .with("labels.requests.random_per_block", "5")
            .with("labels.requests.topic", &format!("evidence-{name}"))
    };
    for name in ["killed", "whole"] {
        kafka.create_topic(&format!("evidence-{name}"), 1, &[])?;
    }
    let total = EVENTS_PER_LIFE * (KILLS + 1);
    // Shares and classes move, so that candidates disagree.
    let (rows, classes) = gaussians::draw(total, 0.8, 0.5, 9);
    let events: Vec<_> = rows
        .iter()
        .enumerate()
        .map(|(n, row)| event(n, row))
        .collect();
    let mut generator = Generator::new(13);
    let mut answered = BTreeSet::new();
    for (life, piece) in events.chunks(EVENTS_PER_LIFE).enumerate() {
        let daemon = start(&settings("killed"))?;
        kafka.produce("evidence", 0, piece)?;
        daemon.logged("learning from the stream")?;
        let wanted: Vec<String> = requested(kafka, "evidence-killed")?
            .into_iter()
            .filter(|id| answered.insert(id.clone()))
            .collect();
        let answers = wanted.iter().map(|id| {
            let number: usize = id.trim_start_matches("event-").parse().unwrap_or(0);
            label(id, classes[number])
        });
        kafka.produce("evidence-labels", 0, answers)?;
        if life == KILLS {
            checkpoint_reaches(&place.checkpoints("killed"), total)
                .with_context(|| format!("the log is {:#?}", daemon.log()))?;
            daemon.stop_cleanly()?;
        } else {
            // Every second life makes requests first, so that there are labels on a slow machine, too. The others may be
            // killed at any moment.
            if life % 2 == 0 {
                until("requests", TIMEOUT, || {
                    let ids: BTreeSet<_> =
                        requested(kafka, "evidence-killed")?.into_iter().collect();
                    Ok((ids.len() > answered.len()).then_some(()))
                })?;
            }
            thread::sleep(Duration::from_millis(generator.below(1_500) as u64));
            daemon.kill()?;
        }
    }
    let daemon = start(&settings("whole"))?;
    checkpoint_reaches(&place.checkpoints("whole"), total)
        .with_context(|| format!("the log is {:#?}", daemon.log()))?;
    let joined = daemon.metric("ostar_labels_total{outcome=\"joined\"}")?;
    ensure!(joined >= Some(20.0), "{joined:?} labels took effect");
    daemon.stop_cleanly()?;
    let (_, manifest, _) = newest_checkpoint(&place.checkpoints("killed"))?;
    let taken = manifest["position"]["labels"]["0"].as_u64();
    ensure!(taken >= Some(20), "{manifest:#}");
    same_state(&place.checkpoints("killed"), &place.checkpoints("whole"))
}
