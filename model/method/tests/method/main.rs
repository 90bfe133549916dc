//! Proportions of a stream, compared with independent solutions and with what is known of drawn rows.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

#[path = "../shared/gaussians/mod.rs"]
mod gaussians;

mod golden_proportions;
mod proportion_errors;
mod proportion_intervals;
mod proportion_properties;
mod proportion_trackers;
mod worked_proportions;
