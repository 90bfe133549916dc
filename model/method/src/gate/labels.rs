//! What labels say about the candidates.
//!
//! Labels overrule the shape tests both ways, and they alone open the adapted model. They count while a candidate is not
//! served, too: else a closed gate would never open.

mod evidence;
mod prior;

use serde::{Deserialize, Serialize};

pub use self::evidence::{DuelReport, LabelEvidence};
pub(crate) use self::prior::LabelsOnPrior;
use super::{
    change::{Change, WHOLE},
    duel::{DECAY, Duel},
    strength::Strengths,
};
use crate::Candidate;

/// Below this chance of being better the adapted model is closed. Above one less it prior correction is served, however few
/// labels there are.
pub(crate) const DOUBT: f64 = 0.1;
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
    /// What the whole correction makes of it; `None` if it leaves the class as it is.
    pub(crate) change: Option<Change>,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// At which strength correction was preferred; the whole if it was not.
    strength: f64,
    strengths: Strengths,
    /// The block in which the classes last began to look different. Labels of events before it tell of another time.
    since_block: u64,
    /// Events up to this block were predicted by another adapted model than the one that is judged.
    adapted_after: u64,
    /// Labels that answered a request, counted like `classes`.
    answers: f64,
    /// The newest block of which a request was answered.
    answered_block: u64,
    /// Requests without an answer although one of their block, or of a later one, has come; counted alike.
    passed_over: f64,
    /// The largest share of a block's rows whose class prior correction changed, counted like `classes`.
    changed: f64,
}

impl Default for LabelTally {
    fn default() -> Self {
        Self {
            objective: Objective::default(),
            duels: Default::default(),
            classes: Vec::new(),
            adapted_open: false,
            believes_prior: None,
            strength: WHOLE,
            strengths: Strengths::default(),
            since_block: 0,
            adapted_after: 0,
            answers: 0.0,
            answered_block: 0,
            passed_over: 0.0,
            changed: 0.0,
        }
    }
}

/// Challenger and incumbent of each duel.
const PAIRS: [(Candidate, Candidate); 3] = [
    (Candidate::Prior, Candidate::Frozen),
    (Candidate::Adapted, Candidate::Frozen),
    (Candidate::Adapted, Candidate::Prior),
];

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
        self.strengths.age(DECAY);
        self.answers *= DECAY;
        self.changed *= DECAY;
    }

    /// What the whole correction makes of a block's rows.
    pub(crate) fn note_changes(&mut self, block: u64, rows: &[Option<Change>]) {
        let changed = rows.iter().flatten().count() as f64;
        self.changed = self.changed.max(changed / rows.len().max(1) as f64);
        self.strengths.note_changes(block, rows);
    }

    /// The classes began to look different in this block: what was right while label shift explained the stream says
    /// nothing of what is right now.
    pub(crate) fn forget_before(&mut self, block: u64) {
        let mut strengths = std::mem::take(&mut self.strengths);
        strengths.forget_labels();
        *self = Self {
            objective: self.objective,
            since_block: block,
            changed: self.changed,
            strengths,
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
        if let (Objective::Class, Some(change)) = (self.objective, row.change) {
            let is_right = change.class as usize == row.class;
            let was_right = row.predicted[Candidate::Frozen as usize] as usize == row.class;
            if is_right || was_right {
                self.strengths.add(row.block, weight, change, is_right);
            }
        }
        for ((challenger, incumbent), duel) in PAIRS.into_iter().zip(&mut self.duels) {
            if challenger == Candidate::Adapted && row.block <= self.adapted_after {
                continue;
            }
            match self.objective {
                Objective::Class => {
                    let [left, right] = [challenger, incumbent]
                        .map(|candidate| row.predicted[candidate as usize] as usize);
                    if left == right || (left != row.class && right != row.class) {
                        continue;
                    }
                    match challenger {
                        Candidate::Adapted => duel.add(row.block, weight, left == row.class),
                        _ => duel.count(weight, left == row.class),
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
        let [_, of_adapted @ ..] = &mut self.duels;
        of_adapted.iter_mut().for_each(|duel| duel.judge(now));
        self.strengths.judge(now);
    }

    /// Decides which of `prior` and `frozen` is better, and how far correction goes. `explained` says that the tests would
    /// serve the whole correction.
    pub(crate) fn decide_prior(&mut self, explained: bool) -> LabelsOnPrior {
        let said = self.weigh_prior(explained);
        self.strength = said.strength();
        self.believes_prior = match said {
            LabelsOnPrior::Undecided => None,
            LabelsOnPrior::Preferred(_) => Some(true),
            LabelsOnPrior::Refuted => Some(false),
        };
        let mut judged = self.strengths.judged().iter();
        if let Some(judged) = judged.find(|judged| judged.strength == self.strength) {
            self.duels[0].set_probability(judged.chance);
        }
        said
    }

    /// The adapted model becomes another one after `block`: what labels said of the one before does not count.
    pub(crate) fn renew_adapted(&mut self, block: u64) {
        if !self.adapted_open {
            self.duels[1] = Duel::default();
            self.duels[2] = Duel::default();
            self.adapted_after = block;
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
        // Bets remember all labels. Where probabilities are used, what has been lost lately counts, too.
        let has_lost =
            self.objective == Objective::Probability && self.duels[place].mean_gain() < 0.0;
        self.adapted_open && !has_lost
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

#[cfg(test)]
mod tests;
