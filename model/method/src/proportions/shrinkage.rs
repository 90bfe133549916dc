//! Which part of an estimated correction is kept.

/// 95 % of the normal distribution, one-sided.
const DEVIATIONS: f64 = 1.644_853_627;

/// The share of a correction to leave out, for `squared_score` the mean of its squared components, each over its
/// variance, of which `freedom` are independent.
///
/// A correction that noise alone would give 19 times in 20 is left out as a whole. Of a larger one, the larger it is,
/// the less is left out (Breiman's garrote). With many components the bound falls to 1, the mean under noise alone, and
/// the rule is James and Stein's. With one component the bound is higher, because one score can be large by luck.
pub(crate) fn noise_share(squared_score: f64, freedom: usize) -> f64 {
    let bound = surprise(freedom.max(1) as f64);
    if squared_score > bound {
        bound / squared_score
    } else {
        1.0
    }
}

/// The 95 % quantile of the mean of so many squared standard normal numbers (Wilson and Hilferty 1931).
fn surprise(freedom: f64) -> f64 {
    let variance = 2.0 / (9.0 * freedom);
    (1.0 - variance + DEVIATIONS * variance.sqrt()).powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_luck_explains_is_left_out_and_what_it_does_not_is_kept() {
        assert_eq!(noise_share(0.0, 1), 1.0);
        assert_eq!(noise_share(3.0, 1), 1.0);
        assert!(noise_share(3.0, 4) < 0.8);
        assert_eq!(noise_share(f64::INFINITY, 1), 0.0);
    }

    #[test]
    fn surprise_is_the_quantile_of_tables() {
        for (freedom, quantile) in [(1.0, 3.841), (4.0, 9.488), (30.0, 43.773)] {
            let error = freedom * surprise(freedom) / quantile - 1.0;
            assert!(error.abs() < 0.03, "{freedom}: {error}");
        }
    }
}
