//! Brokers that are unreachable, events that retention removed, outputs that cannot be delivered.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use ostar_tests::{
    daemon::{Daemon, TIMEOUT, newest_checkpoint, same_state},
    gaussians,
    kafka::Kafka,
    until,
};

use ostar_harness::Place;

use crate::{Alone, Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[(
    "events_that_retention_took_are_counted_and_warned_of",
    overtaken_by_retention,
)];

pub(crate) const ALONE: &[(&str, Alone)] = &[
    (
        "a_broker_that_is_away_leaves_the_daemon_ready_and_is_a_condition_after_its_patience",
        broker_away,
    ),
    (
        "a_daemon_that_waits_for_a_broker_tells_so_and_stops_in_time",
        waiting_for_a_broker,
    ),
    (
        "outputs_that_cannot_be_delivered_do_not_hold_the_end_beyond_the_deadline",
        undeliverable_outputs,
    ),
];

const EVENTS: usize = 2_000;
const AWAY: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(5);

/// Answers of `/livez` and `/readyz` at one moment.
struct Observation {
    asked: Instant,
    live: bool,
    ready: bool,
    reason: String,
}

fn broker_away(kafka: &mut Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("outage", 1, &[])?;
    kafka.create_topic("outage-predictions", 1, &[])?;
    let (rows, _) = gaussians::draw(EVENTS, 0.6, 0.3, 17);
    let events: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    let settings = place
        .settings(kafka, "outage", "disturbed")
        .with("kafka.patience", &format!("{}s", PATIENCE.as_secs()))
        .with("predictions.topic", "outage-predictions");
    let daemon = start(&settings)?;
    kafka.produce("outage", 0, &events[..EVENTS / 2])?;
    daemon.metric_reaches("ostar_learned_events_total", EVENTS as f64 / 2.0)?;
    daemon.is_ready()?;

    let over = AtomicBool::new(false);
    let (stopped, restarted, observations) = thread::scope(|scope| {
        let observer = scope.spawn(|| observe(&daemon, &over));
        let away = be_away(kafka);
        // Errors are returned only after the observer was told to end: the scope waits for it.
        let ready = daemon.is_ready();
        over.store(true, Ordering::Relaxed);
        let observations = observer.join().expect("the observer does not panic")?;
        let (stopped, restarted) = away?;
        ready?;
        anyhow::Ok((stopped, restarted, observations))
    })?;
    for observation in &observations {
        let reason = &observation.reason;
        ensure!(observation.live, "not live: {reason}");
        // Predictions are served all the time.
        ensure!(observation.ready, "unready: {reason}");
        let told = reason.contains("kafka: no broker");
        let early = observation.asked < stopped + PATIENCE;
        ensure!(!told || !early, "told too early: {reason}");
    }
    let told = observations.iter().any(|observation| {
        observation.asked < restarted && observation.reason.contains("kafka: no broker")
    });
    ensure!(told, "no condition during the outage");

    kafka.produce("outage", 0, &events[EVENTS / 2..])?;
    daemon.metric_reaches("ostar_learned_events_total", EVENTS as f64)?;
    daemon.stop_cleanly()?;
    let whole = start(&place.settings(kafka, "outage", "whole"))?;
    whole.metric_reaches("ostar_learned_events_total", EVENTS as f64)?;
    whole.stop_cleanly()?;
    same_state(&place.checkpoints("disturbed"), &place.checkpoints("whole"))?;
    let mut offsets = kafka.header_values("outage-predictions", "ostar-offset")?;
    offsets.sort();
    offsets.dedup();
    ensure!(offsets.len() == EVENTS, "{} predicted", offsets.len());
    Ok(())
}

/// Stops the broker for a while; returns the moments before it stopped and before it was started again.
fn be_away(kafka: &mut Kafka) -> Result<(Instant, Instant)> {
    let stopped = Instant::now();
    let outcome = kafka.stop();
    // This is the outage itself, not a wait for something to happen.
    thread::sleep(AWAY.saturating_sub(stopped.elapsed()));
    let restarted = Instant::now();
    kafka.restart()?;
    outcome?;
    Ok((stopped, restarted))
}

fn observe(daemon: &Daemon, over: &AtomicBool) -> Result<Vec<Observation>> {
    let mut observations = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let (ready, reason) = daemon.get("/readyz")?;
        observations.push(Observation {
            asked,
            live: daemon.get("/livez")?.0 == 200,
            ready: ready == 200,
            reason,
        });
        thread::sleep(Duration::from_millis(100));
    }
    Ok(observations)
}

