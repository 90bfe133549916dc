//! Settings of the Adam optimiser and schedules of its learning rate.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Settings of one Adam step. Its moments and step count live in the engine, next to the parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adam {
    /// Learning rate, 0 or more.
    pub rate: f64,
    /// Decay of the first moment, in [0, 1).
    pub beta1: f64,
    /// Decay of the second moment, in [0, 1).
    pub beta2: f64,
    /// Added to the root of the second moment, above 0.
    pub epsilon: f64,
}

/// How the learning rate depends on the number of steps taken.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RateSchedule {
    /// The base rate at every step.
    Constant,
    /// base / (1 + 10 p)^0.75, where p rises from 0 to 1 over `steps` steps and then stays 1. The paper's
    /// schedule, for a training of known length.
    Decaying {
        /// Steps until the lowest rate is reached.
        steps: u64,
    },
    /// The decaying schedule, restarted every `period` steps: for a stream that does not end.
    Restarted {
        /// Steps from one restart to the next.
        period: u64,
    },
}

// === impl Adam ===

impl Adam {
    /// The paper's betas (0.5, 0.999) at `rate`.
    pub fn with_rate(rate: f64) -> Self {
        Self {
            rate,
            beta1: 0.5,
            beta2: 0.999,
            epsilon: 1e-8,
        }
    }

    /// Checks every setting and returns the first problem.
    pub fn validate(&self) -> Result<()> {
        let beta = |name: &str, value: f64| {
            if (0.0..1.0).contains(&value) {
                return Ok(());
            }
            Err(Error::setting(
                format!("adam.{name}"),
                format!("is {value}, expected a number in [0, 1)"),
            ))
        };
        beta("beta1", self.beta1)?;
        beta("beta2", self.beta2)?;
        if !(self.rate.is_finite() && self.rate >= 0.0) {
            return Err(Error::setting(
                "adam.rate",
                format!("is {}, expected a finite number, 0 or more", self.rate),
            ));
        }
        if !(self.epsilon.is_finite() && self.epsilon > 0.0) {
            return Err(Error::setting(
                "adam.epsilon",
                format!("is {}, expected a finite number above 0", self.epsilon),
            ));
        }
        Ok(())
    }

    /// Coefficients of the next step, with the correction for moments that start at 0.
    pub(crate) fn coefficients(&self, steps_before: u64) -> AdamCoefficients {
        let step = steps_before as f64 + 1.0;
        AdamCoefficients {
            beta1: self.beta1,
            beta2: self.beta2,
            step_size: self.rate / (1.0 - self.beta1.powf(step)),
            second_scale: 1.0 / (1.0 - self.beta2.powf(step)).sqrt(),
            epsilon: self.epsilon,
        }
    }
}

/// Coefficients of one step: value -= step_size * first / (second_scale * sqrt(second) + epsilon).
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdamCoefficients {
    pub(crate) beta1: f64,
    pub(crate) beta2: f64,
    pub(crate) step_size: f64,
    pub(crate) second_scale: f64,
    pub(crate) epsilon: f64,
}

// === impl RateSchedule ===

impl RateSchedule {
    /// The rate at `step`, counted from 0.
    pub fn rate(&self, base: f64, step: u64) -> f64 {
        let decayed = |done: u64, all: u64| {
            let progress = (done as f64 / all.max(1) as f64).min(1.0);
            base / (1.0 + 10.0 * progress).powf(0.75)
        };
        match *self {
            Self::Constant => base,
            Self::Decaying { steps } => decayed(step, steps),
            Self::Restarted { period } => decayed(step % period.max(1), period),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_decay_hold_and_restart() {
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        let lowest = 1.0 / 11f64.powf(0.75);
        close(RateSchedule::Constant.rate(0.5, 1_000_000), 0.5);
        let decaying = RateSchedule::Decaying { steps: 10 };
        close(decaying.rate(1.0, 0), 1.0);
        close(decaying.rate(1.0, 10), lowest);
        close(decaying.rate(1.0, 1000), lowest);
        let restarted = RateSchedule::Restarted { period: 10 };
        close(restarted.rate(1.0, 5), 1.0 / 6f64.powf(0.75));
        close(restarted.rate(1.0, 20), 1.0);
    }
}
