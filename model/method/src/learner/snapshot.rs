//! What is served: an immutable value that scores all candidates in one pass.

use std::sync::Arc;

use ostar_engine::{
    Inputs, Result, Rows,
    evaluate::{ClassifierNetwork, Scratch},
};

use crate::frozen::{FrozenModel, FrozenRows, FrozenScores};
use crate::{
    Candidate,
    proportions::{LabelProportions, prior_correct},
};

/// The candidates as they were when the snapshot was taken. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Steps behind the target classifier.
    pub steps: u64,
    /// Candidate that mode `auto` serves from this snapshot.
    pub candidate: Candidate,
    pub(crate) model: FrozenModel,
    /// f_N; `None` while it is still f_S, and for a black box.
    pub(crate) target: Option<Arc<ClassifierNetwork>>,
    /// The prior inside both classifiers.
    pub(crate) training_proportions: LabelProportions,
    /// What the prior-corrected candidate is corrected to: the estimate, or less where labels prefer less.
    pub(crate) frozen_proportions: LabelProportions,
    /// The estimate, which labels judge the correction to.
    pub(crate) whole_proportions: LabelProportions,
    /// What the adapted candidate is corrected to. For a black box the same.
    pub(crate) adapted_proportions: LabelProportions,
}

/// What a caller keeps from call to call, so that scoring allocates nothing.
#[derive(Debug, Default)]
pub struct Scores {
    /// Class probabilities of f_S, row after row.
    pub frozen: Vec<f32>,
    /// Of f_S, corrected to the proportions of the stream.
    pub prior: Vec<f32>,
    /// Of f_N, corrected to the proportions of the stream. For a black box the same as `prior`.
    pub adapted: Vec<f32>,
    frozen_scores: FrozenScores,
    scratch: Scratch,
}

// === impl Scores ===

impl Scores {
    /// Class probabilities of one candidate, row after row.
    pub fn of(&self, candidate: Candidate) -> &[f32] {
        match candidate {
            Candidate::Frozen => &self.frozen,
            Candidate::Prior => &self.prior,
            Candidate::Adapted => &self.adapted,
        }
    }

    /// How many numbers the last [`Snapshot::score`] clipped; see [`Clip`](ostar_engine::evaluate::Clip).
    pub fn clipped(&self) -> usize {
        self.frozen_scores.clipped()
    }
}

// === impl Snapshot ===

impl Snapshot {
    /// Scores encoder inputs or, for a black box, rows of its probabilities.
    pub fn score(&self, inputs: Inputs<'_>, scores: &mut Scores) -> Result<()> {
        let mut frozen = std::mem::take(&mut scores.frozen_scores);
        let scored = self.model.score(inputs, &mut scores.scratch, &mut frozen);
        let scored = scored.and_then(|()| self.score_frozen(&frozen, scores));
        scores.frozen_scores = frozen;
        scored
    }

    /// Scores rows that the frozen model has scored before.
    pub fn score_frozen(&self, frozen: &FrozenScores, scores: &mut Scores) -> Result<()> {
        self.score_rows(frozen.rows(0..frozen.len()), scores)
    }

    /// [`Snapshot::score_frozen`] of some rows.
    pub fn score_rows(&self, frozen: FrozenRows<'_>, scores: &mut Scores) -> Result<()> {
        let training = &self.training_proportions;
        frozen.probabilities().clone_into(&mut scores.frozen);
        scores.prior.clone_from(&scores.frozen);
        prior_correct(&mut scores.prior, training, &self.frozen_proportions);
        match &self.target {
            Some(target) => {
                let latents = Rows::new(frozen.latents(), self.model.latent())?;
                target.score_finite(latents, &mut scores.scratch, &mut scores.adapted);
            }
            // The same classifier, for the same proportions.
            None if self.adapted_proportions == self.frozen_proportions => {
                scores.adapted.clone_from(&scores.prior);
                return Ok(());
            }
            None => scores.adapted.clone_from(&scores.frozen),
        }
        prior_correct(&mut scores.adapted, training, &self.adapted_proportions);
        Ok(())
    }

    /// The estimated proportions, which prior correction goes to unless labels prefer less.
    pub fn whole_proportions(&self) -> &LabelProportions {
        &self.whole_proportions
    }

    /// The prior inside the frozen model.
    pub fn training_proportions(&self) -> &LabelProportions {
        &self.training_proportions
    }

    /// The frozen model, which all candidates share.
    pub fn model(&self) -> &FrozenModel {
        &self.model
    }
}
