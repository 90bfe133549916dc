//! Cuts the stream into blocks of a fixed number of events, whatever chunks it came in.
//!
//! Chunks end by size or by deadline, so their boundaries depend on timing. Blocks depend on the order of events alone,
//! and so does what is learned.

use std::ops::Range;

use ostar_connectors::{
    event::{EventMeta, Offsets},
    samples::SeenEvents,
};
use ostar_method::frozen::{FrozenRows, FrozenScores};

use super::scored::ScoredChunk;

/// Fills one block after the other.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    size: usize,
    /// Rows of a block that spans chunks.
    scores: FrozenScores,
    /// Their events, if anybody needs them.
    events: Vec<EventMeta>,
    keeps_events: bool,
    /// In each partition of the block, the offset behind its last event.
    next: Offsets,
    /// Newest time of its events.
    newest_ms: i64,
    /// Of samples, which arrive at least once: how far their events were seen.
    seen: SeenEvents,
    /// When a scorer has read the newest of them; 0 if they are no samples.
    scored_ms: i64,
}

/// A complete block, borrowed from its chunk or from the builder.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    pub(crate) rows: FrozenRows<'a>,
    /// One for each row; none unless the builder keeps events.
    pub(crate) events: &'a [EventMeta],
    /// In each partition of the block, the offset behind its last event.
    pub(crate) next: &'a Offsets,
    /// Newest time of its events, in milliseconds since 1970.
    pub(crate) newest_ms: i64,
}

impl BlockBuilder {
    pub(crate) fn new(size: usize, keeps_events: bool) -> Self {
        Self {
            size,
            scores: FrozenScores::default(),
            events: Vec::new(),
            keeps_events,
            next: Offsets::new(),
            newest_ms: 0,
            seen: SeenEvents::default(),
            scored_ms: 0,
        }
    }

    /// Samples of events that were seen before are left out from now on.
    pub(crate) fn resume_seen(&mut self, seen: SeenEvents) {
        self.seen = seen;
    }

    /// How far the events of samples were seen, and when the newest was scored.
    pub(crate) fn seen(&self) -> (&SeenEvents, i64) {
        (&self.seen, self.scored_ms)
    }

    /// Forgets offsets that begin anew. The rows that wait are kept: they are in no other block.
    pub(crate) fn rewind(&mut self, rewound: &Offsets) {
        self.next
            .retain(|partition, _| !rewound.contains_key(partition));
    }

    /// Rows that wait for others to complete a block.
    pub(crate) fn waiting(&self) -> FrozenRows<'_> {
        // A complete block was given out already; its rows are cleared when the next come.
        let is_complete = self.scores.len() == self.size;
        let rows = if is_complete { 0 } else { self.scores.len() };
        self.scores.rows(0..rows)
    }

    /// The block that a chunk's events from `number` on complete, without those before `learned`. Moves `number` behind
    /// the block. Without a complete block it moves to the end of the chunk, and the events are kept for the next one.
    /// `repeated` gets the numbers of the events that are left out.
    pub(crate) fn next_block<'a>(
        &'a mut self,
        chunk: &'a ScoredChunk,
        number: &mut usize,
        learned: &Offsets,
        repeated: &mut Vec<usize>,
    ) -> Option<Block<'a>> {
        repeated.clear();
        if self.scores.len() == self.size {
            self.scores.clear();
        }
        if self.scores.is_empty() {
            self.next.clear();
            self.events.clear();
            self.newest_ms = 0;
        }
        // Events that follow each other are copied as one run.
        let mut run = *number..*number;
        while *number < chunk.events.len() && self.scores.len() + run.len() < self.size {
            let event = &chunk.events[*number];
            let mut is_new = learned
                .get(&event.partition)
                .is_none_or(|at| event.offset >= *at);
            if let Some(origin) = chunk.origins.get(*number) {
                is_new =
                    is_new && (self.seen).advance(origin.partition, origin.offset, origin.creation);
                self.scored_ms = self.scored_ms.max(origin.scored_ms);
            }
            if !is_new {
                repeated.push(*number);
            }
            *number += 1;
            if is_new {
                self.next.insert(event.partition, event.offset + 1);
                self.newest_ms = self.newest_ms.max(event.time_ms);
                run.end = *number;
            } else {
                self.append(chunk, run);
                run = *number..*number;
            }
        }
        let (rows, events) = if run.len() == self.size {
            // Most blocks lie within one chunk: borrow them instead of copying.
            let kept = if self.keeps_events { run.clone() } else { 0..0 };
            (chunk.frozen.rows(run), &chunk.events[kept])
        } else {
            self.append(chunk, run);
            (self.scores.rows(0..self.scores.len()), &self.events[..])
        };
        let block = Block {
            rows,
            events,
            next: &self.next,
            newest_ms: self.newest_ms,
        };
        (block.rows.len() == self.size).then_some(block)
    }

    fn append(&mut self, chunk: &ScoredChunk, run: Range<usize>) {
        if self.keeps_events {
            self.events.extend_from_slice(&chunk.events[run.clone()]);
        }
        self.scores.append(chunk.frozen.rows(run));
    }
}

