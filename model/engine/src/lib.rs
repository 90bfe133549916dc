//! The engines of OSTAR: networks, their training steps and their evaluation. Rows and weights in, numbers out.
//!
//! This floor knows no files, no stream and no decisions: [`ostar-method`](../ostar_method/index.html) decides with it what to
//! learn and to serve. All randomness is drawn from a seeded [`Generator`].
//!
//! # The engine
//!
//! [`Engine`] is the interface of both engines, at the level of a training step. An engine holds the networks, their
//! optimisers and two buffers of latents. A step takes the row numbers of a batch and settings, updates one network,
//! and returns scalars. One alignment step is:
//!
//! 1. [`Engine::critic_step`], several times on fresh batches: the critic estimates the Wasserstein distance between
//!    mapped source points and target points, with a gradient penalty.
//! 2. [`Engine::map_step`]: the map reduces that distance while it moves points as little as possible.
//! 3. [`Engine::classifier_step`]: the target classifier learns from the labels of the mapped points.
//!
//! [`Engine::score`] then predicts. [`Engine::pretrain_step`] and [`Engine::encoder_step`] also train the encoder.
//! [`Engine::export`] and [`Engine::import`] transfer the whole state, optimisers included.
//!
//! Two engines take the same steps and are tested against the same golden vectors:
//!
//! - [`cpu::CpuEngine`], the default: hand-written gradients on flat f32 buffers. A step allocates nothing, and
//!   the same seed and number of threads give the same bytes.
//! - [`CandleEngine`] (feature `candle`): the same steps with candle's tensors and autograd, in single or double
//!   precision. It is the reference in tests, and the engine for a GPU: with the feature `cuda` it works on a GPU, which
//!   is type-checked and linked but not yet run on one. Parameters, optimiser state and buffers stay on the device; a
//!   step copies a few scalars back.
//!
//! [`Device`] names an engine and where it works.
//!
//! [`cpu::CpuEngine::invariant_step`] has the steps of the adversarial methods that OSTAR is compared with.
//!
//! # The paper's symbols
//!
//! | symbol | meaning | here |
//! |---|---|---|
//! | g | encoder, inputs to latents z | [`architecture::EncoderShape`], [`Inputs`] |
//! | f_S, f_N | source and target classifier | [`architecture::ClassifierShape`], [`engine::Head`] |
//! | phi | transport map, a residual network | [`architecture::MapShape`] |
//! | v, gamma | critic, weight of its gradient penalty | [`architecture::CriticShape`], [`engine::CriticStep`] |
//! | lambda_OT | weight of the transport cost | [`engine::MapStep`] |
//! | p_N | target label proportions | `ostar_method::proportions` |
//! | omega | weights of a batch's source rows | [`weights::source_weights`] |
//! | K, d | classes, width of the latent space | [`Architecture`] |
//! | c, a, b | weights of cross-entropy, entropy and diversity | [`engine::ClassifierObjective`] |
//!
//! # Example
//!
//! One Gaussian mapped onto another (`cargo run -p ostar-engine --example gaussians`):
//!
//! ```
#![doc = include_str!("../examples/gaussians.rs")]
//! ```

pub mod architecture;
mod argmax;
#[cfg(feature = "candle")]
pub mod candle;
pub mod checks;
pub mod cpu;
pub mod device;
pub mod engine;
mod error;
pub mod evaluate;
mod initialise;
pub mod inputs;
pub mod linear;
pub mod moments;
pub mod optimiser;
pub mod parameters;
pub mod powers;
mod random;
pub mod tensors;
pub mod weights;

pub use architecture::Architecture;
pub use argmax::argmax;
#[cfg(feature = "candle")]
pub use candle::CandleEngine;
pub use device::Device;
pub use engine::Engine;
pub use error::{Error, Result};
pub use initialise::{copy_source_classifier, initial_parameters};
pub use inputs::{FieldRows, Inputs};
pub use random::Generator;
pub use tensors::{HostTensor, NamedTensors, Rows};
