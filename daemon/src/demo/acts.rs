//! What came of each act of the demo.

use serde::Serialize;

use super::{
    meter::{Accuracies, Tally},
    stream::{ACTS, act_of},
};
use crate::proto::State;

/// The outcome of an act.
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

/// Follows the acts while the demo runs.
#[derive(Debug, Clone)]
pub(super) struct Acts {
    mails: u64,
    /// The gate's choice at the end of each act that has begun.
    choices: Vec<(String, String)>,
}

impl Acts {
    pub(super) fn new(mails: u64) -> Self {
        Self {
            mails,
            choices: Vec::new(),
        }
    }

    /// Notes what the gate chose after a block.
    pub(super) fn observe(&mut self, state: &State) {
        let gate = state.gate.clone().unwrap_or_default();
        let choice = (gate.candidate, gate.explanation);
        match self.choices.get_mut(act_of(state.events, self.mails)) {
            Some(known) => *known = choice,
            None => self.choices.push(choice),
        }
    }

    /// Of all acts that were seen.
    pub(super) fn figures(&self, tallies: &[Tally]) -> Vec<ActFigures> {
        let acts = ACTS.iter().zip(&self.choices).zip(tallies);
        let figures = acts.map(|((act, (served, reason)), tally)| ActFigures {
            name: act.name,
            accuracies: tally.accuracies(),
            served: served.clone(),
            reason: reason.clone(),
        });
        figures.collect()
    }
}
