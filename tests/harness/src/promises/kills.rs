//! An event affects the state exactly once, also across crashes.

use std::{collections::BTreeMap, path::Path, thread, time::Duration};

use anyhow::{Context, Result, ensure};
use ostar_engine::Generator;

use crate::{
    Client, Place,
    daemon::{Daemon, checkpoint_reaches, learned_events, newest_checkpoint, same_state},
    gaussians,
};

/// Events that each process is given before it is killed.
const PIECE: usize = 500;
/// The bound of ARCHITECTURE.md: events between two commits, and the chunk that completes them.
const MOST_REPEATS_PER_CRASH: usize = 2_000 + 2_048;

/// Kills the daemon again and again while it learns. In the end the checkpoint is that of an uninterrupted run, and every
/// event has its prediction. The topics `kills` and `kills-predictions` have one partition each.
pub fn kills_leave_the_state_of_an_uninterrupted_run_and_every_prediction(
    kafka: &Client,
    program: &str,
    kills: usize,
) -> Result<()> {
    let place = Place::new()?;
    let events = kills * PIECE;
    let (rows, _) = gaussians::draw(events, 0.6, 0.3, 7);
    let records: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    let killed = place
        .settings(kafka, "kills", "killed")
        .with("predictions.topic", "kills-predictions");
    let mut generator = Generator::new(11);
    // Each process gets a part of the events, so that every kill interrupts work.
    for piece in records.chunks(PIECE) {
        let daemon = Daemon::start(program, &killed)?;
        kafka.produce("kills", 0, piece)?;
        daemon.logged("learning from the stream")?;
        thread::sleep(Duration::from_millis(generator.below(1_200) as u64));
        daemon.kill()?;
    }
    let daemon = Daemon::start(program, &killed)?;
    // The killed processes may have learned all there is; this one must still have come up before it is stopped.
    daemon.logged("learning from the stream")?;
    catches_up(&place.checkpoints("killed"), events)
        .with_context(|| format!("the log is {:#?}", daemon.log()))?;
    daemon.stop_cleanly()?;

    let daemon = Daemon::start(program, &place.settings(kafka, "kills", "whole"))?;
    catches_up(&place.checkpoints("whole"), events)?;
    daemon.stop_cleanly()?;
    same_state(&place.checkpoints("killed"), &place.checkpoints("whole"))?;
    every_event_was_predicted(kafka, events, kills)
}

fn every_event_was_predicted(kafka: &Client, events: usize, kills: usize) -> Result<()> {
    let mut counts = BTreeMap::new();
    for offset in kafka.header_values("kills-predictions", "ostar-offset")? {
        *counts.entry(offset.parse::<usize>()?).or_insert(0) += 1;
    }
    ensure!(
        counts.len() == events,
        "{} of {events} predicted",
        counts.len()
    );
    let repeats = counts.values().sum::<usize>() - events;
    ensure!(
        repeats <= kills * MOST_REPEATS_PER_CRASH,
        "{repeats} predictions were repeated"
    );
    Ok(())
}

/// Waits as long as the newest checkpoint grows: on a busy machine all events may take minutes, and that is no failure.
fn catches_up(folder: &Path, events: usize) -> Result<()> {
    let mut learned = 0;
    while learned < events {
        // One block more within the time limit is enough to wait on.
        checkpoint_reaches(folder, (learned + 250).min(events))?;
        let (_, manifest, _) = newest_checkpoint(folder)?;
        learned = learned_events(&manifest)? as usize;
    }
    Ok(())
}
