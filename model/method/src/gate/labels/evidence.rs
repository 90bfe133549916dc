//! What labels say, for people.

use serde::{Deserialize, Serialize};

use super::{super::duel::Duel, DOUBT, Objective, PAIRS, PROOF};
use crate::Candidate;

/// What labels say of two candidates, with the limits that decide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DuelReport {
    /// The candidate that has to prove itself.
    pub challenger: Candidate,
    /// What is served otherwise.
    pub incumbent: Candidate,
    /// Labels that only the challenger had right. Each label counts 5 % less with every block.
    pub right: f64,
    /// Labels that only the incumbent had right, counted alike.
    pub wrong: f64,
    /// The chance that the challenger is right more often where they differ.
    pub probability: f64,
    /// Mean gain of the challenger in log-likelihood; 0 unless the objective is probability.
    pub mean_gain: f64,
    /// What 1 has become that was bet on the challenger; 20 is proof.
    pub challenger_wealth: f64,
    /// What 1 has become that was bet on the incumbent.
    pub incumbent_wealth: f64,
}

/// What labels say, for people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabelEvidence {
    /// How candidates are compared.
    pub objective: Objective,
    /// Labels that were joined, each counted 5 % less with every block.
    pub labels: f64,
    /// All labels are of one class, so that they were selected by it: they decide nothing.
    pub of_one_class: bool,
    /// Whether labels have opened the adapted model.
    pub adapted_open: bool,
    /// `prior` against `frozen`, `adapted` against `frozen`, `adapted` against `prior`.
    pub duels: Vec<DuelReport>,
}

// === impl DuelReport ===

impl DuelReport {
    pub(super) fn new(place: usize, duel: &Duel) -> Self {
        let (challenger, incumbent) = PAIRS[place];
        Self {
            challenger,
            incumbent,
            right: duel.right(),
            wrong: duel.wrong(),
            probability: duel.probability(),
            mean_gain: duel.mean_gain(),
            challenger_wealth: duel.challenger_wealth(),
            incumbent_wealth: duel.incumbent_wealth(),
        }
    }
}

// === impl LabelEvidence ===

impl LabelEvidence {
    /// Chance below which a challenger is not believed.
    pub const DOUBT: f64 = DOUBT;
    /// What bets must have multiplied by before a challenger is believed by bets.
    pub const PROOF: f64 = PROOF;
}
