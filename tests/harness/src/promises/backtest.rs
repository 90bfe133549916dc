//! A backtest of a file gives what daemons give for the same stream, block by block, labels included.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    Client, Place,
    daemon::{Daemon, Settings, TIMEOUT},
    gaussians, until,
};

const BLOCK: usize = 250;
const BLOCKS: usize = 26;
/// From this block on the classes lie elsewhere.
const MOVED: usize = 4;
const MILLISECONDS_PER_BLOCK: i64 = 1_000;
const START_MS: i64 = 1_700_000_000_000;
/// Labels are known this long after their events.
const LABELLED_AFTER_MS: i64 = 3_000;
/// What depends on the stream alone: not on the clock, and not on a restart.
const FIGURES: [&str; 4] = ["gate", "classes", "candidates", "labels"];
/// The part of it that reaches processes which only serve.
const SERVED: [&str; 2] = ["gate", "classes"];

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
fn fit(program: &str, folder: &Path) -> Result<()> {
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
    let output = Command::new(program)
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
fn backtest(
    program: &str,
    place: &Place,
    settings: &Settings,
    stream: &[Vec<Event>],
) -> Result<Vec<Value>> {
    let (data, report) = (
        place.path().join("stream.jsonl"),
        place.path().join("report"),
    );
    write(stream, &data)?;
    let output = Command::new(program)
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

/// What a state says about a block, as far as [`FIGURES`] has it.
fn figures(state: &Value) -> Result<Value> {
    let keep = |figures: &Value, keys: &[&str]| -> Result<Value> {
        let kept = keys.iter().map(|key| {
            let figure = figures.get(key);
            let figure = figure.with_context(|| format!("no {key} in {figures}"))?;
            Ok(((*key).to_owned(), figure.clone()))
        });
        Ok(Value::Object(kept.collect::<Result<_>>()?))
    };
    let all = |list: &str, keys: &[&str]| -> Result<Vec<Value>> {
        let list = state[list].as_array().context("a list")?;
        list.iter().map(|figures| keep(figures, keys)).collect()
    };
    Ok(json!({
        "gate": keep(&state["gate"], &[
            "candidate", "reason", "explanation", "proportions_unknown", "prior_strength", "window_rows",
        ])?,
        "classes": all("classes", &[
            "name", "frozen", "frozen_low", "frozen_high", "adapted", "adapted_low", "adapted_high", "served",
            "served_low", "served_high", "best_fit",
        ])?,
        "candidates": all("candidates", &["name", "effective_rows", "accuracy", "balanced_accuracy", "log_loss"])?,
        "labels": state["labels"],
    }))
}

/// Waits for a block, and checks that the daemon's state says what the backtest's did.
fn check(daemon: &Daemon, events: usize, reported: &Value, parts: &[&str]) -> Result<()> {
    let state = until(&format!("{events} events"), TIMEOUT, || {
        let (_, state) = daemon.get("/state")?;
        let state: Value = serde_json::from_str(&state)?;
        Ok((state["events"] == events).then_some(state))
    })?;
    let (found, expected) = (figures(&state)?, figures(reported)?);
    for part in parts {
        ensure!(
            found[part] == expected[part],
            "after {events} events the daemon says {:#}\nand the backtest {:#}",
            found[part],
            expected[part]
        );
    }
    Ok(())
}

/// A stream with labels, and what a backtest has reported of each of its full blocks.
struct Compared<'k> {
    kafka: &'k Client,
    topic: String,
    settings: Settings,
    stream: Vec<Vec<Event>>,
    reported: Vec<Value>,
    /// Has the bundle, and room for checkpoints.
    _place: Place,
}

impl<'k> Compared<'k> {
    /// Labels are in the topic `TOPIC-labels` at once: their times say when they take effect.
    fn new(kafka: &'k Client, program: &str, topic: &str, seed: u64) -> Result<Self> {
        let place = Place::new()?;
        fit(program, place.path())?;
        let bundle = place.path().join("fitted");
        let labels = format!("{topic}-labels");
        let settings = place
            .settings(kafka, topic, "state")
            .with("bundle.path", &bundle.display().to_string())
            .with("events.format", "json")
            .with("learner.steps_per_block", "5")
            .with("labels.topic", &labels)
            .with("labels.taken_by", "time")
            .with("labels.settle", "1s")
            // As many as take effect with a block.
            .with("labels.window", &BLOCK.to_string())
            .with("labels.patience", "3m");
        let stream = stream(seed);
        let reported = backtest(program, &place, &settings, &stream)?;
        let candidates = reported.iter().map(|moment| &moment["gate"]["candidate"]);
        let candidates: Vec<&Value> = candidates.collect();
        for candidate in ["frozen", "prior", "adapted"] {
            ensure!(
                candidates.iter().any(|served| **served == candidate),
                "{candidate} is never served: {candidates:?}"
            );
        }
        for block in &stream {
            let values = block.iter().map(|event| event.label().to_string());
            let time_ms = block.first().map(Event::label_time_ms);
            kafka.produce_at(&labels, 0, values, time_ms)?;
        }
        Ok(Self {
            kafka,
            topic: topic.to_owned(),
            settings,
            stream,
            reported,
            _place: place,
        })
    }

    fn produce(&self, events: &[Event]) -> Result<()> {
        let time_ms = events.first().map(|event| event.time_ms);
        let payload = |event: &Event| gaussians::json_at(&event.id, &event.latent, event.time_ms);
        let payloads = events.iter().map(payload);
        self.kafka.produce_at(&self.topic, 0, payloads, time_ms)
    }

    /// Gives a learner the stream, restarts it within a block, and checks these parts of what `shown` says after each block;
    /// of what the learner itself says if that is `None`. Gives the learner.
    fn follow(
        &self,
        program: &str,
        learner: &Settings,
        shown: Option<&Daemon>,
        parts: &[&str],
    ) -> Result<Daemon> {
        let mut daemon = Daemon::start(program, learner)?;
        for (number, (block, moment)) in self.stream.iter().zip(&self.reported).enumerate() {
            // Shares are followed within a block, and forgotten by a restart.
            let halves = if number == BLOCKS / 2 { 2 } else { 1 };
            for (half, events) in block.chunks(BLOCK / halves).enumerate() {
                if half == 1 {
                    daemon.stop_cleanly()?;
                    daemon = Daemon::start(program, learner)?;
                }
                self.produce(events)?;
            }
            let shown = shown.unwrap_or(&daemon);
            check(shown, (number + 1) * BLOCK, moment, parts)?;
        }
        Ok(daemon)
    }
}

/// One process shows block by block what a backtest has reported, also after a restart within a block. The topics `TOPIC`
/// and `TOPIC-labels` have one partition.
pub fn a_backtest_gives_block_by_block_what_the_daemon_gives(
    kafka: &Client,
    program: &str,
    topic: &str,
    seed: u64,
) -> Result<()> {
    let compared = Compared::new(kafka, program, topic, seed)?;
    let daemon = compared.follow(program, &compared.settings, None, &FIGURES)?;
    let sent = |outcome: &str| {
        daemon.metric(&format!(
            "ostar_sent_classes_total{{outcome=\"{outcome}\"}}"
        ))
    };
    // Counted behind the state.
    until("the last block's classes compared", TIMEOUT, || {
        let counted = sent("same")?.unwrap_or(0.0) + sent("different")?.unwrap_or(0.0);
        let expected = ((BLOCKS - BLOCKS / 2) * BLOCK) as f64;
        ensure!(counted <= expected, "{counted} classes compared");
        Ok((counted == expected).then_some(()))
    })?;
    daemon.stop_cleanly()
}

/// A scorer shows block by block what a backtest has reported: the shares and the candidate that it serves. Its learner is
/// restarted within a block. The topics `TOPIC`, `TOPIC-labels`, `TOPIC-parked`, `TOPIC-samples` and `TOPIC-state` have one
/// partition.
pub fn a_backtest_gives_block_by_block_what_a_scorer_serves(
    kafka: &Client,
    program: &str,
    topic: &str,
    seed: u64,
) -> Result<()> {
    let compared = Compared::new(kafka, program, topic, seed)?;
    let shared = compared.settings.clone().without("checkpoints.folder");
    let shared = shared
        .with("checkpoints.topic", &format!("{topic}-state"))
        .with("samples.topic", &format!("{topic}-samples"))
        // All of them.
        .with("samples.per_second", "100000000");
    let scorer = shared
        .clone()
        .with("role", "scorer")
        .with("parked.topic", &format!("{topic}-parked"));
    let scorer = Daemon::start(program, &scorer)?;
    scorer.logged("the group has assigned partitions")?;
    let learner = shared
        .with("role", "learner")
        .with("checkpoints.store", "kafka");
    let learner = compared.follow(program, &learner, Some(&scorer), &SERVED)?;
    learner.stop_cleanly()?;
    scorer.stop_cleanly()
}
