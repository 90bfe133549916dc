//! OSTAR: learns without labels how a deployed classifier's classes moved, and moves with them.

pub mod architecture;
pub mod bundle;
#[cfg(feature = "candle")]
pub mod candle;
mod checks;
pub mod cpu;
pub mod engine;
mod error;
pub mod evaluate;
pub mod fields;
pub mod fit;
mod initialise;
mod inputs;
mod moments;
pub mod optimiser;
mod parameters;
pub mod proportions;
mod random;
pub mod tensors;
pub mod weights;

pub use architecture::Architecture;
pub use bundle::Bundle;
#[cfg(feature = "candle")]
pub use candle::CandleEngine;
pub use engine::Engine;
pub use error::{Error, Result};
pub use initialise::{copy_source_classifier, initial_parameters};
pub use inputs::{FieldRows, Inputs};
pub use random::Generator;
pub use tensors::{HostTensor, NamedTensors, Rows};
