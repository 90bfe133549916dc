//! Late labels: read, decoded, and joined with the predictions that callers got, to measure those.
//!
//! What labels say to the gate is counted in the learner, see `ostar_method::learner`.

mod decoder;
mod join;
mod measures;
mod order;
mod settings;

use ostar_method::Candidate;

pub(crate) use decoder::Classes;
pub use decoder::{Label, LabelDecoder};
pub use join::{LabelCounts, LabelJoin, LabelReport};
pub use measures::{Measurement, Measures};
pub use order::OrderRows;
pub use settings::{LabelFormat, LabelSettings, RequestSettings, TakenBy};

/// Whose predictions are measured: a candidate's, or those that callers got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predictor {
    /// Predicts every event, whatever is served.
    Candidate(Candidate),
    /// The candidate that was served at the time.
    Served,
}

impl Predictor {
    /// The order in which [`LabelJoin::add_prediction`] takes probabilities.
    pub const ALL: [Self; 4] = [
        Self::Candidate(Candidate::Frozen),
        Self::Candidate(Candidate::Prior),
        Self::Candidate(Candidate::Adapted),
        Self::Served,
    ];

    /// The value of the metrics' `candidate` label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Candidate(candidate) => candidate.name(),
            Self::Served => "served",
        }
    }
}
