//! Compares the gradients of every objective with central differences of the double-precision loss.

use ostar_engine::{
    Architecture, Engine, Generator, NamedTensors,
    architecture::{EncoderShape, Network, Norm},
    candle::Precision,
    optimiser::Adam,
    tensors::{HostTensor, Values},
};

use crate::common::{
    NORMS, assert_close, gradients, largest, lively_parameters, small_architecture,
    steps::{CROSS_ENTROPY_WEIGHT, Kind, Problem, Terms, row_numbers, take},
    trained_names,
};
use crate::{all_engines, candle};

const ROWS: usize = 9;
/// Small enough that no hidden unit turns on or off between the two points.
const DIFFERENCE: f64 = 1e-6;
const TOLERANCE: f64 = 1e-3;
/// How many entries of a tensor are varied.
const SAMPLES: usize = 12;

const CRITIC: Kind = Kind::Critic {
    penalty_weight: 10.0,
};

/// The report of a step at `parameters` with a learning rate of 0.
fn report(
    engine: &mut dyn Engine,
    kind: Kind,
    problem: &Problem,
    parameters: &NamedTensors,
) -> Vec<f64> {
    engine.import(parameters).unwrap();
    let rows = row_numbers(0, ROWS);
    let still = Adam::with_rate(0.0);
    // The same seed every time gives the same interpolates and dropout masks.
    let mut generator = Generator::new(5);
    take(kind, engine, problem, &rows, still, &mut generator).unwrap()
}

/// What the gradient of the parameter `name` belongs to. It is the loss, except for the encoder in an encoder step that
/// does not learn from mapped rows.
fn objective(kind: Kind, name: &str, report: &[f64]) -> f64 {
    match kind {
        Kind::Encoder(_) if name.starts_with("g.") => report[0] - CROSS_ENTROPY_WEIGHT * report[3],
        _ => report[0],
    }
}

fn entry<'p>(parameters: &'p mut NamedTensors, name: &str, index: usize) -> &'p mut f64 {
    match &mut parameters.get_mut(name).unwrap().values {
        Values::F64(values) => &mut values[index],
        Values::F32(_) => unreachable!("parameters were widened"),
    }
}

fn networks(kind: Kind) -> Vec<Network> {
    match kind {
        Kind::Critic { .. } => vec![Network::Critic],
        Kind::Map => vec![Network::Map],
        Kind::Classifier(_) => vec![Network::TargetClassifier],
        Kind::Encoder(_) | Kind::EncoderThroughMap(_) => {
            vec![Network::Encoder, Network::TargetClassifier]
        }
        Kind::Pretrain => vec![Network::Encoder, Network::SourceClassifier],
    }
}

/// For each tensor, some entries and the loss's central difference at them.
fn central_differences(
    kind: Kind,
    problem: &Problem,
    parameters: &NamedTensors,
) -> Vec<(String, Vec<usize>, Vec<f64>)> {
    let architecture = &problem.architecture;
    let mut oracle = candle(architecture, parameters, Precision::F64);
    problem.load(&mut oracle);
    let mut moved: NamedTensors = parameters
        .iter()
        .map(|(name, tensor)| {
            let wide = HostTensor::f64(tensor.shape.clone(), tensor.to_f64());
            (name.clone(), wide)
        })
        .collect();
    let mut differences = Vec::new();
    for name in trained_names(architecture, &networks(kind)) {
        let length = parameters[&name].values.as_scalars().len();
        let entries: Vec<usize> = (0..length).step_by(length.div_ceil(SAMPLES)).collect();
        let mut slopes = Vec::new();
        for index in &entries {
            let middle = *entry(&mut moved, &name, *index);
            let mut objective_at = |value: f64| {
                *entry(&mut moved, &name, *index) = value;
                let report = report(&mut oracle, kind, problem, &moved);
                objective(kind, &name, &report)
            };
            let (above, below) = (
                objective_at(middle + DIFFERENCE),
                objective_at(middle - DIFFERENCE),
            );
            slopes.push((above - below) / (2.0 * DIFFERENCE));
            *entry(&mut moved, &name, *index) = middle;
        }
        differences.push((name, entries, slopes));
    }
    differences
}

