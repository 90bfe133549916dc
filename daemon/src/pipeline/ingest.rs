//! The first thread: reads Kafka, decodes, and cuts the stream into chunks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use crossbeam_channel::Sender;
use ostar_connectors::{
    event::{Chunk, Decoder, InputRows, RecordMeta, Rejected},
    kafka::{Notice, Polled, Reader, RejectLimits},
};
use tracing::{error, info, warn};

use crate::{health::Health, metrics::Metrics};

/// Most events of a chunk: large enough that threads seldom wait for each other. With a quarter of it the daemon read a
/// seventh fewer events a second.
const CHUNK_EVENTS: usize = 2_048;
/// Most numbers and words of a chunk, so that wide events do not fill the memory: a megabyte.
const CHUNK_SIZE: usize = 1 << 18;
/// Longest that an event waits for others to be scored with.
const CHUNK_DELAY: Duration = Duration::from_millis(20);
/// Events that lie ready are taken in between two looks at the clock.
const EVENTS_PER_CLOCK: u32 = 32;
/// How long a poll waits, so that stopping is noticed.
const POLL: Duration = Duration::from_millis(50);
/// How often lag is measured.
const LAG_EVERY: Duration = Duration::from_secs(1);

/// Orders from other threads.
#[derive(Debug, Default)]
pub(crate) struct IngestOrders {
    /// Stop polling and end.
    pub(crate) stop: AtomicBool,
    /// Go on after too many bad events.
    pub(crate) resume: AtomicBool,
}

/// Reads until told to stop.
pub(crate) struct Ingest {
    pub(crate) reader: Reader,
    pub(crate) decoder: Decoder,
    pub(crate) limits: RejectLimits,
    /// Bytes of a rejected payload that are kept for the dead letter.
    pub(crate) dead_letter_bytes: usize,
    /// How long without a broker before the process is unready.
    pub(crate) patience: Duration,
    pub(crate) empty: InputRows,
    /// Bounded: what comes after holds reading back.
    pub(crate) chunks: Sender<Chunk>,
    pub(crate) orders: Arc<IngestOrders>,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Ingest {
    pub(crate) fn run(mut self) -> Result<()> {
        let mut chunk = Chunk::new(self.empty.clone());
        let mut opened: Option<Instant> = None;
        // The reader was opened by a broker that answered; notices tell changes only.
        self.metrics.ingest.set_broker_connected(true);
        let mut broker_lost: Option<Instant> = None;
        let mut lag_measured = Instant::now();
        // A clock costs as much as decoding does, here and in librdkafka when it is given time to wait: while events
        // lie ready they are taken without either.
        let mut now = Instant::now();
        let mut since_clock = 0;
        while !self.orders.stop.load(Ordering::Relaxed) {
            let polled = match self.reader.poll(Duration::ZERO)? {
                Polled::Idle => {
                    since_clock = EVENTS_PER_CLOCK;
                    now = Instant::now();
                    let wait = opened.map_or(POLL, |at| CHUNK_DELAY.saturating_sub(now - at));
                    self.reader.poll(wait)?
                }
                polled => polled,
            };
            let exceeded = match polled {
                Polled::Idle => None,
                Polled::Notice(notice) => {
                    self.notice(notice, &mut broker_lost);
                    None
                }
                Polled::Record(record) => {
                    opened.get_or_insert(now);
                    chunk.next.insert(record.partition, record.offset + 1);
                    let payload = record.payload();
                    let meta = RecordMeta {
                        partition: record.partition,
                        offset: record.offset,
                        timestamp_ms: Some(record.timestamp_ms),
                        key: record.key(),
                    };
                    match self.decoder.decode(Some(payload), meta, &mut chunk) {
                        Ok(()) => {
                            self.limits.accepted();
                            None
                        }
                        Err(reject) => {
                            self.metrics.ingest.rejected(reject.reason.as_str());
                            let kept = payload.len().min(self.dead_letter_bytes);
                            chunk.rejected.push(Rejected {
                                reject,
                                partition: record.partition,
                                offset: record.offset,
                                key: record.key().map(<[u8]>::to_vec),
                                size: payload.len(),
                                payload: payload[..kept].to_vec(),
                            });
                            self.limits.rejected()
                        }
                    }
                }
            };
            since_clock += 1;
            if since_clock >= EVENTS_PER_CLOCK {
                since_clock = 0;
                now = Instant::now();
            }
            let due = opened.is_some_and(|at| now - at >= CHUNK_DELAY);
            let full = chunk.len() >= CHUNK_EVENTS || chunk.rows.size() >= CHUNK_SIZE;
            if due || full || exceeded.is_some() {
                self.hand_over(&mut chunk);
                opened = None;
            }
            if let Some(exceeded) = exceeded {
                self.wait_for_resume(&exceeded.to_string())?;
            }
            if let Some(lost) = broker_lost
                && lost.elapsed() >= self.patience
            {
                let seconds = lost.elapsed().as_secs();
                self.health
                    .obstruct("kafka", format!("no broker has answered for {seconds} s"));
            }
            if now - lag_measured >= LAG_EVERY {
                lag_measured = now;
                self.show_waiting();
                for lag in self.reader.lags() {
                    let behind = lag.seconds.map(Duration::from_secs_f64);
                    let records = lag.records as i64;
                    self.metrics.ingest.set_lag(lag.partition, records, behind);
                }
            }
        }
        self.hand_over(&mut chunk);
        Ok(())
    }

    fn hand_over(&self, chunk: &mut Chunk) {
        if chunk.next.is_empty() {
            return;
        }
        self.metrics.ingest.accepted(chunk.len());
        self.observe_delay(chunk);
        // Before sending: if the next part does not take any, this is what stays to be seen.
        self.show_waiting();
        let next = chunk.cleared();
        // A part that has died has told so by itself.
        let _ = self.chunks.send(std::mem::replace(chunk, next));
    }

    fn show_waiting(&self) {
        self.metrics
            .ingest
            .set_waiting("outputs", self.chunks.len());
    }

    /// How old the newest event of a chunk is.
    fn observe_delay(&self, chunk: &Chunk) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        if let (Ok(now), Some(event)) = (now, chunk.events.last()) {
            let happened = Duration::from_millis(event.time_ms.max(0) as u64);
            let delay = now.saturating_sub(happened);
            self.metrics.ingest.observe_delay(delay);
        }
    }

