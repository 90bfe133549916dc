//! What labels say about the candidates.
//!
//! Labels overrule the shape tests both ways, and they alone open the adapted model. They count while a candidate is not
//! served, too: else a closed gate would never open.

use serde::{Deserialize, Serialize};

use super::duel::{DECAY, Duel};
use crate::Candidate;

/// Below this chance that prior correction is right more often than the frozen model, the frozen model is served; above
/// one less it, prior correction, however few labels there are.
pub(crate) const DOUBT: f64 = 0.1;
/// Chance above which prior correction is served where little is at stake, and until which it stays. Where candidates
/// disagree, either mistake costs as much as the other: to wait for more certainty loses more than it saves (record 10).
const BELIEF: f64 = 0.7;
const BELIEF_HOLDS: f64 = 0.65;
/// Little is at stake if so many labels compare prior correction with the frozen model, because one alone is a chance of
/// 0.75, and if it has changed no larger share of a block: ten labels of a small share cannot vouch for a large one.
const ENOUGH_LABELS: f64 = 8.0;
const MOST_CHANGED: f64 = 0.3;
/// Bets must multiply by this much before the adapted model is opened, and before `prior` is judged by log loss: at most
/// one in twenty candidates that are no better is ever believed, however often one looks.
pub(crate) const PROOF: f64 = 20.0;
/// Labels beyond which it is noticed that all are of one class, and what the other classes must have together.
const MANY_OF_ONE_CLASS: f64 = 3.0;
const OTHER_CLASSES: f64 = 0.5;
/// Labels of one class are an honest answer if at least this share of them answers requests, and if at most so many
/// requests were passed over for each answer.
const MOSTLY_ANSWERS: f64 = 0.8;
const MOST_PASSED_OVER: f64 = 0.25;
/// What labels have said with more certainty holds until this chance that it is so.
const EVEN: f64 = 0.5;
/// Lower bound on a probability in the log loss.
const LEAST_PROBABILITY: f64 = f32::EPSILON as f64;

/// What predictions are used for, which decides how labels compare candidates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// The most probable class: candidates are compared where they predict different ones.
    #[default]
    Class,
    /// The probabilities: candidates are compared by log loss on all labels.
    Probability,
}

/// A label with what the candidates had predicted for its event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LabelledRow<'a> {
    pub(crate) class: usize,
    /// The most probable class by each candidate, in the order of [`Candidate::ALL`].
    pub(crate) predicted: [u32; 3],
    /// Probabilities by each candidate, one candidate after the other; empty if they were not kept.
    pub(crate) probabilities: &'a [f32],
    /// The block of the event.
    pub(crate) block: u64,
    /// Blocks since then.
    pub(crate) age: u64,
    /// Whether the label answers a request, of either kind.
    pub(crate) asked: bool,
    /// Whether the label was asked for because the candidates disagree. Such rows are no random sample.
    pub(crate) asked_for_disagreement: bool,
}

/// Evidence by labels; part of the state that lasts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LabelTally {
    objective: Objective,
    /// In the order of [`PAIRS`].
    duels: [Duel; PAIRS.len()],
    /// Labels by class, each counted less with every block.
    classes: Vec<f64>,
    /// Whether labels have opened the adapted model.
    adapted_open: bool,
    /// What labels last said of `prior` against `frozen`.
    believes_prior: Option<bool>,
    /// The block in which the classes last began to look different. Labels of events before it tell of another time.
    since_block: u64,
    /// Events up to this block were predicted by another adapted model than the one that is judged.
    #[serde(default)]
    adapted_after: u64,
    /// Labels that answered a request, counted like `classes`.
    #[serde(default)]
    answers: f64,
    /// The newest block of which a request was answered.
    #[serde(default)]
    answered_block: u64,
    /// Requests without an answer although one of their block, or of a later one, has come; counted alike.
    #[serde(default)]
    passed_over: f64,
    /// The largest share of a block's rows whose class prior correction changed, counted like `classes`.
    #[serde(default)]
    changed: f64,
}

