//! The first thread of the pipeline: reads from Kafka, decodes, and cuts the stream into chunks.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use crossbeam_channel::{RecvTimeoutError, SendTimeoutError, Sender, bounded};
use ostar_connectors::{
    event::{Chunk, Decoder, Offsets, RecordMeta, Rejected},
    kafka::{
        LimitExceeded, LostOffsets, Notice, OwnedRecord, Polled, Reader, Record, RejectLimits,
    },
};
use tracing::{error, info, warn};

use super::{flags::PipelineFlags, source_watch::SourceWatch};
use crate::{clock::now_ms, health::Health, metrics::Metrics};

/// Most events of a chunk: large enough that threads seldom wait for each other. With a quarter of it the daemon read a
/// seventh fewer events per second.
const CHUNK_EVENTS: usize = 2_048;
/// Most numbers and words of a chunk, so that wide events do not fill the memory: about a megabyte.
const CHUNK_SIZE: usize = 1 << 18;
/// Most bytes of rejected events in a chunk.
const CHUNK_REJECTED_BYTES: usize = 1 << 20;
/// Longest that an event waits for others to be scored with.
const CHUNK_DELAY: Duration = Duration::from_millis(20);
/// Events that are taken between two reads of the clock while more lie ready.
const EVENTS_PER_CLOCK: u32 = 32;
/// How long a poll waits, so that stopping is noticed.
const POLL: Duration = Duration::from_millis(50);
/// How long leaving a group may take.
const LEAVE: Duration = Duration::from_secs(1);

/// What ingest sends to emission, in the order of reading.
pub(crate) enum FromIngest {
    Chunk(Chunk),
    /// Of what follows, the broker's id of the topic: it may have been recreated before the group assigned partitions.
    Topic(Option<String>),
    Release(Release),
}

/// Partitions that the group takes back, after what was sent before.
pub(crate) struct Release {
    pub(crate) partitions: Vec<i32>,
    /// Others may have them already: nothing is committed.
    pub(crate) lost: bool,
    /// Told when nothing of them is under way any more.
    pub(crate) done: Sender<()>,
}

/// Reads and decodes until [`PipelineFlags::stop`].
pub(crate) struct Ingest {
    pub(crate) reader: Reader,
    pub(crate) decoding: Decoding,
    pub(crate) watch: SourceWatch,
    /// The chunk that is being filled.
    pub(crate) chunk: Chunk,
    /// When the first event of the chunk was read.
    pub(crate) opened: Option<Instant>,
    /// Bounded: while it is full, nothing is read.
    pub(crate) chunks: Sender<FromIngest>,
    pub(crate) flags: Arc<PipelineFlags>,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
}

/// Decodes records, and watches how many are bad. Apart from [`Ingest`], whose reader a record borrows.
pub(crate) struct Decoding {
    pub(crate) decoder: Decoder,
    pub(crate) limits: RejectLimits,
    /// Bytes of a rejected payload that are kept for the dead letter.
    pub(crate) dead_letter_bytes: usize,
    /// Bad events before these offsets have stopped an earlier run, or could have: they do not count again.
    pub(crate) emitted: Offsets,
    pub(crate) metrics: Arc<Metrics>,
}

// === impl Decoding ===

impl Decoding {
    /// Appends the record's event to the chunk, or to its rejected ones. `Some` if too many were rejected. A tombstone of
    /// a compacted topic is no event: only its offset counts.
    fn take(&mut self, record: &Record<'_>, chunk: &mut Chunk) -> Option<LimitExceeded> {
        let Some(payload) = record.payload() else {
            chunk.next.insert(record.partition, record.offset + 1);
            self.metrics.ingest.tombstone("events");
            return None;
        };
        self.take_bytes(payload, record.meta(), chunk)
    }

    /// [`Decoding::take`] of a record that was copied.
    fn take_bytes(
        &mut self,
        payload: &[u8],
        record: RecordMeta<'_>,
        chunk: &mut Chunk,
    ) -> Option<LimitExceeded> {
        chunk.next.insert(record.partition, record.offset + 1);
        let Err(reject) = self.decoder.decode(payload, record, chunk) else {
            self.limits.accepted();
            return None;
        };
        self.metrics.ingest.rejected(reject.reason.as_str());
        let cut = |bytes: &[u8]| bytes[..bytes.len().min(self.dead_letter_bytes)].to_vec();
        let (key, kept) = (record.key.map(cut), cut(payload));
        chunk.rejected_bytes += kept.len() + key.as_ref().map_or(0, Vec::len);
        chunk.rejected.push(Rejected {
            reject,
            partition: record.partition,
            offset: record.offset,
            key,
            key_size: record.key.map_or(0, <[u8]>::len),
            size: payload.len(),
            payload: kept,
        });
        let emitted = self.emitted.get(&record.partition);
        if emitted.is_some_and(|emitted| record.offset < *emitted) {
            return None;
        }
        self.limits.rejected()
    }
}

