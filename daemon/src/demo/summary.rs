//! The demo's result in numbers.

use ostar_method::{Candidate, learner::Predictor};
use serde::Serialize;

use super::{
    acts::{ActFigures, Acts, Answers},
    stream::{Act, Phase},
};
use crate::{current::Version, status::Status};

/// Index of spam among the classes.
const SPAM: usize = 1;

/// Sums that are updated while the demo runs.
#[derive(Debug, Clone)]
pub(super) struct Summary {
    mails: u64,
    block: usize,
    blocks: u64,
    distances: f64,
    acts: Acts,
    last: Option<Status>,
}

/// The last line of `--json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figures {
    /// Over the mails whose labels were asked for at random.
    pub(super) accuracy_frozen: f64,
    pub(super) accuracy_prior: f64,
    pub(super) accuracy_adapted: f64,
    pub(super) accuracy_served: f64,
    /// Mean over blocks of |estimate - truth|, summed over the classes.
    pub(super) proportion_l1_mean: f64,
    pub(super) events: u64,
    pub(super) steps: u64,
    pub(super) skipped_steps: u64,
    pub(super) model_version: String,
    pub(super) acts: Vec<ActFigures>,
}

impl Summary {
    pub(super) fn new(mails: u64, block: usize) -> Self {
        Self {
            mails,
            block,
            blocks: 0,
            distances: 0.0,
            acts: Acts::new(mails),
            last: None,
        }
    }

    /// Adds the block that a new status reports, if it reports one.
    pub(super) fn observe(&mut self, status: &Status) {
        let events = self.last.as_ref().map_or(0, |last| last.events);
        if status.events > events
            && let Some(estimate) = estimate(status)
        {
            self.blocks += 1;
            self.acts.observe(status, self.block);
            self.distances += 2.0 * (estimate - self.truth(status)).abs();
        }
        self.last = Some(status.clone());
    }

    /// The true share of spam in the newest block, from the schedule.
    pub(super) fn truth(&self, status: &Status) -> f64 {
        let middle = status.events as f64 - self.block as f64 / 2.0;
        Phase::at(middle / self.mails as f64).spam
    }

    /// Answers to requests that were drawn at random.
    pub(super) fn answers(&self) -> Answers {
        self.acts.answers()
    }

    /// The act that the newest block belongs to.
    pub(super) fn act(&self, status: &Status) -> &'static Act {
        self.acts.current(status.events)
    }

    /// `None` before the first answer.
    pub(super) fn figures(&self) -> Option<Figures> {
        let answers = self.answers();
        let last = self.last.as_ref()?;
        let Version { epoch, step } = last.version;
        Some(Figures {
            accuracy_frozen: answers.accuracy(Predictor::Candidate(Candidate::Frozen))?,
            accuracy_prior: answers.accuracy(Predictor::Candidate(Candidate::Prior))?,
            accuracy_adapted: answers.accuracy(Predictor::Candidate(Candidate::Adapted))?,
            accuracy_served: answers.accuracy(Predictor::Served)?,
            proportion_l1_mean: self.distances / self.blocks.max(1) as f64,
            events: last.events,
            steps: last.steps,
            skipped_steps: last.skipped_steps,
            model_version: format!("{epoch}.{step}"),
            acts: self.acts.figures(),
        })
    }
}

/// The served share of spam.
fn estimate(status: &Status) -> Option<f64> {
    let block = status.block.as_ref()?;
    let estimate = &block.served;
    Some(estimate.proportions[SPAM])
}
