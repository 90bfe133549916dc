//! Maximum likelihood proportions by expectation maximisation (Saerens, Latinne and Decaestecker 2002).

use ostar_engine::{Result, checks};

use super::{LabelProportions, Probabilities};

/// When expectation maximisation stops: converged, or after its most iterations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EmLimits {
    /// It has converged when the shares move less than this in all.
    pub tolerance: f64,
    /// Most iterations. Near a share of 0 convergence becomes arbitrarily slow.
    pub iterations: usize,
}

/// Proportions by expectation maximisation, and whether it converged.
#[derive(Debug, Clone, PartialEq)]
pub struct EmEstimate {
    /// The shares, which are a good estimate even when not converged.
    pub proportions: LabelProportions,
    /// How many iterations were made.
    pub iterations: usize,
    /// Whether the last one moved less than the tolerance.
    pub converged: bool,
}

impl Default for EmLimits {
    fn default() -> Self {
        Self {
            tolerance: 1e-8,
            iterations: 10_000,
        }
    }
}

/// The estimator `em`: p <- mean over rows of the normalised f(x) * p / pi, from p = pi on. `target` (f) is
/// calibrated, `prior` (pi) is the class shares that f was trained for.
pub fn maximum_likelihood(
    target: &Probabilities,
    prior: &LabelProportions,
    limits: EmLimits,
) -> Result<EmEstimate> {
    check_prior(prior, target.classes())?;
    let mut ratios = target.clone();
    for row in ratios.rows_mut() {
        row.iter_mut()
            .zip(prior.as_ref())
            .for_each(|(value, proportion)| *value /= proportion);
    }
    let mut proportions = prior.as_ref().to_vec();
    let mut sums = vec![0.0; proportions.len()];
    let (mut iterations, mut converged) = (0, false);
    while iterations < limits.iterations && !converged {
        iterations += 1;
        converged = step(&ratios, &mut proportions, &mut sums) < limits.tolerance;
    }
    Ok(EmEstimate {
        proportions: LabelProportions::rescaled(proportions),
        iterations,
        converged,
    })
}

/// One iteration; gives how far the shares moved. A class of share p_k gets p_k times the mean of
/// f_k / pi_k over the mixture's density, so no row of posteriors needs to be stored.
fn step(ratios: &Probabilities, proportions: &mut [f64], sums: &mut [f64]) -> f64 {
    sums.fill(0.0);
    for row in ratios.rows() {
        let density: f64 = row
            .iter()
            .zip(&*proportions)
            .map(|(ratio, proportion)| ratio * proportion)
            .sum();
        // A row that only absent classes explain has density 0 and cannot be attributed.
        if density > 0.0 {
            let scale = 1.0 / density;
            sums.iter_mut()
                .zip(row)
                .for_each(|(sum, ratio)| *sum += ratio * scale);
        }
    }
    let total: f64 = sums
        .iter()
        .zip(&*proportions)
        .map(|(sum, proportion)| sum * proportion)
        .sum();
    if total <= 0.0 {
        return 0.0;
    }
    let mut moved = 0.0;
    for (proportion, sum) in proportions.iter_mut().zip(sums) {
        let next = *proportion * *sum / total;
        moved += (next - *proportion).abs();
        *proportion = next;
    }
    moved
}

/// A class that f was trained without cannot be seen by it.
pub(crate) fn check_prior(prior: &LabelProportions, classes: usize) -> Result<()> {
    checks::length("prior", prior.classes(), classes)?;
    let expected = "a share above 0 for every class";
    checks::each(
        "prior",
        "class",
        prior.as_ref(),
        |share| share > 0.0,
        expected,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostar_engine::Rows;

    #[test]
    fn the_cap_is_reported_and_a_prior_of_zero_is_refused() {
        let values = [0.6, 0.4, 0.3, 0.7, 0.55, 0.45];
        let target = Probabilities::new("target", Rows::new(&values[..], 2).unwrap()).unwrap();
        let limits = EmLimits {
            tolerance: 1e-12,
            iterations: 2,
        };
        let capped = maximum_likelihood(&target, &LabelProportions::uniform(2), limits).unwrap();
        assert!(!capped.converged && capped.iterations == 2);
        let zero = LabelProportions::new(vec![1.0, 0.0]).unwrap();
        let message = maximum_likelihood(&target, &zero, limits)
            .unwrap_err()
            .to_string();
        assert!(message.contains("prior: of class 1 is 0"), "{message}");
    }
}
