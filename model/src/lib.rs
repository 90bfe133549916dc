//! OSTAR: learns without labels how a deployed classifier's classes moved, and moves with them.
//!
//! A classifier was trained on labelled *source* data and now sees unlabelled *target* data, in which both
//! the classes' shares and their shapes have changed. OSTAR (ICLR 2022) learns a map that carries source
//! latents to where the same classes are now, trains a new classifier on the mapped, still labelled points,
//! and estimates the new shares. This crate is that method as a library: numbers and settings in, numbers
//! out. It touches no files but a bundle's and takes all randomness from one seeded [`Generator`].
//!
//! # From a model to a stream
//!
//! [`fit::fit`] makes a [`Bundle`] from labelled data (or a training job exports one): the classifier, and the
//! labelled source rows that adaptation needs. A [`learner::Learner`] takes the bundle and blocks of unlabelled
//! events, follows the classes' shares ([`proportions`]), takes alignment steps on an engine, and lets
//! [`diagnostics`] judge whether the outcome may be served. [`learner::Snapshot`] is what is served.
//!
//! # The engine
//!
//! [`Engine`] is the one interface, at the level of a training step. An engine holds the networks, their
//! optimisers and two buffers of latents; a step takes the row numbers of a batch and its settings, moves
//! one network, and reports scalars. What the steps are for:
//!
//! 1. [`Engine::critic_step`], several times on fresh batches: the critic learns to tell mapped source
//!    points from target points; its loss is the Wasserstein distance between them, with a gradient penalty.
//! 2. [`Engine::map_step`]: the map brings that distance down, moving points as little as it can.
//! 3. [`Engine::classifier_step`]: the target classifier learns from the mapped points' labels.
//!
//! Then [`Engine::score`] predicts. [`Engine::pretrain_step`] and [`Engine::encoder_step`] train an encoder
//! along; [`Engine::export`] and [`Engine::import`] carry the whole state, optimisers included.
//!
//! Two engines take the same steps and are tested against the same golden vectors:
//!
//! - [`cpu::CpuEngine`], the default: gradients by hand on flat f32 buffers. A step allocates nothing, and
//!   the same seed and number of threads give the same bytes. Use it unless you have a reason not to.
//! - [`CandleEngine`] (feature `candle`): the same steps in candle's tensors and autograd, in single or double
//!   precision. It is the oracle in tests, and the way to a GPU: with the feature `cuda` it takes the device
//!   `cuda:N`. That path is type-checked, not run on a GPU.
//!
//! # The paper's symbols
//!
//! | symbol | what | here |
//! |---|---|---|
//! | g | encoder, inputs to latents z | [`architecture::EncoderShape`], [`Inputs`], [`fields`] |
//! | f_S, f_N | source and target classifier | [`architecture::ClassifierShape`], [`engine::Head`] |
//! | phi | transport map, a residual network | [`architecture::MapShape`] |
//! | v, gamma | critic, weight of its gradient penalty | [`architecture::CriticShape`], [`engine::CriticStep`] |
//! | lambda_OT | weight of the transport cost | [`engine::MapStep`] |
//! | p_N | target label proportions | [`proportions::LabelProportions`] and its estimators |
//! | omega | weights of a batch's source rows | [`weights::source_weights`] |
//! | K, d | classes, width of the latent space | [`Architecture`] |
//! | c, a, b | weights of cross-entropy, entropy and diversity | [`engine::ClassifierObjective`] |
//!
//! # Example
//!
//! One Gaussian mapped onto another (`cargo run -p ostar-model --example gaussians`):
//!
//! ```
#![doc = include_str!("../examples/gaussians.rs")]
//! ```

pub mod architecture;
mod argmax;
pub mod bundle;
mod candidate;
#[cfg(feature = "candle")]
pub mod candle;
mod checks;
pub mod cpu;
pub mod diagnostics;
pub mod engine;
mod error;
pub mod evaluate;
pub mod fields;
pub mod fit;
mod initialise;
mod inputs;
pub mod learner;
mod moments;
pub mod optimiser;
mod parameters;
mod powers;
pub mod proportions;
mod random;
pub mod tensors;
pub mod weights;

pub use architecture::Architecture;
pub use argmax::argmax;
pub use bundle::Bundle;
pub use candidate::Candidate;
#[cfg(feature = "candle")]
pub use candle::CandleEngine;
pub use engine::Engine;
pub use error::{Error, Result};
pub use initialise::{copy_source_classifier, initial_parameters};
pub use inputs::{FieldRows, Inputs};
pub use random::Generator;
pub use tensors::{HostTensor, NamedTensors, Rows};
