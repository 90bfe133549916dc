//! The learner on another device than the CPU engine's: the same course, checkpoints that cross, the demo, and clear
//! refusals.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use ostar_tests::{
    daemon::{Daemon, Settings, checkpoint_reaches, same_state},
    gaussians,
    kafka::Kafka,
};
use serde_json::Value;

use ostar_harness::Place;

use crate::{PROGRAM, Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "twenty_blocks_on_candle_are_those_of_the_cpu_engine_and_kills_change_no_byte",
        same_course,
    ),
    (
        "a_checkpoint_of_the_cpu_engine_goes_on_on_candle_and_back",
        crosses,
    ),
    (
        "a_gpu_that_the_build_lacks_is_refused_at_the_start",
        refused_gpu,
    ),
    ("the_demo_runs_on_candle", demo),
    (
        "shares_of_the_demos_stream_are_the_same_on_candle",
        demo_shares,
    ),
];

const BLOCK: usize = 250;
const BLOCKS: usize = 20;
/// Blocks before the classes move.
const UNMOVED: usize = 6;
/// Largest difference of a share between two devices.
const CLOSE: f64 = 1e-3;

fn same_course(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("course", 1, &[])?;
    kafka.produce("course", 0, moving())?;
    let settings = |device: &str, folder: &str| {
        small(place.settings(kafka, "course", folder))
            .with("learner.device", device)
            .with("learner.method.window", "2000")
            // One checkpoint after each block.
            .with("checkpoints.keep", "100")
    };
    let whole = |device: &str| {
        let daemon = start(&settings(device, device))?;
        checkpoint_reaches(&place.checkpoints(device), BLOCK * BLOCKS)?;
        let decided = decisions(&daemon)?;
        daemon.stop_cleanly()?;
        Ok::<_, anyhow::Error>((decided, shares(&place.checkpoints(device))?))
    };
    let (decided, candle) = whole("candle")?;
    let (decided_on_cpu, cpu) = whole("cpu")?;
    ensure!(
        decided == decided_on_cpu,
        "{decided:#?} {decided_on_cpu:#?}"
    );
    for part in [
        // So small a map helps little, and the guard says so.
        "ostar_guard_agrees 0",
        "ostar_label_shift_refuted 1",
        "ostar_gate_candidate{candidate=\"frozen\"} 1",
    ] {
        ensure!(decided.iter().any(|line| line == part), "{decided:#?}");
    }
    ensure!(cpu.len() == BLOCKS, "{cpu:?}");
    same_shares(&candle, &cpu)?;

    // Killed before the classes move, in the steps that follow, and near the end.
    for blocks in [4, 8, 18] {
        let daemon = start(&settings("candle", "killed"))?;
        checkpoint_reaches(&place.checkpoints("killed"), BLOCK * blocks)?;
        daemon.kill()?;
    }
    let daemon = start(&settings("candle", "killed"))?;
    checkpoint_reaches(&place.checkpoints("killed"), BLOCK * BLOCKS)?;
    daemon.logged("resumed from checkpoint")?;
    daemon.stop_cleanly()?;
    same_state(&place.checkpoints("killed"), &place.checkpoints("candle"))
}

/// Events whose classes move from one block to the next, in a direction that shares do not explain.
fn moving() -> Vec<Vec<u8>> {
    let (mut rows, _) = gaussians::draw(BLOCK * BLOCKS, 0.4, 0.0, 7);
    for row in rows.iter_mut().skip(BLOCK * UNMOVED) {
        row[0] += 1.6;
        row[1] += 1.6;
    }
    rows.iter().map(|row| gaussians::raw(row)).collect()
}

/// Networks and steps that candle is quick with.
fn small(settings: Settings) -> Settings {
    settings
        .with("learner.steps_per_block", "1")
        .with("learner.method.batch", "50")
        .with("learner.method.critic_steps", "2")
        .with("learner.method.map.blocks", "2")
        .with("learner.method.critic.hidden", "[16]")
        .with("learner.method.refresh_every", "5")
}

/// What guard and gate have decided, as metrics.
fn decisions(daemon: &Daemon) -> Result<Vec<String>> {
    let names = [
        "ostar_guard_",
        "ostar_restores_total",
        "ostar_gate_candidate",
        "ostar_gate_reason",
        "ostar_label_shift_refuted",
        "ostar_steps_total",
    ];
    let (_, text) = daemon.get("/metrics")?;
    let decided = text
        .lines()
        .filter(|line| names.iter().any(|name| line.starts_with(name)));
    Ok(decided.map(str::to_owned).collect())
}

