//! The first thread of a learner without events: reads samples and hands them to the learner's thread in chunks.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use crossbeam_channel::{SendTimeoutError, Sender};
use ostar_bundle::{Bundle, Input};
use ostar_connectors::{
    event::{EventMeta, InputRows, Rewound, TimeLimit},
    kafka::{Notice, Polled, Reader, Record},
    samples::{Sample, fingerprint},
};
use ostar_method::frozen::FrozenModel;
use tracing::warn;

use super::{
    flags::PipelineFlags,
    scored::{self, Origin, ScoredChunk},
    source_watch::SourceWatch,
};
use crate::metrics::Metrics;

/// Most samples of a chunk. They come as fast as the learner takes them, or not at all.
const CHUNK_SAMPLES: usize = 512;
/// Longest that a sample waits for others.
const CHUNK_DELAY: Duration = Duration::from_millis(20);
/// How long a poll waits, so that stopping is noticed.
const POLL: Duration = Duration::from_millis(50);
/// How often the log tells of samples that are passed over.
const WARN_EVERY: Duration = Duration::from_secs(30);

/// Reads samples until [`PipelineFlags::stop`].
pub(crate) struct SampleIngest {
    pub(crate) reader: Reader,
    pub(crate) samples: SampleReading,
    pub(crate) watch: SourceWatch,
    /// When the first sample of the chunk was read.
    pub(crate) opened: Option<Instant>,
    pub(crate) chunks: Sender<Arc<ScoredChunk>>,
    pub(crate) flags: Arc<PipelineFlags>,
    pub(crate) metrics: Arc<Metrics>,
}

/// Reads records into a chunk. Apart from [`SampleIngest`], whose reader a record borrows.
pub(crate) struct SampleReading {
    model: FrozenModel,
    times: TimeLimit,
    /// Samples of other bundles are passed over.
    bundle: u64,
    /// What inputs look like, and no rows of them; `None` if they are not compared with training's.
    inputs: Option<(Input, InputRows)>,
    chunk: ScoredChunk,
    warned: Option<Instant>,
    metrics: Arc<Metrics>,
}

// === impl SampleReading ===

impl SampleReading {
    pub(crate) fn new(
        model: FrozenModel,
        bundle: &Bundle,
        times: TimeLimit,
        metrics: Arc<Metrics>,
    ) -> Self {
        let input = &bundle.description().input;
        let rows = InputRows::new(input, bundle.classes());
        let inputs = bundle.inputs().map(|_| (input.clone(), rows));
        Self {
            model,
            times,
            bundle: fingerprint(Some(bundle.digest())),
            chunk: empty(inputs.as_ref()),
            inputs,
            warned: None,
            metrics,
        }
    }

    /// The chunk, and an empty one in its place.
    fn take_chunk(&mut self) -> ScoredChunk {
        std::mem::replace(&mut self.chunk, empty(self.inputs.as_ref()))
    }

    fn take(&mut self, record: &Record<'_>) {
        let chunk = &mut self.chunk;
        chunk.next.insert(record.partition, record.offset + 1);
        let Some(payload) = record.payload() else {
            return self.metrics.ingest.tombstone("samples");
        };
        let sample = match Sample::from_bytes(payload) {
            Ok(sample) if sample.bundle == self.bundle => sample,
            Ok(_) => return self.pass_over("another_bundle", "a scorer has another bundle"),
            Err(problem) => return self.pass_over("unreadable", &problem),
        };
        if let Err(reject) = sample.check_times(&self.times, record.timestamp_ms) {
            return self.pass_over(reject.reason.as_str(), &reject.detail);
        }
        let (latents, probabilities) = (&sample.latents, &sample.probabilities);
        if let Err(error) = self
            .model
            .append_scored(latents, probabilities, &mut chunk.frozen)
        {
            return self.pass_over("unreadable", &error.to_string());
        }
        let carried = (&mut chunk.sample, &self.inputs, sample.input);
        let mut problem = None;
        if let (Some(drawn), Some((input, _)), Some(row)) = carried {
            match drawn.rows.push_carried(input, row) {
                Ok(()) => drawn.events.push(chunk.events.len()),
                Err(error) => problem = Some(error),
            }
        }
        chunk.events.push(EventMeta {
            id: Some(sample.id.into_boxed_str()).filter(|id| !id.is_empty()),
            time_ms: sample.time_ms,
            recorded_ms: sample.recorded_ms,
            partition: record.partition,
            offset: record.offset,
        });
        chunk.sent.push(sample.sent);
        chunk.origins.push(Origin {
            partition: sample.partition,
            offset: sample.offset,
            creation: sample.creation,
            scored_ms: sample.scored_ms,
        });
        // What the frozen model made of it can be learned all the same.
        if let Some(problem) = problem {
            self.warn("unreadable", &problem, "left out the input of a sample");
        }
    }