// === impl Ingest ===

impl Ingest {
    pub(crate) fn run(mut self) -> Result<()> {
        // Reading the clock costs as much as decoding an event, here and inside librdkafka when a poll may wait. While
        // events lie ready, they are polled without waiting and the clock is read once every EVENTS_PER_CLOCK events.
        let mut now = Instant::now();
        let mut since_clock = 0;
        while !self.flags.is_stopping() {
            let polled = match self.reader.poll(Duration::ZERO)? {
                Polled::Idle => {
                    since_clock = EVENTS_PER_CLOCK;
                    now = Instant::now();
                    let wait = self
                        .opened
                        .map_or(POLL, |at| CHUNK_DELAY.saturating_sub(now - at));
                    self.reader.poll(wait)?
                }
                polled => polled,
            };
            let exceeded = match polled {
                Polled::Idle => None,
                Polled::Notice(notice) => {
                    self.on_notice(notice)?;
                    None
                }
                Polled::Record(record) => {
                    self.opened.get_or_insert(now);
                    let decoder = &self.decoding.decoder;
                    let missing = |payload| decoder.schema_to_fetch(payload);
                    let schema = record.payload().and_then(missing);
                    // Few records wait for a schema: the others are not copied.
                    match schema.and_then(|id| Some((id, record.copied()?))) {
                        None => self.decoding.take(&record, &mut self.chunk),
                        Some((id, record)) => self.take_after_schema(id, &record)?,
                    }
                }
            };
            since_clock += 1;
            if since_clock >= EVENTS_PER_CLOCK {
                since_clock = 0;
                now = Instant::now();
            }
            let due = self.opened.is_some_and(|at| now - at >= CHUNK_DELAY);
            if due || self.is_full() || exceeded.is_some() {
                self.hand_over()?;
            }
            if let Some(exceeded) = exceeded {
                self.wait_for_resume(&exceeded.to_string())?;
            }
            self.watch.check_patience();
            self.measure_lag(now);
        }
        if !self.reader.is_member() {
            return self.hand_over();
        }
        let partitions = self.reader.offsets().into_keys().collect();
        self.settle(partitions, false)?;
        self.reader.leave(LEAVE);
        Ok(())
    }

    /// Fetches the schema of a record, then takes the record. While the registry does not answer, nothing is read, and
    /// nothing is lost: the record is not behind the offsets that others know.
    fn take_after_schema(
        &mut self,
        id: u32,
        record: &OwnedRecord,
    ) -> Result<Option<LimitExceeded>> {
        let mut tries = 0;
        let mut away_since = None;
        let mut is_revoked = false;
        while let Err(away) = self.decoding.decoder.fetch_schema(id, tries) {
            if away_since.is_none() {
                away_since = Some(Instant::now());
                warn!(schema = id, %away, "reading waits for the schema registry");
                // Events before it need not wait.
                self.hand_over()?;
                self.reader.pause();
            }
            tries += 1;
            self.health.set_condition("registry", away.to_string());
            let until = Instant::now() + away.retry_after;
            while Instant::now() < until {
                if self.flags.is_stopping() {
                    return Ok(None);
                }
                self.watch.check_patience();
                self.measure_lag(Instant::now());
                if let Polled::Notice(notice) = self.reader.poll(POLL)? {
                    is_revoked |= matches!(&notice, Notice::Revoked { partitions, .. }
                        if partitions.contains(&record.partition));
                    self.on_notice(notice)?;
                }
            }
        }
        if let Some(since) = away_since {
            let seconds = since.elapsed().as_secs_f64();
            info!(seconds, "the schema registry answers again");
            self.health.clear("registry");
            self.reader.resume();
        }
        if is_revoked {
            // Whoever has the partition now reads it again.
            return Ok(None);
        }
        let chunk = &mut self.chunk;
        Ok(self
            .decoding
            .take_bytes(&record.payload, record.meta(), chunk))
    }

    fn is_full(&self) -> bool {
        let chunk = &self.chunk;
        chunk.len() + chunk.rejected.len() >= CHUNK_EVENTS
            || chunk.rows.size() >= CHUNK_SIZE
            || chunk.rejected_bytes >= CHUNK_REJECTED_BYTES
    }

    /// Shows lag and waiting chunks, once a second.
    fn measure_lag(&mut self, now: Instant) {
        if self.watch.measure_lag(now, &mut self.reader) {
            self.show_waiting();
        }
    }

    /// Gives the chunk to emission. While that waits for outputs or for the learner, lag is still measured.
    fn hand_over(&mut self) -> Result<()> {
        self.opened = None;
        if self.chunk.next.is_empty() && self.chunk.rewound.is_none() {
            return Ok(());
        }
        self.metrics.ingest.accepted(self.chunk.len());
        self.observe_delay();
        // Before sending, which may block: the metric then shows a full channel.
        self.show_waiting();
        let next = self.chunk.cleared();
        let chunk = std::mem::replace(&mut self.chunk, next);
        self.pass_on(FromIngest::Chunk(chunk))
    }

