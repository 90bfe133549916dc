//! The checkpoint owns the offsets: what the group says, or no longer says, loses no event and repeats none.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};
use ostar_tests::{
    daemon::{Daemon, Settings, checkpoint_reaches, newest_checkpoint},
    gaussians,
    kafka::Kafka,
};
use rdkafka::Offset;
use serde_json::Value;

use ostar_harness::Place;

use crate::{Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "two_bundles_on_one_topic_have_a_group_each_by_default",
        two_bundles,
    ),
    (
        "a_commit_of_another_daemon_is_an_error_that_names_both",
        foreign_commit,
    ),
    (
        "without_the_groups_offsets_the_checkpoint_says_where_to_go_on",
        deleted_group,
    ),
    (
        "a_partition_without_events_keeps_where_it_began",
        idle_partition,
    ),
];

const LEARNED: &str = "ostar_learned_events_total";
const DELIVERED: &str = "ostar_output_records_total{outcome=\"delivered\",output=\"predictions\"}";

fn events(count: usize) -> Vec<Vec<u8>> {
    let (rows, _) = gaussians::draw(count, 0.6, 0.3, 7);
    rows.iter().map(|row| gaussians::raw(row)).collect()
}

/// Offsets of the events that a topic of predictions has.
fn predicted(kafka: &Kafka, topic: &str) -> Result<Vec<usize>> {
    let offsets = kafka.header_values(topic, "ostar-offset")?;
    let mut offsets: Vec<usize> = offsets
        .iter()
        .map(|o| o.parse())
        .collect::<Result<_, _>>()?;
    offsets.sort_unstable();
    Ok(offsets)
}

/// The name of the bundle of [`Place`].
fn bundle_name(place: &Place) -> Result<String> {
    let text = fs::read(place.path().join("bundle/bundle.json"))?;
    let bundle: Value = serde_json::from_slice(&text)?;
    Ok(bundle["name"].as_str().context("no name")?.to_owned())
}

fn rename_bundle(folder: &Path, name: &str) -> Result<()> {
    let path = folder.join("bundle.json");
    let mut bundle: Value = serde_json::from_slice(&fs::read(&path)?)?;
    bundle["name"] = name.into();
    Ok(fs::write(&path, serde_json::to_vec(&bundle)?)?)
}

fn predicting(place: &Place, kafka: &Kafka, topic: &str, state: &str) -> Settings {
    let settings = place.settings(kafka, topic, state);
    settings.with("predictions.topic", &format!("{topic}-{state}"))
}

fn two_bundles(kafka: &Kafka) -> Result<()> {
    let (one, other) = (Place::new()?, Place::new()?);
    rename_bundle(&other.path().join("bundle"), "another")?;
    for topic in ["two", "two-one", "two-other"] {
        kafka.create_topic(topic, 1, &[])?;
    }
    let first = predicting(&one, kafka, "two", "one").without("kafka.group");
    let second = predicting(&other, kafka, "two", "other").without("kafka.group");
    let events = events(2_000);
    kafka.produce("two", 0, &events[..1_000])?;
    let daemon = start(&first)?;
    daemon.metric_is(DELIVERED, 1_000.0)?;
    daemon.stop_cleanly()?;
    kafka.produce("two", 0, &events[1_000..])?;
    let daemon = start(&second)?;
    daemon.metric_is(DELIVERED, 2_000.0)?;
    daemon.stop_cleanly()?;
    let daemon = start(&first)?;
    daemon.metric_is(DELIVERED, 1_000.0)?;
    daemon.stop_cleanly()?;
    let all: Vec<usize> = (0..2_000).collect();
    ensure!(predicted(kafka, "two-one")? == all);
    ensure!(predicted(kafka, "two-other")? == all);
    let group = format!("ostard-{}-two", bundle_name(&one)?);
    let (offset, _) = kafka.committed(&group, "two", 0)?;
    ensure!(offset == Offset::Offset(2_000), "{offset:?}");
    Ok(())
}

