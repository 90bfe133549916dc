//! The condition of a running daemon.

use anyhow::{Result, ensure};
use ostar_harness::{
    daemon::{Daemon, Settings, TIMEOUT},
    until,
};
use serde_json::json;

use super::data;
use crate::{PROGRAM, broker};

#[test]
fn the_first_200_labels_tell_a_running_daemon_that_its_classes_are_in_the_wrong_order() -> Result<()>
{
    let set = &data::all()[7];
    let folder = tempfile::tempdir()?;
    let mut reversed = set.classes.clone();
    reversed.reverse();
    let rows = set.draw(2);
    for (name, order) in [("right", &set.classes), ("wrong", &reversed)] {
        let (events, labels) = (format!("{name}-events"), format!("{name}-labels"));
        let mock = broker(&[&events, &labels]);
        let bundle = folder.path().join(name);
        set.write_bundle(&bundle, &set.draw(1), order)?;
        let settings = Settings::new(
            mock.address(),
            &events,
            &bundle,
            &folder.path().join(format!("{name}-state")),
        )
        .with("labels.topic", &labels)
        .with("labels.settle", "0s")
        // However slow the machine is, a block waits for its labels.
        .with("labels.patience", "3m")
        .with("learner.when_behind", "wait");
        let id = |number: usize| format!("{name}-{number}");
        let lines = |count: usize, line: &dyn Fn(usize) -> serde_json::Value| {
            (0..count)
                .map(|number| line(number).to_string())
                .collect::<Vec<_>>()
        };
        let event = |n: usize| json!({"id": id(n), "probabilities": rows[n].0});
        let label = |n: usize| json!({"id": id(n), "label": set.classes[rows[n].1]});
        let daemon = Daemon::start(PROGRAM, &settings)?;
        // A block of 500 events takes the labels that were written before it.
        mock.produce(&labels, 0, lines(500, &label))?;
        mock.produce(&events, 0, lines(500, &event))?;
        if name == "right" {
            daemon.logged("labels confirm the order of the classes")?;
            daemon.metric_is("ostar_condition{condition=\"class_order\"}", 0.0)?;
        } else {
            daemon.metric_is("ostar_condition{condition=\"class_order\"}", 1.0)?;
            let status = until("the condition in words", TIMEOUT, || {
                let (_, status) = daemon.get("/state")?;
                Ok(status.contains("class_order").then_some(status))
            })?;
            for wanted in [
                "click, no_click",
                "no_click, click",
                "--classes no_click,click",
            ] {
                ensure!(status.contains(wanted), "no {wanted:?} in {status}");
            }
        }
        daemon.stop_cleanly()?;
    }
    Ok(())
}
