//! Adam's settings and the schedules of its rate.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Settings of one Adam step. Its moments and step count live in the engine, next to the parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adam {
    /// Step size.
    pub rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
}

/// How the rate moves with the number of steps taken.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RateSchedule {
    /// Always the base rate.
    Constant,
    /// base / (1 + 10 p)^0.75 with p the share of `steps` done, then held: the paper's, for a training
    /// of known length.
    Decaying {
        /// Steps until the lowest rate.
        steps: u64,
    },
    /// The decaying schedule over and over, for a stream without an end.
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

    /// Refuses settings that would divide by zero or diverge.
    pub fn validate(&self) -> Result<()> {
        let beta = |name: &str, value: f64| match (0.0..1.0).contains(&value) {
            true => Ok(()),
            false => Err(Error::setting(
                format!("adam.{name}"),
                format!("is {value}, expected a number in [0, 1)"),
            )),
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

    /// What one step multiplies and adds, given how many steps were taken before it.
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

/// value -= step_size * first / (second_scale * sqrt(second) + epsilon)
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
            let share = (done as f64 / all.max(1) as f64).min(1.0);
            base / (1.0 + 10.0 * share).powf(0.75)
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
