//! Faults of data and of disks that must be told, and change nothing else.

use std::fs;

use anyhow::{Result, ensure};
use ostar_harness::{
    Mock,
    daemon::{Settings, TIMEOUT, newest_checkpoint},
    until,
};
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
};
use serde_json::{Value, json};

use crate::{Daemon, PROGRAM, Place, broker, events, gaussians};

const YEAR_2100: i64 = 4_102_444_800_000;

#[test]
fn tombstones_are_counted_and_passed_over_and_their_offsets_are_committed() -> Result<()> {
    let mock = broker(&["buried", "buried-letters", "buried-labels"]);
    let place = Place::new()?;
    // More than dead_letters.max_consecutive.
    let keys = |count: usize| (0..count).map(|number| format!("key-{number}"));
    mock.produce("buried", 0, events(250))?;
    mock.bury("buried", keys(150))?;
    mock.produce("buried", 0, events(250))?;
    mock.bury("buried-labels", keys(3))?;
    let settings = place
        .settings(&mock, "buried", "state")
        .with("dead_letters.topic", "buried-letters")
        .with("labels.topic", "buried-labels");
    let daemon = Daemon::start(PROGRAM, &settings)?;
    daemon.metric_reaches("ostar_learned_events_total", 500.0)?;
    daemon.metric_is("ostar_tombstones_total{input=\"labels\"}", 3.0)?;
    // A chunk of nothing else.
    mock.bury("buried", keys(20))?;
    daemon.metric_is("ostar_tombstones_total{input=\"events\"}", 170.0)?;
    for series in [
        "ostar_consumption_stopped",
        "ostar_events_rejected_total{reason=\"empty\"}",
        "ostar_labels_total{outcome=\"rejected\"}",
    ] {
        ensure!(daemon.metric(series)? == Some(0.0), "{series}");
    }
    daemon.stop_cleanly()?;
    ensure!(mock.values("buried-letters")?.is_empty());
    ensure!(committed(&mock, "buried-state", "buried")? == Offset::Offset(670));
    Ok(())
}

/// What a group has committed of a topic's first partition.
fn committed(mock: &Mock, group: &str, topic: &str) -> Result<Offset> {
    let consumer: BaseConsumer = mock.config().set("group.id", group).create()?;
    let mut asked = TopicPartitionList::new();
    asked.add_partition(topic, 0);
    let committed = consumer.committed_offsets(asked, TIMEOUT)?;
    let partitions = committed.elements();
    Ok(partitions[0].offset())
}

#[test]
fn one_event_of_the_year_2100_makes_no_event_negative_and_a_label_of_it_holds_back_no_other()
-> Result<()> {
    let mock = broker(&["ahead", "ahead-letters", "ahead-labels"]);
    let place = Place::new()?;
    let (rows, _) = gaussians::draw(501, 0.4, 0.1, 5);
    let mut records: Vec<_> = (0..)
        .zip(&rows)
        .map(|(number, row)| gaussians::json(&format!("e{number}"), row))
        .collect();
    records[100] = gaussians::json_at("e100", &rows[100], YEAR_2100);
    // A label of that year first: those behind it in its partition must count.
    let label = |number: usize| json!({"id": format!("e{number}"), "label": "spam"}).to_string();
    mock.produce_at("ahead-labels", 0, [label(7)], Some(YEAR_2100))?;
    mock.produce("ahead-labels", 0, (10..60).map(label))?;
    mock.produce("ahead", 0, &records)?;
    let settings = place
        .settings(&mock, "ahead", "state")
        .with("events.format", "json")
        .with("dead_letters.topic", "ahead-letters")
        .with("labels.topic", "ahead-labels")
        .with("labels.settle", "0s")
        // However slow the machine is, a block waits for its labels.
        .with("labels.patience", "3m")
        .with("labels.negative_after", "1h");
    let daemon = Daemon::start(PROGRAM, &settings)?;
    daemon.metric_reaches("ostar_learned_events_total", 500.0)?;
    let evidence = |outcome: &str| format!("ostar_labels_total{{outcome=\"{outcome}\"}}");
    daemon.metric_is(&evidence("joined"), 50.0)?;
    daemon.metric_is("ostar_labels_total{outcome=\"rejected\"}", 1.0)?;
    ensure!(daemon.metric(&evidence("negative"))? == Some(0.0));
    ensure!(daemon.metric("ostar_events_rejected_total{reason=\"bad_time\"}")? == Some(1.0));
    daemon.stop_cleanly()?;
    let letters = mock.header_values("ahead-letters", "ostar-reason")?;
    ensure!(letters == ["bad_time"], "{letters:?}");
    let (_, manifest, _) = newest_checkpoint(&place.checkpoints("state"))?;
    let border = manifest["position"]["label_border_ms"].as_i64();
    ensure!(
        border.is_some_and(|border| border < YEAR_2100),
        "{manifest:#}"
    );
    Ok(())
}

/// Damages every checkpoint; how many there are.
fn damage(folder: &std::path::Path) -> Result<f64> {
    let mut damaged = 0.0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("checkpoint-") {
            fs::write(path.join("state.safetensors"), "torn")?;
            damaged += 1.0;
        }
    }
    Ok(damaged)
}

fn condition(daemon: &Daemon) -> Result<Option<String>> {
    let status: Value = serde_json::from_str(&daemon.get("/status")?.1)?;
    let condition = &status["conditions"]["damaged_checkpoints"];
    Ok(condition.as_str().map(str::to_owned))
}

fn learned(settings: &Settings, events: f64) -> Result<Daemon> {
    let daemon = Daemon::start(PROGRAM, settings)?;
    daemon.metric_reaches("ostar_learned_events_total", events)?;
    Ok(daemon)
}

#[test]
fn damaged_checkpoints_are_a_condition_and_are_kept_until_somebody_removes_them() -> Result<()> {
    let mock = broker(&["torn"]);
    let place = Place::new()?;
    mock.produce("torn", 0, events(1_000))?;
    let settings = place.settings(&mock, "torn", "state");
    learned(&settings, 1_000.0)?.stop_cleanly()?;
    let folder = place.checkpoints("state");
    let damaged = damage(&folder)?;
    ensure!(damaged > 1.0);

    let daemon = learned(&settings, 1_000.0)?;
    daemon.is_ready()?;
    ensure!(daemon.metric("ostar_checkpoints_damaged")? == Some(damaged));
    let reason = condition(&daemon)?.unwrap_or_default();
    ensure!(reason.contains("learning from nothing"), "{reason}");
    daemon.stop_cleanly()?;
    // What was written since is intact, and rotation has left the damaged ones alone.
    let daemon = Daemon::start(PROGRAM, &settings)?;
    daemon.is_ready()?;
    daemon.logged("resumed from checkpoint")?;
    let reason = condition(&daemon)?.unwrap_or_default();
    ensure!(reason.contains("were found earlier"), "{reason}");
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("damaged-"))
        {
            ensure!(reason.contains(&*path.file_name().unwrap_or_default().to_string_lossy()));
            fs::remove_dir_all(path)?;
        }
    }
    mock.produce("torn", 0, events(250))?;
    until("the end of the condition", TIMEOUT, || {
        Ok(condition(&daemon)?.is_none().then_some(()))
    })?;
    ensure!(daemon.metric("ostar_checkpoints_damaged")? == Some(0.0));
    daemon.stop_cleanly()
}
