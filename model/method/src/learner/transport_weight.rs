//! lambda_OT: fixed, or solved for.

use serde::{Deserialize, Serialize};

use super::settings::TransportWeight;

/// Range of a solved weight.
const RANGE: std::ops::RangeInclusive<f64> = 1e-3..=1e2;
/// Weight of the newest statistic in its running mean.
const NEWEST: f64 = 0.3;

/// The weight of the transport cost as it stands.
///
/// The paper's problem is the least transport cost subject to equal marginals. So the weight is the
/// strongest that still meets the constraint: it shrinks while the sliced distance between mapped source
/// and target is above what two halves of the target window differ by, and grows while it is not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TransportWeightSolver {
    settings: TransportWeight,
    weight: f64,
    /// Running mean of the statistic.
    distance: Option<f64>,
}

impl TransportWeightSolver {
    pub(crate) fn new(settings: TransportWeight) -> Self {
        let weight = match settings {
            TransportWeight::Fixed { weight } => weight,
            TransportWeight::Solved { start, .. } => start,
        };
        Self {
            settings,
            weight,
            distance: None,
        }
    }

    pub(crate) fn weight(&self) -> f64 {
        self.weight
    }

    /// Takes in the sliced distance and its noise floor, and moves a solved weight.
    pub(crate) fn update(&mut self, distance: f64, noise_floor: f64) {
        let mean = match self.distance {
            None => distance,
            Some(mean) => mean + NEWEST * (distance - mean),
        };
        self.distance = Some(mean);
        if let TransportWeight::Solved { factor, .. } = self.settings {
            let moved = if mean > noise_floor {
                self.weight / factor
            } else {
                self.weight * factor
            };
            self.weight = moved.clamp(*RANGE.start(), *RANGE.end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_solved_weight_falls_above_the_floor_and_rises_below_it() {
        let settings = TransportWeight::Solved {
            start: 1.0,
            factor: 2.0,
        };
        let mut solver = TransportWeightSolver::new(settings);
        solver.update(1.0, 0.5);
        assert_eq!(solver.weight(), 0.5);
        (0..50).for_each(|_| solver.update(1.0, 0.5));
        assert_eq!(solver.weight(), 1e-3);
        (0..50).for_each(|_| solver.update(0.1, 0.5));
        assert_eq!(solver.weight(), 1e2);
    }

    #[test]
    fn a_fixed_weight_stays() {
        let mut solver = TransportWeightSolver::new(TransportWeight::Fixed { weight: 0.3 });
        solver.update(5.0, 0.1);
        assert_eq!(solver.weight(), 0.3);
    }
}
