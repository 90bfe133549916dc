//! A standby on the same checkpoint folder, and partitions that are added while the daemon runs.

use anyhow::{Result, ensure};
use ostar_harness::{Place, daemon::newest_checkpoint, gaussians, promises};
use ostar_tests::kafka::Kafka;

use crate::{PROGRAM, Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "a_standby_serves_the_newest_checkpoint_and_takes_over_after_a_stop_and_after_a_kill",
        takes_over,
    ),
    (
        "partitions_added_while_it_runs_are_read_from_their_beginning",
        added_partitions,
    ),
];

fn takes_over(kafka: &Kafka) -> Result<()> {
    kafka.create_topic("standby", 1, &[])?;
    promises::a_standby_takes_over_after_a_stop_and_after_a_kill(kafka, PROGRAM)
}

fn added_partitions(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("growing", 1, &[])?;
    let (rows, _) = gaussians::draw(1_500, 0.5, 0.0, 3);
    let events: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    let settings = place
        .settings(kafka, "growing", "state")
        .with("kafka.metadata_refresh", "300ms");
    let daemon = start(&settings)?;
    kafka.produce("growing", 0, &events[..500])?;
    daemon.metric_reaches("ostar_learned_events_total", 500.0)?;

    kafka.add_partitions("growing", 3)?;
    kafka.produce("growing", 1, &events[500..1_000])?;
    kafka.produce("growing", 2, &events[1_000..])?;
    daemon.metric_reaches("ostar_learned_events_total", 1_500.0)?;
    daemon.stop_cleanly()?;
    let (_, manifest, _) = newest_checkpoint(&place.checkpoints("state"))?;
    let offsets = &manifest["position"]["learned"];
    ensure!(
        *offsets == serde_json::json!({"0": 500, "1": 500, "2": 500}),
        "{offsets}"
    );
    Ok(())
}
