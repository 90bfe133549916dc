//! Networks for serving: immutable, in evaluation mode, shared by threads without a lock.
//!
//! Batch normalisation disappears into the linear layer in front of it and weights are packed once. All
//! working space is the caller's [`Scratch`], one a thread, so a call allocates nothing once that has grown.

mod classifier;
mod clip;
mod encoder;
mod layer;
mod standardisation;

pub use classifier::ClassifierNetwork;
pub use clip::Clip;
pub use encoder::{EncoderNetwork, ExternalNetwork};
pub use layer::Scratch;
pub use standardisation::{Standardisation, fold_affine, standardise_classifier};
