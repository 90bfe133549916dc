//! The default engine: hand-written forward and backward passes on flat buffers, with threads that own rows.
//!
//! A step is two jobs of a small team of threads. In the *chain* every member computes gradients of its part of the
//! batch's rows; in the *update* every member updates its part of the layers. Inside a chain members wait for each
//! other only where batch normalisation or the diversity term needs sums over all rows. Once every buffer has grown to
//! the batch's size, a step allocates nothing.

mod buffers;
mod chain;
mod classifier_steps;
mod convolution;
mod critic;
mod encoder;
mod encoder_trace;
mod engine;
mod epilogue;
pub(crate) mod gemm;
mod invariant;
mod jobs;
mod layer;
mod map;
mod networks;
pub(crate) mod normalise;
pub(crate) mod objective;
mod packing;
mod parameter;
mod sparse;
mod stack;
mod state;
mod statistics;
mod steps;
mod sums;
mod team;
mod weights;

pub use engine::CpuEngine;
pub use gemm::Product;
pub use invariant::{Adversary, InvariantStep};
