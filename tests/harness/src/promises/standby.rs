//! A standby on the same checkpoint folder.

use anyhow::{Result, ensure};

use crate::{
    Client, Place,
    daemon::{Daemon, TIMEOUT, checkpoint_reaches, same_state},
    gaussians, until,
};

const EVENTS: usize = 4_000;
const STEP: &str = "ostar_model_version_step";
const EPOCH: &str = "ostar_model_version_epoch";

/// Of two daemons on one folder the second serves the checkpoints of the first and takes over when that ends. The topic
/// `standby` has one partition.
pub fn a_standby_takes_over_after_a_stop_and_after_a_kill(
    kafka: &Client,
    program: &str,
) -> Result<()> {
    let place = Place::new()?;
    let (rows, _) = gaussians::draw(EVENTS, 0.6, 0.3, 13);
    let events: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    let folder = place.checkpoints("shared");
    let settings = place.settings(kafka, "standby", "shared");

    let first = Daemon::start(program, &settings)?;
    kafka.produce("standby", 0, &events[..1_000])?;
    checkpoint_reaches(&folder, 1_000)?;
    let second = Daemon::start(program, &settings)?;
    stands_by_behind(&second, &first)?;
    kafka.produce("standby", 0, &events[1_000..2_000])?;
    checkpoint_reaches(&folder, 2_000)?;
    stands_by_behind(&second, &first)?;

    first.stop_cleanly()?;
    takes_over_with_epoch(&second, 2.0)?;
    kafka.produce("standby", 0, &events[2_000..2_500])?;
    checkpoint_reaches(&folder, 2_500)?;
    let third = Daemon::start(program, &settings)?;
    stands_by_behind(&third, &second)?;
    // Killed while it learns: the standby learns again what came after the last checkpoint.
    kafka.produce("standby", 0, &events[2_500..3_500])?;
    second.metric_reaches("ostar_learned_events_total", 750.0)?;
    second.kill()?;
    takes_over_with_epoch(&third, 3.0)?;
    kafka.produce("standby", 0, &events[3_500..])?;
    checkpoint_reaches(&folder, EVENTS)?;
    third.stop_cleanly()?;

    let whole = Daemon::start(program, &place.settings(kafka, "standby", "whole"))?;
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
