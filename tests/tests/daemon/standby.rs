//! A standby on the same checkpoint folder, and partitions that are added while the daemon runs.

use anyhow::{Result, ensure};
use ostar_tests::{
    daemon::{Daemon, TIMEOUT, checkpoint_reaches, newest_checkpoint, same_state},
    gaussians,
    kafka::Kafka,
    until,
};

use crate::{Place, Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "a_standby_serves_the_newest_checkpoint_and_takes_over_after_a_stop_and_after_a_kill",
        takes_over,
    ),
    (
        "partitions_added_while_it_runs_are_read_from_their_beginning",
        added_partitions,
    ),
];

const EVENTS: usize = 4_000;
const STEP: &str = "ostar_model_version_step";
const EPOCH: &str = "ostar_model_version_epoch";

fn takes_over(kafka: &mut Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("standby", 1, &[])?;
    let (rows, _) = gaussians::draw(EVENTS, 0.6, 0.3, 13);
    let events: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    let folder = place.checkpoints("shared");
    let settings = place.settings(kafka, "standby", "shared");

    let first = start(&settings)?;
    kafka.produce("standby", 0, &events[..1_000])?;
    checkpoint_reaches(&folder, 1_000)?;
    let second = start(&settings)?;
    stands_by_behind(&second, &first)?;
    kafka.produce("standby", 0, &events[1_000..2_000])?;
    checkpoint_reaches(&folder, 2_000)?;
    stands_by_behind(&second, &first)?;

    first.stop_cleanly()?;
    takes_over_with_epoch(&second, 2.0)?;
    kafka.produce("standby", 0, &events[2_000..2_500])?;
    checkpoint_reaches(&folder, 2_500)?;
    let third = start(&settings)?;
    stands_by_behind(&third, &second)?;
    // Killed while it learns: the standby learns again what came after the last checkpoint.
    kafka.produce("standby", 0, &events[2_500..3_500])?;
    second.metric_reaches("ostar_learned_events_total", 750.0)?;
    second.kill()?;
    takes_over_with_epoch(&third, 3.0)?;
    kafka.produce("standby", 0, &events[3_500..])?;
    checkpoint_reaches(&folder, EVENTS)?;
    third.stop_cleanly()?;

    let whole = start(&place.settings(kafka, "standby", "whole"))?;
    whole.metric_reaches("ostar_learned_events_total", EVENTS as f64)?;
    whole.stop_cleanly()?;
    same_state(&folder, &place.checkpoints("whole"))
}

/// The standby serves the writer's newest checkpoint, is ready, and writes and learns nothing itself.
fn stands_by_behind(standby: &Daemon, writer: &Daemon) -> Result<()> {
    standby.metric_is("ostar_standby", 1.0)?;
    ensure!(writer.metric("ostar_standby")? == Some(0.0));
    for version in [EPOCH, STEP] {
        until(version, TIMEOUT, || {
            Ok((standby.metric(version)? == writer.metric(version)?).then_some(()))
        })?;
    }
    ensure!(standby.metric(STEP)? > Some(0.0), "nothing was learned");
    let (status, reason) = standby.get("/readyz")?;
    ensure!(status == 200, "{reason}");
    ensure!(standby.metric("ostar_checkpoints_written_total")? == Some(0.0));
    ensure!(standby.metric("ostar_learned_events_total")? == Some(0.0));
    Ok(())
}

fn takes_over_with_epoch(daemon: &Daemon, epoch: f64) -> Result<()> {
    daemon.logged("the other process has ended: taking over")?;
    daemon.metric_is("ostar_standby", 0.0)?;
    daemon.metric_is(EPOCH, epoch)?;
    daemon.is_ready()
}

fn added_partitions(kafka: &mut Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("growing", 1, &[])?;
    let (rows, _) = gaussians::draw(1_500, 0.5, 0.0, 3);
    let events: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    let settings = place
        .settings(kafka, "growing", "state")
        .with("kafka.metadata_refresh", "300ms");
    let daemon = start(&settings)?;
    kafka.produce("growing", 0, &events[..500])?;
    daemon.metric_reaches("ostar_learned_events_total", 500.0)?;

    kafka.add_partitions("growing", 3)?;
    kafka.produce("growing", 1, &events[500..1_000])?;
    kafka.produce("growing", 2, &events[1_000..])?;
    daemon.metric_reaches("ostar_learned_events_total", 1_500.0)?;
    daemon.stop_cleanly()?;
    let (_, manifest, _) = newest_checkpoint(&place.checkpoints("state"))?;
    let offsets = &manifest["offsets"];
    ensure!(
        *offsets == serde_json::json!({"0": 500, "1": 500, "2": 500}),
        "{offsets}"
    );
    Ok(())
}
