//! The gate on whole streams: what mode `auto` serves beside the frozen model, prior correction and the oracle.
//!
//! As in the daemon, rows are scored in groups with what was known before them, then learned from.

mod answers;
pub mod failures;
pub mod families;
mod outcome;
pub mod suites;
mod two_shifts;

use std::collections::VecDeque;

use anyhow::Result;
use ostar_bundle::Bundle;
use ostar_engine::{Inputs, Rows, argmax, evaluate::Scratch};
use ostar_method::{
    frozen::FrozenScores,
    learner::{BlockEvent, Learner, LearnerSettings, Scores, StepPlan},
    proportions::{
        Estimator, LabelProportions, Probabilities, ProportionEstimator, Tracker, TrackerSettings,
        prior_correct,
    },
};

use self::answers::Answers;
pub use self::{
    answers::Answering,
    outcome::{Outcome, PairedWindows},
};
use crate::task::{Domain, proportions};

/// Events of a block: the daemon's default.
const BLOCK: usize = 500;
/// Rows of the fixed window that the tracker is compared with.
const FIXED_WINDOW: usize = 1_000;

/// What is compared, in the order of an outcome's columns.
pub const CANDIDATES: [&str; 7] = [
    "frozen",
    "prior",
    "adapted",
    "auto",
    "oracle",
    "cumulative",
    "window",
];
/// Places among [`CANDIDATES`].
pub const FROZEN: usize = 0;
/// Prior correction without a gate: the control.
pub const PRIOR: usize = 1;
/// The adapted model, whatever the gate says.
pub const ADAPTED: usize = 2;
/// What mode `auto` serves.
pub const AUTO: usize = 3;
/// Correction with the true shares of each block.
pub const ORACLE: usize = 4;
/// Correction with shares of the last 1,000 rows.
pub const WINDOW: usize = 6;

/// How a stream is replayed.
#[derive(Debug, Clone, Copy)]
pub struct Replay {
    /// Usual alignment steps of a block; 0 follows proportions alone.
    pub steps: usize,
    /// Whether steps are taken while label shift explains the window, as mode `adapted` does.
    pub always: bool,
    /// Whether the adapted model may be served without labels.
    pub adapted_without_labels: bool,
    /// Whether correction with shares of all rows, and of the last 1,000, is compared, too.
    pub rivals: bool,
    /// Labels that are asked for, and how they are answered.
    pub answering: Answering,
    /// Seed of the learner.
    pub seed: u64,
}

/// Ways of following the proportions that the tracker is compared with.
struct Rivals {
    compared: bool,
    estimator: ProportionEstimator,
    cumulative: Tracker,
    recent: VecDeque<Vec<f64>>,
    proportions: [LabelProportions; 2],
}

impl Rivals {
    fn new(bundle: &Bundle, compared: bool) -> Result<Self> {
        let held_out = bundle.held_out()?;
        let prior = bundle.description().training_proportions.clone();
        Ok(Self {
            compared,
            estimator: ProportionEstimator::new(
                Estimator::default(),
                held_out.probabilities,
                held_out.labels,
                prior.clone(),
            )?,
            cumulative: Tracker::new(&TrackerSettings::Cumulative)?,
            recent: VecDeque::new(),
            proportions: [prior.clone(), prior],
        })
    }

    fn track(&mut self, group: &Probabilities) -> Result<()> {
        if !self.compared {
            return Ok(());
        }
        let evidence = self.estimator.evidence(group, None)?;
        self.proportions[0] = self.cumulative.update(&evidence)?.proportions;
        self.recent.extend(group.rows().map(<[f64]>::to_vec));
        while self.recent.len() > FIXED_WINDOW {
            self.recent.pop_front();
        }
        let values: Vec<f64> = self.recent.iter().flatten().copied().collect();
        let window = Probabilities::new("window", Rows::new(&values[..], group.classes())?)?;
        self.proportions[1] = self.estimator.estimate(&window)?.proportions;
        Ok(())
    }
}

