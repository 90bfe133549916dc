//! The default engine: forward and backward by hand on flat buffers, threads that own rows.
//!
//! A step is two jobs of a small team of threads: the chain, in which every member takes its share of
//! the batch's rows from latents to gradients, and the update, in which every member takes its share
//! of the layers. Members meet inside a chain only where batch normalisation or the marginal entropy
//! needs sums over all rows. Once every buffer has grown to the batch's size nothing is allocated.

mod classifier_steps;
mod convolution;
mod critic;
mod encoder;
mod encoder_trace;
mod engine;
mod finish;
pub(crate) mod gemm;
mod invariant;
mod layer;
mod map;
mod networks;
pub(crate) mod normalise;
pub(crate) mod objective;
mod parameter;
mod stack;
mod state;
mod statistics;
mod steps;
mod team;

pub use engine::CpuEngine;
pub use gemm::Product;
pub use invariant::{Adversary, InvariantStep};
