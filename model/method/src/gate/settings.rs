//! Limits of the gate. The defaults are the plateau found on 628 streams, docs/decisions/0009.

use ostar_engine::{Error, Result, checks};
use serde::{Deserialize, Serialize};

/// When a candidate explains the window, and how often it must before that changes what is served.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct GateSettings {
    /// Rows of the stream that the tests look at, at most; fewer after a change.
    pub window: usize,
    /// Rows without which nothing is decided: the frozen model is served.
    pub fewest_rows: usize,
    /// The score test fails above this many times the 95 % quantile of its noise.
    pub score_factor: f64,
    /// The latent test fails above this many times its noise floor.
    pub latent_factor: f64,
    /// Largest share of rows beyond the support of the held-out rows.
    pub beyond_support: f64,
    /// Held-out rows without which a class cannot be judged.
    pub held_out_rows: usize,
    /// Blocks in a row that must pass or fail narrowly before the decision changes. A clear result
    /// (a quarter beyond or below the limit) changes it at once.
    pub patience: u32,
    /// Serves the adapted model without a label where rule R of docs/decisions/0009 holds. Losses of about
    /// two points were seen.
    pub adapted_without_labels: bool,
}

impl Default for GateSettings {
    fn default() -> Self {
        Self {
            window: 3_000,
            fewest_rows: 500,
            score_factor: 1.25,
            latent_factor: 1.5,
            beyond_support: 0.1,
            held_out_rows: 30,
            patience: 2,
            adapted_without_labels: false,
        }
    }
}

impl GateSettings {
    /// All limits that cannot work.
    pub(crate) fn problems(&self) -> Vec<Error> {
        checks::problems([
            checks::not_zero("gate.window", self.window),
            checks::not_zero("gate.fewest_rows", self.fewest_rows),
            checks::not_zero("gate.patience", self.patience as usize),
            self.check_fewest_rows(),
            checks::weight("gate.score_factor", self.score_factor),
            checks::weight("gate.latent_factor", self.latent_factor),
            checks::weight("gate.beyond_support", self.beyond_support),
        ])
    }

    fn check_fewest_rows(&self) -> Result<()> {
        let (fewest, window) = (self.fewest_rows, self.window);
        // A window of 0 has been told already.
        if window == 0 || fewest <= window {
            return Ok(());
        }
        let problem = format!("is {fewest}, expected at most gate.window = {window}");
        Err(Error::setting("gate.fewest_rows", problem))
    }
}
