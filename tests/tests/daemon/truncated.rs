//! A broker that has lost the end of its log: what was learned stays, and what comes then is new.

use anyhow::{Result, ensure};
use ostar_tests::{daemon::Daemon, gaussians, kafka::Kafka};

use ostar_harness::Place;

use crate::{Alone, start};

pub(crate) const TESTS: &[(&str, Alone)] = &[
    (
        "a_log_that_lost_its_end_is_read_on_there_and_nothing_is_learned_twice",
        while_running,
    ),
    (
        "a_log_that_lost_its_end_during_a_stop_is_read_on_there",
        while_stopped,
    ),
];

const LEARNED: &str = "ostar_learned_events_total";
const REWOUND: &str = "ostar_topic_rewinds_total{cause=\"truncated\"}";
/// Events before the loss, in batches of 50.
const BEFORE: usize = 1_000;
/// Events after it. Together with what is left there are fewer than before.
const AFTER: usize = 250;

fn fill(kafka: &Kafka, topic: &str, count: usize, seed: u64) -> Result<()> {
    let (rows, _) = gaussians::draw(count, 0.5, 0.0, seed);
    let events: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    for batch in events.chunks(50) {
        kafka.produce(topic, 0, batch)?;
    }
    Ok(())
}

fn check_warning(daemon: &Daemon, end: i64) -> Result<()> {
    let warning = daemon.logged("skipped offsets that the broker no longer has")?;
    let told = warning["cause"] == "truncated"
        && warning["expected"] == BEFORE
        && warning["resumed_at"] == end
        && warning["level"] == "WARN";
    ensure!(told, "{warning}");
    daemon.metric_is(REWOUND, 1.0)
}

/// Every offset has one prediction, and those that the broker gave out again have two.
fn check_predictions(kafka: &Kafka, topic: &str, end: i64) -> Result<()> {
    let offsets = kafka.header_values(topic, "ostar-offset")?;
    let expected = (0..BEFORE as i64).chain(end..end + AFTER as i64);
    let expected: Vec<_> = expected.map(|offset| offset.to_string()).collect();
    ensure!(offsets == expected, "{offsets:?}");
    Ok(())
}

fn while_running(kafka: &mut Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("cut", 1, &[])?;
    kafka.create_topic("cut-predictions", 1, &[])?;
    fill(kafka, "cut", BEFORE, 3)?;
    let settings = place
        .settings(kafka, "cut", "state")
        .with("kafka.metadata_refresh", "1s")
        .with("predictions.topic", "cut-predictions");
    let daemon = start(&settings)?;
    daemon.metric_is(LEARNED, BEFORE as f64)?;
    let end = kafka.lose_end("cut", 600)?;
    ensure!((500..=600).contains(&end), "the log ends at {end}");
    check_warning(&daemon, end)?;
    fill(kafka, "cut", AFTER, 4)?;
    daemon.metric_is(LEARNED, (BEFORE + AFTER) as f64)?;
    daemon.stop_cleanly()?;
    check_predictions(kafka, "cut-predictions", end)
}

fn while_stopped(kafka: &mut Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("cut-stopped", 1, &[])?;
    kafka.create_topic("cut-stopped-predictions", 1, &[])?;
    fill(kafka, "cut-stopped", BEFORE, 3)?;
    let settings = place
        .settings(kafka, "cut-stopped", "state")
        .with("predictions.topic", "cut-stopped-predictions");
    let daemon = start(&settings)?;
    daemon.metric_is(LEARNED, BEFORE as f64)?;
    daemon.stop_cleanly()?;
    let end = kafka.lose_end("cut-stopped", 600)?;
    let daemon = start(&settings)?;
    check_warning(&daemon, end)?;
    fill(kafka, "cut-stopped", AFTER, 4)?;
    // This life has learned only the new ones.
    daemon.metric_is(LEARNED, AFTER as f64)?;
    daemon.stop_cleanly()?;
    check_predictions(kafka, "cut-stopped-predictions", end)
}
