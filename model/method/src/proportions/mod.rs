//! Label proportions: how large each class's share is in unlabelled data, and what follows from it.
//!
//! Everything here works from class probabilities alone, so it serves a classifier on latents as well as a
//! model that gives nothing but its predictions. Predictions on held-out labelled source rows make a
//! [`ProportionEstimator`]; predictions on a block of target rows give [`Evidence`]; a [`Tracker`] averages
//! the evidence of a stream into a [`ProportionEstimate`].

mod accuracy;
mod average;
mod by_labels;
mod confusion;
mod descent;
mod em;
mod estimator;
mod factor;
mod interval;
mod label_proportions;
#[cfg(test)]
mod many_classes;
mod prior;
mod probabilities;
mod reading_lanes;
mod reading_noise;
mod shrinkage;
mod simplex;
mod temperature;
mod tracker;
mod unmixing;

pub use accuracy::EstimatedAccuracy;
pub use by_labels::ShareByLabels;
pub(crate) use by_labels::{LabelSums, Stratum};
pub use confusion::Confusion;
pub use em::{EmEstimate, EmLimits, maximum_likelihood};
pub use estimator::{Estimator, Evidence, ProportionEstimate, ProportionEstimator};
pub use interval::Interval;
pub use label_proportions::LabelProportions;
pub use prior::prior_correct;
pub use probabilities::Probabilities;
pub use temperature::Temperature;
pub use tracker::{Tracker, TrackerSettings};
