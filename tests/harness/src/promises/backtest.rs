//! A backtest of a file gives what the daemon gives for the same stream, block by block, labels included.

use std::{fs, path::Path, process::Command, thread};

use anyhow::{Context, Result, ensure};
use ostar_harness::{
    Mock,
    daemon::{Settings, TIMEOUT},
    until,
};
use serde_json::{Value, json};

use crate::{Daemon, PROGRAM, Place, broker, gaussians};

const BLOCK: usize = 250;
const BLOCKS: usize = 26;
/// From this block on the classes lie elsewhere.
const MOVED: usize = 4;
const MILLISECONDS_PER_BLOCK: i64 = 1_000;
const START_MS: i64 = 1_700_000_000_000;
/// Labels are known this long after their events.
const LABELLED_AFTER_MS: i64 = 3_000;

/// An event, its class, and when it happened.
struct Event {
    id: String,
    latent: Vec<f32>,
    class: &'static str,
    time_ms: i64,
}

impl Event {
    fn label_time_ms(&self) -> i64 {
        self.time_ms + LABELLED_AFTER_MS
    }

    fn label(&self) -> Value {
        json!({"id": self.id, "label": self.class})
    }
}

/// A model that knows the two classes well: the tests of the gate need one.
fn fit(folder: &Path) -> Result<()> {
    let data = folder.join("training.jsonl");
    let (latents, classes) = gaussians::draw(2_000, 0.3, 0.0, 1);
    let line = |(latent, class): (&Vec<f32>, &u32)| {
        let label = gaussians::CLASSES[*class as usize];
        format!("{}\n", json!({"latent": latent, "label": label}))
    };
    fs::write(
        &data,
        latents.iter().zip(&classes).map(line).collect::<String>(),
    )?;
    let output = Command::new(PROGRAM)
        .args(["fit", "--input", "latent", "--data"])
        .arg(&data)
        .arg("--out")
        .arg(folder.join("fitted"))
        .output()?;
    ensure!(output.status.success(), "{output:?}");
    Ok(())
}

/// Blocks of a stream whose shares move first, and whose classes move then. The last one is not full.
fn stream(seed: u64) -> Vec<Vec<Event>> {
    let block = |number: usize| {
        let rows = if number < BLOCKS { BLOCK } else { BLOCK / 10 };
        let (mut latents, classes) = gaussians::draw(rows, 0.5, 0.0, 100 * seed + number as u64);
        if number >= MOVED {
            // In a direction that other shares do not explain.
            let values = latents
                .iter_mut()
                .flat_map(|latent| latent.iter_mut().enumerate());
            values.for_each(|(place, value)| *value += if place % 2 == 0 { 2.4 } else { -1.2 });
        }
        let rows = latents.into_iter().zip(classes).enumerate();
        let event = |(row, (latent, class)): (usize, (Vec<f32>, u32))| Event {
            id: format!("event-{number}-{row}"),
            latent,
            class: gaussians::CLASSES[class as usize],
            time_ms: START_MS + MILLISECONDS_PER_BLOCK * number as i64,
        };
        rows.map(event).collect()
    };
    (0..=BLOCKS).map(block).collect()
}

/// Writes the stream as a file with labels and their times.
fn write(stream: &[Vec<Event>], path: &Path) -> Result<()> {
    let line = |event: &Event| {
        let line = json!({
            "id": event.id,
            "latent": event.latent,
            "time_ms": event.time_ms,
            "label": event.class,
            "label_time_ms": event.label_time_ms(),
        });
        format!("{line}\n")
    };
    let lines: String = stream.iter().flatten().map(line).collect();
    Ok(fs::write(path, lines)?)
}

/// What a backtest reports of each full block.
fn backtest(place: &Place, settings: &Settings, stream: &[Vec<Event>]) -> Result<Vec<Value>> {
    let (data, report) = (
        place.path().join("stream.jsonl"),
        place.path().join("report"),
    );
    write(stream, &data)?;
    let output = Command::new(PROGRAM)
        .args(["backtest", "--data"])
        .arg(&data)
        .args(settings.flags("bundle."))
        .args(settings.flags("learner."))
        .args(settings.flags("labels.settle"))
        .arg("--out")
        .arg(&report)
        .output()?;
    ensure!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&fs::read(report.join("report.json"))?)?;
    let moments = report["moments"].as_array().context("moments")?;
    ensure!(moments.len() == BLOCKS + 1, "{} moments", moments.len());
    Ok(moments[..BLOCKS].to_vec())
}