/// Takes a stream through all candidates.
pub fn replay(bundle: &Bundle, stream: &Domain, how: Replay) -> Result<Outcome> {
    let mut settings = LearnerSettings {
        threads: 1,
        seed: how.seed,
        ..LearnerSettings::default()
    };
    settings.gate.adapted_without_labels = how.adapted_without_labels;
    settings.labels = how.answering.labels(how.seed);
    let mut learner = Learner::new(&bundle.deployed()?, settings)?;
    let mut rivals = Rivals::new(bundle, how.rivals)?;
    let mut outcome = Outcome {
        right: Vec::with_capacity(stream.count()),
        known: 0,
        ranges: 0,
        covered: (0, 0),
        width: 0.0,
        blocks: 0,
        served: [0; 3],
        reasons: Vec::new(),
        verdicts: Vec::new(),
        steps: 0,
        labels: 0,
    };
    learner.plan_steps(StepPlan {
        usual: how.steps,
        always: how.always,
    });
    let mut answers = Answers::new(how.answering, bundle.classes(), how.seed);
    let (mut frozen, mut scratch) = (FrozenScores::default(), Scratch::default());
    let blocks = stream.rows.chunks(BLOCK * stream.width);
    for (number, (rows, labels)) in blocks.zip(stream.labels.chunks(BLOCK)).enumerate() {
        let inputs = Inputs::Dense(Rows::new(rows, stream.width)?);
        learner
            .model()
            .clone()
            .score(inputs, &mut scratch, &mut frozen)?;
        score_groups(&mut learner, &mut rivals, &frozen, labels, &mut outcome)?;
        if labels.len() < BLOCK {
            break;
        }
        let ids: Vec<String> = (number * BLOCK..(number + 1) * BLOCK)
            .map(|row| row.to_string())
            .collect();
        let events: Vec<BlockEvent<'_>> = ids
            .iter()
            .map(|id| BlockEvent {
                id: Some(id),
                time_ms: 0,
                sent: None,
            })
            .collect();
        let report = learner.close(&events, &answers.take(number))?;
        if let Some(labels) = &report.labels {
            answers.ask(number, &labels.requests, &stream.labels);
            outcome.labels = labels.counts.joined;
        }
        let seen = &stream.labels[..(number + 1) * BLOCK];
        outcome.note(&report, seen, bundle.classes());
        for _ in 0..report.steps_due {
            learner.step()?;
            outcome.steps += 1;
        }
    }
    Ok(outcome)
}

/// Scores a block group by group, and lets the proportions follow each.
fn score_groups(
    learner: &mut Learner,
    rivals: &mut Rivals,
    frozen: &FrozenScores,
    labels: &[u32],
    outcome: &mut Outcome,
) -> Result<()> {
    let mut scores = Scores::default();
    let snapshot = learner.snapshot();
    let training = snapshot.training_proportions().clone();
    let classes = training.classes();
    let truth = LabelProportions::new(proportions(labels, classes))?;
    let truth = truth.floored(0.01 / classes as f64);
    let size = learner.group_rows();
    for first in (0..labels.len()).step_by(size) {
        let end = (first + size).min(labels.len());
        let mut group = FrozenScores::default();
        group.append(frozen.rows(first..end));
        let snapshot = learner.snapshot();
        snapshot.score_frozen(&group, &mut scores)?;
        let corrected = |to: &LabelProportions| {
            let mut rows = scores.frozen.clone();
            prior_correct(&mut rows, &training, to);
            rows
        };
        let others = [
            corrected(snapshot.whole_proportions()),
            corrected(&truth),
            corrected(&rivals.proportions[0]),
            corrected(&rivals.proportions[1]),
        ];
        let candidates: [&[f32]; 7] = [
            &scores.frozen,
            // What labels make of it is `auto`.
            &others[0],
            &scores.adapted,
            scores.of(snapshot.candidate),
            &others[1],
            &others[2],
            &others[3],
        ];
        for (place, label) in labels[first..end].iter().enumerate() {
            let row = place * classes..(place + 1) * classes;
            let is_right = |values: &[f32]| argmax(&values[row.clone()]) == *label as usize;
            outcome.right.push(candidates.map(is_right));
        }
        if labels.len() == BLOCK {
            learner.follow(frozen.rows(first..end), None)?;
            let rows = Rows::new(group.probabilities(), classes)?;
            rivals.track(&Probabilities::new("group", rows)?)?;
        }
    }
    Ok(())
}
