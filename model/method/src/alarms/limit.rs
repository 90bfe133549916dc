//! The limit of a cumulative sum from the false alarms that it may raise.

/// What every score must exceed to count: changes of twice as many deviations are told soonest.
pub(super) const ALLOWANCE: f64 = 0.25;

/// Correction of the limit for a sum that is looked at block by block (Siegmund, 1985).
const OVERSHOOT: f64 = 1.166;

/// Blocks between two false alarms of a sum with this limit, on average, if its scores are standard normal.
fn blocks_between(limit: f64) -> f64 {
    let exponent = 2.0 * ALLOWANCE * (limit + OVERSHOOT);
    (exponent.exp() - exponent - 1.0) / (2.0 * ALLOWANCE * ALLOWANCE)
}

/// The limit of one sum that raises a false alarm in so many blocks.
pub(super) fn limit(blocks: f64) -> f64 {
    let (mut low, mut high) = (0.0, 100.0);
    // To 1e-10; the number of halvings does not depend on the value.
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if blocks_between(middle) < blocks {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostar_engine::Generator;

    #[test]
    fn a_sum_of_normal_scores_crosses_its_limit_as_often_as_was_asked_for() {
        let wanted = 500.0;
        let limit = limit(wanted);
        let mut random = Generator::new(5);
        let (mut sum, mut crossed) = (0.0f64, 0);
        let blocks = 500_000;
        for _ in 0..blocks {
            sum = (sum + random.normal() - ALLOWANCE).max(0.0);
            if sum >= limit {
                crossed += 1;
                sum = 0.0;
            }
        }
        let ratio = f64::from(crossed) * wanted / f64::from(blocks);
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
    }
}
