//! Starts: what an earlier life has learned is served, shown and kept, whatever the broker and the folder are like.

use std::{fs, process::Command, time::Duration};

use anyhow::{Result, ensure};
use ostar_tests::{
    daemon::{Daemon, TIMEOUT, checkpoint_reaches},
    gaussians,
    kafka::Kafka,
    until,
};

use ostar_harness::Place;

use crate::{Alone, PROGRAM, Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "a_topic_of_labels_that_is_missing_is_waited_for_while_learning_goes_on",
        missing_labels,
    ),
    (
        "lives_shorter_than_the_interval_of_checkpoints_get_on",
        short_lives,
    ),
    (
        "a_burst_that_ends_before_the_next_checkpoint_is_allowed_is_saved_nevertheless",
        burst,
    ),
    (
        "a_writer_whose_lock_file_was_removed_ends_when_another_takes_over",
        removed_lock,
    ),
    (
        "a_folder_that_cannot_be_written_is_told_at_the_start",
        unwritable_folder,
    ),
];

pub(crate) const ALONE: &[(&str, Alone)] = &[
    (
        "a_restart_without_a_broker_serves_and_shows_the_checkpoint_and_takes_orders",
        without_a_broker,
    ),
    (
        "a_thousand_partitions_are_read_within_ten_seconds",
        thousand_partitions,
    ),
];

const LEARNED: &str = "ostar_learned_events_total";
const EPOCH: &str = "ostar_model_version_epoch";
const STEP: &str = "ostar_model_version_step";
const SHARE: &str = "ostar_label_proportion{candidate=\"served\",class=\"spam\"}";

fn events(count: usize) -> Vec<Vec<u8>> {
    let (rows, _) = gaussians::draw(count, 0.6, 0.0, 7);
    rows.iter().map(|row| gaussians::raw(row)).collect()
}

fn ctl(daemon: &Daemon, order: &str) -> Result<std::process::Output> {
    let address = daemon.address("control_address")?;
    let mut command = Command::new(PROGRAM);
    Ok(command
        .args(["ctl", "--address", &address, order])
        .output()?)
}

fn without_a_broker(kafka: &mut Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("alone", 1, &[])?;
    kafka.produce("alone", 0, events(1_000))?;
    let settings = place
        .settings(kafka, "alone", "state")
        .with("grpc.control_listen", "127.0.0.1:0");
    let daemon = start(&settings)?;
    daemon.metric_is(LEARNED, 1_000.0)?;
    let (step, share) = (daemon.metric(STEP)?, daemon.metric(SHARE)?);
    daemon.stop_cleanly()?;
    kafka.stop()?;
    let daemon = start(&settings);
    let outcome = daemon.and_then(|daemon| {
        daemon.is_ready()?;
        daemon.metric_is(EPOCH, 2.0)?;
        ensure!(daemon.metric(STEP)? == step, "{:?}", daemon.metric(STEP)?);
        ensure!(
            daemon.metric(SHARE)? == share,
            "{:?}",
            daemon.metric(SHARE)?
        );
        let paused = ctl(&daemon, "pause")?;
        ensure!(paused.status.success(), "{paused:?}");
        daemon.metric_is("ostar_paused", 1.0)?;
        let refused = ctl(&daemon, "checkpoint")?;
        ensure!(refused.status.code() == Some(4), "{refused:?}");
        Ok(daemon)
    });
    kafka.restart()?;
    let daemon = outcome?;
    daemon.logged("learning from the stream")?;
    daemon.metric_is("ostar_paused", 1.0)?;
    daemon.stop_cleanly()?;
    // A quiet topic: what was known is shown, before any event.
    let daemon = start(&settings)?;
    daemon.logged("learning from the stream")?;
    ensure!(
        daemon.metric(SHARE)? == share,
        "{:?}",
        daemon.metric(SHARE)?
    );
    daemon.stop_cleanly()
}

