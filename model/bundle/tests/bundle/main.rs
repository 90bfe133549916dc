//! Bundles: their files, what `fit` puts into them, and how inputs reach the model.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

#[path = "../../../engine/tests/shared/common/mod.rs"]
mod common;

mod bundle;
mod fit;
mod inputs;
mod profile;
