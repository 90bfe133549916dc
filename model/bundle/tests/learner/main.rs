//! The learner, its gate, labels and alarms on models that were fitted.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

#[path = "../shared/two_classes/mod.rs"]
mod two_classes;

mod alarms;
mod collapse;
mod gate;
mod labels;
mod learner;
mod many_classes;
mod resume;
