//! Scores chunks with the frozen model, once for both emission and the learner.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ostar_connectors::event::{Chunk, EventMeta, Offsets, Rejected, Rewound};
use ostar_model::{
    evaluate::Scratch,
    learner::{FrozenModel, FrozenScores},
};

/// A chunk with the frozen model's latents and probabilities in place of its inputs.
#[derive(Debug)]
pub(crate) struct ScoredChunk {
    pub(crate) events: Vec<EventMeta>,
    /// One row per event.
    pub(crate) frozen: FrozenScores,
    /// If the events are samples: where each was read by a scorer. Otherwise empty.
    pub(crate) origins: Vec<Origin>,
    pub(crate) rejected: Vec<Rejected>,
    /// In each partition, the offset behind the chunk's last event, rejected ones included.
    pub(crate) next: Offsets,
    /// Applies before the events of this chunk.
    pub(crate) rewound: Option<Rewound>,
    /// Time that the frozen model took; part of the scoring time that metrics show.
    pub(crate) duration: Duration,
}

/// Where a sample was read by a scorer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    /// Tells this creation of the events' topic from others.
    pub(crate) creation: u64,
    /// When the scorer has read it, in milliseconds since 1970.
    pub(crate) scored_ms: i64,
}

/// The frozen model, with the scratch memory that chunks share.
pub(crate) struct FrozenScoring {
    model: FrozenModel,
    scratch: Scratch,
}

impl FrozenScoring {
    pub(crate) fn new(model: FrozenModel) -> Self {
        Self {
            model,
            scratch: Scratch::default(),
        }
    }

    pub(crate) fn score(&mut self, chunk: Chunk) -> Result<ScoredChunk> {
        let start = Instant::now();
        let mut frozen = FrozenScores::default();
        self.model
            .score(chunk.rows.inputs(), &mut self.scratch, &mut frozen)
            .context("cannot score decoded events")?;
        Ok(ScoredChunk {
            events: chunk.events,
            frozen,
            origins: Vec::new(),
            rejected: chunk.rejected,
            next: chunk.next,
            rewound: chunk.rewound,
            duration: start.elapsed(),
        })
    }
}