/// Challenger and incumbent of each duel.
const PAIRS: [(Candidate, Candidate); 3] = [
    (Candidate::Prior, Candidate::Frozen),
    (Candidate::Adapted, Candidate::Frozen),
    (Candidate::Adapted, Candidate::Prior),
];

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

// === impl LabelTally ===

impl LabelTally {
    /// Candidates are compared by `objective` from now on. A change forgets what was counted for another.
    pub(crate) fn set_objective(&mut self, objective: Objective) {
        if self.objective != objective {
            *self = Self {
                objective,
                ..Self::default()
            };
        }
    }

    /// A block has passed.
    pub(crate) fn age(&mut self) {
        self.duels.iter_mut().for_each(Duel::age);
        self.classes.iter_mut().for_each(|count| *count *= DECAY);
        self.answers *= DECAY;
        self.changed *= DECAY;
    }

    /// The classes that candidates predicted for a block's rows, in the order of [`Candidate::ALL`].
    pub(crate) fn note_predictions(&mut self, predicted: &[[u32; 3]]) {
        let is_changed =
            |row: &&[u32; 3]| row[Candidate::Prior as usize] != row[Candidate::Frozen as usize];
        let changed = predicted.iter().filter(is_changed).count() as f64;
        self.changed = self.changed.max(changed / predicted.len().max(1) as f64);
    }

    /// The classes began to look different in this block: what was right while label shift explained the stream says
    /// nothing of what is right now.
    pub(crate) fn forget_before(&mut self, block: u64) {
        *self = Self {
            objective: self.objective,
            since_block: block,
            changed: self.changed,
            ..Self::default()
        };
    }

    /// Counts a label, as much as if it had come right after its event.
    pub(crate) fn add(&mut self, row: LabelledRow<'_>) {
        if row.block < self.since_block {
            return;
        }
        let weight = weight(row.age);
        if row.asked {
            self.answers += weight;
            self.answered_block = self.answered_block.max(row.block);
        }
        if self.classes.len() <= row.class {
            self.classes.resize(row.class + 1, 0.0);
        }
        self.classes[row.class] += weight;
        for ((challenger, incumbent), duel) in PAIRS.into_iter().zip(&mut self.duels) {
            if challenger == Candidate::Adapted && row.block <= self.adapted_after {
                continue;
            }
            match self.objective {
                Objective::Class => {
                    let [left, right] = [challenger, incumbent]
                        .map(|candidate| row.predicted[candidate as usize] as usize);
                    if left != right && (left == row.class || right == row.class) {
                        duel.add(row.block, weight, left == row.class);
                    }
                }
                Objective::Probability if row.asked_for_disagreement => {}
                Objective::Probability => {
                    let classes = row.probabilities.len() / Candidate::ALL.len();
                    if classes == 0 {
                        continue;
                    }
                    let of = |candidate: Candidate| {
                        &row.probabilities[candidate as usize * classes..][..classes]
                    };
                    let gain = |class: usize| {
                        let log =
                            |candidate| f64::from(of(candidate)[class]).max(LEAST_PROBABILITY).ln();
                        log(challenger) - log(incumbent)
                    };
                    let bound = (0..classes).map(|class| gain(class).abs());
                    duel.add_gain(weight, gain(row.class), bound.fold(0.0, f64::max));
                }
            }
        }
    }

    /// The newest block of which a request was answered; 0 before the first.
    pub(crate) fn answered_block(&self) -> u64 {
        self.answered_block
    }

    /// At `block`, requests of events in the blocks `asked` have no answer although later ones do.
    pub(crate) fn note_passed_over(&mut self, block: u64, asked: impl Iterator<Item = u64>) {
        let since = self.since_block;
        let counted = asked.filter(|asked| *asked >= since);
        self.passed_over = counted
            .map(|asked| weight(block.saturating_sub(asked)))
            .sum();
    }

    /// Whether labels were selected by their class: all are of one although there are many. Whoever labels only what was
    /// clicked, or only spam, says nothing of which candidate is right. Where candidates disagree the truth may well be one
    /// class, and whoever answers every request says so.
    fn of_one_class(&self) -> bool {
        let total: f64 = self.classes.iter().sum();
        let most = self.classes.iter().copied().fold(0.0, f64::max);
        let is_honest = self.answers >= MOSTLY_ANSWERS * total
            && self.passed_over <= MOST_PASSED_OVER * self.answers;
        total >= MANY_OF_ONE_CLASS && total - most < OTHER_CLASSES && !is_honest
    }

