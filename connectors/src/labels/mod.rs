//! Labels that arrive after their predictions: joined by id, and used to measure, never to learn.

mod decoder;
mod join;
mod measures;
mod settings;

pub(crate) use decoder::Classes;
pub use decoder::{Label, LabelDecoder};
pub use join::{LabelCounts, LabelJoin, LabelReport};
pub use measures::{Measured, Measures};
pub use settings::{LabelFormat, LabelSettings};

/// Whose predictions are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Candidate {
    /// The frozen classifier.
    Source,
    /// The frozen classifier, corrected to the stream's label proportions.
    Prior,
    /// The adapted classifier.
    Adapted,
    /// What was served, by whatever mode was set.
    Served,
}

impl Candidate {
    /// All of them, in the order that predictions are given in.
    pub const ALL: [Self; 4] = [Self::Source, Self::Prior, Self::Adapted, Self::Served];

    /// As metrics write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Prior => "prior",
            Self::Adapted => "adapted",
            Self::Served => "served",
        }
    }
}