/// Shares by the frozen and by the adapted model after each block that a checkpoint was written after.
fn shares(folder: &Path) -> Result<BTreeMap<u64, Vec<f64>>> {
    let mut shares = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let Ok(manifest) = fs::read(entry?.path().join("manifest.json")) else {
            continue;
        };
        let manifest: Value = serde_json::from_slice(&manifest)?;
        let blocks = manifest["blocks"].as_u64().context("blocks")?;
        // A start writes one before its first block.
        if blocks > 0 {
            shares.insert(blocks, shares_of_both(&manifest["shares"])?);
        }
    }
    Ok(shares)
}

fn shares_of_both(estimates: &Value) -> Result<Vec<f64>> {
    let found = ["frozen", "adapted"].map(|model| &estimates[model]["proportions"]);
    let found = found.into_iter().filter_map(Value::as_array).flatten();
    let found: Vec<f64> = found.filter_map(Value::as_f64).collect();
    ensure!(found.len() == 4, "{estimates:#}");
    Ok(found)
}

fn same_shares(one: &BTreeMap<u64, Vec<f64>>, other: &BTreeMap<u64, Vec<f64>>) -> Result<()> {
    ensure!(one.keys().eq(other.keys()), "{one:?} {other:?}");
    for ((block, one), other) in one.iter().zip(other.values()) {
        let apart = one
            .iter()
            .zip(other)
            .map(|(one, other)| (one - other).abs());
        let apart = apart.fold(0.0, f64::max);
        ensure!(apart < CLOSE, "block {block}: {one:?} {other:?}");
    }
    Ok(())
}

fn crosses(kafka: &Kafka) -> Result<()> {
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

fn refused_gpu(kafka: &Kafka) -> Result<()> {
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

fn demo(_: &Kafka) -> Result<()> {
    let mut command = Command::new(PROGRAM);
    let flags = ["demo", "--seconds", "10", "--device", "candle", "--json"];
    let ended = command.args(flags).output()?;
    ensure!(ended.status.success(), "{ended:?}");
    let last = String::from_utf8(ended.stdout)?;
    let summary: Value = serde_json::from_str(last.lines().last().context("no line")?)?;
    // The last act changes mails, so that the learner has steps to take.
    // On a busy machine the demo ends before its last blocks.
    ensure!(summary["events"].as_u64() > Some(2_500), "{summary}");
    ensure!(summary["steps"].as_u64() > Some(0), "{summary}");
    ensure!(summary["acts"][1]["served"] == "prior", "{summary}");
    Ok(())
}

fn demo_shares(_: &Kafka) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let run = |arguments: &[&str]| {
        let ended = Command::new(PROGRAM).args(arguments).output()?;
        ensure!(ended.status.success(), "{ended:?}");
        Ok(())
    };
    run(&["demo", "--seconds", "10", "--export", &path("mails")])?;
    let shares = |device: &str| {
        let (bundle, stream) = (path("mails/bundle"), path("mails/stream.jsonl"));
        let settings = small(Settings::default())
            .with("learner.device", device)
            .with("learner.block", &BLOCK.to_string());
        let flags = settings.flags("");
        let mut arguments = vec!["backtest", "--bundle", &bundle, "--data", &stream];
        let out = path(device);
        arguments.extend(["--out", &out]);
        arguments.extend(flags.iter().map(String::as_str));
        run(&arguments)?;
        let report = fs::read(folder.path().join(device).join("report.json"))?;
        block_shares(&serde_json::from_slice(&report)?)
    };
    let cpu = shares("cpu")?;
    ensure!(cpu.len() == BLOCKS, "{cpu:?}");
    same_shares(&shares("candle")?, &cpu)
}

/// [`shares`] of a backtest's report.
fn block_shares(report: &Value) -> Result<BTreeMap<u64, Vec<f64>>> {
    let moments = report["moments"].as_array().context("moments")?;
    let shares = |state: &Value| -> Result<Vec<f64>> {
        let classes = state["classes"].as_array().context("classes")?;
        let mut shares = Vec::new();
        for model in ["frozen", "adapted"] {
            shares.extend(classes.iter().filter_map(|class| class[model].as_f64()));
        }
        ensure!(shares.len() == 4, "{state:#}");
        Ok(shares)
    };
    let blocks = moments.iter().zip(1..);
    blocks
        .map(|(state, block)| Ok((block, shares(state)?)))
        .collect()
}
