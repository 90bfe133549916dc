//! Terms of the training objectives, as scalar tensors on the device.

use candle_core::Tensor;

use super::{device::Place, pass::Pass};
use crate::{
    Generator, Result,
    architecture::Network,
    engine::{ClassifierObjective, ClassifierReport, Diversity, MARGINAL_EPSILON},
    weights,
};

/// W = sum_i omega_i v(phi(z_S^i)) - mean_j v(z_T^j), of columns of values and weights.
pub(super) fn distance(source: &Tensor, target: &Tensor, weights: &Tensor) -> Result<Tensor> {
    let source_mean = (source * weights)?.sum_all()?;
    Ok((source_mean - target.mean_all()?)?)
}

/// Mean over the rows of `gradients` of (norm - 1)^2. The root has no derivative at 0. For a row of zeros it is taken
/// of 1 instead and then masked, which gives norm 0 and subgradient 0.
pub(super) fn gradient_penalty(gradients: &Tensor) -> Result<Tensor> {
    let squares = gradients.sqr()?.sum_keepdim(1)?;
    let positive = squares.detach().gt(0.0)?.to_dtype(squares.dtype())?;
    let one_if_zero = positive.affine(-1.0, 1.0)?;
    let norms = ((squares + one_if_zero)?.sqrt()? * positive)?;
    Ok(norms.affine(1.0, -1.0)?.sqr()?.mean_all()?)
}

/// Sum over blocks of the weighted squared residuals. `weights` is a column of 1 / n_{y_i}.
pub(super) fn transport_cost(residuals: &[Tensor], weights: &Tensor) -> Result<Tensor> {
    let mut cost = Tensor::zeros((), weights.dtype(), weights.device())?;
    for residual in residuals {
        let squares = residual.sqr()?.sum_keepdim(1)?;
        cost = (cost + (squares * weights)?.sum_all()?)?;
    }
    Ok(cost)
}

/// Mean entropy of the predictions.
fn entropy(log_probabilities: &Tensor) -> Result<Tensor> {
    let rows = log_probabilities.dim(0)? as f64;
    let products = (log_probabilities.exp()? * log_probabilities)?;
    Ok(products.sum_all()?.affine(-1.0 / rows, 0.0)?)
}

/// The diversity term of the mean prediction, as [`Diversity::value`] defines it.
fn diversity(
    log_probabilities: &Tensor,
    diversity: &Diversity<'_>,
    place: &Place,
) -> Result<Tensor> {
    let marginal = log_probabilities.exp()?.mean_keepdim(0)?;
    let logs = marginal.affine(1.0, MARGINAL_EPSILON)?.log()?;
    Ok(match diversity {
        Diversity::None => Tensor::zeros((), place.dtype, &place.device)?,
        Diversity::MarginalEntropy { .. } => (marginal * logs)?.sum_all()?.neg()?,
        Diversity::Divergence { proportions, .. } => {
            let expected: Vec<f64> = proportions
                .iter()
                .map(|proportion| (proportion + MARGINAL_EPSILON).ln())
                .collect();
            let expected = place.upload(expected.as_slice().into(), &[1, expected.len()])?;
            (marginal * (logs - expected)?)?.sum_all()?
        }
    })
}

/// Labels on the device, and the weight of each row in the cross-entropy.
pub(super) struct Labelled {
    labels: Tensor,
    /// A column.
    weights: Tensor,
}

/// The target classifier's objective and its terms, on the device.
pub(super) struct ClassifierTerms {
    pub(super) loss: Tensor,
    cross_entropy: Tensor,
    entropy: Tensor,
    diversity: Tensor,
}

// === impl Labelled ===

impl Labelled {
    pub(super) fn new(labels: &[u32], class_weights: &[f64], place: &Place) -> Result<Self> {
        let mut counts = vec![0.0; class_weights.len()];
        weights::class_counts(labels.iter().copied(), &mut counts);
        let mut by_class = vec![0.0; class_weights.len()];
        weights::normalised_ratios(class_weights, &counts, &mut by_class)?;
        let by_row: Vec<f64> = labels
            .iter()
            .map(|label| by_class[*label as usize])
            .collect();
        Ok(Self {
            labels: place.indices(labels)?,
            weights: place.column(&by_row)?,
        })
    }

    /// -sum_i w_i log p_i[y_i].
    pub(super) fn cross_entropy(&self, log_probabilities: &Tensor) -> Result<Tensor> {
        let chosen = log_probabilities.gather(&self.labels.unsqueeze(1)?, 1)?;
        Ok((chosen * &self.weights)?.sum_all()?.neg()?)
    }
}

// === impl ClassifierTerms ===

impl ClassifierTerms {
    pub(super) fn new(
        pass: &mut Pass<'_>,
        mapped: &Tensor,
        labelled: &Labelled,
        target: &Tensor,
        objective: &ClassifierObjective<'_>,
        generator: &mut Generator,
    ) -> Result<Self> {
        let head = Network::TargetClassifier;
        let predictions = pass.train_classifier(head, mapped, generator)?;
        let cross_entropy = labelled.cross_entropy(&predictions)?;
        let mut loss = cross_entropy.affine(objective.cross_entropy_weight, 0.0)?;
        let (entropy, diversity) = if objective.uses_target() {
            let predictions = pass.train_classifier(head, target, generator)?;
            let entropy = entropy(&predictions)?;
            let diversity = diversity(&predictions, &objective.diversity, pass.place)?;
            let diversity_weight = objective.diversity.signed_weight();
            loss = (loss + entropy.affine(objective.entropy_weight, 0.0)?)?;
            loss = (loss + diversity.affine(diversity_weight, 0.0)?)?;
            (entropy, diversity)
        } else {
            // Without a term on target rows, they must not update the running statistics either.
            let zero = pass.place.zeros(&[])?;
            (zero.clone(), zero)
        };
        Ok(Self {
            loss,
            cross_entropy,
            entropy,
            diversity,
        })
    }

    pub(super) fn report(&self, place: &Place) -> Result<ClassifierReport> {
        let parts = [
            &self.loss,
            &self.cross_entropy,
            &self.entropy,
            &self.diversity,
        ];
        let [loss, cross_entropy, entropy, diversity] = place.scalars(parts)?;
        Ok(ClassifierReport {
            loss,
            cross_entropy,
            entropy,
            diversity,
        })
    }
}
