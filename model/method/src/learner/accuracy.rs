//! Accuracy of the candidates on the stream, without labels.

use ostar_engine::{Result, Rows};
use serde::{Deserialize, Serialize};

use super::Learner;
use crate::{
    Candidate,
    proportions::{EstimatedAccuracy, Probabilities, ProportionEstimate, ProportionEstimator},
};

/// Held-out predictions beyond this many numbers are not kept beside the estimator. Accuracies are then not estimated.
pub(super) const MOST_KEPT: usize = 4_000_000;

/// Of each candidate; `None` where it cannot be told. The estimate rests on the shares, and where these are not known it
/// would be a number without meaning: on a stream whose classes changed it said 91 % of a candidate that had 71 %.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct EstimatedAccuracies {
    /// Of the model as it was trained.
    pub frozen: Option<EstimatedAccuracy>,
    /// Of the model corrected to the stream's shares.
    pub prior: Option<EstimatedAccuracy>,
    /// Of the adapted model.
    pub adapted: Option<EstimatedAccuracy>,
}

impl EstimatedAccuracies {
    /// The candidate's.
    pub fn of(&self, candidate: Candidate) -> Option<EstimatedAccuracy> {
        match candidate {
            Candidate::Frozen => self.frozen,
            Candidate::Prior => self.prior,
            Candidate::Adapted => self.adapted,
        }
    }
}

impl Learner {
    /// Estimates every candidate's accuracy after the latest block. Costs about as much as a block: once a second is
    /// enough for people.
    pub fn estimated_accuracies(&self) -> Result<EstimatedAccuracies> {
        let mut accuracies = EstimatedAccuracies::default();
        let verdict = self.gate.state().verdict();
        if let (Some(held_out), Some(estimate)) = (&self.held_out, &self.frozen.estimate)
            && verdict.proportions_known
        {
            let estimator = &self.frozen.estimator;
            accuracies.frozen = Some(estimator.accuracy(held_out, estimate)?);
            accuracies.prior = Some(self.corrected_accuracy(estimator, held_out, estimate)?);
        }
        let Some(adaptation) = &self.adaptation else {
            return Ok(accuracies);
        };
        if adaptation.good.steps == 0 {
            // f_N is still f_S.
            accuracies.adapted = accuracies.prior;
        } else if let (Some(tests), Some(estimate)) =
            (&verdict.adapted, &adaptation.adapted.estimate)
            && tests.pass_convincingly()
        {
            let rows = Rows::new(
                &adaptation.held_out[..],
                self.training_proportions.classes(),
            )?;
            let held_out = Probabilities::new("held-out probabilities", rows)?;
            let estimator = &adaptation.adapted.estimator;
            accuracies.adapted = Some(self.corrected_accuracy(estimator, &held_out, estimate)?);
        }
        Ok(accuracies)
    }

    fn corrected_accuracy(
        &self,
        estimator: &ProportionEstimator,
        held_out: &Probabilities,
        estimate: &ProportionEstimate,
    ) -> Result<EstimatedAccuracy> {
        let corrected = held_out.corrected(&self.training_proportions, &estimate.proportions);
        estimator.accuracy(&corrected, estimate)
    }
}