fn missing_labels(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("unlabelled", 1, &[])?;
    let settings = place
        .settings(kafka, "unlabelled", "state")
        .with("events.format", "json")
        .with("labels.settle", "0s")
        .with("labels.topic", "labels-to-come");
    let daemon = start(&settings)?;
    let (rows, _) = gaussians::draw(250, 0.4, 0.0, 5);
    let row = |(number, row): (usize, &Vec<f32>)| gaussians::json(&number.to_string(), row);
    let events: Vec<_> = rows.iter().enumerate().map(row).collect();
    kafka.produce("unlabelled", 0, &events)?;
    daemon.metric_is(LEARNED, 250.0)?;
    daemon.metric_is("ostar_condition{condition=\"labels\"}", 1.0)?;
    let (status, body) = daemon.get("/readyz")?;
    ensure!(
        status == 200 && body.contains("labels-to-come"),
        "{status} {body}"
    );
    kafka.create_topic("labels-to-come", 1, &[])?;
    daemon.metric_is("ostar_condition{condition=\"labels\"}", 0.0)?;
    kafka.produce("labels-to-come", 0, ["{\"id\": \"7\", \"label\": \"ham\"}"])?;
    // It takes effect with the first block after it was read.
    until("a joined label", TIMEOUT, || {
        kafka.produce("unlabelled", 0, &events)?;
        let joined = daemon.metric("ostar_labels_total{outcome=\"joined\"}")?;
        Ok(joined.filter(|joined| *joined >= 1.0).map(|_| ()))
    })?;
    daemon.stop_cleanly()
}

fn short_lives(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("short", 1, &[])?;
    let settings = place
        .settings(kafka, "short", "state")
        .with("checkpoints.min_interval", "1h");
    let events = events(1_500);
    for (life, piece) in events.chunks(500).enumerate() {
        let daemon = start(&settings)?;
        kafka.produce("short", 0, piece)?;
        // Each life saves at least its first block of 250.
        checkpoint_reaches(&place.checkpoints("state"), 250 * (life + 1))?;
        daemon.metric_is(EPOCH, (life + 1) as f64)?;
        daemon.kill()?;
    }
    Ok(())
}

fn burst(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("burst", 1, &[])?;
    let settings = place
        .settings(kafka, "burst", "state")
        .with("checkpoints.min_interval", "2s");
    let daemon = start(&settings)?;
    kafka.produce("burst", 0, events(1_000))?;
    // The first block is saved at once, the others within two seconds of it: no later event asks for a checkpoint.
    checkpoint_reaches(&place.checkpoints("state"), 1_000)?;
    daemon.stop_cleanly()
}

fn removed_lock(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("lock", 1, &[])?;
    let settings = place.settings(kafka, "lock", "state");
    let events = events(1_000);
    kafka.produce("lock", 0, &events[..500])?;
    let mut first = start(&settings)?;
    first.metric_is(LEARNED, 500.0)?;
    fs::remove_file(place.checkpoints("state").join("lock"))?;
    let second = start(&settings)?;
    second.metric_is(EPOCH, 2.0)?;
    second.logged("learning from the stream")?;
    kafka.produce("lock", 0, &events[500..])?;
    let status = first.wait()?;
    ensure!(status.code() == Some(1), "{status}");
    let log = format!("{:?}", first.log());
    ensure!(log.contains("it has epoch 2, this one has 1"), "{log}");
    checkpoint_reaches(&place.checkpoints("state"), 1_000)?;
    second.stop_cleanly()
}

fn unwritable_folder(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("unwritable", 1, &[])?;
    let folder = place.checkpoints("state");
    // Permissions do not stop root, a folder in the place of a file does.
    fs::create_dir_all(folder.join("epoch.new"))?;
    let settings = place.settings(kafka, "unwritable", "state");
    let daemon = start(&settings)?;
    let told = daemon.logged("cannot write to the checkpoint folder")?;
    ensure!(told["level"] == "ERROR", "{told}");
    daemon.metric_reaches("ostar_checkpoint_failures_total", 1.0)?;
    daemon.logged("learning from the stream")?;
    daemon.stop_cleanly()
}

fn thousand_partitions(kafka: &mut Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("thousand", 1_000, &[])?;
    kafka.produce("thousand", 999, events(250))?;
    let settings = place.settings(kafka, "thousand", "state");
    let started = std::time::Instant::now();
    let daemon = start(&settings)?;
    daemon.metric_is(LEARNED, 250.0)?;
    let took = started.elapsed();
    ensure!(took < Duration::from_secs(10), "{took:?} until it had read");
    daemon.stop_cleanly()
}
