//! Shared by the integration tests: the engines under test, small networks, and data for them.

// Each test file is its own crate and uses only a part of this.
#![allow(dead_code)]

use std::collections::BTreeMap;

use ostar_engine::{
    Architecture, Device, Engine, Generator, HostTensor, NamedTensors, Rows,
    architecture::{
        ClassifierShape, CriticShape, EncoderShape, MapShape, Network, Norm, ParameterSpec, Role,
    },
    tensors::to_safetensors,
};

pub(crate) mod steps;

/// An engine under test.
pub(crate) struct TestedEngine {
    pub(crate) name: &'static str,
    /// Whether it computes in double precision.
    pub(crate) is_double: bool,
    pub(crate) engine: Box<dyn Engine>,
}

/// The CPU engine on one thread and on two, each with these parameters.
pub(crate) fn cpu_engines(
    architecture: &Architecture,
    parameters: &NamedTensors,
) -> Vec<TestedEngine> {
    // As the learner makes them.
    let made = |threads| Device::Cpu.engine(architecture.clone(), parameters, threads);
    [("cpu, 1 thread", 1), ("cpu, 2 threads", 2)]
        .map(|(name, threads)| TestedEngine {
            name,
            is_double: false,
            engine: made(threads).unwrap(),
        })
        .into()
}

pub(crate) const NORMS: [Norm; 3] = [Norm::Batch, Norm::Layer, Norm::None];

/// Small networks with every kind of layer: an MLP encoder, two residual blocks, two hidden layers elsewhere.
pub(crate) fn small_architecture(norm: Norm) -> Architecture {
    Architecture {
        classes: 3,
        latent: 5,
        encoder: EncoderShape::Mlp {
            inputs: 4,
            hidden: vec![6],
            final_relu: false,
        },
        map: MapShape { blocks: 2, norm },
        critic: CriticShape { hidden: vec![7, 6] },
        classifier: ClassifierShape {
            hidden: vec![6, 7],
            norm,
            dropout: 0.0,
        },
    }
}

/// Parameters large enough for every part of a gradient to matter. They are exact in single precision, so that all
/// engines start at the same point.
pub(crate) fn lively_parameters(architecture: &Architecture, seed: u64) -> NamedTensors {
    let mut generator = Generator::new(seed);
    let mut value = |spec: &ParameterSpec| {
        let value = match spec.role {
            Role::Weight => {
                let inputs: usize = spec.shape[1..].iter().product();
                generator.normal() / (inputs as f64).sqrt()
            }
            Role::Embedding => generator.normal(),
            Role::Bias | Role::RunningMean => 0.3 * generator.normal(),
            Role::Scale => 1.0 + 0.2 * generator.normal(),
            Role::RunningVariance => 0.5 + generator.uniform(),
        };
        value as f32
    };
    architecture
        .parameters()
        .into_iter()
        .map(|spec| {
            let values = (0..spec.len()).map(|_| value(&spec)).collect();
            (spec.name, HostTensor::f32(spec.shape, values))
        })
        .collect()
}

/// `count` numbers of a shifted and scaled standard normal.
pub(crate) fn normals(
    count: usize,
    mean: f64,
    deviation: f64,
    generator: &mut Generator,
) -> Vec<f32> {
    (0..count)
        .map(|_| (mean + deviation * generator.normal()) as f32)
        .collect()
}

pub(crate) fn rows(values: &[f32], width: usize) -> Rows<'_> {
    Rows::new(values, width).unwrap()
}

/// Names of the parameters that an optimiser updates in these networks.
pub(crate) fn trained_names(architecture: &Architecture, networks: &[Network]) -> Vec<String> {
    let mut names: Vec<String> = architecture
        .parameters()
        .into_iter()
        .filter(|spec| spec.is_trained() && networks.contains(&spec.network))
        .map(|spec| spec.name)
        .collect();
    names.sort();
    names
}

/// Whether a parameter's exact gradient is 0, or it depends on such a parameter: a bias in front of a batch norm, the
/// running mean behind it, the critic's last bias. Adam changes these by rounding noise.
pub(crate) fn moves_by_rounding_only(architecture: &Architecture, name: &str) -> bool {
    let before_batch_norm = Network::ALL
        .into_iter()
        .flat_map(|network| architecture.layers(network))
        .filter(|layer| layer.norm == Norm::Batch)
        .any(|layer| {
            name == format!("{}.bias", layer.linear)
                || name == format!("{}.running_mean", layer.normalisation)
        });
    let last = architecture.critic.hidden.len() + 1;
    before_batch_norm || name == format!("critic.fc{last}.bias")
}

pub(crate) fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |most, value| most.max(value.abs()))
}

/// Checks that every entry of `found` is within `tolerance` times `scale` of `expected`.
#[track_caller]
pub(crate) fn assert_close(
    what: &str,
    found: &[f64],
    expected: &[f64],
    scale: f64,
    tolerance: f64,
) {
    assert_eq!(found.len(), expected.len(), "{what}: how many entries");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        // Written so that NaN fails the assertion.
        let close = (found - expected).abs() <= tolerance * scale;
        assert!(
            close,
            "{what}[{index}]: found {found}, expected {expected}, tolerance {tolerance} of {scale}"
        );
    }
}

/// The engine's whole state, serialised.
pub(crate) fn state_bytes(engine: &dyn Engine) -> Vec<u8> {
    to_safetensors(&engine.export().unwrap(), BTreeMap::new()).unwrap()
}

#[track_caller]
pub(crate) fn assert_state_is_finite(what: &str, engine: &dyn Engine) {
    for (name, tensor) in engine.export().unwrap() {
        let finite = tensor.to_f64().iter().all(|value| value.is_finite());
        assert!(finite, "{what}: `{name}` is not finite");
    }
}

/// The gradients of the first step after an import without moments, by name: Adam's first moment is then the gradient
/// times 1 - beta1, which is 0.5.
pub(crate) fn gradients(engine: &dyn Engine) -> NamedTensors {
    let exported = engine.export().unwrap();
    let moments = exported.iter().filter_map(|(name, moment)| {
        let name = name.strip_prefix("adam.first.")?;
        let doubled = moment.to_f64().iter().map(|value| 2.0 * value).collect();
        Some((
            name.to_owned(),
            HostTensor::f64(moment.shape.clone(), doubled),
        ))
    });
    moments.collect()
}
