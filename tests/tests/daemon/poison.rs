//! Bad events are counted and dead-lettered, and do not change the learned state.

use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, ensure};
use ostar_tests::{daemon::newest_checkpoint, gaussians, kafka::Kafka};

use ostar_harness::Place;

use crate::{PROGRAM, Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "one_percent_poison_is_counted_exactly_and_leaves_no_trace_in_the_state",
        one_percent,
    ),
    (
        "nothing_but_poison_stops_reading_until_a_person_says_read_on",
        nothing_but_poison,
    ),
    (
        "a_restart_after_a_stop_for_bad_events_passes_them_as_the_runbook_says",
        restart_passes,
    ),
    (
        "pause_and_reading_on_are_two_orders_and_pause_and_mode_survive_a_kill",
        two_orders,
    ),
];

const EVENTS: usize = 5_000;
/// One bad event before every so many good ones.
const EVERY: usize = 100;

/// Bad events, each with the reason it is rejected for.
fn poisons() -> Vec<(&'static str, Vec<u8>)> {
    let not_a_number = format!("{{\"latent\": [{}NaN]}}", "0,".repeat(gaussians::WIDTH - 1));
    let too_big = format!("{{\"latent\": [{}0]}}", "0.5, ".repeat(2_000_000));
    let infinite = format!(
        "{{\"latent\": [{}1e300]}}",
        "0,".repeat(gaussians::WIDTH - 1)
    );
    vec![
        ("malformed", b"{\"latent\": [0, 1".to_vec()),
        ("wrong_width", b"{\"latent\": [1, 2, 3]}".to_vec()),
        // NaN is not valid JSON.
        ("malformed", not_a_number.into_bytes()),
        ("not_finite", infinite.into_bytes()),
        ("too_large", too_big.into_bytes()),
        ("empty", Vec::new()),
    ]
}

/// The events with bad ones among them, and how many of those are rejected for each reason.
fn with_poison(events: &[Vec<u8>]) -> (Vec<Vec<u8>>, BTreeMap<&'static str, f64>) {
    let poisons = poisons();
    let mut expected = BTreeMap::new();
    let mut poisoned = Vec::new();
    for (number, event) in events.iter().enumerate() {
        if number % EVERY == 0 {
            let (reason, poison) = &poisons[number / EVERY % poisons.len()];
            *expected.entry(*reason).or_insert(0.0) += 1.0;
            poisoned.push(poison.clone());
        }
        poisoned.push(event.clone());
    }
    (poisoned, expected)
}

fn one_percent(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    let large = [("max.message.bytes", "20000000")];
    kafka.create_topic("clean", 1, &[])?;
    kafka.create_topic("poisoned", 1, &large)?;
    kafka.create_topic("poisoned-letters", 1, &[])?;
    let (rows, _) = gaussians::draw(EVENTS, 0.4, 0.1, 5);
    let events: Vec<_> = rows.iter().map(|row| gaussians::json("", row)).collect();
    // The same times: they are part of what is learned.
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let time_ms = Some(now.as_millis() as i64);
    kafka.produce_at("clean", 0, &events, time_ms)?;
    let (poisoned, expected) = with_poison(&events);
    kafka.produce_at("poisoned", 0, &poisoned, time_ms)?;

    let clean = place
        .settings(kafka, "clean", "clean")
        .with("events.format", "json");
    let daemon = start(&clean)?;
    daemon.metric_reaches("ostar_learned_events_total", EVENTS as f64)?;
    daemon.stop_cleanly()?;
    let settings = place
        .settings(kafka, "poisoned", "poisoned")
        .with("events.format", "json")
        .with("dead_letters.topic", "poisoned-letters")
        .with("dead_letters.max_bytes", "1000");
    let daemon = start(&settings)?;
    daemon.metric_reaches("ostar_learned_events_total", EVENTS as f64)?;
    for (reason, count) in &expected {
        let series = format!("ostar_events_rejected_total{{reason=\"{reason}\"}}");
        let found = daemon.metric(&series)?;
        ensure!(
            found == Some(*count),
            "{series} is {found:?}, expected {count}"
        );
    }
    daemon.stop_cleanly()?;
    let (_, _, clean) = newest_checkpoint(&place.checkpoints("clean"))?;
    let (_, _, poisoned) = newest_checkpoint(&place.checkpoints("poisoned"))?;
    ensure!(clean == poisoned, "poison left a trace in the state");

    let reasons = kafka.header_values("poisoned-letters", "ostar-reason")?;
    ensure!(reasons.len() == EVENTS / EVERY, "{} letters", reasons.len());
    for (reason, count) in &expected {
        let found = reasons.iter().filter(|found| found == reason).count();
        ensure!(found as f64 == *count, "{found} letters of {reason}");
    }
    let sizes = kafka.header_values("poisoned-letters", "ostar-size")?;
    ensure!(
        sizes.iter().any(|size| size.len() >= 8),
        "no size of 10 MB in {sizes:?}"
    );
    Ok(())
}

