//! The three classifiers that can be served.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A classifier that can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Candidate {
    /// The classifier as it was deployed (f_S).
    Frozen,
    /// The frozen classifier, corrected to the stream's proportions.
    Prior,
    /// The classifier that follows the map (f_N), corrected to the stream's proportions.
    Adapted,
}

impl Candidate {
    /// From the least adapted to the most.
    pub const ALL: [Self; 3] = [Self::Frozen, Self::Prior, Self::Adapted];

    /// The name in metrics, configuration and APIs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frozen => "frozen",
            Self::Prior => "prior",
            Self::Adapted => "adapted",
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
