//! Chunks after the frozen model: what emission and learner share, so that it is done once.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ostar_connectors::event::{Chunk, EventMeta, Offsets, Rejected};
use ostar_model::{
    evaluate::Scratch,
    learner::{FrozenModel, FrozenScores},
};

/// A chunk whose inputs have given way to what the frozen model makes of them.
#[derive(Debug)]
pub(crate) struct ScoredChunk {
    pub(crate) events: Vec<EventMeta>,
    /// One row an event.
    pub(crate) frozen: FrozenScores,
    pub(crate) rejected: Vec<Rejected>,
    /// Where reading goes on after this chunk, rejected events included.
    pub(crate) next: Offsets,
    /// How long the frozen model took.
    pub(crate) duration: Duration,
}

/// Scores chunks with the frozen model, one after the other.
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
            rejected: chunk.rejected,
            next: chunk.next,
            duration: start.elapsed(),
        })
    }
}