/// What a state says about a block that depends on nothing but the stream: not on the clock, and not on a restart.
fn figures(state: &Value) -> Value {
    let keep = |figures: &Value, keys: &[&str]| -> Value {
        let kept = keys
            .iter()
            .map(|key| ((*key).to_owned(), figures[*key].clone()));
        Value::Object(kept.collect())
    };
    let all = |list: &str, keys: &[&str]| -> Vec<Value> {
        let list = state[list].as_array().into_iter().flatten();
        list.map(|figures| keep(figures, keys)).collect()
    };
    json!({
        "gate": keep(&state["gate"], &["candidate", "reason", "explanation", "proportions_known"]),
        "classes": all("classes", &[
            "name", "frozen", "frozen_low", "frozen_high", "adapted", "adapted_low", "adapted_high", "served",
            "served_low", "served_high", "best_fit",
        ]),
        "candidates": all("candidates", &["name", "effective_rows", "accuracy", "balanced_accuracy", "log_loss"]),
        "labels": state["labels"],
    })
}

/// Waits for a block, and checks that the daemon's state says what the backtest's did.
fn check(daemon: &Daemon, events: usize, reported: &Value) -> Result<()> {
    let state = until(&format!("{events} events"), TIMEOUT, || {
        let (_, state) = daemon.get("/state")?;
        let state: Value = serde_json::from_str(&state)?;
        Ok((state["events"] == events).then_some(state))
    })?;
    let (found, expected) = (figures(&state), figures(reported));
    ensure!(
        found == expected,
        "after {events} events the daemon says {found:#}\nand the backtest {expected:#}"
    );
    Ok(())
}

fn produce(mock: &Mock, events: &[Event]) -> Result<()> {
    let time_ms = events.first().map(|event| event.time_ms);
    let payload = |event: &Event| gaussians::json_at(&event.id, &event.latent, event.time_ms);
    mock.produce_at("stream", 0, events.iter().map(payload), time_ms)
}

/// Checks that the daemon shows what the backtest has reported, over a restart within a block. Gives the candidates.
fn compare(seed: u64) -> Result<Vec<String>> {
    let mock = broker(&["stream", "labels"]);
    let place = Place::new()?;
    fit(place.path())?;
    let bundle = place.path().join("fitted");
    let settings = place
        .settings(&mock, "stream", "state")
        .with("bundle.path", &bundle.display().to_string())
        .with("events.format", "json")
        .with("learner.steps_per_block", "5")
        .with("labels.topic", "labels")
        .with("labels.taken_by", "time")
        .with("labels.settle", "1s")
        // As many as take effect with a block.
        .with("labels.window", &BLOCK.to_string())
        .with("labels.patience", "3m");
    let stream = stream(seed);
    let reported = backtest(&place, &settings, &stream)?;
    for block in &stream {
        let labels = block.iter().map(|event| event.label().to_string());
        let time_ms = block.first().map(Event::label_time_ms);
        mock.produce_at("labels", 0, labels, time_ms)?;
    }
    let mut daemon = Daemon::start(PROGRAM, &settings)?;
    for (number, (block, moment)) in stream.iter().zip(&reported).enumerate() {
        // Shares are followed within a block, and forgotten by a restart.
        let halves = if number == BLOCKS / 2 { 2 } else { 1 };
        for (half, events) in block.chunks(BLOCK / halves).enumerate() {
            if half == 1 {
                daemon.stop_cleanly()?;
                daemon = Daemon::start(PROGRAM, &settings)?;
            }
            produce(&mock, events)?;
        }
        check(&daemon, (number + 1) * BLOCK, moment).with_context(|| format!("seed {seed}"))?;
    }
    let sent = |outcome: &str| {
        daemon.metric(&format!(
            "ostar_sent_classes_total{{outcome=\"{outcome}\"}}"
        ))
    };
    let compared = sent("same")?.unwrap_or(0.0) + sent("different")?.unwrap_or(0.0);
    ensure!(
        compared == ((BLOCKS - BLOCKS / 2) * BLOCK) as f64,
        "{compared} classes compared"
    );
    daemon.stop_cleanly()?;
    let candidate = |moment: &Value| moment["gate"]["candidate"].as_str().map(str::to_owned);
    reported
        .iter()
        .map(|moment| candidate(moment).context("a candidate"))
        .collect()
}

#[test]
fn a_backtest_gives_block_by_block_what_the_daemon_gives_labels_and_a_restart_included()
-> Result<()> {
    thread::scope(|scope| {
        let runs: Vec<_> = (1..=5)
            .map(|seed| (seed, scope.spawn(move || compare(seed))))
            .collect();
        for (seed, run) in runs {
            let candidates = run.join().expect("a comparison returns its errors")?;
            for candidate in ["frozen", "prior", "adapted"] {
                ensure!(
                    candidates.iter().any(|served| served == candidate),
                    "seed {seed}: {candidate} is never served: {candidates:?}"
                );
            }
        }
        Ok(())
    })
}
