//! How the process ends.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use ostar_harness::{
    daemon::{Settings, TIMEOUT, newest_checkpoint},
    until,
};
use serde_json::Value;

use crate::{Daemon, PROGRAM, Place, broker, events};

const DEADLINE: Duration = Duration::from_secs(15);

/// The steps of a block take minutes here. The process still ends in time, with no checkpoint of the half block, so that
/// the next start learns the block from its beginning.
#[test]
fn sigterm_gives_up_a_block_that_takes_too_long() -> Result<()> {
    let mock = broker(&["long-block"]);
    let place = Place::new()?;
    mock.produce("long-block", 0, events(5_000))?;
    let settings = place
        .settings(&mock, "long-block", "state")
        .with("shutdown.deadline", &format!("{}s", DEADLINE.as_secs()))
        .with("serving.mode", "adapted")
        .with("learner.steps_per_block", "10000000");
    let wait = settings.clone().with("learner.when_behind", "wait");
    stop_in_a_block(
        &wait,
        "learner stopped in the middle of a block; the next start learns it again",
    )?;
    if let Ok((_, manifest, _)) = newest_checkpoint(&place.checkpoints("state")) {
        ensure!(
            manifest["position"]["events"] == 0,
            "half a block is kept: {manifest:#}"
        );
    }
    let skip = settings.with("learner.when_behind", "skip");
    stop_in_a_block(&skip, "learner stopped")
}

/// Stops a daemon that takes steps, and looks for what its log says at the end.
fn stop_in_a_block(settings: &Settings, ending: &str) -> Result<()> {
    let mut daemon = Daemon::start(PROGRAM, settings)?;
    until("steps", TIMEOUT, || {
        Ok((daemon.metric("ostar_steps_total")? > Some(0.0)).then_some(()))
    })?;
    let terminated = Instant::now();
    daemon.terminate()?;
    let status = daemon.wait()?;
    let took = terminated.elapsed();
    ensure!(status.success(), "{status}: {:#?}", daemon.log());
    ensure!(took < DEADLINE, "stopping took {took:?}");
    daemon.logged(ending)?;
    Ok(())
}

#[test]
fn what_a_broker_held_is_read_when_it_is_back() -> Result<()> {
    let mock = broker(&["outage"]);
    let place = Place::new()?;
    mock.produce("outage", 0, events(500))?;
    let daemon = Daemon::start(PROGRAM, &place.settings(&mock, "outage", "state"))?;
    daemon.metric_reaches("ostar_learned_events_total", 500.0)?;
    mock.down()?;
    mock.up()?;
    mock.produce("outage", 0, events(500))?;
    daemon.metric_reaches("ostar_learned_events_total", 1_000.0)?;
    daemon.stop_cleanly()
}

/// Longest time from a part's failure to the end of the process.
const FAILED: Duration = Duration::from_secs(2);

/// A second process has taken the folder over, which ends the learner of the first. That a panic ends it in the same way needs
/// the feature `failpoints`: `tests/tests/daemon/parts.rs`.
#[test]
fn a_part_that_fails_ends_the_process_with_its_name_within_two_seconds() -> Result<()> {
    let mock = broker(&["taken"]);
    let place = Place::new()?;
    let settings = place.settings(&mock, "taken", "state");
    mock.produce("taken", 0, events(500))?;
    let mut first = Daemon::start(PROGRAM, &settings)?;
    first.metric_reaches("ostar_learned_events_total", 500.0)?;
    fs::remove_file(place.checkpoints("state").join("lock"))?;
    let second = Daemon::start(PROGRAM, &settings)?;
    second.logged("learning from the stream")?;
    mock.produce("taken", 0, events(500))?;
    let failure = first.logged("pipeline thread failed")?;
    let failed = Instant::now();
    ensure!(failure["thread"] == "learner", "{failure}");
    let status = first.wait()?;
    let took = failed.elapsed();
    ensure!(status.code() == Some(1), "{status}: {:#?}", first.log());
    ensure!(took < FAILED, "{took:?} from the failure to the end");
    let told = |line: &Value| {
        let line = line.as_str().unwrap_or_default();
        line.starts_with("error: ") && line.contains("the learner thread failed")
    };
    until("the reason on the error stream", TIMEOUT, || {
        Ok(first.log().iter().any(told).then_some(()))
    })?;
    second.stop_cleanly()
}
