//! Late labels: the measured accuracy, log loss and proportions are those of a recount.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use ostar_engine::Generator;
use ostar_harness::Place;
use ostar_tests::{daemon::Daemon, gaussians, kafka::Kafka};
use serde_json::{Value, json};

use crate::{PROGRAM, Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "labels_early_late_shuffled_and_repeated_measure_what_a_recount_gives",
        recount,
    ),
    (
        "a_backtest_of_the_demos_stream_gives_the_figures_of_the_daemon",
        backtest,
    ),
];

const EVENTS: usize = 1_000;
/// Events of a block.
const BLOCK: usize = 250;
/// Of the newest events, those whose predictions still wait when the late labels take effect.
const KEPT: usize = 300;
/// Size of the label cache: these events, and those of the block that the labels take effect with.
const CACHE: usize = KEPT + BLOCK;
/// Events whose labels come before them.
const EARLY: usize = 100;
/// Labels that come a second time, with the other class.
const REPEATED: usize = 50;

fn recount(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    for topic in ["measured", "measured-labels", "measured-predictions"] {
        kafka.create_topic(topic, 1, &[])?;
    }
    let settings = place
        .settings(kafka, "measured", "state")
        .with("events.format", "json")
        .with("predictions.topic", "measured-predictions")
        // What is sent and what is measured is then the same, whatever the learner does meanwhile.
        .with("serving.mode", "frozen")
        .with("labels.topic", "measured-labels")
        .with("labels.settle", "0s")
        // However slow the machine is, a block waits for its labels.
        .with("labels.patience", "3m")
        .with("labels.cache", &CACHE.to_string());
    let daemon = start(&settings)?;
    // Labels are read from the end of their topic, as it is when the daemon starts.
    daemon.logged("learning from the stream")?;
    let (rows, classes) = gaussians::draw(EVENTS, 0.5, 0.8, 23);
    let truth = |number: usize| label(number, classes[number]);
    let wrong = |number: usize| label(number, 1 - classes[number]);

    // The last early label is sent twice.
    let early = (0..EARLY).rev().map(truth).chain([wrong(0)]);
    kafka.produce("measured-labels", 0, early)?;
    let events = rows.iter().enumerate();
    let events = events.map(|(number, row)| gaussians::json(&format!("event-{number}"), row));
    kafka.produce("measured", 0, events)?;
    daemon.metric_is(
        "ostar_output_records_total{outcome=\"delivered\",output=\"predictions\"}",
        EVENTS as f64,
    )?;
    counted(&daemon, "joined", EARLY)?;
    counted(&daemon, "duplicate", 1)?;

    // All other labels in random order: those whose predictions are still cached, and those that come too late.
    let kept = EVENTS - KEPT..EVENTS;
    let mut late: Vec<usize> = (EARLY..EVENTS).collect();
    Generator::new(29).shuffle(&mut late);
    kafka.produce("measured-labels", 0, late.into_iter().map(truth))?;
    let repeated = kept.clone().take(REPEATED).map(wrong);
    kafka.produce("measured-labels", 0, repeated)?;
    kafka.produce("measured-labels", 0, [b"no label".to_vec()])?;
    counted(&daemon, "rejected", 1)?;
    // They take effect with the next block.
    let next = rows.iter().take(BLOCK).enumerate();
    let next = next.map(|(number, row)| gaussians::json(&format!("next-{number}"), row));
    kafka.produce("measured", 0, next)?;
    counted(&daemon, "joined", EARLY + KEPT)?;
    counted(&daemon, "duplicate", 1 + REPEATED)?;
    // Labels without a prediction are cached, too, until newer ones push them out.
    counted(&daemon, "unknown", EVENTS - EARLY - KEPT - CACHE)?;

    let joined: BTreeSet<usize> = (0..EARLY).chain(kept).collect();
    check_measures(&daemon, kafka, &joined, &classes)?;
    daemon.stop_cleanly()
}

/// Counts the written predictions of the joined events again, and compares with the metrics.
fn check_measures(
    daemon: &Daemon,
    kafka: &Kafka,
    joined: &BTreeSet<usize>,
    classes: &[u32],
) -> Result<()> {
    let predictions = predictions(kafka)?;
    let mut correct = 0;
    let mut spam = 0;
    let mut log_loss = 0.0;
    for number in joined {
        let prediction = &predictions[&format!("event-{number}")];
        let class = classes[*number];
        correct += usize::from(prediction["class"] == class);
        spam += class;
        let probability = prediction["probabilities"][class as usize].as_f64();
        // Probabilities are written with the digits of an f32, and the log loss has a floor at its epsilon.
        let probability = probability.context("a probability")? as f32;
        log_loss -= f64::from(probability.max(f32::EPSILON)).ln();
    }
    let count = joined.len() as f64;
    ensure!(
        correct > 0 && correct < joined.len(),
        "{correct} are right: nothing to tell apart"
    );
    for (series, expected) in [
        (
            "ostar_measured_accuracy{candidate=\"frozen\"}",
            correct as f64 / count,
        ),
        (
            "ostar_measured_log_loss{candidate=\"frozen\"}",
            log_loss / count,
        ),
        (
            "ostar_true_proportion{class=\"spam\"}",
            f64::from(spam) / count,
        ),
    ] {
        close(daemon, series, expected)?;
    }
    Ok(())
}

