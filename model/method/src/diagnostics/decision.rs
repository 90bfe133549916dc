//! What the guard answers: a decision with its reason.

use serde::{Deserialize, Serialize};

/// The guard's answer: whether a learned state may be a candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The state may be served.
    Serve,
    /// The state may not be served; the last good one stays.
    Refuse(Reason),
}

/// Why a state may not be served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reason {
    /// A parameter, a loss or a piece of evidence is NaN or infinite.
    #[error("{name} is not finite")]
    NonFinite {
        /// The tensor, loss or piece of evidence that is not finite.
        name: String,
    },
    /// Nearly every row is predicted as one class.
    #[error(
        "{:.1} % of rows are predicted as class {class}, of which the prior-corrected model predicts {:.1} %",
        100.0 * adapted, 100.0 * prior
    )]
    OneClass {
        /// The class, counted from 0.
        class: usize,
        /// Share of rows by the adapted model.
        adapted: f64,
        /// Share of rows by the prior-corrected model.
        prior: f64,
    },
    /// Held-out rows are not nearer to the stream after the map than before.
    #[error(
        "the map does not help: held-out rows are {after:.4} from the stream after it and {before:.4} before"
    )]
    MapDoesNotHelp {
        /// Sliced distance of reweighted held-out rows to the stream, before the map.
        before: f64,
        /// The same distance after the map.
        after: f64,
    },
    /// The map carries a class towards another.
    #[error(
        "class {class} is moved by {cost:.4} (mean squared), more than {limit} of the squared \
         distance {separation:.4} between its mean and the nearest other, while label shift alone \
         leaves a distance of {distance_before_map:.4} with a floor of {noise_floor:.4}"
    )]
    ClassMovement {
        /// The class, counted from 0.
        class: usize,
        /// Mean ||phi(z) - z||^2 of its rows.
        cost: f64,
        /// Squared distance of its mean to the nearest other.
        separation: f64,
        /// Largest allowed fraction of the separation.
        limit: f64,
        /// What label shift alone leaves unexplained, which the limit depends on.
        distance_before_map: f64,
        /// What sampling alone makes of a distance.
        noise_floor: f64,
    },
    /// The map carries a part of a class towards another.
    #[error(
        "class {class} is deformed by {deformation:.4} (mean squared movement apart from its mean's), \
         more than {limit} of the squared distance {separation:.4} between its mean and the nearest other"
    )]
    ClassDeformation {
        /// The class, counted from 0.
        class: usize,
        /// Mean squared movement of its rows apart from its mean's.
        deformation: f64,
        /// Squared distance of its mean to the nearest other.
        separation: f64,
        /// Largest allowed fraction of the separation.
        limit: f64,
    },
    /// The target classifier lost what the frozen one knows.
    #[error(
        "held-out cross-entropy on mapped source samples is {adapted:.4}, more than {margin} above \
         the frozen classifier's {frozen:.4}"
    )]
    HeldOutLoss {
        /// Cross-entropy of the target classifier, in nats.
        adapted: f64,
        /// Cross-entropy of the frozen classifier, in nats.
        frozen: f64,
        /// How far `adapted` may be above `frozen`, in nats.
        margin: f64,
    },
    /// Different label proportions give the same predictions.
    #[error(
        "the confusion matrix is ill conditioned: its smallest singular value is {smallest:.2e}, \
         expected at least {limit:.2e}"
    )]
    IllConditioned {
        /// Smallest singular value of the joint confusion matrix.
        smallest: f64,
        /// Smallest singular value that the guard allows.
        limit: f64,
    },
}

// === impl Reason ===

impl Reason {
    /// All labels, so that counters can start at 0.
    pub const LABELS: [&'static str; 7] = [
        "non_finite",
        "class_movement",
        "class_deformation",
        "held_out_loss",
        "ill_conditioned",
        "one_class",
        "map_does_not_help",
    ];

    /// A name that does not change, for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::NonFinite { .. } => Self::LABELS[0],
            Self::ClassMovement { .. } => Self::LABELS[1],
            Self::ClassDeformation { .. } => Self::LABELS[2],
            Self::HeldOutLoss { .. } => Self::LABELS[3],
            Self::IllConditioned { .. } => Self::LABELS[4],
            Self::OneClass { .. } => Self::LABELS[5],
            Self::MapDoesNotHelp { .. } => Self::LABELS[6],
        }
    }
}
