//! Cuts the stream into blocks of a fixed number of events, whatever chunks it came in.
//!
//! Chunks end by size or by deadline, so their boundaries depend on timing. Blocks depend on the order of events alone,
//! and so does what is learned.

use std::ops::Range;

use ostar_connectors::{
    event::{EventMeta, Offsets},
    samples::SeenEvents,
};

use super::scored::ScoredChunk;

/// Events of one block after the other. Their rows are in the learner.
#[derive(Debug)]
pub(crate) struct Blocks {
    size: usize,
    /// Of the block that is being filled; without ids unless labels are joined by them.
    events: Vec<EventMeta>,
    keeps_ids: bool,
    /// The classes that callers were sent of them.
    sent: Vec<Option<u32>>,
    /// In each partition of the block, the offset behind its last event.
    next: Offsets,
    /// Of samples, which arrive at least once: how far their events were seen.
    seen: SeenEvents,
    /// When a scorer has read the newest of them; 0 if they are no samples.
    scored_ms: i64,
}

impl Blocks {
    /// Samples of events that were `seen` before are left out.
    pub(crate) fn new(size: usize, keeps_ids: bool, seen: SeenEvents) -> Self {
        Self {
            size,
            events: Vec::with_capacity(size),
            keeps_ids,
            sent: Vec::with_capacity(size),
            next: Offsets::new(),
            seen,
            scored_ms: 0,
        }
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

    /// The chunk's next events from `number` on that belong to the open block and follow each other, without those before
    /// `learned`. Moves `number` behind them; `None` at the end of the chunk.
    pub(crate) fn next_run(
        &mut self,
        chunk: &ScoredChunk,
        number: &mut usize,
        learned: &Offsets,
    ) -> Option<Range<usize>> {
        let mut run = *number..*number;
        while *number < chunk.events.len() && !self.is_full() {
            let is_new = self.is_new(chunk, *number, learned);
            *number += 1;
            if is_new {
                self.push(chunk, *number - 1);
                run.end = *number;
            } else if run.is_empty() {
                run = *number..*number;
            } else {
                break;
            }
        }
        (!run.is_empty()).then_some(run)
    }

    fn is_new(&mut self, chunk: &ScoredChunk, number: usize, learned: &Offsets) -> bool {
        let event = &chunk.events[number];
        let learned = learned.get(&event.partition);
        let mut is_new = learned.is_none_or(|at| event.offset >= *at);
        if let Some(origin) = chunk.origins.get(number) {
            is_new =
                is_new && (self.seen).advance(origin.partition, origin.offset, origin.creation);
            self.scored_ms = self.scored_ms.max(origin.scored_ms);
        }
        is_new
    }

    fn push(&mut self, chunk: &ScoredChunk, number: usize) {
        let event = &chunk.events[number];
        self.sent.push(chunk.sent.get(number).copied());
        self.next.insert(event.partition, event.offset + 1);
        self.events.push(EventMeta {
            id: event.id.clone().filter(|_| self.keeps_ids),
            ..*event
        });
    }

    /// Whether the block has all its events.
    pub(crate) fn is_full(&self) -> bool {
        self.events.len() == self.size
    }

    /// Whether it has none.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The block's events, the classes that callers were sent of them, and in each of its partitions the offset behind the
    /// last one.
    pub(crate) fn open(&self) -> (&[EventMeta], &[Option<u32>], &Offsets) {
        (&self.events, &self.sent, &self.next)
    }

    /// Begins the next block.
    pub(crate) fn begin(&mut self) {
        self.events.clear();
        self.sent.clear();
        self.next.clear();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use ostar_connectors::event::{Chunk, Decoder, EventMeta, EventSettings, InputRows, Row};
    use ostar_method::{
        frozen::{FrozenModel, FrozenScores},
        learner::{Learner, LearnerSettings},
    };

    use super::*;
    use crate::{pipeline::scored::FrozenScoring, serving::fixture};

    pub(in crate::pipeline) fn model() -> FrozenModel {
        let learner = Learner::new(
            &fixture::bundle().deployed().unwrap(),
            LearnerSettings::default(),
        )
        .unwrap();
        learner.model().clone()
    }

    /// Events whose inputs tell their offsets.
    pub(in crate::pipeline) fn chunk(model: &FrozenModel, events: &[(i32, i64)]) -> ScoredChunk {
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
        let mut blocks = Blocks::new(3, true, SeenEvents::default());
        let mut rows = FrozenScores::default();
        let mut complete = Vec::new();
        for chunk in chunks {
            let mut number = 0;
            while let Some(run) = blocks.next_run(chunk, &mut number, learned) {
                rows.append(chunk.frozen.rows(run));
                assert_eq!(blocks.open().0.len(), rows.len());
                if blocks.is_full() {
                    let (latents, probabilities) = (rows.latents(), rows.probabilities());
                    complete.push((
                        latents.to_vec(),
                        probabilities.to_vec(),
                        blocks.open().2.clone(),
                    ));
                    rows.clear();
                    blocks.begin();
                }
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