    fn pass_over(&mut self, reason: &'static str, detail: &str) {
        self.metrics.ingest.rejected(reason);
        self.warn(reason, detail, "passed over a sample");
    }

    fn warn(&mut self, reason: &'static str, detail: &str, what: &str) {
        let warned = self.warned;
        if warned.is_none_or(|warned| warned.elapsed() >= WARN_EVERY) {
            self.warned = Some(Instant::now());
            warn!(reason, detail, "{what}");
        }
    }
}

fn empty(inputs: Option<&(Input, InputRows)>) -> ScoredChunk {
    ScoredChunk {
        sample: inputs.map(|(_, rows)| scored::Sample {
            rows: rows.emptied(),
            events: Vec::new(),
        }),
        ..ScoredChunk::default()
    }
}

// === impl SampleIngest ===

impl SampleIngest {
    pub(crate) fn run(mut self) -> Result<()> {
        while !self.flags.is_stopping() {
            let wait = match self.opened {
                Some(at) => CHUNK_DELAY.saturating_sub(at.elapsed()),
                None => POLL,
            };
            match self.reader.poll(wait)? {
                Polled::Idle => {}
                Polled::Notice(notice) => self.on_notice(&notice)?,
                Polled::Record(record) => {
                    self.opened.get_or_insert_with(Instant::now);
                    self.samples.take(&record);
                }
            }
            let is_due = self.opened.is_some_and(|at| at.elapsed() >= CHUNK_DELAY);
            if is_due || self.samples.chunk.events.len() >= CHUNK_SAMPLES {
                self.hand_over()?;
            }
            self.watch.check_patience();
            self.watch.measure_lag(Instant::now(), &mut self.reader);
        }
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<()> {
        self.watch.tell(notice);
        if let Notice::OffsetsLost(lost) = notice
            && lost.cause.repeats_offsets()
        {
            self.hand_over()?;
            let topic_id = self.reader.topic_id().map(str::to_owned);
            let rewound = self.samples.chunk.rewound.get_or_insert(Rewound::default());
            rewound.offsets.insert(lost.partition, lost.resumed_at);
            rewound.topic_id = topic_id;
            self.opened.get_or_insert_with(Instant::now);
        }
        Ok(())
    }

    /// Gives the chunk to the learner. While that is busy, nothing is read.
    fn hand_over(&mut self) -> Result<()> {
        self.opened = None;
        let chunk = self.samples.take_chunk();
        if chunk.next.is_empty() && chunk.rewound.is_none() {
            return Ok(());
        }
        self.metrics.ingest.accepted(chunk.events.len());
        let mut chunk = Arc::new(chunk);
        self.metrics
            .ingest
            .set_waiting("learner", self.chunks.len());
        // The learner's thread has already reported its failure if it is gone.
        while let Err(SendTimeoutError::Timeout(unsent)) = self.chunks.send_timeout(chunk, POLL) {
            if self.flags.is_stopping() {
                return Ok(());
            }
            chunk = unsent;
            self.reader.refresh()?;
            self.watch.measure_lag(Instant::now(), &mut self.reader);
        }
        Ok(())
    }
}
