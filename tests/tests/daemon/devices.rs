//! The learner on another device than the CPU engine's: checkpoints that cross, the demo, and clear refusals.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use ostar_tests::{daemon::checkpoint_reaches, gaussians, kafka::Kafka};
use serde_json::Value;

use crate::{PROGRAM, Place, Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "a_checkpoint_of_the_cpu_engine_goes_on_on_candle_and_back",
        crosses,
    ),
    (
        "a_gpu_that_the_build_lacks_is_refused_at_the_start",
        refused_gpu,
    ),
    ("the_demo_runs_on_candle", demo),
];

fn crosses(kafka: &mut Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("crossing", 1, &[])?;
    let (rows, _) = gaussians::draw(1_500, 0.6, 0.3, 7);
    let events: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    for (life, device) in ["cpu", "candle", "cpu"].into_iter().enumerate() {
        let settings = place.settings(kafka, "crossing", "state");
        let daemon = start(&settings.with("learner.device", device))?;
        kafka.produce("crossing", 0, &events[500 * life..][..500])?;
        checkpoint_reaches(&place.checkpoints("state"), 500 * (life + 1))?;
        if life > 0 {
            daemon.logged("resumed from checkpoint")?;
        }
        daemon.stop_cleanly()?;
    }
    Ok(())
}

fn refused_gpu(kafka: &mut Kafka) -> Result<()> {
    let place = Place::new()?;
    let settings = place.settings(kafka, "no-topic", "state");
    let flags = settings.with("learner.device", "cuda:0").flags("");
    let refused = Command::new(PROGRAM).arg("run").args(flags).output()?;
    let text = String::from_utf8_lossy(&refused.stderr);
    ensure!(refused.status.code() == Some(2), "{refused:?}");
    for part in ["learner.device", "cuda:0", "cpu, candle", "feature `cuda`"] {
        ensure!(text.contains(part), "{part}: {text}");
    }
    let listed = Command::new(PROGRAM).arg("devices").output()?;
    let listed = String::from_utf8(listed.stdout)?;
    let lines: Vec<Value> = listed
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    let usable: Vec<_> = lines.iter().map(|line| line["usable"] == true).collect();
    ensure!(usable == [true, true, false], "{listed}");
    Ok(())
}

fn demo(_: &mut Kafka) -> Result<()> {
    let mut command = Command::new(PROGRAM);
    let flags = ["demo", "--seconds", "15", "--device", "candle", "--json"];
    let ended = command.args(flags).output()?;
    ensure!(ended.status.success(), "{ended:?}");
    let last = String::from_utf8(ended.stdout)?;
    let summary: Value = serde_json::from_str(last.lines().last().context("no line")?)?;
    ensure!(summary.is_object(), "{summary}");
    Ok(())
}