fn overtaken_by_retention(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("retention", 1, &[])?;
    let (rows, _) = gaussians::draw(2_000, 0.5, 0.0, 3);
    let events: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    let settings = place.settings(kafka, "retention", "state");
    let daemon = start(&settings)?;
    kafka.produce("retention", 0, &events[..500])?;
    daemon.metric_reaches("ostar_learned_events_total", 500.0)?;
    ensure!(daemon.metric("ostar_offsets_lost_total")? == Some(0.0));
    daemon.stop_cleanly()?;

    kafka.produce("retention", 0, &events[500..])?;
    kafka.delete_records("retention", 0, 1_200)?;
    let daemon = start(&settings)?;
    let warning = daemon.logged("skipped offsets that the broker no longer has")?;
    ensure!(
        warning["level"] == "WARN" && warning["expected"] == 500 && warning["lost"] == 700,
        "{warning}"
    );
    // The 800 events that are left fill three blocks of 250.
    daemon.metric_reaches("ostar_learned_events_total", 750.0)?;
    daemon.metric_is("ostar_offsets_lost_total", 700.0)?;
    daemon.stop_cleanly()
}

fn waiting_for_a_broker(kafka: &mut Kafka) -> Result<()> {
    const DEADLINE: Duration = Duration::from_secs(4);
    let place = Place::new()?;
    let settings = place
        .settings(kafka, "nowhere", "state")
        // Nothing listens there.
        .with("kafka.brokers", "127.0.0.1:1")
        .with("kafka.patience", "1s")
        .with("shutdown.deadline", &format!("{}s", DEADLINE.as_secs()));
    let daemon = start(&settings)?;
    daemon.logged("cannot reach the topic yet, trying again")?;
    until("the condition", TIMEOUT, || {
        let (status, reason) = daemon.get("/readyz")?;
        ensure!(status == 200, "{status}: {reason}");
        Ok(reason.contains("127.0.0.1:1").then_some(()))
    })?;
    ensure!(daemon.get("/livez")?.0 == 200);
    let terminated = Instant::now();
    daemon.stop_cleanly()?;
    let took = terminated.elapsed();
    ensure!(took < DEADLINE, "stopping took {took:?}");
    Ok(())
}

fn undeliverable_outputs(kafka: &mut Kafka) -> Result<()> {
    const DEADLINE: Duration = Duration::from_secs(6);
    let place = Place::new()?;
    kafka.create_topic("undeliverable", 1, &[])?;
    let (rows, _) = gaussians::draw(250, 0.5, 0.0, 3);
    kafka.produce(
        "undeliverable",
        0,
        rows.iter().map(|row| gaussians::raw(row)),
    )?;
    let settings = place
        .settings(kafka, "undeliverable", "state")
        // This topic does not exist, and the broker does not create topics.
        .with("predictions.topic", "undeliverable-predictions")
        .with("kafka.patience", "60s")
        .with("shutdown.deadline", &format!("{}s", DEADLINE.as_secs()));
    let mut daemon = start(&settings)?;
    daemon.metric_reaches("ostar_learned_events_total", 250.0)?;
    daemon.logged("cannot deliver outputs, reading waits")?;
    let (status, reason) = daemon.get("/readyz")?;
    ensure!(status == 200, "unready: {reason}");

    let terminated = Instant::now();
    daemon.terminate()?;
    let status = daemon.wait()?;
    let took = terminated.elapsed();
    ensure!(took < DEADLINE, "stopping took {took:?}");
    // No exit for an output's sake: the next start sends them.
    ensure!(status.success(), "{status}");
    // The checkpoint is written nevertheless.
    let (_, manifest, _) = newest_checkpoint(&place.checkpoints("state"))?;
    ensure!(manifest["position"]["events"] == 250, "{manifest:#}");
    Ok(())
}