#[cfg(test)]
mod tests {
    use ostar_connectors::event::{Chunk, Decoder, EventMeta, EventSettings, InputRows, Row};
    use ostar_method::{
        frozen::FrozenModel,
        learner::{Learner, LearnerSettings},
    };

    use super::*;
    use crate::{pipeline::scored::FrozenScoring, serving::fixture};

    fn model() -> FrozenModel {
        let learner = Learner::new(
            &fixture::bundle().deployed().unwrap(),
            LearnerSettings::default(),
        )
        .unwrap();
        learner.model().clone()
    }

    /// Events whose inputs tell their offsets.
    fn chunk(model: &FrozenModel, events: &[(i32, i64)]) -> ScoredChunk {
        let input = fixture::bundle().description().input.clone();
        let decoder = Decoder::new(&EventSettings::default(), &input, 2).unwrap();
        let mut chunk = Chunk::new(InputRows::new(&input, 2));
        for (partition, offset) in events {
            let row = Row::Dense(vec![*offset as f32; fixture::WIDTH]);
            decoder.push_row(&row, &mut chunk.rows).unwrap();
            chunk.events.push(EventMeta {
                id: None,
                time_ms: 0,
                recorded_ms: 0,
                partition: *partition,
                offset: *offset,
            });
        }
        FrozenScoring::new(model.clone(), false)
            .score(chunk)
            .unwrap()
    }

    /// Latents and probabilities of each complete block of three, and the offsets after it.
    fn blocks(chunks: &[ScoredChunk], learned: &Offsets) -> Vec<(Vec<f32>, Vec<f32>, Offsets)> {
        let mut builder = BlockBuilder::new(3, true);
        let mut complete = Vec::new();
        for chunk in chunks {
            let mut number = 0;
            while let Some(Block {
                rows, events, next, ..
            }) = builder.next_block(chunk, &mut number, learned, &mut Vec::new())
            {
                assert_eq!(events.len(), 3);
                complete.push((
                    rows.latents().to_vec(),
                    rows.probabilities().to_vec(),
                    next.clone(),
                ));
            }
        }
        complete
    }

    fn expected(
        model: &FrozenModel,
        events: &[(i32, i64)],
        next: Offsets,
    ) -> (Vec<f32>, Vec<f32>, Offsets) {
        let scores = chunk(model, events).frozen;
        (
            scores.latents().to_vec(),
            scores.probabilities().to_vec(),
            next,
        )
    }

    #[test]
    fn blocks_do_not_depend_on_where_chunks_end() {
        let model = model();
        let events: Vec<_> = (0..8).map(|offset| (0, offset)).collect();
        let whole = blocks(&[chunk(&model, &events)], &Offsets::new());
        assert_eq!(
            whole,
            [
                expected(&model, &events[..3], Offsets::from([(0, 3)])),
                expected(&model, &events[3..6], Offsets::from([(0, 6)])),
            ]
        );
        for cut in 0..events.len() {
            let (left, right) = events.split_at(cut);
            let parts = [chunk(&model, left), chunk(&model, right)];
            assert_eq!(blocks(&parts, &Offsets::new()), whole);
        }
    }

    #[test]
    fn events_that_were_learned_before_are_left_out() {
        let model = model();
        let events = [(0, 4), (1, 0), (0, 5), (0, 3), (1, 1), (0, 6)];
        let learned = Offsets::from([(0, 5)]);
        let complete = blocks(&[chunk(&model, &events)], &learned);
        let kept = [(1, 0), (0, 5), (1, 1)];
        let next = Offsets::from([(0, 6), (1, 2)]);
        assert_eq!(complete, [expected(&model, &kept, next)]);
    }
}
