//! The guarantees of docs/ARCHITECTURE.md that do not depend on the broker.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use ostar_harness::{daemon::newest_checkpoint, promises};

use crate::{Daemon, PROGRAM, Place, broker, events};

#[test]
fn kills_leave_the_state_of_an_uninterrupted_run_and_every_prediction() -> Result<()> {
    let mock = broker(&["kills", "kills-predictions"]);
    promises::kills_leave_the_state_of_an_uninterrupted_run_and_every_prediction(&mock, PROGRAM, 5)
}

#[test]
fn a_standby_takes_over_after_a_stop_and_after_a_kill() -> Result<()> {
    let mock = broker(&["standby"]);
    promises::a_standby_takes_over_after_a_stop_and_after_a_kill(&mock, PROGRAM)
}

#[test]
fn every_event_has_a_prediction_or_a_dead_letter_and_the_stop_commits_them_all() -> Result<()> {
    let mock = broker(&["mixed", "mixed-predictions", "mixed-letters"]);
    let place = Place::new()?;
    let mut records = events(600);
    for record in records.iter_mut().step_by(50) {
        // Not a multiple of a number's size.
        record.pop();
    }
    mock.produce("mixed", 0, &records)?;
    let settings = place
        .settings(&mock, "mixed", "state")
        .with("predictions.topic", "mixed-predictions")
        .with("dead_letters.topic", "mixed-letters");
    let daemon = Daemon::start(PROGRAM, &settings)?;
    daemon.metric_reaches("ostar_learned_events_total", 500.0)?;
    daemon.metric_reaches(
        "ostar_output_records_total{outcome=\"delivered\",output=\"predictions\"}",
        588.0,
    )?;
    daemon.metric_reaches(
        "ostar_output_records_total{outcome=\"delivered\",output=\"dead_letters\"}",
        12.0,
    )?;
    daemon.stop_cleanly()?;

    let offsets = |topic| -> Result<BTreeSet<usize>> {
        let values = mock.header_values(topic, "ostar-offset")?;
        Ok(values.iter().map(|o| o.parse()).collect::<Result<_, _>>()?)
    };
    let (predicted, refused) = (offsets("mixed-predictions")?, offsets("mixed-letters")?);
    ensure!(refused == (0..600).step_by(50).collect());
    ensure!(predicted == (0..600).filter(|offset| offset % 50 != 0).collect());
    let (_, manifest, _) = newest_checkpoint(&place.checkpoints("state"))?;
    ensure!(
        manifest["position"]["emitted"] == serde_json::json!({"0": 600}),
        "{manifest:#}"
    );
    Ok(())
}
