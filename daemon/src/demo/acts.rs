//! What came of each act of the demo.

use ostar_connectors::labels::{Measurement, Predictor};
use ostar_method::Candidate;
use serde::Serialize;

use super::stream::{ACTS, Act};
use crate::proto::State;

/// The outcome of an act.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ActFigures {
    pub(super) name: &'static str,
    /// Accuracies over the act's mails; `None` if none was measured.
    pub(super) accuracy_frozen: Option<f64>,
    pub(super) accuracy_prior: Option<f64>,
    pub(super) accuracy_adapted: Option<f64>,
    pub(super) accuracy_served: Option<f64>,
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
    /// Mails and right predictions of each predictor up to the end of each act that has ended.
    totals: Vec<Total>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Total {
    labels: f64,
    right: [f64; Predictor::ALL.len()],
}

impl Acts {
    pub(super) fn new(mails: u64) -> Self {
        Self {
            mails,
            choices: Vec::new(),
            totals: Vec::new(),
        }
    }

    /// The act that a mail belongs to.
    pub(super) fn current(&self, events: u64) -> &'static Act {
        let begun = |act: &&Act| act.begin * self.mails as f64 <= events as f64;
        let last = ACTS.iter().rev().find(begun);
        last.unwrap_or(&ACTS[0])
    }

    /// Notes what the gate chose after a block.
    pub(super) fn observe(&mut self, state: &State) {
        let gate = state.gate.clone().unwrap_or_default();
        let number = ACTS
            .iter()
            .position(|act| act == self.current(state.events));
        let choice = (gate.candidate, gate.explanation);
        match number {
            Some(number) if number < self.choices.len() => self.choices[number] = choice,
            _ => self.choices.push(choice),
        }
    }

    /// Closes an act once its last mail was measured.
    pub(super) fn measure(&mut self, total: &Measurement) {
        let next = ACTS.get(self.totals.len() + 1);
        if let Some(next) = next
            && total.labels as f64 >= next.begin * self.mails as f64
        {
            self.totals.push(Total::new(total));
        }
    }

    /// Of all acts that were seen, the last one up to `total`.
    pub(super) fn figures(&self, total: &Measurement) -> Vec<ActFigures> {
        let mut before = Total::default();
        let ends = self.totals.iter().copied().chain([Total::new(total)]);
        let acts = ACTS.iter().zip(&self.choices).zip(ends);
        let figures = acts.map(|((act, (served, reason)), end)| {
            let labels = end.labels - before.labels;
            let of = |predictor: Predictor| {
                let place = Predictor::ALL.iter().position(|one| *one == predictor)?;
                (labels > 0.0).then(|| (end.right[place] - before.right[place]) / labels)
            };
            let figures = ActFigures {
                name: act.name,
                accuracy_frozen: of(Predictor::Candidate(Candidate::Frozen)),
                accuracy_prior: of(Predictor::Candidate(Candidate::Prior)),
                accuracy_adapted: of(Predictor::Candidate(Candidate::Adapted)),
                accuracy_served: of(Predictor::Served),
                served: served.clone(),
                reason: reason.clone(),
            };
            before = end;
            figures
        });
        figures.collect()
    }
}

impl Total {
    fn new(measured: &Measurement) -> Self {
        let labels = measured.labels as f64;
        Self {
            labels,
            right: Predictor::ALL.map(|predictor| labels * measured.of(predictor).accuracy),
        }
    }
}