    fn pass_on(&mut self, mut message: FromIngest) -> Result<()> {
        // Emission's thread has already reported its failure if it is gone.
        while let Err(SendTimeoutError::Timeout(unsent)) = self.chunks.send_timeout(message, POLL) {
            message = unsent;
            self.reader.refresh()?;
            self.measure_lag(Instant::now());
        }
        Ok(())
    }

    fn show_waiting(&self) {
        self.metrics
            .ingest
            .set_waiting("outputs", self.chunks.len());
    }

    /// Measures one event per chunk, the newest.
    fn observe_delay(&self) {
        if let Some(event) = self.chunk.events.last() {
            let delay_ms = now_ms().saturating_sub(event.time_ms.max(0) as u64);
            self.metrics.ingest.delay.observe(delay_ms as f64 / 1_000.0);
        }
    }

    fn on_notice(&mut self, notice: Notice) -> Result<()> {
        self.watch.tell(&notice);
        match notice {
            Notice::OffsetsLost(lost) if lost.cause.repeats_offsets() => self.rewind(&lost),
            Notice::Revoked { partitions, lost } => self.release(partitions, lost),
            Notice::Assigned(_) => {
                self.hand_over()?;
                let topic_id = self.reader.topic_id().map(str::to_owned);
                self.pass_on(FromIngest::Topic(topic_id))
            }
            _ => Ok(()),
        }
    }

    /// Lets emission settle what was read of these partitions, then gives them back to the group.
    fn release(&mut self, partitions: Vec<i32>, lost: bool) -> Result<()> {
        self.settle(partitions.clone(), lost)?;
        self.reader.release(&partitions)?;
        Ok(())
    }

    /// Waits until emission has delivered and committed what was read of these partitions. Not for ever: if the group has
    /// given them to others, or the process stops, whatever is not committed is read again.
    fn settle(&mut self, partitions: Vec<i32>, lost: bool) -> Result<()> {
        self.hand_over()?;
        let (done, settled) = bounded(1);
        let mut release = FromIngest::Release(Release {
            partitions,
            lost,
            done,
        });
        while let Err(SendTimeoutError::Timeout(unsent)) = self.chunks.send_timeout(release, POLL) {
            if self.flags.gives_up() {
                return Ok(());
            }
            release = unsent;
        }
        while let Err(RecvTimeoutError::Timeout) = settled.recv_timeout(POLL) {
            if self.flags.gives_up() || (!lost && self.reader.has_lost_assignment()) {
                break;
            }
        }
        Ok(())
    }

    /// Tells the others that a partition's offsets begin anew, after what was read before.
    fn rewind(&mut self, lost: &LostOffsets) -> Result<()> {
        if !self.chunk.next.is_empty() {
            self.hand_over()?;
        }
        let topic_id = self.reader.topic_id().map(str::to_owned);
        let rewound = self.chunk.rewound.get_or_insert_default();
        rewound.offsets.insert(lost.partition, lost.resumed_at);
        self.decoding.emitted.remove(&lost.partition);
        rewound.topic_id = topic_id;
        // It goes even if no event follows.
        self.opened.get_or_insert_with(Instant::now);
        Ok(())
    }

    /// Pauses reading after too many bad events, until a person has looked (`ostard ctl read-on`, or a restart): whatever is wrong would
    /// send all further events to the dead letters.
    fn wait_for_resume(&mut self, reason: &str) -> Result<()> {
        self.health.set_condition(
            "events",
            format!("stopped reading: {reason}; `ostard ctl read-on` or a restart continues"),
        );
        self.reader.pause();
        // An order from before the stop does not count.
        self.flags.take_resume();
        self.flags.set_reading_stopped(true);
        // The metric and the log follow the flags: whoever sees them can order to read on.
        self.metrics.ingest.set_consumption_stopped(true);
        error!(
            reason,
            "stopped reading after too many bad events, `ostard ctl read-on` or a restart continues"
        );
        while !self.flags.take_resume() {
            if self.flags.is_stopping() {
                return Ok(());
            }
            self.watch.check_patience();
            self.measure_lag(Instant::now());
            // Paused partitions give no records. Polling keeps the consumer from being taken for dead.
            if let Polled::Notice(notice) = self.reader.poll(POLL)? {
                self.on_notice(notice)?;
            }
        }
        self.flags.set_reading_stopped(false);
        self.reader.resume();
        self.decoding.limits.reset();
        self.metrics.ingest.set_consumption_stopped(false);
        self.health.clear("events");
        info!("resumed reading events");
        Ok(())
    }
}
