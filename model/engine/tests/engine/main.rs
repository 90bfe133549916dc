//! Networks and the CPU engine: rows and weights in, numbers out. No bundle, no stream.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

#[path = "../shared/alignment/mod.rs"]
mod alignment;
#[path = "../shared/common/mod.rs"]
mod common;
#[path = "../shared/vectors.rs"]
mod vectors;

mod determinism;
mod evaluate;
mod golden;
mod robustness;
mod state;

use common::{TestedEngine, cpu_engines as engines};
