//! Terms of the training objectives, as scalar tensors on the device.

use candle_core::Tensor;

use super::device::Place;
use crate::{
    Result,
    engine::{Diversity, MARGINAL_EPSILON},
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

/// -sum_i w_i log p_i[y_i]; `weights` is a column.
pub(super) fn cross_entropy(
    log_probabilities: &Tensor,
    labels: &Tensor,
    weights: &Tensor,
) -> Result<Tensor> {
    let chosen = log_probabilities.gather(&labels.unsqueeze(1)?, 1)?;
    Ok((chosen * weights)?.sum_all()?.neg()?)
}

/// Mean entropy of the predictions.
pub(super) fn entropy(log_probabilities: &Tensor) -> Result<Tensor> {
    let rows = log_probabilities.dim(0)? as f64;
    let products = (log_probabilities.exp()? * log_probabilities)?;
    Ok(products.sum_all()?.affine(-1.0 / rows, 0.0)?)
}

/// The diversity term of the mean prediction, as [`Diversity::value`] defines it.
pub(super) fn diversity(
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
