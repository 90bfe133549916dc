//! What is served: an immutable value that scores all candidates in one pass.

use std::sync::Arc;

use super::black_box::BlackBox;
use crate::{
    Inputs, Result, Rows,
    evaluate::{FrozenClassifier, FrozenEncoder, Scratch},
    proportions::{LabelProportions, prior_correct},
};

/// The candidates as they were when the snapshot was taken. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Iterations behind the target classifier.
    pub iterations: u64,
    pub(crate) black_box: BlackBox,
    /// `None` for a black box, whose events carry probabilities.
    pub(crate) networks: Option<Networks>,
    /// The prior inside both classifiers.
    pub(crate) training_proportions: LabelProportions,
    /// What the prior-corrected candidate is corrected to.
    pub(crate) frozen_proportions: LabelProportions,
    /// What the adapted candidate is corrected to.
    pub(crate) adapted_proportions: LabelProportions,
}

#[derive(Debug, Clone)]
pub(crate) struct Networks {
    pub(crate) encoder: Arc<FrozenEncoder>,
    pub(crate) source: Arc<FrozenClassifier>,
    /// The same as `source` while nothing was learned; then it is scored once.
    pub(crate) target: Arc<FrozenClassifier>,
}

/// What a caller keeps from call to call, so that scoring allocates nothing.
#[derive(Debug, Default)]
pub struct Scores {
    /// Class probabilities of f_S, row after row.
    pub source: Vec<f32>,
    /// Of f_S, corrected to the proportions of the stream.
    pub prior: Vec<f32>,
    /// Of f_N, corrected to the proportions of the stream. For a black box the same as `prior`.
    pub adapted: Vec<f32>,
    /// Standardised latents of the rows; empty for a black box.
    pub latents: Vec<f32>,
    scratch: Scratch,
}

impl Snapshot {
    /// Scores encoder inputs or, for a black box, rows of its probabilities.
    pub fn score(&self, inputs: Inputs<'_>, scores: &mut Scores) -> Result<()> {
        let Scores {
            source,
            prior,
            adapted,
            latents,
            scratch,
        } = scores;
        match &self.networks {
            Some(networks) => {
                networks.encoder.encode(inputs, scratch, latents)?;
                let rows = Rows::new(&latents[..], networks.encoder.latent())?;
                networks.source.score(rows, scratch, source)?;
                match Arc::ptr_eq(&networks.source, &networks.target) {
                    true => adapted.clone_from(source),
                    false => networks.target.score(rows, scratch, adapted)?,
                }
                prior_correct(
                    adapted,
                    &self.training_proportions,
                    &self.adapted_proportions,
                );
            }
            None => {
                latents.clear();
                self.black_box.read(&inputs, source)?;
            }
        }
        prior.clear();
        prior.extend_from_slice(source);
        prior_correct(prior, &self.training_proportions, &self.frozen_proportions);
        if self.networks.is_none() {
            adapted.clear();
            adapted.extend_from_slice(prior);
        }
        Ok(())
    }
}
