//! Topics that are deleted and made anew: every event of both is learned from and predicted once.

use anyhow::{Result, ensure};
use ostar_tests::{
    daemon::{checkpoint_reaches, newest_checkpoint},
    gaussians,
    kafka::Kafka,
};

use ostar_harness::Place;

use crate::{Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "a_topic_recreated_while_it_is_read_is_learned_and_predicted_from_its_beginning",
        while_running,
    ),
    (
        "a_topic_recreated_while_the_daemon_is_stopped_is_told_from_the_old_one",
        while_stopped,
    ),
];

const LEARNED: &str = "ostar_learned_events_total";
const DELIVERED: &str = "ostar_output_records_total{outcome=\"delivered\",output=\"predictions\"}";
const REWINDS: &str = "ostar_topic_rewinds_total{cause=\"recreated\"}";

fn events(count: usize) -> Vec<Vec<u8>> {
    let (rows, _) = gaussians::draw(count, 0.6, 0.3, 7);
    rows.iter().map(|row| gaussians::raw(row)).collect()
}

fn while_running(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("anew", 1, &[])?;
    kafka.create_topic("anew-predictions", 1, &[])?;
    let events = events(2_000);
    kafka.produce("anew", 0, &events[..1_000])?;
    let settings = place
        .settings(kafka, "anew", "state")
        .with("predictions.topic", "anew-predictions")
        .with("kafka.metadata_refresh", "500ms");
    let daemon = start(&settings)?;
    daemon.metric_is(DELIVERED, 1_000.0)?;
    daemon.metric_is(LEARNED, 1_000.0)?;
    kafka.delete_topic("anew")?;
    kafka.create_topic("anew", 1, &[])?;
    kafka.produce("anew", 0, &events[1_000..1_500])?;
    daemon.metric_is(LEARNED, 1_500.0)?;
    daemon.metric_is(DELIVERED, 1_500.0)?;
    daemon.metric_is(REWINDS, 1.0)?;
    let warning = daemon.logged("skipped offsets that the broker no longer has")?;
    ensure!(warning["cause"] == "recreated", "{warning}");
    // The checkpoint is the new topic's.
    daemon.kill()?;
    kafka.produce("anew", 0, &events[1_500..])?;
    let daemon = start(&settings)?;
    checkpoint_reaches(&place.checkpoints("state"), 2_000)?;
    daemon.metric_is(REWINDS, 0.0)?;
    daemon.stop_cleanly()?;
    let (_, manifest, _) = newest_checkpoint(&place.checkpoints("state"))?;
    ensure!(
        manifest["position"]["learned"]["0"] == 1_000,
        "{manifest:#}"
    );
    let predicted = kafka.values("anew-predictions")?.len();
    ensure!(predicted == 2_000, "{predicted} predictions");
    Ok(())
}

/// The new topic has more events than the old one had, so that offsets alone tell nothing.
fn while_stopped(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("replaced", 1, &[])?;
    kafka.create_topic("replaced-predictions", 1, &[])?;
    let events = events(2_000);
    kafka.produce("replaced", 0, &events[..500])?;
    let settings = place
        .settings(kafka, "replaced", "state")
        .with("predictions.topic", "replaced-predictions");
    let daemon = start(&settings)?;
    daemon.metric_is(DELIVERED, 500.0)?;
    daemon.metric_is(LEARNED, 500.0)?;
    daemon.stop_cleanly()?;
    kafka.delete_topic("replaced")?;
    kafka.create_topic("replaced", 1, &[])?;
    kafka.produce("replaced", 0, &events[500..])?;
    let daemon = start(&settings)?;
    daemon.metric_is(LEARNED, 1_500.0)?;
    daemon.metric_is(DELIVERED, 1_500.0)?;
    daemon.metric_is(REWINDS, 1.0)?;
    daemon.stop_cleanly()?;
    let (_, manifest, _) = newest_checkpoint(&place.checkpoints("state"))?;
    ensure!(manifest["position"]["events"] == 2_000, "{manifest:#}");
    ensure!(
        manifest["position"]["learned"]["0"] == 1_500,
        "{manifest:#}"
    );
    let (offset, _) = kafka.committed("replaced-state", "replaced", 0)?;
    ensure!(offset == rdkafka::Offset::Offset(1_500), "{offset:?}");
    Ok(())
}
