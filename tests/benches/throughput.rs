//! Events per second through the daemon with the learner off, compared with a consumer that discards them.
//!
//! Both read the same topic of a real broker, in turns. OSTARD names the program to measure.
#![expect(
    clippy::print_stdout,
    reason = "a benchmark's outcome is what it prints"
)]

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use ostar_connectors::proto;
use ostar_tests::{
    daemon::{Daemon, Settings},
    gaussians::raw,
    kafka::{Kafka, Listener},
    large,
};
use prost::Message;
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
};

/// A multiple of the learner's block, so that the last event is learned from, too. Enough for several seconds.
const EVENTS: usize = 4_000_000;
/// An upper bound of the events per second, for the pauses between two looks.
const FASTEST: f64 = 2e6;
const ROUNDS: usize = 5;
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> Result<()> {
    let program = std::env::var("OSTARD").context("OSTARD names the ostard to measure")?;
    let folder = tempfile::tempdir()?;
    large::write_bundle(&folder.path().join("bundle"))?;
    let kafka = Kafka::start(Listener::Plaintext)?;
    let (rows, _) = large::draw(10_000, 0.2, 2);
    let protobuf = |row: &Vec<f32>| {
        let input = Some(large::input(row));
        proto::Event {
            input,
            ..proto::Event::default()
        }
        .encode_to_vec()
    };
    measure(
        "raw",
        &program,
        &kafka,
        folder.path(),
        rows.iter().map(|row| raw(row)).collect(),
    )?;
    measure(
        "protobuf",
        &program,
        &kafka,
        folder.path(),
        rows.iter().map(protobuf).collect(),
    )
}

/// Fills a topic, reads it in turns and prints both speeds.
fn measure(
    format: &str,
    program: &str,
    kafka: &Kafka,
    folder: &Path,
    payloads: Vec<Vec<u8>>,
) -> Result<()> {
    kafka.create_topic(format, 1, &[("segment.bytes", "1073741824")])?;
    kafka.produce(format, 0, payloads.iter().cycle().take(EVENTS))?;
    // Warms the broker and the page cache.
    empty_consumer(kafka, format)?;
    let (mut peers, mut ours) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        peers.push(empty_consumer(kafka, format)?);
        let settings = Settings::new(
            &kafka.bootstrap(),
            format,
            &folder.join("bundle"),
            &folder.join(format!("{format}-{round}")),
        );
        let settings = settings
            .with("kafka.group", &format!("{format}-{round}"))
            .with("events.format", format)
            .with("learner.steps_per_block", "0");
        ours.push(daemon(program, &settings)?);
    }
    let ratios: Vec<f64> = ours
        .iter()
        .zip(&peers)
        .map(|(ours, peer)| ours / peer)
        .collect();
    println!("{format}: {EVENTS} events, 1 partition, events a second by round");
    println!(
        "  empty consumer {peers:>9.0?}, median {:.0}",
        median(&peers)
    );
    println!("  ostard         {ours:>9.0?}, median {:.0}", median(&ours));
    println!(
        "  ratio          {ratios:>9.2?}, median {:.2}",
        median(&ratios)
    );
    kafka.delete_topic(format)
}

/// Events per second of a consumer that discards them, from the first event to the last.
fn empty_consumer(kafka: &Kafka, topic: &str) -> Result<f64> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", kafka.bootstrap())
        .set("group.id", "empty")
        .set("enable.auto.commit", "false")
        .create()?;
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Beginning)?;
    consumer.assign(&list)?;
    consumer.poll(PATIENCE).context("no event came")??;
    let start = Instant::now();
    for _ in 1..EVENTS {
        consumer.poll(PATIENCE).context("no event came")??;
    }
    Ok((EVENTS - 1) as f64 / start.elapsed().as_secs_f64())
}

/// Events per second of the daemon, from the first look that finds learned events until all are scored and learned.
fn daemon(program: &str, settings: &Settings) -> Result<f64> {
    let daemon = Daemon::start(program, settings)?;
    let (start, first) = reaches(&daemon, 1)?;
    let (end, last) = reaches(&daemon, EVENTS)?;
    ensure!(last == EVENTS, "{last} events came of {EVENTS}");
    let rejected = "ostar_events_rejected_total";
    let (_, metrics) = daemon.get("/metrics")?;
    ensure!(sum(&metrics, rejected) == 0.0, "{rejected} is not 0");
    daemon.stop_cleanly()?;
    Ok((last - first) as f64 / (end - start).as_secs_f64())
}

/// Waits until `least` events are scored and learned from; returns that moment and their number.
fn reaches(daemon: &Daemon, least: usize) -> Result<(Instant, usize)> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (_, metrics) = daemon.get("/metrics")?;
        let now = Instant::now();
        let learned = sum(&metrics, "ostar_learned_events_total");
        let scored = sum(&metrics, "ostar_predictions_total{");
        let events = learned.min(scored) as usize;
        if events >= least {
            return Ok((now, events));
        }
        ensure!(now < deadline, "only {events} events after {PATIENCE:?}");
        // Every look costs the daemon time: look seldom until the end is near.
        let left = Duration::from_secs_f64((least - events) as f64 / FASTEST);
        std::thread::sleep((left / 2).clamp(Duration::from_millis(10), Duration::from_millis(500)));
    }
}

/// The sum over all series of a metric.
fn sum(metrics: &str, name: &str) -> f64 {
    let series = metrics.lines().filter(|line| line.starts_with(name));
    series
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