fn foreign_commit(kafka: &Kafka) -> Result<()> {
    let (one, other) = (Place::new()?, Place::new()?);
    rename_bundle(&other.path().join("bundle"), "another")?;
    kafka.create_topic("shared", 1, &[])?;
    kafka.produce("shared", 0, events(500))?;
    let first = one
        .settings(kafka, "shared", "one")
        .with("kafka.group", "shared");
    let daemon = start(&first)?;
    daemon.metric_is(LEARNED, 500.0)?;
    daemon.stop_cleanly()?;
    let second = other
        .settings(kafka, "shared", "other")
        .with("kafka.group", "shared");
    let mut daemon = start(&second)?;
    let status = daemon.wait()?;
    ensure!(status.code() == Some(1), "{status}");
    let said = said(&daemon);
    for part in [
        "kafka.group",
        "\"shared\"",
        "bundle=another",
        &bundle_name(&one)?,
    ] {
        ensure!(said.contains(part), "no {part} in {said}");
    }
    Ok(())
}

/// What a daemon has written to the error stream that is no log entry.
fn said(daemon: &Daemon) -> String {
    let log = daemon.log();
    let lines = log.iter().filter_map(Value::as_str);
    lines.collect::<Vec<_>>().join("\n")
}

fn deleted_group(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    for topic in ["forgotten", "forgotten-state"] {
        kafka.create_topic(topic, 1, &[])?;
    }
    let events = events(2_000);
    for start_at in ["latest", "earliest"] {
        let settings =
            predicting(&place, kafka, "forgotten", "state").with("kafka.start", start_at);
        let daemon = start(&settings)?;
        daemon.logged("learning from the stream")?;
        let half = if start_at == "latest" { 0 } else { 1_000 };
        kafka.produce("forgotten", 0, &events[half..half + 500])?;
        daemon.metric_is(DELIVERED, 500.0)?;
        daemon.metric_is(LEARNED, 500.0)?;
        daemon.stop_cleanly()?;
        kafka.produce("forgotten", 0, &events[half + 500..half + 1_000])?;
        kafka.delete_group("forgotten-state")?;
        let daemon = start(&settings)?;
        daemon.metric_is(DELIVERED, 500.0)?;
        daemon.metric_is(LEARNED, 500.0)?;
        daemon.stop_cleanly()?;
    }
    ensure!(predicted(kafka, "forgotten-state")? == (0..2_000).collect::<Vec<_>>());
    Ok(())
}

fn idle_partition(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("idle", 2, &[])?;
    let events = events(2_000);
    kafka.produce("idle", 1, &events[..1_000])?;
    let settings = place
        .settings(kafka, "idle", "state")
        .with("kafka.start", "latest");
    let daemon = start(&settings)?;
    daemon.logged("learning from the stream")?;
    kafka.produce("idle", 0, &events[1_000..1_500])?;
    daemon.metric_is(LEARNED, 500.0)?;
    daemon.kill()?;
    let daemon = start(&settings)?;
    kafka.produce("idle", 0, &events[1_500..])?;
    checkpoint_reaches(&place.checkpoints("state"), 1_000)?;
    daemon.metric_is("ostar_consumer_lag_records{partition=\"1\"}", 0.0)?;
    daemon.stop_cleanly()?;
    let (_, manifest, _) = newest_checkpoint(&place.checkpoints("state"))?;
    ensure!(manifest["position"]["events"] == 1_000, "{manifest:#}");
    let expected = serde_json::json!({"0": 1_000, "1": 1_000});
    ensure!(manifest["position"]["learned"] == expected, "{manifest:#}");
    // Committed although it had no events, with the writer's name.
    let (offset, metadata) = kafka.committed("idle-state", "idle", 1)?;
    ensure!(offset == Offset::Offset(1_000), "{offset:?}");
    ensure!(metadata.starts_with("ostard writer="), "{metadata}");
    Ok(())
}