    /// Looks at what labels say after block `now`, for the decisions that follow.
    pub(crate) fn judge(&mut self, now: u64) {
        self.duels.iter_mut().for_each(|duel| duel.judge(now));
    }

    /// Decides which of `prior` and `frozen` is better; `None` while labels do not tell.
    pub(crate) fn decide_prior(&mut self) -> Option<bool> {
        self.believes_prior = self.prefers_prior();
        self.believes_prior
    }

    /// The adapted model becomes another one after `block`: what labels said of the one before does not count.
    pub(crate) fn renew_adapted(&mut self, block: u64) {
        if !self.adapted_open {
            self.duels[1] = Duel::default();
            self.duels[2] = Duel::default();
            self.adapted_after = block;
        }
    }

    fn prefers_prior(&self) -> Option<bool> {
        if self.of_one_class() {
            return None;
        }
        let duel = &self.duels[0];
        let (better, worse) = match self.objective {
            Objective::Class => {
                let labels = duel.right() + duel.wrong();
                let is_little = labels >= ENOUGH_LABELS && self.changed <= MOST_CHANGED;
                let needed_for = match (self.believes_prior, is_little) {
                    (Some(true), true) => BELIEF_HOLDS,
                    (Some(true), false) => EVEN,
                    (_, true) => BELIEF,
                    (_, false) => 1.0 - DOUBT,
                };
                let needed_against = match self.believes_prior {
                    Some(false) => EVEN,
                    _ => 1.0 - DOUBT,
                };
                let probability = duel.probability();
                (probability > needed_for, 1.0 - probability > needed_against)
            }
            Objective::Probability => (
                duel.challenger_wealth() >= PROOF,
                duel.incumbent_wealth() >= PROOF,
            ),
        };
        match (better, worse) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            _ => None,
        }
    }

    /// Whether the adapted model is served instead of `otherwise`. Opens and closes it.
    pub(crate) fn decide_adapted(&mut self, otherwise: Candidate) -> bool {
        let (of_one_class, was_open) = (self.of_one_class(), self.adapted_open);
        let place = usize::from(otherwise == Candidate::Prior) + 1;
        let duel = &self.duels[place];
        if self.adapted_open {
            // Counts remember the time before a change; bets since the opening do not.
            let closes = duel.incumbent_wealth() >= 1.0 / DOUBT
                || (self.objective == Objective::Class && duel.probability() < DOUBT);
            self.adapted_open = !closes;
        } else {
            self.adapted_open = !of_one_class && duel.challenger_wealth() >= PROOF;
        }
        if self.adapted_open != was_open {
            self.duels[1].turn(self.adapted_open);
            self.duels[2].turn(self.adapted_open);
        }
        self.adapted_open
    }

    /// `candidate` against `incumbent`, for people; `None` if there is no such pair.
    pub(crate) fn report_of(
        &self,
        challenger: Candidate,
        incumbent: Candidate,
    ) -> Option<DuelReport> {
        let place = PAIRS
            .iter()
            .position(|pair| *pair == (challenger, incumbent))?;
        Some(DuelReport::new(place, &self.duels[place]))
    }

    pub(crate) fn evidence(&self) -> LabelEvidence {
        let duels = self.duels.iter().enumerate();
        LabelEvidence {
            objective: self.objective,
            labels: self.classes.iter().sum(),
            of_one_class: self.of_one_class(),
            adapted_open: self.adapted_open,
            duels: duels
                .map(|(place, duel)| DuelReport::new(place, duel))
                .collect(),
        }
    }
}

/// What a label counts that comes so many blocks after its event: as much as if it had come with the next.
fn weight(age: u64) -> f64 {
    DECAY.powi(i32::try_from(age.saturating_sub(1)).unwrap_or(i32::MAX))
}

// === impl DuelReport ===

impl DuelReport {
    fn new(place: usize, duel: &Duel) -> Self {
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

#[cfg(test)]
mod tests;