    fn notice(&self, notice: Notice, broker_lost: &mut Option<Instant>) {
        match notice {
            Notice::PartitionsAdded(partitions) => {
                info!(
                    ?partitions,
                    "found new partitions, reading them from their beginning"
                );
            }
            Notice::OffsetsLost(lost) => {
                warn!(
                    partition = lost.partition,
                    expected = lost.expected,
                    resumed_at = lost.resumed_at,
                    lost = lost.lost,
                    recreated = lost.recreated,
                    "events are gone before they were read"
                );
                self.metrics.ingest.offsets_lost(lost.lost);
            }
            Notice::BrokerDown { reason } => {
                if broker_lost.is_none() {
                    warn!(%reason, "no broker answers");
                    *broker_lost = Some(Instant::now());
                    self.metrics.ingest.set_broker_connected(false);
                }
            }
            Notice::BrokerUp => {
                if let Some(lost) = broker_lost.take() {
                    info!(
                        seconds = lost.elapsed().as_secs_f64(),
                        "a broker answers again"
                    );
                }
                self.metrics.ingest.set_broker_connected(true);
                self.health.clear("kafka");
            }
        }
    }

    /// Too many bad events: something is wrong that goes on, so nothing more is thrown away until a person
    /// has looked.
    fn wait_for_resume(&mut self, reason: &str) -> Result<()> {
        error!(
            reason,
            "stopped reading events; `ostard ctl resume` goes on"
        );
        self.health.obstruct(
            "events",
            format!("stopped reading: {reason}; `ostard ctl resume` goes on"),
        );
        self.metrics.ingest.set_consumption_stopped(true);
        self.reader.pause();
        self.orders.resume.store(false, Ordering::Relaxed);
        while !self.orders.resume.load(Ordering::Relaxed) {
            if self.orders.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.show_waiting();
            // Paused partitions give no records; polling keeps the client alive.
            if let Polled::Notice(notice) = self.reader.poll(POLL)? {
                self.notice(notice, &mut None);
            }
        }
        self.reader.resume();
        self.limits.reset();
        self.metrics.ingest.set_consumption_stopped(false);
        self.health.clear("events");
        info!("reading events again");
        Ok(())
    }
}
