//! Shares by labels of randomly drawn rows, beside the true shares of the same rows.

use anyhow::Result;
use ostar_bundle::Bundle;
use ostar_engine::{Inputs, Rows, evaluate::Scratch};
use ostar_method::{
    frozen::FrozenScores,
    learner::{ArrivedLabel, BlockEvent, LabelUse, Learner, LearnerSettings, SharesByLabels},
    proportions::Interval,
};

use crate::task::{Domain, proportions};

/// Events of a block: the daemon's default.
const BLOCK: usize = 500;

/// Sums over blocks and classes of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ShareOutcome {
    /// Blocks after which there were shares by labels.
    pub blocks: usize,
    /// Of these, blocks in which label shift was refuted, so that shares could not be told otherwise.
    pub refuted: usize,
    /// Intervals in all; of two classes that of one, since the other mirrors it.
    pub intervals: usize,
    /// Intervals that hold the true share of their rows.
    pub covered: usize,
    /// Intervals that are wider than from the labels alone.
    pub wider: usize,
    /// Widths of the intervals, of those from labels alone, and of these narrowed by the factor of theory.
    pub width: f64,
    /// See `width`.
    pub alone: f64,
    /// See `width`.
    pub theory: f64,
}

/// A block with its truth.
struct Known {
    /// Of the frozen model.
    probabilities: Vec<f32>,
    labels: Vec<u32>,
}

/// Replays a stream. After every block `requests` rows are drawn at random, and answered in the next.
pub fn replay(
    bundle: &Bundle,
    stream: &Domain,
    requests: usize,
    seed: u64,
) -> Result<ShareOutcome> {
    let settings = LearnerSettings {
        threads: 1,
        seed,
        labels: Some(LabelUse {
            random: requests,
            seed,
            ..LabelUse::default()
        }),
        ..LearnerSettings::default()
    };
    let mut learner = Learner::new(&bundle.deployed()?, settings)?;
    let mut outcome = ShareOutcome::default();
    let mut answers: Vec<ArrivedLabel> = Vec::new();
    let mut known: Vec<Known> = Vec::new();
    let (mut frozen, mut scratch) = (FrozenScores::default(), Scratch::default());
    let blocks = stream.rows.chunks_exact(BLOCK * stream.width);
    for (number, (rows, labels)) in blocks.zip(stream.labels.chunks(BLOCK)).enumerate() {
        let inputs = Inputs::Dense(Rows::new(rows, stream.width)?);
        let model = learner.model().clone();
        model.score(inputs, &mut scratch, &mut frozen)?;
        learner.follow(frozen.all(), None)?;
        let ids: Vec<String> = (number * BLOCK..(number + 1) * BLOCK)
            .map(|row| row.to_string())
            .collect();
        let event = |id| BlockEvent {
            id: Some(id),
            time_ms: 0,
            sent: None,
        };
        let events: Vec<BlockEvent<'_>> = ids.iter().map(|id| event(id.as_str())).collect();
        let report = learner.close(&events, &answers)?;
        known.push(Known {
            probabilities: frozen.probabilities().to_vec(),
            labels: labels.to_vec(),
        });
        let Some(joined) = report.labels else {
            continue;
        };
        let answer = |id: &str| -> Result<ArrivedLabel> {
            Ok(ArrivedLabel {
                id: id.into(),
                class: stream.labels[id.parse::<usize>()?],
                time_ms: 0,
            })
        };
        let asked = joined.requests.iter().map(|request| answer(&request.id));
        answers = asked.collect::<Result<_>>()?;
        if let Some(shares) = &joined.shares {
            outcome.note(shares, &known, report.verdict.refuted);
        }
    }
    Ok(outcome)
}

impl ShareOutcome {
    fn note(&mut self, shares: &SharesByLabels, known: &[Known], refuted: bool) {
        let window = &known[shares.first_block as usize - 1..shares.last_block as usize];
        let classes = shares.classes.len();
        let labels: Vec<u32> = window
            .iter()
            .flat_map(|block| block.labels.clone())
            .collect();
        let truth = proportions(&labels, classes);
        self.blocks += 1;
        self.refuted += usize::from(refuted);
        let told = if classes == 2 { 1..2 } else { 0..classes };
        for class in told {
            let found = shares.classes[class];
            let width = |interval: Interval| interval.high - interval.low;
            self.intervals += 1;
            self.covered += usize::from(found.interval.contains(truth[class]));
            self.wider += usize::from(width(found.interval) > width(found.alone));
            self.width += width(found.interval);
            self.alone += width(found.alone);
            self.theory += width(found.alone) * narrowing(window, class, classes);
        }
    }
}

/// The factor by which the best tuning narrows an interval, from the labels of all rows: the root of what is left of the
/// variance within blocks after the regression on the predictions.
fn narrowing(window: &[Known], class: usize, classes: usize) -> f64 {
    let (mut labels, mut both, mut predictions) = (0.0, 0.0, 0.0);
    for block in window {
        let is_class = |label: &u32| f64::from(u8::from(*label as usize == class));
        let pairs = || {
            let rows = block.probabilities.chunks_exact(classes);
            let predicted = rows.map(|row| f64::from(row[class]));
            block.labels.iter().map(is_class).zip(predicted)
        };
        let count = block.labels.len() as f64;
        let (y, f) = pairs().fold((0.0, 0.0), |(y, f), row| (y + row.0, f + row.1));
        for (label, prediction) in pairs() {
            let (label, prediction) = (label - y / count, prediction - f / count);
            labels += label * label;
            both += label * prediction;
            predictions += prediction * prediction;
        }
    }
    if labels <= 0.0 || predictions <= 0.0 {
        return 1.0;
    }
    let tuning = (both / predictions).clamp(0.0, 1.0);
    let left = labels - 2.0 * tuning * both + tuning * tuning * predictions;
    (left.max(0.0) / labels).sqrt()
}
