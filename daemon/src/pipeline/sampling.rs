//! What the learner gets of the events: all of them in the same process, or a share over a topic.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crossbeam_channel::Sender;
use ostar_bundle::Bundle;
use ostar_connectors::samples::{Sample, fingerprint, is_sampled};

use super::scored::ScoredChunk;
use crate::clock::now_ms;

/// Where scored events go to be learned.
pub(crate) enum SampleSink {
    /// To the learner's thread of this process.
    Memory(Sender<Arc<ScoredChunk>>),
    /// To a learner in another process.
    Topic(Sampler),
}

/// Chooses events, and writes what a learner needs of them.
pub(crate) struct Sampler {
    share: Arc<SampleShare>,
    /// Share of the chunk at hand.
    current: f64,
    bundle: u64,
    creation: u64,
    classes: usize,
    scored_ms: i64,
}

/// Share of the events that is passed on, as the learner announces it.
#[derive(Debug)]
pub(crate) struct SampleShare(AtomicU64);

// === impl SampleSink ===

impl SampleSink {
    /// Chunks that wait for the learner's thread.
    pub(crate) fn waiting(&self) -> usize {
        match self {
            Self::Memory(learner) => learner.len(),
            Self::Topic(_) => 0,
        }
    }

    /// What follows was read from the topic with this id of the broker's.
    pub(crate) fn follow_topic(&mut self, id: Option<&str>) {
        if let Self::Topic(sampler) = self {
            sampler.creation = fingerprint(id);
        }
    }

    /// Gives a chunk to the learner's thread, if it is in this process.
    pub(crate) fn pass_on(&self, chunk: &Arc<ScoredChunk>) {
        if let Self::Memory(learner) = self {
            // The learner's thread has already reported its failure if it is gone.
            let _ = learner.send(Arc::clone(chunk));
        }
    }
}

// === impl Sampler ===

impl Sampler {
    /// `topic_id` is the broker's id of the events' topic.
    pub(crate) fn new(share: Arc<SampleShare>, bundle: &Bundle, topic_id: Option<&str>) -> Self {
        Self {
            share,
            current: 1.0,
            bundle: fingerprint(Some(bundle.digest())),
            creation: fingerprint(topic_id),
            classes: bundle.classes(),
            scored_ms: 0,
        }
    }

    /// Begins a chunk.
    pub(crate) fn follow(&mut self, chunk: &ScoredChunk) {
        if let Some(rewound) = &chunk.rewound {
            self.creation = fingerprint(rewound.topic_id.as_deref());
        }
        self.current = self.share.get();
        self.scored_ms = now_ms() as i64;
    }

    /// What the learner needs of an event; `None` if it is not among those that are passed on.
    pub(crate) fn sample(&self, chunk: &ScoredChunk, number: usize) -> Option<Sample> {
        let event = &chunk.events[number];
        if !is_sampled(event.partition, event.offset, self.current) {
            return None;
        }
        let width = chunk.frozen.latents().len() / chunk.events.len().max(1);
        let of = |values: &[f32], width: usize| {
            let row = number * width..(number + 1) * width;
            values.get(row).unwrap_or_default().to_vec()
        };
        let input = chunk.sample.as_ref().and_then(|drawn| {
            let row = drawn.events.binary_search(&number).ok()?;
            Some(drawn.rows.carried(row))
        });
        Some(Sample {
            input,
            partition: event.partition,
            offset: event.offset,
            creation: self.creation,
            bundle: self.bundle,
            id: event.id.as_deref().unwrap_or_default().to_owned(),
            time_ms: event.time_ms,
            recorded_ms: event.recorded_ms,
            latents: of(chunk.frozen.latents(), width),
            probabilities: of(chunk.frozen.probabilities(), self.classes),
            scored_ms: self.scored_ms,
            sent: chunk.sent[number],
        })
    }
}

// === impl SampleShare ===

impl SampleShare {
    /// All events, until the learner says otherwise.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(1.0_f64.to_bits())))
    }

    pub(crate) fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Shares outside (0, 1] are ignored: a scorer must not fall silent by a damaged number.
    pub(crate) fn set(&self, share: f64) {
        if share > 0.0 && share <= 1.0 {
            self.0.store(share.to_bits(), Ordering::Relaxed);
        }
    }
}