fn check(what: &str, kind: Kind, architecture: &Architecture) {
    let problem = Problem::random(architecture, ROWS, 11);
    let parameters = lively_parameters(architecture, 7);
    let differences = central_differences(kind, &problem, &parameters);
    let largest_of_all = differences
        .iter()
        .map(|(_, _, slopes)| largest(slopes))
        .fold(0.0, f64::max);
    for mut tested in all_engines(architecture, &parameters) {
        problem.load(tested.engine.as_mut());
        report(tested.engine.as_mut(), kind, &problem, &parameters);
        let gradients = gradients(tested.engine.as_ref());
        let names: Vec<&String> = gradients.keys().collect();
        let expected_names: Vec<&String> = differences.iter().map(|(name, ..)| name).collect();
        assert_eq!(names, expected_names, "{what}, {}", tested.name);
        for (name, entries, slopes) in &differences {
            let gradient = gradients[name].to_f64();
            let found: Vec<f64> = entries.iter().map(|index| gradient[*index]).collect();
            // A gradient that is exactly 0, as in front of a batch norm, has no scale of its own.
            let scale = largest(slopes).max(1e-2 * largest_of_all);
            let label = format!("{what}, {kind:?}, {}: {name}", tested.name);
            assert_close(&label, &found, slopes, scale, TOLERANCE);
        }
    }
}

fn encoders() -> Vec<(&'static str, EncoderShape)> {
    let mlp = |final_relu| EncoderShape::Mlp {
        inputs: 4,
        hidden: vec![6],
        final_relu,
    };
    let fields = |numbers, final_relu| EncoderShape::Fields {
        numbers,
        bags: 2,
        buckets: 11,
        embedding: 3,
        hidden: vec![6],
        final_relu,
    };
    [
        ("identity", EncoderShape::Identity),
        ("mlp", mlp(false)),
        ("mlp with final relu", mlp(true)),
        ("fields", fields(2, false)),
        ("fields without numbers, final relu", fields(0, true)),
        ("convolution", EncoderShape::Convolution { filters: [3, 4] }),
    ]
    .into()
}

#[test]
fn critic_gradients_match_central_differences_at_every_depth() {
    for hidden in [vec![], vec![7], vec![7, 6], vec![7, 6, 5]] {
        let mut architecture = small_architecture(Norm::Batch);
        architecture.critic.hidden = hidden.clone();
        check(&format!("critic {hidden:?}"), CRITIC, &architecture);
    }
}

#[test]
fn critic_gradients_match_central_differences_behind_every_map() {
    for norm in NORMS {
        check(&format!("{norm:?}"), CRITIC, &small_architecture(norm));
    }
}

#[test]
fn map_gradients_match_central_differences_with_every_norm() {
    for norm in NORMS {
        check(&format!("{norm:?}"), Kind::Map, &small_architecture(norm));
    }
}

#[test]
fn classifier_gradients_match_central_differences_with_every_norm_and_term() {
    for norm in NORMS {
        for terms in Terms::ALL {
            let kind = Kind::Classifier(terms);
            check(&format!("{norm:?}"), kind, &small_architecture(norm));
        }
    }
}

#[test]
fn classifier_gradients_match_central_differences_with_dropout() {
    for norm in NORMS {
        let mut architecture = small_architecture(norm);
        architecture.classifier.dropout = 0.3;
        for kind in [
            Kind::Classifier(Terms::Divergence),
            Kind::Encoder(Terms::MarginalEntropy),
            Kind::EncoderThroughMap(Terms::MarginalEntropy),
            Kind::Pretrain,
        ] {
            check(&format!("{norm:?} with dropout"), kind, &architecture);
        }
    }
}

#[test]
fn gradients_of_a_linear_classifier_match_central_differences() {
    let mut architecture = small_architecture(Norm::None);
    architecture.classifier.hidden = vec![];
    for kind in [Kind::Classifier(Terms::Divergence), Kind::Pretrain] {
        check("linear", kind, &architecture);
    }
}

#[test]
fn encoder_gradients_match_central_differences_with_every_encoder_and_term() {
    for (name, encoder) in encoders() {
        let mut architecture = small_architecture(Norm::Batch);
        architecture.encoder = encoder;
        for terms in Terms::ALL {
            check(name, Kind::Encoder(terms), &architecture);
            check(name, Kind::EncoderThroughMap(terms), &architecture);
        }
    }
}

#[test]
fn encoder_gradients_match_central_differences_with_every_norm() {
    for norm in NORMS {
        for kind in [Kind::Encoder, Kind::EncoderThroughMap] {
            let kind = kind(Terms::MarginalEntropy);
            check(&format!("{norm:?}"), kind, &small_architecture(norm));
        }
    }
}

