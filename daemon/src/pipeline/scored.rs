//! Scores chunks with the frozen model, once for both emission and the learner.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ostar_connectors::event::{Chunk, EventMeta, InputRows, Offsets, Rejected, Rewound};
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
    /// Inputs of some of the events, which are compared with training's.
    pub(crate) sample: Sample,
    pub(crate) rejected: Vec<Rejected>,
    /// In each partition, the offset behind the chunk's last event, rejected ones included.
    pub(crate) next: Offsets,
    /// Applies before the events of this chunk.
    pub(crate) rewound: Option<Rewound>,
    /// Time that the frozen model took; part of the scoring time that metrics show.
    pub(crate) duration: Duration,
}

/// Inputs of some events of a chunk.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) rows: InputRows,
    /// The events' numbers in the chunk, ascending.
    pub(crate) events: Vec<usize>,
}

/// The frozen model, with the scratch memory that chunks share.
pub(crate) struct FrozenScoring {
    model: FrozenModel,
    scratch: Scratch,
    samples: bool,
}

impl FrozenScoring {
    /// `samples` says whether anybody compares inputs with training's.
    pub(crate) fn new(model: FrozenModel, samples: bool) -> Self {
        Self {
            model,
            scratch: Scratch::default(),
            samples,
        }
    }

    pub(crate) fn score(&mut self, chunk: Chunk) -> Result<ScoredChunk> {
        let start = Instant::now();
        let mut frozen = FrozenScores::default();
        self.model
            .score(chunk.rows.inputs(), &mut self.scratch, &mut frozen)
            .context("cannot score decoded events")?;
        Ok(ScoredChunk {
            sample: Sample::draw(&chunk, self.samples),
            events: chunk.events,
            frozen,
            rejected: chunk.rejected,
            next: chunk.next,
            rewound: chunk.rewound,
            duration: start.elapsed(),
        })
    }
}

// === impl Sample ===

impl Sample {
    /// Draws one event of four by its offset alone, so that a replay draws the same, whatever the chunks are.
    fn draw(chunk: &Chunk, samples: bool) -> Self {
        let mut rows = chunk.rows.emptied();
        let mut events = Vec::new();
        if samples {
            for (number, event) in chunk.events.iter().enumerate() {
                // Fibonacci hashing: periods of the stream do not meet it.
                let hash = (event.offset as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                if hash >> 62 == 0 {
                    rows.append(&chunk.rows, number..number + 1);
                    events.push(number);
                }
            }
        }
        Self { rows, events }
    }
}
