//! An event affects the state exactly once, also across crashes.

use std::{collections::BTreeMap, path::Path, thread, time::Duration};

use anyhow::{Context, Result, ensure};
use ostar_model::{Generator, tensors::from_safetensors};
use ostar_tests::{
    daemon::{checkpoint_reaches, newest_checkpoint, same_state},
    gaussians,
    kafka::Kafka,
};

use crate::{Place, Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "twenty_kills_leave_the_state_of_an_uninterrupted_run_and_every_prediction",
        twenty_kills,
    ),
    (
        "four_partitions_fill_the_window_with_exactly_the_events_sent",
        four_partitions,
    ),
];

const EVENTS: usize = 10_000;
const KILLS: usize = 20;
/// The bound of ARCHITECTURE.md: events between two commits, and the chunk that completes them.
const MOST_REPEATS_PER_CRASH: usize = 2_000 + 2_048;

fn twenty_kills(kafka: &mut Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("kills", 1, &[])?;
    kafka.create_topic("kills-predictions", 1, &[])?;
    let (rows, _) = gaussians::draw(EVENTS, 0.6, 0.3, 7);
    let events: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    let killed = place
        .settings(kafka, "kills", "killed")
        .with("predictions.topic", "kills-predictions");
    let mut generator = Generator::new(11);
    // Each process gets a part of the events, so that every kill interrupts work.
    let mut pieces = events.chunks(EVENTS.div_ceil(KILLS));
    for _ in 0..KILLS {
        let daemon = start(&killed)?;
        kafka.produce("kills", 0, pieces.next().unwrap_or_default())?;
        daemon.logged("learning from the stream")?;
        thread::sleep(Duration::from_millis(generator.below(1_200) as u64));
        daemon.kill()?;
    }
    for piece in pieces {
        kafka.produce("kills", 0, piece)?;
    }
    let daemon = start(&killed)?;
    catches_up(&place.checkpoints("killed"))
        .with_context(|| format!("the log is {:#?}", daemon.log()))?;
    daemon.stop_cleanly()?;

    let daemon = start(&place.settings(kafka, "kills", "whole"))?;
    catches_up(&place.checkpoints("whole"))?;
    daemon.stop_cleanly()?;
    same_state(&place.checkpoints("killed"), &place.checkpoints("whole"))?;

    let mut counts = BTreeMap::new();
    for offset in kafka.header_values("kills-predictions", "ostar-offset")? {
        *counts.entry(offset.parse::<usize>()?).or_insert(0) += 1;
    }
    ensure!(
        counts.len() == EVENTS,
        "{} of {EVENTS} predicted",
        counts.len()
    );
    let repeats = counts.values().sum::<usize>() - EVENTS;
    ensure!(
        repeats <= KILLS * MOST_REPEATS_PER_CRASH,
        "{repeats} predictions were repeated"
    );
    Ok(())
}

/// Waits as long as the newest checkpoint grows: on a busy machine all events may take minutes, and that is no failure.
fn catches_up(folder: &Path) -> Result<()> {
    let mut learned = 0;
    while learned < EVENTS {
        // One block more within the time limit is enough to wait on.
        checkpoint_reaches(folder, (learned + 250).min(EVENTS))?;
        let (_, manifest, _) = newest_checkpoint(folder)?;
        learned = manifest["events"].as_u64().context("events")? as usize;
    }
    Ok(())
}

fn four_partitions(kafka: &mut Kafka) -> Result<()> {
    const ROWS: usize = 2_000;
    let place = Place::new()?;
    kafka.create_topic("four", 4, &[])?;
    let (rows, _) = gaussians::draw(ROWS, 0.5, 0.0, 3);
    for partition in 0..4_i32 {
        let own = rows.iter().skip(partition as usize).step_by(4);
        kafka.produce("four", partition, own.map(|row| gaussians::raw(row)))?;
    }
    let settings = place
        .settings(kafka, "four", "state")
        .with("learner.method.window", "3000");
    let daemon = start(&settings)?;
    daemon.metric_reaches("ostar_learned_events_total", ROWS as f64)?;
    daemon.stop_cleanly()?;
    let (_, manifest, state) = newest_checkpoint(&place.checkpoints("state"))?;
    ensure!(manifest["offsets"] == serde_json::json!({"0": 500, "1": 500, "2": 500, "3": 500}));

    let window = from_safetensors(&state)?["window"].to_f32();
    let bundle = ostar_model::Bundle::load(&place.folder.path().join("bundle"))?;
    let encoder = bundle.encoder()?.expect("a model on latents has one");
    let mut expected = Vec::new();
    let values = rows.concat();
    let inputs = ostar_model::Inputs::Dense(ostar_model::Rows::new(&values[..], gaussians::WIDTH)?);
    encoder.encode(inputs, &mut Default::default(), &mut expected)?;
    ensure!(
        sorted(&window) == sorted(&expected),
        "the window holds other rows"
    );
    Ok(())
}

fn sorted(values: &[f32]) -> Vec<Vec<u32>> {
    let rows = values.chunks_exact(gaussians::WIDTH);
    let mut rows: Vec<Vec<u32>> = rows
        .map(|row| row.iter().map(|value| value.to_bits()).collect())
        .collect();
    rows.sort();
    rows
}
