//! A disk that is full, read-only or failing.

use std::{fs, process::Command};

use anyhow::{Result, ensure};
use ostar_tests::{
    daemon::{Daemon, checkpoint_reaches},
    disk::{ReadOnly, SmallDisk},
    gaussians,
    kafka::Kafka,
};

use ostar_harness::Place;

use crate::{PROGRAM, Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "a_full_disk_is_told_refuses_an_order_with_its_own_code_and_is_over_when_there_is_room",
        full_disk,
    ),
    (
        "a_folder_that_becomes_read_only_is_told_and_is_over_when_it_can_be_written",
        read_only,
    ),
    (
        "a_disk_that_fails_is_told_and_tried_again_until_it_works",
        failing,
    ),
];

const LEARNED: &str = "ostar_learned_events_total";
const CONDITION: &str = "ostar_condition{condition=\"checkpoints\"}";

fn full_disk(kafka: &Kafka) -> Result<()> {
    // Elsewhere `a_folder_that_cannot_be_written_is_told_at_the_start` has to do.
    let Some(disk) = SmallDisk::new()? else {
        return Ok(());
    };
    let place = Place::new()?;
    kafka.create_topic("disk", 1, &[])?;
    let (rows, _) = gaussians::draw(1_500, 0.5, 0.0, 3);
    let events: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    let state = disk.path().join("state");
    let settings = place
        .settings(kafka, "disk", "unused")
        .with("checkpoints.folder", &state.display().to_string())
        .with("checkpoints.keep", "1")
        .with("grpc.control_listen", "127.0.0.1:0");
    let daemon = start(&settings)?;
    kafka.produce("disk", 0, &events[..500])?;
    checkpoint_reaches(&state, 500)?;
    let filler = disk.fill()?;
    kafka.produce("disk", 0, &events[500..1_000])?;
    // Learning and serving go on.
    daemon.metric_is(LEARNED, 1_000.0)?;
    daemon.metric_is(CONDITION, 1.0)?;
    daemon.metric_reaches("ostar_checkpoint_failures_total", 1.0)?;
    let (status, told) = daemon.get("/readyz")?;
    ensure!(status == 200 && told.contains("checkpoints"), "{told}");
    let address = daemon.address("control_address")?;
    let order = || {
        let mut command = Command::new(PROGRAM);
        command.args(["ctl", "--address", &address, "checkpoint"]);
        command.output()
    };
    let refused = order()?;
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(refused.status.code() == Some(4), "{refused:?}");
    let told = text.matches("No space left on device").count();
    ensure!(told == 1, "told {told} times: {text}");
    // A restart on the full disk resumes from the last checkpoint, and tells at once.
    daemon.kill()?;
    let daemon = start(&settings)?;
    let told = daemon.logged("cannot write to the checkpoint folder")?;
    ensure!(told["level"] == "ERROR", "{told}");
    daemon.logged("resumed from checkpoint")?;
    daemon.metric_is(LEARNED, 500.0)?;
    daemon.metric_is(CONDITION, 1.0)?;
    fs::remove_file(filler)?;
    // Without further events.
    checkpoint_reaches(&state, 1_000)?;
    daemon.metric_is(CONDITION, 0.0)?;
    kafka.produce("disk", 0, &events[1_000..])?;
    checkpoint_reaches(&state, 1_500)?;
    daemon.metric_is(CONDITION, 0.0)?;
    daemon.stop_cleanly()
}

fn read_only(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("read-only", 1, &[])?;
    let (rows, _) = gaussians::draw(1_000, 0.5, 0.0, 3);
    let events: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    let settings = place.settings(kafka, "read-only", "state");
    let state = place.path().join("state");
    let daemon = start(&settings)?;
    kafka.produce("read-only", 0, &events[..500])?;
    checkpoint_reaches(&state, 500)?;
    // Elsewhere `a_folder_that_cannot_be_written_is_told_at_the_start` has to do.
    let Some(read_only) = ReadOnly::new(&state)? else {
        return Ok(());
    };
    kafka.produce("read-only", 0, &events[500..])?;
    goes_on_without_checkpoints(&daemon, 1_000.0, "Read-only file system")?;
    drop(read_only);
    // Without further events.
    checkpoint_reaches(&state, 1_000)?;
    daemon.metric_is(CONDITION, 0.0)?;
    daemon.stop_cleanly()
}

fn failing(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("failing", 1, &[])?;
    let (rows, _) = gaussians::draw(500, 0.5, 0.0, 3);
    let events: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    kafka.produce("failing", 0, &events)?;
    let settings = place.settings(kafka, "failing", "state");
    // The first one claims the folder.
    let variables = [("FAILPOINTS", "checkpoint=1*off->8*return->off")];
    let daemon = Daemon::start_with(PROGRAM, &settings, &variables)?;
    goes_on_without_checkpoints(&daemon, 500.0, "Input/output error")?;
    checkpoint_reaches(&place.path().join("state"), 500)?;
    daemon.metric_is(CONDITION, 0.0)?;
    daemon.stop_cleanly()
}

/// Learning and serving go on, and whoever looks is told why nothing is saved.
fn goes_on_without_checkpoints(daemon: &Daemon, learned: f64, reason: &str) -> Result<()> {
    daemon.metric_is(LEARNED, learned)?;
    daemon.metric_is(CONDITION, 1.0)?;
    daemon.metric_reaches("ostar_checkpoint_failures_total", 1.0)?;
    let (status, told) = daemon.get("/readyz")?;
    ensure!(status == 200 && told.contains(reason), "{told}");
    Ok(())
}
