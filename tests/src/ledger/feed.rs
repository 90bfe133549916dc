//! Sends events for as long as a round lasts, and keeps a copy.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use ostar_engine::Generator;
use rdkafka::{
    error::KafkaError,
    producer::{BaseProducer, BaseRecord, Producer},
    types::RDKafkaErrorCode,
};

use super::Names;
use crate::{gaussians, kafka::Kafka};

/// A thread that sends events.
pub(super) struct Feed {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<Vec<u8>>>>,
}

/// An event that no format can read.
const BAD: &[u8] = b"no event";
/// Events between two pauses, unless there is a burst.
const STEADY: usize = 40;
/// After a burst the daemon reads as fast as it can.
const BURST: usize = 4_000;
const PAUSE: Duration = Duration::from_millis(100);
/// A broker that was killed needs a while to recover its log.
const LAST_FLUSH: Duration = Duration::from_secs(120);

/// A century after 1970: such a time is rejected.
const AHEAD_MS: i64 = 100 * YEAR_MS;
const YEAR_MS: i64 = 365 * 86_400_000;

/// Whether an event can be decoded and has a time that may be, and so is learned and predicted.
pub(super) fn is_good(event: &[u8]) -> bool {
    let read: Result<serde_json::Value, _> = serde_json::from_slice(event);
    read.is_ok_and(|event| event["time_ms"].as_i64().is_none_or(|at| at < AHEAD_MS))
}

impl Feed {
    /// With `chaos`, some events come from other centuries.
    pub(super) fn start(kafka: &Kafka, names: &Names, seed: u64, chaos: bool) -> Result<Self> {
        // Idempotent and without a time limit: whatever happens to the broker, each event arrives once and in order.
        let producer: BaseProducer = kafka
            .config()
            .set("enable.idempotence", "true")
            .set("message.timeout.ms", "0")
            .set_log_level(rdkafka::config::RDKafkaLogLevel::Emerg)
            .create()?;
        let over = Arc::new(AtomicBool::new(false));
        let (topic, told) = (names.events.clone(), Arc::clone(&over));
        let time_ms = names.time_ms;
        let thread = thread::spawn(move || {
            let mut generator = Generator::new(seed ^ 0x00fe_ed00);
            let mut copy = Vec::new();
            while !told.load(Ordering::Relaxed) {
                let count = match generator.below(100) {
                    0 => BURST,
                    _ => STEADY,
                };
                for event in draw(count, copy.len(), &mut generator, chaos) {
                    send(&producer, &topic, &event, time_ms)?;
                    copy.push(event);
                }
                producer.poll(PAUSE);
                thread::sleep(PAUSE);
            }
            producer.flush(LAST_FLUSH).context("sending events")?;
            Ok(copy)
        });
        Ok(Self { over, thread })
    }

    /// Ends the thread when all events are acknowledged; returns the copy.
    pub(super) fn stop(self) -> Result<Vec<Vec<u8>>> {
        self.over.store(true, Ordering::Relaxed);
        let copy = self.thread.join();
        copy.map_err(|_| anyhow!("the feed panicked"))?
    }
}

/// One event in a hundred is bad. The share of spam wanders.
fn draw(count: usize, sent: usize, generator: &mut Generator, chaos: bool) -> Vec<Vec<u8>> {
    let spam = 0.4 + 0.2 * (sent as f64 / 20_000.0).sin();
    let (rows, _) = gaussians::draw(count, spam, 0.1, sent as u64);
    let event = |(number, row): (usize, &Vec<f32>)| match generator.below(100) {
        0 => BAD.to_vec(),
        1 if chaos => {
            let years = generator.below(2_000) as i64 * YEAR_MS;
            let time_ms = match generator.below(2) {
                0 => -years,
                _ => AHEAD_MS + years,
            };
            gaussians::json_at(&(sent + number).to_string(), row, time_ms)
        }
        _ => gaussians::json(&(sent + number).to_string(), row),
    };
    rows.iter().enumerate().map(event).collect()
}

fn send(producer: &BaseProducer, topic: &str, event: &[u8], time_ms: i64) -> Result<()> {
    let mut record = BaseRecord::<(), [u8]>::to(topic)
        .partition(0)
        .timestamp(time_ms)
        .payload(event);
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), refused)) => {
                producer.poll(PAUSE);
                record = refused;
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
}
