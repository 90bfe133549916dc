//! Events per second through the daemon with the learner off, compared with a consumer that discards them.
//!
//! Raw, Protobuf and Avro events, in that order. Both read the same topic of a real broker, in turns. OSTARD names the
//! program to measure. `-- --predictions` measures raw events whose predictions are written to a topic instead; an event
//! counts when its prediction is delivered.
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
    let writes_predictions = std::env::args().any(|argument| argument == "--predictions");
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
    let bench = Bench {
        program,
        kafka,
        folder: folder.path(),
        writes_predictions,
    };
    bench.measure("raw", rows.iter().map(|row| raw(row)).collect())?;
    if writes_predictions {
        return Ok(());
    }
    bench.measure("protobuf", rows.iter().map(protobuf).collect())?;
    bench.measure("avro", rows.iter().map(|row| avro(row)).collect())
}

/// The schema of the events in Avro.
const SCHEMA: &str = r#"{"type": "record", "name": "Event", "fields": [
    {"name": "latent", "type": {"type": "array", "items": "float"}}]}"#;

/// A latent in one block of an array.
fn avro(row: &[f32]) -> Vec<u8> {
    // A zigzag varint of two bytes.
    let count = row.len() << 1;
    let mut payload = vec![0x80 | (count & 0x7f) as u8, (count >> 7) as u8];
    payload.extend(row.iter().flat_map(|value| value.to_le_bytes()));
    payload.push(0);
    payload
}

struct Bench<'a> {
    program: String,
    kafka: Kafka,
    folder: &'a Path,
    writes_predictions: bool,
}

impl Bench<'_> {
    /// Fills a topic, reads it in turns and prints both speeds.
    fn measure(&self, format: &str, payloads: Vec<Vec<u8>>) -> Result<()> {
        let kafka = &self.kafka;
        kafka.create_topic(format, 1, &[("segment.bytes", "1073741824")])?;
        kafka.produce(format, 0, payloads.iter().cycle().take(EVENTS))?;
        // Warms the broker and the page cache.
        empty_consumer(kafka, format)?;
        let (mut peers, mut ours, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            peers.push(empty_consumer(kafka, format)?);
            let (speed, microseconds) = self.daemon(format, round)?;
            ours.push(speed);
            cpu.push(microseconds);
        }
        let pairs = ours.iter().zip(&peers);
        let ratios: Vec<f64> = pairs.map(|(ours, peer)| ours / peer).collect();
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
        println!(
            "  processor time {cpu:>9.2?}, median {:.2} microseconds an event of ostard",
            median(&cpu)
        );
        kafka.delete_topic(format)
    }

    /// Events per second of the daemon, from the first look that finds learned events until all have gone through it, and
    /// its processor time for an event in microseconds.
    fn daemon(&self, format: &str, round: usize) -> Result<(f64, f64)> {
        let mut settings = Settings::new(
            &self.kafka.bootstrap(),
            format,
            &self.folder.join("bundle"),
            &self.folder.join(format!("{format}-{round}")),
        )
        .with("kafka.group", &format!("{format}-{round}"))
        .with("events.format", format)
        .with("learner.steps_per_block", "0");
        if format == "avro" {
            let file = self.folder.join("event.avsc");
            std::fs::write(&file, SCHEMA)?;
            settings = settings.with("events.schema_file", &file.display().to_string());
        }
        if self.writes_predictions {
            let topic = format!("predictions-{round}");
            self.kafka.create_topic(&topic, 1, &[])?;
            settings = settings.with("predictions.topic", &topic);
        }
        let daemon = Daemon::start(&self.program, &settings)?;
        let (start, first) = self.reaches(&daemon, 1)?;
        let before = daemon.cpu_seconds()?;
        let (end, last) = self.reaches(&daemon, EVENTS)?;
        let cpu = daemon.cpu_seconds()? - before;
        ensure!(last == EVENTS, "{last} events came of {EVENTS}");
        let rejected = "ostar_events_rejected_total";
        let (_, metrics) = daemon.get("/metrics")?;
        ensure!(sum(&metrics, rejected) == 0.0, "{rejected} is not 0");
        daemon.stop_cleanly()?;
        let events = (last - first) as f64;
        Ok((events / (end - start).as_secs_f64(), 1e6 * cpu / events))
    }

    /// Waits until `least` events have gone through the daemon; returns that moment and their number.
    fn reaches(&self, daemon: &Daemon, least: usize) -> Result<(Instant, usize)> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (_, metrics) = daemon.get("/metrics")?;
            let now = Instant::now();
            let learned = sum(&metrics, "ostar_learned_events_total");
            let out = if self.writes_predictions {
                sum(&metrics, "ostar_output_records_total{outcome=\"delivered\"")
            } else {
                sum(&metrics, "ostar_predictions_total{")
            };
            let events = learned.min(out) as usize;
            if events >= least {
                return Ok((now, events));
            }
            ensure!(now < deadline, "only {events} events after {PATIENCE:?}");
            // Every look costs the daemon time: look seldom until the end is near.
            let left = Duration::from_secs_f64((least - events) as f64 / FASTEST);
            let pause = (left / 2).clamp(Duration::from_millis(10), Duration::from_millis(500));
            std::thread::sleep(pause);
        }
    }
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
