//! Proportions, alarms, gate, labels and learner on streams of rows.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

#[path = "../shared/gaussians/mod.rs"]
mod gaussians;
#[path = "../shared/two_classes/mod.rs"]
mod two_classes;

mod alarms;
mod collapse;
mod gate;
mod golden_proportions;
mod labels;
mod learner;
mod many_classes;
mod proportion_errors;
mod proportion_intervals;
mod proportion_properties;
mod proportion_trackers;
mod resume;
mod worked_proportions;
