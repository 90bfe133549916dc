//! The engine on candle tensors: what the CPU engine is held to, and that it is held to the same itself.
//!
//! `golden`, `robustness` and `state` run here with candle's engines and in the binary `engine` with the CPU's.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

#[path = "../shared/common/mod.rs"]
mod common;
#[path = "../shared/vectors.rs"]
mod vectors;

mod devices;
mod equal_engines;
#[path = "../engine/golden.rs"]
mod golden;
mod gradients;
mod invariant;
mod kept_map;
#[path = "../engine/robustness.rs"]
mod robustness;
#[path = "../engine/state.rs"]
mod state;

use ostar_engine::{
    Architecture, CandleEngine, Device, NamedTensors,
    candle::{Precision, device},
};

use common::{TestedEngine, cpu_engines};

/// The candle engine on the CPU. In double precision it is the reference.
fn candle(
    architecture: &Architecture,
    parameters: &NamedTensors,
    precision: Precision,
) -> CandleEngine {
    let cpu = device(None).unwrap();
    CandleEngine::new(architecture.clone(), parameters, precision, cpu).unwrap()
}

/// candle's engines, each with these parameters.
fn engines(architecture: &Architecture, parameters: &NamedTensors) -> Vec<TestedEngine> {
    vec![
        TestedEngine {
            name: "candle f64",
            is_double: true,
            engine: Box::new(candle(architecture, parameters, Precision::F64)),
        },
        TestedEngine {
            name: "candle f32",
            is_double: false,
            // As the learner makes it.
            engine: Device::Candle
                .engine(architecture.clone(), parameters, 1)
                .unwrap(),
        },
    ]
}

/// Every engine, each with these parameters. An engine that is added here is part of all comparisons.
fn all_engines(architecture: &Architecture, parameters: &NamedTensors) -> Vec<TestedEngine> {
    let mut all = cpu_engines(architecture, parameters);
    all.extend(engines(architecture, parameters));
    all
}
