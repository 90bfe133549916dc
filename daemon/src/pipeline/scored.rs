//! Scores chunks with the frozen model, once for both emission and the learner.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use ostar_connectors::event::{
    Chunk, EventMeta, InputRows, Offsets, Reject, RejectReason, Rejected, Rewound,
};
use ostar_engine::evaluate::Scratch;
use ostar_method::frozen::{FrozenModel, FrozenScores};

/// Most events of a chunk that the model may refuse.
const MOST_REFUSED: usize = 64;

/// A chunk with the frozen model's latents and probabilities in place of its inputs.
#[derive(Debug, Default)]
pub(crate) struct ScoredChunk {
    pub(crate) events: Vec<EventMeta>,
    /// One row per event.
    pub(crate) frozen: FrozenScores,
    /// Inputs of some of the events, which are compared with training's; `None` if the bundle does not know training's.
    pub(crate) sample: Option<Sample>,
    /// The class of each event that callers are sent; empty if nothing is sent.
    pub(crate) sent: Vec<u32>,
    /// If the events are samples: where each was read by a scorer. Otherwise empty.
    pub(crate) origins: Vec<Origin>,
    pub(crate) rejected: Vec<Rejected>,
    /// In each partition, the offset behind the chunk's last event, rejected ones included.
    pub(crate) next: Offsets,
    /// How many of the rejected ones the model refused. They are the last.
    pub(crate) refused: usize,
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
    samples: bool,
}

impl FrozenScoring {
    /// `samples` says whether inputs are compared with training's.
    pub(crate) fn new(model: FrozenModel, samples: bool) -> Self {
        Self {
            model,
            scratch: Scratch::default(),
            samples,
        }
    }

    /// Scores a chunk. Events that the model refuses become rejected ones, by their offsets, and the last of them: they
    /// would end the process at each start.
    pub(crate) fn score(&mut self, mut chunk: Chunk) -> Result<ScoredChunk> {
        let start = Instant::now();
        let scored = try_score(|| {
            let mut frozen = FrozenScores::default();
            let inputs = chunk.rows.inputs();
            self.model.score(inputs, &mut self.scratch, &mut frozen)?;
            Ok(frozen)
        });
        let (frozen, refused) = match scored {
            Ok(frozen) => (frozen, 0),
            Err(_) => {
                // A panic may have left anything there.
                self.scratch = Scratch::default();
                let model = &self.model;
                quarantine(&mut chunk, |rows| {
                    let mut frozen = FrozenScores::default();
                    model.score(rows.inputs(), &mut Scratch::default(), &mut frozen)?;
                    Ok(frozen)
                })?
            }
        };
        Ok(ScoredChunk {
            sample: self.samples.then(|| Sample::draw(&chunk)),
            events: chunk.events,
            frozen,
            rejected: chunk.rejected,
            next: chunk.next,
            rewound: chunk.rewound,
            refused,
            duration: start.elapsed(),
            ..ScoredChunk::default()
        })
    }
}

// === impl Sample ===

impl Sample {
    /// The inputs of those of the chunk's events `range` that were drawn.
    pub(crate) fn rows_in(&self, range: Range<usize>) -> InputRows {
        let [first, end] = [range.start, range.end]
            .map(|number| self.events.partition_point(|event| *event < number));
        let mut rows = self.rows.emptied();
        rows.append(&self.rows, first..end);
        rows
    }