#[test]
fn mapped_rows_train_the_encoder_only_through_the_map() {
    let architecture = small_architecture(Norm::Batch);
    let problem = Problem::random(&architecture, ROWS, 11);
    let parameters = lively_parameters(&architecture, 7);
    for mut tested in all_engines(&architecture, &parameters) {
        let engine = tested.engine.as_mut();
        let mut gradients_of = |kind| {
            report(engine, kind, &problem, &parameters);
            gradients(engine)
        };
        let stopped = gradients_of(Kind::Encoder(Terms::Entropy));
        let through = gradients_of(Kind::EncoderThroughMap(Terms::Entropy));
        for (name, stopped) in stopped {
            let (stopped, through) = (stopped.to_f64(), through[&name].to_f64());
            let changes = stopped.iter().zip(&through);
            let change = changes.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            let what = format!("{}: {name} changes by {change}", tested.name);
            if name.starts_with("g.") {
                assert!(change > 1e-3 * largest(&stopped), "{what}");
            } else {
                assert_close(&what, &through, &stopped, largest(&stopped), 1e-6);
            }
        }
    }
}

#[test]
fn pretraining_gradients_match_central_differences_with_every_encoder_and_norm() {
    for (name, encoder) in encoders() {
        for norm in NORMS {
            let mut architecture = small_architecture(norm);
            architecture.encoder = encoder.clone();
            check(&format!("{name}, {norm:?}"), Kind::Pretrain, &architecture);
        }
    }
}

#[test]
fn the_penalty_reaches_every_weight_of_the_critic_and_no_bias() {
    for hidden in [vec![7], vec![7, 6], vec![7, 6, 5]] {
        let mut architecture = small_architecture(Norm::Batch);
        architecture.critic.hidden = hidden;
        let problem = Problem::random(&architecture, ROWS, 11);
        let parameters = lively_parameters(&architecture, 7);
        for mut tested in all_engines(&architecture, &parameters) {
            let engine = tested.engine.as_mut();
            problem.load(engine);
            let mut gradients_with = |penalty_weight| {
                let kind = Kind::Critic { penalty_weight };
                report(engine, kind, &problem, &parameters);
                gradients(engine)
            };
            let (without, with) = (gradients_with(0.0), gradients_with(10.0));
            for (name, with) in with {
                let what = format!("{}: {name}", tested.name);
                let (with, without) = (with.to_f64(), without[&name].to_f64());
                if name.ends_with("bias") {
                    assert_eq!(with, without, "{what}");
                } else {
                    let change: Vec<f64> = with.iter().zip(&without).map(|(a, b)| a - b).collect();
                    assert!(largest(&change) > 1e-3, "{what}: {change:?}");
                }
            }
        }
    }
}

/// Sets every parameter whose name starts with `prefix` to zero.
fn zero(parameters: &mut NamedTensors, prefix: &str) {
    for (name, tensor) in parameters.iter_mut() {
        if name.starts_with(prefix) {
            let count = tensor.values.as_scalars().len();
            *tensor = HostTensor::f32(tensor.shape.clone(), vec![0.0; count]);
        }
    }
}

#[test]
fn a_critic_of_zero_slope_has_penalty_one_and_no_gradient_from_it() {
    let architecture = small_architecture(Norm::Batch);
    let problem = Problem::random(&architecture, ROWS, 11);
    let mut parameters = lively_parameters(&architecture, 7);
    zero(&mut parameters, "critic.fc1");
    for mut tested in all_engines(&architecture, &parameters) {
        let engine = tested.engine.as_mut();
        problem.load(engine);
        let report = report(engine, CRITIC, &problem, &parameters);
        assert_close(tested.name, &report[2..], &[1.0], 1.0, 1e-6);
        let gradients = gradients(engine);
        assert_eq!(largest(&gradients["critic.fc1.weight"].to_f64()), 0.0);
        for (name, gradient) in gradients {
            let finite = gradient.to_f64().iter().all(|value| value.is_finite());
            assert!(finite, "{}: {name}", tested.name);
        }
    }
}

#[test]
fn relu_passes_no_gradient_at_exactly_zero() {
    let architecture = small_architecture(Norm::None);
    let problem = Problem::random(&architecture, ROWS, 11);
    let mut parameters = lively_parameters(&architecture, 7);
    zero(&mut parameters, "g.fc1");
    for mut tested in all_engines(&architecture, &parameters) {
        let engine = tested.engine.as_mut();
        report(engine, Kind::Pretrain, &problem, &parameters);
        let gradients = gradients(engine);
        let largest_of = |name: &str| largest(&gradients[name].to_f64());
        assert_eq!(largest_of("g.fc1.weight"), 0.0, "{}", tested.name);
        assert_eq!(largest_of("g.fc1.bias"), 0.0, "{}", tested.name);
        assert!(largest_of("g.fc2.bias") > 0.0, "{}", tested.name);
    }
}
