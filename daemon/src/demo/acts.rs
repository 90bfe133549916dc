//! What came of each act of the demo.

use ostar_engine::argmax;
use ostar_method::{
    Candidate,
    learner::{Predictor, RandomAnswer},
};
use serde::Serialize;

use super::stream::{ACTS, Act};
use crate::status::Status;

/// The outcome of an act.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ActFigures {
    pub(super) name: &'static str,
    /// Accuracies over the act's mails whose labels were asked for at random; `None` if no answer came.
    pub(super) accuracy_frozen: Option<f64>,
    pub(super) accuracy_prior: Option<f64>,
    pub(super) accuracy_adapted: Option<f64>,
    pub(super) accuracy_served: Option<f64>,
    /// What the gate served at the act's end, and why.
    pub(super) served: Candidate,
    pub(super) reason: String,
}

/// Follows the acts while the demo runs.
#[derive(Debug, Clone)]
pub(super) struct Acts {
    mails: u64,
    /// The gate's choice at the end of each act that has begun.
    choices: Vec<(Candidate, String)>,
    /// Of the mails of each act.
    answers: [Answers; ACTS.len()],
}

/// Answers to requests that were drawn at random, and how many of these mails each predictor had right.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Answers {
    count: f64,
    right: [f64; Predictor::ALL.len()],
}

impl Acts {
    pub(super) fn new(mails: u64) -> Self {
        Self {
            mails,
            choices: Vec::new(),
            answers: Default::default(),
        }
    }

    /// The act that a mail belongs to.
    pub(super) fn current(&self, mail: u64) -> &'static Act {
        &ACTS[self.number(mail)]
    }

    fn number(&self, mail: u64) -> usize {
        let begun = |act: &Act| act.begin * self.mails as f64 <= mail as f64;
        ACTS.iter().rposition(begun).unwrap_or(0)
    }

    /// Notes what the gate chose after a block of this many mails, and the answers that came with it.
    pub(super) fn observe(&mut self, status: &Status, block_mails: usize) {
        let verdict = status.gate.verdict();
        let choice = (verdict.candidate, verdict.reason.to_string());
        let number = self.number(status.events);
        match self.choices.get_mut(number) {
            Some(known) => *known = choice,
            None => self.choices.push(choice),
        }
        let labels = status.block.as_ref().and_then(|block| block.labels.as_ref());
        for answer in labels.iter().flat_map(|labels| &labels.random_answers) {
            let number = self.number(answer.block * block_mails as u64);
            self.answers[number].add(answer);
        }
    }

    /// Answers of all acts.
    pub(super) fn answers(&self) -> Answers {
        let mut all = Answers::default();
        for answers in &self.answers {
            all.count += answers.count;
            let sums = all.right.iter_mut().zip(&answers.right);
            sums.for_each(|(sum, right)| *sum += right);
        }
        all
    }

    /// Of all acts that were seen.
    pub(super) fn figures(&self) -> Vec<ActFigures> {
        let acts = ACTS.iter().zip(&self.choices).zip(&self.answers);
        let figures = acts.map(|((act, (served, reason)), answers)| {
            let [accuracy_frozen, accuracy_prior, accuracy_adapted, accuracy_served] =
                Predictor::ALL.map(|predictor| answers.accuracy(predictor));
            ActFigures {
                name: act.name,
                accuracy_frozen,
                accuracy_prior,
                accuracy_adapted,
                accuracy_served,
                served: *served,
                reason: reason.clone(),
            }
        });
        figures.collect()
    }
}

impl Answers {
    fn add(&mut self, answer: &RandomAnswer) {
        self.count += 1.0;
        let classes = answer.probabilities.len() / Candidate::ALL.len();
        for (right, predictor) in self.right.iter_mut().zip(Predictor::ALL) {
            let candidate = match predictor {
                Predictor::Candidate(candidate) => candidate,
                Predictor::Served => answer.served,
            };
            let row = &answer.probabilities[candidate as usize * classes..][..classes];
            *right += f64::from(argmax(row) == answer.class as usize);
        }
    }

    pub(super) fn count(&self) -> f64 {
        self.count
    }

    /// `None` without answers.
    pub(super) fn accuracy(&self, predictor: Predictor) -> Option<f64> {
        let place = Predictor::ALL.iter().position(|one| *one == predictor)?;
        (self.count > 0.0).then(|| self.right[place] / self.count)
    }
}
