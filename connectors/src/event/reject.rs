//! Why a record was rejected: a reason to count by, and a detail for people.

use std::fmt;

/// Longest detail, in bytes, so that a hostile record cannot fill logs and headers of dead letters.
const MAX_DETAIL: usize = 300;

/// A record that cannot be used. It has left no trace in rows or chunks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {detail}")]
pub struct Reject {
    /// Value of the metrics' `reason` label.
    pub reason: RejectReason,
    /// What exactly is wrong, and what was expected.
    pub detail: String,
}

/// Reasons to reject a record. They are values of a metric's label, so there are few.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RejectReason {
    /// A payload of no bytes. A record without a payload is a tombstone, and not an event.
    Empty,
    /// More bytes than the settings allow.
    TooLarge,
    /// Not valid in the configured format.
    Malformed,
    /// JSON that is nested deeper than the settings allow.
    TooDeep,
    /// The registry does not have the schema that the payload names.
    UnknownSchema,
    /// The payload's schema cannot give what the bundle takes.
    IncompatibleSchema,
    /// No input of the kind that the bundle takes.
    MissingInput,
    /// Another number of values than the bundle takes.
    WrongWidth,
    /// A value of another type than expected, like a text where a number belongs.
    WrongType,
    /// A number that is NaN, infinite or too large to compute with.
    NotFinite,
    /// Probabilities that are negative or do not sum to 1.
    NotADistribution,
    /// An id that is too long; a label without an id.
    BadId,
    /// A time that is too far ahead of the record's or of the clock.
    BadTime,
    /// A label that is missing or names no class.
    UnknownClass,
    /// Decoded, and then refused by the model.
    Unscorable,
}

// === impl RejectReason ===

impl RejectReason {
    /// All reasons, so that every counter exists from the start.
    pub const ALL: [Self; 15] = [
        Self::Empty,
        Self::TooLarge,
        Self::Malformed,
        Self::TooDeep,
        Self::UnknownSchema,
        Self::IncompatibleSchema,
        Self::MissingInput,
        Self::WrongWidth,
        Self::WrongType,
        Self::NotFinite,
        Self::NotADistribution,
        Self::BadId,
        Self::BadTime,
        Self::UnknownClass,
        Self::Unscorable,
    ];

    /// The name in metrics and dead letters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::TooLarge => "too_large",
            Self::Malformed => "malformed",
            Self::TooDeep => "too_deep",
            Self::UnknownSchema => "unknown_schema",
            Self::IncompatibleSchema => "incompatible_schema",
            Self::MissingInput => "missing_input",
            Self::WrongWidth => "wrong_width",
            Self::WrongType => "wrong_type",
            Self::NotFinite => "not_finite",
            Self::NotADistribution => "not_a_distribution",
            Self::BadId => "bad_id",
            Self::BadTime => "bad_time",
            Self::UnknownClass => "unknown_class",
            Self::Unscorable => "unscorable",
        }
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

// === impl Reject ===

impl Reject {
    /// Cuts a detail over 300 bytes.
    pub fn new(reason: RejectReason, detail: impl Into<String>) -> Self {
        let mut detail = detail.into();
        if detail.len() > MAX_DETAIL {
            let end = (0..=MAX_DETAIL).rfind(|end| detail.is_char_boundary(*end));
            detail.truncate(end.unwrap_or(0));
            detail.push_str("...");
        }
        Self { reason, detail }
    }

    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(RejectReason::Malformed, detail)
    }

    pub(crate) fn wrong_type(detail: impl Into<String>) -> Self {
        Self::new(RejectReason::WrongType, detail)
    }

    pub(crate) fn too_deep(max_depth: usize) -> Self {
        let detail = format!("the event is nested deeper than {max_depth} levels");
        Self::new(RejectReason::TooDeep, detail)
    }

    pub(crate) fn empty() -> Self {
        Self::new(RejectReason::Empty, "the payload has no bytes")
    }

    pub(crate) fn too_large(bytes: usize, max_bytes: usize) -> Self {
        let detail = format!("the payload has {bytes} bytes, expected at most {max_bytes}");
        Self::new(RejectReason::TooLarge, detail)
    }
}

impl From<serde_json::Error> for Reject {
    fn from(error: serde_json::Error) -> Self {
        let text = error.to_string();
        let reason = if error.is_data() {
            RejectReason::WrongType
        } else if text.starts_with("number out of range") {
            // A number like 1e999 is valid JSON, but serde_json reports it as a syntax error.
            RejectReason::NotFinite
        } else {
            RejectReason::Malformed
        };
        Self::new(reason, text)
    }
}

impl From<prost::DecodeError> for Reject {
    fn from(error: prost::DecodeError) -> Self {
        Self::malformed(error.to_string())
    }
}

impl From<ostar_engine::Error> for Reject {
    fn from(error: ostar_engine::Error) -> Self {
        let reason = match &error {
            ostar_engine::Error::Shape { .. } => RejectReason::WrongType,
            _ => RejectReason::NotFinite,
        };
        Self::new(reason, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn reasons_have_different_names() {
        let names: BTreeSet<_> = RejectReason::ALL.map(RejectReason::as_str).into();
        assert_eq!(names.len(), RejectReason::ALL.len());
    }

    #[test]
    fn a_long_detail_is_cut_between_characters() {
        let reject = Reject::new(RejectReason::Malformed, "ä".repeat(10_000) + "x");
        assert!(reject.detail.len() <= MAX_DETAIL + 3);
        assert!(reject.to_string().starts_with("malformed: ää"));
    }
}