fn nothing_but_poison(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("poison", 1, &[])?;
    kafka.produce("poison", 0, vec![b"no event".to_vec(); 50])?;
    let settings = place
        .settings(kafka, "poison", "state")
        .with("events.format", "json")
        .with("dead_letters.max_consecutive", "20")
        .with("grpc.control_listen", "127.0.0.1:0");
    let daemon = start(&settings)?;
    daemon.logged(
        "stopped reading after too many bad events, `ostard ctl read-on` or a restart continues",
    )?;
    let (status, reason) = daemon.get("/readyz")?;
    ensure!(status == 200, "{status}: {reason}");
    ensure!(
        reason.contains("20") && reason.contains("ostard ctl read-on"),
        "{reason}"
    );
    ensure!(daemon.get("/livez")?.0 == 200);
    let rejected = "ostar_events_rejected_total{reason=\"malformed\"}";
    ensure!(daemon.metric(rejected)? == Some(20.0));

    // Reading stops again after twenty more, so that fifty bad events take two orders.
    let address = daemon.address("control_address")?;
    for total in [40.0, 50.0] {
        // Bad events are counted before reading stops, and an order from before the stop does not count.
        daemon.metric_is(STOPPED, 1.0)?;
        let ordered = std::process::Command::new(PROGRAM)
            .args(["ctl", "--address", &address, "read-on"])
            .status()?;
        ensure!(ordered.success(), "ctl read-on ended with {ordered}");
        daemon.metric_reaches(rejected, total)?;
    }
    let (rows, _) = gaussians::draw(250, 0.4, 0.0, 5);
    kafka.produce("poison", 0, rows.iter().map(|row| gaussians::json("", row)))?;
    daemon.metric_reaches("ostar_learned_events_total", 250.0)?;
    daemon.metric_is("ostar_condition{condition=\"events\"}", 0.0)?;
    daemon.stop_cleanly()
}

const STOPPED: &str = "ostar_consumption_stopped";

fn restart_passes(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("passed", 1, &[])?;
    kafka.produce("passed", 0, vec![b"no event".to_vec(); 30])?;
    let (rows, _) = gaussians::draw(250, 0.4, 0.0, 5);
    kafka.produce("passed", 0, rows.iter().map(|row| gaussians::json("", row)))?;
    let settings = place
        .settings(kafka, "passed", "state")
        .with("events.format", "json")
        .with("kafka.metadata_refresh", "300ms")
        .with("dead_letters.max_consecutive", "20");
    let daemon = start(&settings)?;
    daemon.metric_is(STOPPED, 1.0)?;
    // Lag is true while reading is stopped.
    daemon.metric_is("ostar_consumer_lag_records{partition=\"0\"}", 260.0)?;
    kafka.produce("passed", 0, [b"no event"])?;
    daemon.metric_is("ostar_consumer_lag_records{partition=\"0\"}", 261.0)?;
    daemon.stop_cleanly()?;
    let daemon = start(&settings)?;
    daemon.metric_reaches("ostar_learned_events_total", 250.0)?;
    ensure!(daemon.metric(STOPPED)? == Some(0.0));
    daemon.stop_cleanly()
}

fn two_orders(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("orders", 1, &[])?;
    let settings = place
        .settings(kafka, "orders", "state")
        .with("events.format", "json")
        .with("dead_letters.max_consecutive", "20")
        .with("grpc.control_listen", "127.0.0.1:0");
    let daemon = start(&settings)?;
    daemon.logged("learning from the stream")?;
    let order = |daemon: &ostar_tests::daemon::Daemon, order: &[&str]| {
        let address = daemon.address("control_address")?;
        let mut command = std::process::Command::new(PROGRAM);
        let output = command.args(["ctl", "--address", &address]).args(order);
        anyhow::Ok(output.output()?)
    };
    ensure!(order(&daemon, &["pause"])?.status.success());
    ensure!(order(&daemon, &["mode", "frozen"])?.status.success());
    kafka.produce("orders", 0, vec![b"no event".to_vec(); 20])?;
    daemon.metric_is(STOPPED, 1.0)?;
    ensure!(order(&daemon, &["read-on"])?.status.success());
    daemon.metric_is(STOPPED, 0.0)?;
    ensure!(daemon.metric("ostar_paused")? == Some(1.0), "unpaused");
    let again = order(&daemon, &["read-on"])?;
    ensure!(again.status.code() == Some(4), "{again:?}");
    daemon.kill()?;

    let daemon = start(&settings)?;
    daemon.logged("learning from the stream")?;
    ensure!(
        daemon.metric("ostar_paused")? == Some(1.0),
        "forgot the pause"
    );
    let mode = "ostar_serving_mode{mode=\"frozen\"}";
    ensure!(daemon.metric(mode)? == Some(1.0), "forgot the mode");
    ensure!(order(&daemon, &["resume"])?.status.success());
    daemon.metric_is("ostar_paused", 0.0)?;
    daemon.stop_cleanly()?;
    // A changed configuration counts more than an old order.
    let daemon = start(&settings.with("serving.mode", "prior"))?;
    daemon.logged("learning from the stream")?;
    ensure!(daemon.metric("ostar_serving_mode{mode=\"prior\"}")? == Some(1.0));
    daemon.stop_cleanly()
}
