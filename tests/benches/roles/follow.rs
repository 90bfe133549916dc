//! Snapshots on their way to scorers, and an hour of them in the topic.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ostar_connectors::kafka::{
    KafkaSettings,
    state::{Publication, StateWriter},
};
use ostar_tests::{
    daemon::{Daemon, TIMEOUT},
    gaussians::raw,
    large, state, until,
};

use super::{Bench, EVENTS, STATE};

const SCORERS: usize = 3;
const PUBLICATIONS: f64 = 100.0;
/// Snapshots of an hour at checkpoints.snapshot_interval, and between two checkpoints at checkpoints.min_interval.
const HOUR: usize = 7_200;
const PER_CHECKPOINT: usize = 20;
const DELAY: &str = "ostar_snapshot_delay_seconds";

pub(super) fn measure(bench: &Bench<'_>) -> Result<()> {
    let learner = Daemon::start(&bench.program, &bench.role("learner"))?;
    let scorer = bench.role("scorer");
    let scorers: Result<Vec<_>> = (0..SCORERS)
        .map(|_| Daemon::start(&bench.program, &scorer))
        .collect();
    let scorers = scorers?;
    learner.logged("learning from the stream")?;
    let (rows, _) = large::draw(1_000, 0.2, 2);
    let events: Vec<_> = rows.iter().map(|row| raw(row)).collect();
    let mut feeds = 0;
    until("snapshots", 2 * TIMEOUT, || {
        bench.kafka.produce(EVENTS, feeds % 6, &events)?;
        feeds += 1;
        std::thread::sleep(Duration::from_millis(200));
        for scorer in &scorers {
            if scorer.metric(&format!("{DELAY}_count"))? < Some(PUBLICATIONS) {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })?;
    for (number, scorer) in scorers.iter().enumerate() {
        let within = |le: &str| scorer.metric(&format!("{DELAY}_bucket{{le=\"{le}\"}}"));
        let count = within("+Inf")?.context("no snapshots")?;
        let shares = ["0.1", "0.25", "0.5", "1", "2.5"].map(|le| (le, within(le)));
        print!("scorer {number}: {count} snapshots, served within");
        for (le, number) in shares {
            let number = number?.context("no such bucket")?;
            print!("  {le} s {:.1} %", 100.0 * number / count);
        }
        println!();
    }
    for scorer in scorers {
        scorer.stop_cleanly()?;
    }
    learner.stop_cleanly()?;
    an_hour(bench)
}

/// Publishes what the learner has published, as often as in an hour, and starts a scorer.
fn an_hour(bench: &Bench<'_>) -> Result<()> {
    let settings = KafkaSettings {
        brokers: bench.kafka.bootstrap(),
        topic: STATE.to_owned(),
        ..KafkaSettings::default()
    };
    let newest = state::newest(&bench.kafka, STATE)?.context("no state")?;
    let manifest = newest.manifest.checkpoint.context("no checkpoint")?;
    let (snapshot, saved) = (
        newest.snapshot.context("no snapshot")?,
        newest.checkpoint.context("no checkpoint")?,
    );
    let (mut writer, _) = StateWriter::open(&settings, STATE, TIMEOUT)?;
    let (began, mut largest) = (Instant::now(), 0);
    for number in 0..HOUR {
        let with_checkpoint = number % PER_CHECKPOINT == 0;
        writer.publish(Publication {
            manifest: Some(manifest.clone()),
            snapshot: Some(&snapshot),
            checkpoint: with_checkpoint.then_some(&saved[..]),
            ..Publication::default()
        })?;
        if with_checkpoint {
            largest = largest.max(bench.kafka.size_of(STATE)?);
        }
    }
    let took = began.elapsed();
    let written = HOUR * snapshot.len() + HOUR / PER_CHECKPOINT * saved.len();
    let size = bench.kafka.size_of(STATE)?;
    let began = Instant::now();
    let scorer = Daemon::start(&bench.program, &bench.role("scorer"))?;
    scorer.is_ready()?;
    let ready = began.elapsed();
    println!(
        "an hour of publications in {:.0} s: {HOUR} snapshots of {} bytes, {} checkpoints of {} bytes, {} MB written; the \
         topic had at most {} MB, {} MB at the end; a new scorer was ready after {:.1} s",
        took.as_secs_f64(),
        snapshot.len(),
        HOUR / PER_CHECKPOINT,
        saved.len(),
        written / 1_000_000,
        largest / 1_000_000,
        size / 1_000_000,
        ready.as_secs_f64()
    );
    let step = scorer.metric("ostar_model_version_step")?;
    ensure!(
        step == Some(manifest.version.step as f64),
        "{step:?} is served"
    );
    scorer.stop_cleanly()
}