    /// Draws one event of four by its offset alone, so that a replay draws the same, whatever the chunks are.
    fn draw(chunk: &Chunk) -> Self {
        let mut rows = chunk.rows.emptied();
        let mut events = Vec::new();
        for (number, event) in chunk.events.iter().enumerate() {
            // Fibonacci hashing: periods of the stream do not meet it.
            let hash = (event.offset as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if hash >> 62 == 0 {
                rows.append(&chunk.rows, number..number + 1);
                events.push(number);
            }
        }
        Self { rows, events }
    }
}

/// An error or a panic, as a text.
fn try_score(score: impl FnOnce() -> Result<FrozenScores>) -> Result<FrozenScores, String> {
    match catch_unwind(AssertUnwindSafe(score)) {
        Ok(Ok(frozen)) => Ok(frozen),
        Ok(Err(error)) => Err(format!("{error:#}")),
        Err(_) => Err("the model panicked".to_owned()),
    }
}

/// Scores the rows of a chunk one by one, which gives the same numbers as all at once. Those that cannot be scored move
/// to the rejected ones. Fails if there are many: then not the events are at fault.
fn quarantine(
    chunk: &mut Chunk,
    score: impl Fn(&InputRows) -> Result<FrozenScores>,
) -> Result<(FrozenScores, usize)> {
    let mut frozen = FrozenScores::default();
    let mut kept = Vec::with_capacity(chunk.events.len());
    let mut kept_rows = chunk.rows.emptied();
    let mut refused = 0;
    let mut row = chunk.rows.emptied();
    let count = chunk.events.len();
    for (number, event) in std::mem::take(&mut chunk.events).into_iter().enumerate() {
        row.clear();
        row.append(&chunk.rows, number..number + 1);
        match try_score(|| score(&row)) {
            Ok(scores) => {
                frozen.append(scores.rows(0..1));
                kept_rows.append(&row, 0..1);
                kept.push(event);
            }
            Err(problem) => {
                refused += 1;
                ensure!(
                    refused <= MOST_REFUSED,
                    "the model refuses {refused} of {count} decoded events, the last one because: {problem}"
                );
                chunk.rejected.push(refuse(&event, problem));
            }
        }
    }
    chunk.events = kept;
    chunk.rows = kept_rows;
    Ok((frozen, refused))
}

/// The dead letter of an event whose record is not at hand any more: its offset finds it.
fn refuse(event: &EventMeta, problem: String) -> Rejected {
    Rejected {
        reject: Reject::new(RejectReason::Unscorable, problem),
        partition: event.partition,
        offset: event.offset,
        key: event.id.as_ref().map(|id| id.as_bytes().to_vec()),
        key_size: event.id.as_ref().map_or(0, |id| id.len()),
        payload: Vec::new(),
        size: 0,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;
    use ostar_connectors::event::{Decoder, EventSettings, RecordMeta};
    use ostar_method::learner::{Learner, LearnerSettings};

    use super::*;
    use crate::serving::fixture;

    fn chunk(bundle: &ostar_bundle::Bundle, events: i64) -> Chunk {
        let (input, classes) = (&bundle.description().input, bundle.classes());
        let decoder = Decoder::new(&EventSettings::default(), input, classes).unwrap();
        let mut chunk = Chunk::new(InputRows::new(input, classes));
        for offset in 0..events {
            let payload = format!(r#"{{"latent": [{offset}, 0, 0, 1]}}"#);
            let meta = RecordMeta {
                partition: 3,
                offset,
                timestamp_ms: Some(0),
                key: None,
            };
            let decoded = decoder.decode(payload.as_bytes(), meta, &mut chunk);
            decoded.unwrap();
        }
        chunk
    }

    #[test]
    fn what_the_model_refuses_or_panics_on_is_quarantined_by_its_offset_and_the_rest_is_scored() {
        let bundle = fixture::bundle();
        let learner =
            Learner::new(&bundle.deployed().unwrap(), LearnerSettings::default()).unwrap();
        let model = learner.model().clone();
        let mut scoring = FrozenScoring::new(model.clone(), true);
        let whole = scoring.score(chunk(&bundle, 6)).unwrap();
        assert_eq!((whole.events.len(), whole.refused), (6, 0));

        let mut broken = chunk(&bundle, 6);
        let score = |rows: &InputRows| {
            let mut frozen = FrozenScores::default();
            model.score(rows.inputs(), &mut Scratch::default(), &mut frozen)?;
            let ostar_engine::Inputs::Dense(values) = rows.inputs() else {
                unreachable!("latents");
            };
            if values.values().get(0) == 2.0 {
                bail!("two is refused");
            }
            assert!(values.values().get(0) != 4.0, "four is worse");
            Ok(frozen)
        };
        let (frozen, refused) = quarantine(&mut broken, score).unwrap();
        assert_eq!(refused, 2);
        let offsets: Vec<i64> = broken.events.iter().map(|event| event.offset).collect();
        assert_eq!(offsets, [0, 1, 3, 5]);
        let rejected: Vec<_> = broken.rejected.iter().map(|event| event.offset).collect();
        assert_eq!(rejected, [2, 4]);
        assert_eq!(broken.rejected[0].reject.reason, RejectReason::Unscorable);
        assert_eq!(
            broken.rows.len(),
            4,
            "samples are drawn from the rows that are left"
        );
        let rows = whole.frozen.probabilities().chunks(2);
        let expected: Vec<f32> = rows
            .enumerate()
            .filter(|(number, _)| offsets.contains(&(*number as i64)))
            .flat_map(|(_, row)| row.to_vec())
            .collect();
        assert_eq!(frozen.probabilities(), expected);
    }

    #[test]
    fn a_model_that_refuses_everything_is_a_failure() {
        let bundle = fixture::bundle();
        let mut chunk = chunk(&bundle, MOST_REFUSED as i64 + 1);
        let error = quarantine(&mut chunk, |_| bail!("nothing fits"))
            .err()
            .unwrap();
        assert!(error.to_string().contains("nothing fits"), "{error}");
    }
}
