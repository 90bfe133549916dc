//! CPU of each role.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ostar_connectors::kafka::{
    KafkaSettings,
    state::{Publication, StateWriter},
};
use ostar_tests::{daemon::Daemon, gaussians::raw, large, state};

use super::{Bench, EVENTS, STATE};

/// Events that are scored for the cost of one.
const SCORED: usize = 1_000_000;
const ROUNDS: usize = 3;
/// Share of the events that is passed on at some 300,000 a second, which two cores score.
const SHARE: f64 = 1.0 / 64.0;
/// Events a second while the learner is measured: both are beyond samples.per_second, by powers of two.
const RATES: [usize; 2] = [20_000, 40_000];
/// Until the share of samples has settled, and how long is measured after it.
const SETTLING: Duration = Duration::from_secs(15);
const MEASURED: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(300);

pub(super) fn measure(bench: &Bench<'_>) -> Result<()> {
    let (rows, _) = large::draw(10_000, 0.2, 2);
    let events: Vec<_> = rows.iter().map(|row| raw(row)).collect();
    bench
        .kafka
        .produce(EVENTS, 0, events.iter().cycle().take(SCORED))?;
    announce_share(bench)?;
    let (mut all, mut scorer) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        all.push(cost(bench, "all", round)?);
        scorer.push(cost(bench, "scorer", round)?);
    }
    println!("CPU of an event with its prediction, microseconds by round");
    println!("  all, learner off  {all:>6.2?}");
    println!(
        "  scorer            {scorer:>6.2?}, {:.2} x",
        median(&scorer) / median(&all)
    );
    let cpu: Result<Vec<f64>> = RATES
        .iter()
        .map(|rate| learner(bench, *rate, &events))
        .collect();
    let cpu = cpu?;
    println!(
        "CPU of the learner, cores: {:.3} at {} events a second, {:.3} at {}, {:.2} x",
        cpu[0],
        RATES[0],
        cpu[1],
        RATES[1],
        cpu[1] / cpu[0]
    );
    Ok(())
}

/// As a learner would at a high rate: scorers pass all events on before they are told a share.
fn announce_share(bench: &Bench<'_>) -> Result<()> {
    let settings = KafkaSettings {
        brokers: bench.kafka.bootstrap(),
        topic: STATE.to_owned(),
        ..KafkaSettings::default()
    };
    let (mut writer, _) = StateWriter::open(&settings, STATE, PATIENCE)?;
    let publication = Publication {
        sample_share: Some(SHARE),
        ..Publication::default()
    };
    Ok(writer.publish(publication)?)
}

/// Microseconds of CPU for each of the events, from the start of the process.
fn cost(bench: &Bench<'_>, role: &str, round: usize) -> Result<f64> {
    let mut settings = bench
        .role(role)
        .with("kafka.group", &format!("{role}-{round}"))
        .with("learner.steps_per_block", "0");
    if role == "all" {
        // In the last round's topic everything is learned already.
        let topic = format!("state-of-all-{round}");
        bench.kafka.create_topic(&topic, 1, &state::TOPIC)?;
        settings = settings.with("checkpoints.topic", &topic);
    }
    let daemon = Daemon::start(&bench.program, &settings)?;
    let began = Instant::now();
    let delivered = "ostar_output_records_total{outcome=\"delivered\",output=\"predictions\"}";
    while daemon.metric(delivered)? < Some(SCORED as f64) {
        ensure!(began.elapsed() < PATIENCE, "{role} is too slow");
        std::thread::sleep(Duration::from_millis(500));
    }
    let cpu = daemon.cpu_seconds()?;
    daemon.stop_cleanly()?;
    Ok(1e6 * cpu / SCORED as f64)
}

/// Cores that a learner takes while so many events a second are scored.
fn learner(bench: &Bench<'_>, rate: usize, events: &[Vec<u8>]) -> Result<f64> {
    let group = format!("rate-{rate}");
    let role = |role| {
        bench
            .role(role)
            .with("kafka.group", &group)
            .with("kafka.start", "latest")
    };
    let learner = Daemon::start(&bench.program, &role("learner"))?;
    let scorer = Daemon::start(&bench.program, &role("scorer").without("predictions.topic"))?;
    scorer.logged("the group has assigned partitions")?;
    let began = Instant::now();
    let (mut sent, mut from) = (0, None);
    loop {
        let elapsed = began.elapsed();
        if from.is_none() && elapsed >= SETTLING {
            from = Some((Instant::now(), learner.cpu_seconds()?));
        }
        if let Some((at, cpu)) = from
            && at.elapsed() >= MEASURED
        {
            let cores = (learner.cpu_seconds()? - cpu) / at.elapsed().as_secs_f64();
            let share = scorer.metric("ostar_sample_share")?.context("no share")?;
            println!(
                "  {rate} events a second: share {share}, {sent} events sent, learner {cores:.3} cores"
            );
            scorer.stop_cleanly()?;
            learner.stop_cleanly()?;
            return Ok(cores);
        }
        let due = (rate as f64 * elapsed.as_secs_f64()) as usize;
        if due > sent {
            let more = events.iter().cycle().take(due - sent);
            bench.kafka.produce(EVENTS, 1, more)?;
            sent = due;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
