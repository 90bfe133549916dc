//! The demo's result in numbers.

use ostar_connectors::proto::Version;
use serde::Serialize;

use super::{
    meter::{Accuracies, Meter},
    stream::{ACTS, Act, Phase, act_of},
};
use crate::{facts::has_shares, proto::State};

/// Index of spam among the classes.
const SPAM: usize = 1;

/// Sums that are updated while the demo runs.
#[derive(Debug, Clone)]
pub(super) struct Summary {
    mails: u64,
    block: usize,
    blocks: u64,
    distances: f64,
    /// What the gate chose, and why, at the end of each act that has begun.
    choices: Vec<(String, String)>,
    last: Option<State>,
}

/// The last line of `--json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figures {
    /// Over all mails.
    #[serde(flatten)]
    pub(super) accuracies: Accuracies,
    /// Mean over blocks of |estimate - truth|, summed over the classes.
    pub(super) proportion_l1_mean: f64,
    pub(super) events: u64,
    pub(super) steps: u64,
    pub(super) skipped_steps: u64,
    pub(super) model_version: String,
    pub(super) acts: Vec<ActFigures>,
}

/// The outcome of an act that has begun.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ActFigures {
    pub(super) name: &'static str,
    /// Over the act's mails; `None` if none was sent.
    #[serde(flatten)]
    pub(super) accuracies: Option<Accuracies>,
    /// What the gate served at the act's end, and why.
    pub(super) served: String,
    pub(super) reason: String,
}

impl Summary {
    pub(super) fn new(mails: u64, block: usize) -> Self {
        Self {
            mails,
            block,
            blocks: 0,
            distances: 0.0,
            choices: Vec::new(),
            last: None,
        }
    }

    /// Adds the block that a new state reports, if it reports one.
    pub(super) fn observe(&mut self, state: &State) {
        let events = self.last.as_ref().map_or(0, |last| last.events);
        if state.events > events && has_shares(state) {
            self.blocks += 1;
            let gate = state.gate.clone().unwrap_or_default();
            let choice = (gate.candidate, gate.explanation);
            match self.choices.get_mut(act_of(state.events, self.mails)) {
                Some(known) => *known = choice,
                None => self.choices.push(choice),
            }
            self.distances += 2.0 * (state.classes[SPAM].served - self.truth(state)).abs();
        }
        self.last = Some(state.clone());
    }

    /// The true share of spam in the newest block, from the schedule.
    pub(super) fn truth(&self, state: &State) -> f64 {
        let middle = state.events as f64 - self.block as f64 / 2.0;
        Phase::at(middle / self.mails as f64).spam
    }

    /// The act that the newest block belongs to.
    pub(super) fn act(&self, state: &State) -> &'static Act {
        &ACTS[act_of(state.events, self.mails)]
    }

    /// `None` before the first block and the first mail.
    pub(super) fn figures(&self, meter: &Meter) -> Option<Figures> {
        let acts = ACTS.iter().zip(&self.choices).zip(&meter.acts);
        let acts = acts.map(|((act, (served, reason)), tally)| ActFigures {
            name: act.name,
            accuracies: tally.accuracies(),
            served: served.clone(),
            reason: reason.clone(),
        });
        let last = self.last.as_ref()?;
        let Version { epoch, step } = last.version.unwrap_or_default();
        Some(Figures {
            accuracies: meter.all().accuracies()?,
            proportion_l1_mean: self.distances / self.blocks.max(1) as f64,
            events: last.events,
            steps: last.steps,
            skipped_steps: last.skipped_steps,
            model_version: format!("{epoch}.{step}"),
            acts: acts.collect(),
        })
    }
}