fn label(number: usize, class: u32) -> Vec<u8> {
    let label = gaussians::CLASSES[class as usize];
    let label = json!({"id": format!("event-{number}"), "label": label});
    label.to_string().into_bytes()
}

fn predictions(kafka: &Kafka) -> Result<BTreeMap<String, Value>> {
    let mut predictions = BTreeMap::new();
    for value in kafka.values("measured-predictions")? {
        let prediction: Value = serde_json::from_slice(&value)?;
        let id = prediction["id"].as_str().context("an id")?.to_owned();
        predictions.insert(id, prediction);
    }
    Ok(predictions)
}

/// Waits until `count` labels had this outcome.
fn counted(daemon: &Daemon, outcome: &str, count: usize) -> Result<()> {
    let series = format!("ostar_labels_total{{outcome=\"{outcome}\"}}");
    daemon.metric_is(&series, count as f64)
}

/// Checks a metric, up to the rounding of sums.
fn close(daemon: &Daemon, series: &str, expected: f64) -> Result<()> {
    let found = daemon.metric(series)?;
    ensure!(
        found.is_some_and(|found| (found - expected).abs() < 1e-9),
        "{series} is {found:?}, expected {expected}"
    );
    Ok(())
}

fn backtest(kafka: &Kafka) -> Result<()> {
    const SECONDS: usize = 8;
    /// The demo's rate is 500 mails a second.
    const MAILS: usize = 500 * SECONDS;
    let place = Place::new()?;
    let demo = place.path().join("demo");
    let report = place.path().join("report");
    let (bundle, stream) = (demo.join("bundle"), demo.join("stream.jsonl"));
    ostard(|command| {
        command.args(["demo", "--seed", "3", "--seconds"]);
        command.arg(SECONDS.to_string()).arg("--export").arg(&demo)
    })?;
    let mails = fs::read_to_string(&stream)?.lines().count();
    ensure!(mails == MAILS, "{mails} mails");

    kafka.create_topic("replayed", 1, &[])?;
    let settings = place
        .settings(kafka, "replayed", "state")
        .with("bundle.path", &bundle.display().to_string())
        .with("events.format", "json");
    let learner = settings.flags("learner.");
    ostard(|command| {
        command.args(["backtest", "--data"]).arg(&stream);
        command.arg("--bundle").arg(&bundle).args(&learner);
        command.arg("--out").arg(&report)
    })?;
    let report: Value = serde_json::from_slice(&fs::read(report.join("report.json"))?)?;

    let daemon = start(&settings)?;
    daemon.logged("learning from the stream")?;
    ostard(|command| {
        command.args(["replay", "--data"]).arg(&stream);
        command.arg("--bundle").arg(&bundle);
        command.args(["--brokers", &kafka.bootstrap(), "--topic", "replayed"])
    })?;
    daemon.metric_reaches("ostar_learned_events_total", MAILS as f64)?;
    // Labels are compared in `tests/harness/src/promises/backtest.rs`: those of mails without times come at another time.
    for name in [
        "accuracy_frozen",
        "accuracy_prior",
        "accuracy_adapted",
        "accuracy_served",
    ] {
        let accuracy = report[name]
            .as_f64()
            .with_context(|| format!("no {name}"))?;
        ensure!((0.5..=1.0).contains(&accuracy), "{name} is {accuracy}");
    }
    ensure!(report["events"] == MAILS, "{} events", report["events"]);
    let moments = report["moments"].as_array().context("no moments")?;
    let last = moments.last().context("no moments")?;
    for candidate in ["frozen", "adapted"] {
        for (number, class) in gaussians::CLASSES.iter().enumerate() {
            let series =
                format!("ostar_label_proportion{{candidate=\"{candidate}\",class=\"{class}\"}}");
            let share = last["classes"][number][candidate].as_f64();
            close(&daemon, &series, share.context("a proportion")?)?;
        }
    }
    daemon.stop_cleanly()
}

/// Runs another command of the program, which must succeed.
fn ostard(arguments: impl FnOnce(&mut Command) -> &mut Command) -> Result<()> {
    let mut command = Command::new(PROGRAM);
    let output = arguments(&mut command).output().context("ostard")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {errors}");
    Ok(())
}
