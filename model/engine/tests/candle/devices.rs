//! What a step on candle copies from its device, and that every parameter takes part.

use ostar_engine::{
    Engine, Generator,
    architecture::{EncoderShape, Network},
    candle::Precision,
    engine::HostCopies,
    optimiser::Adam,
};

use crate::candle;
use crate::common::{
    NORMS, lively_parameters, small_architecture,
    steps::{Kind, Problem, Terms, take},
    trained_names,
};

const ROWS: usize = 12;

/// Every kind of step, the networks that it trains, and its copies of scalars.
fn kinds() -> [(Kind, Vec<Network>, u64); 5] {
    let penalty_weight = 10.0;
    [
        (Kind::Critic { penalty_weight }, vec![Network::Critic], 1),
        (Kind::Map, vec![Network::Map], 1),
        (
            Kind::Classifier(Terms::MarginalEntropy),
            vec![Network::TargetClassifier],
            1,
        ),
        (
            Kind::Encoder(Terms::Divergence),
            vec![Network::Encoder, Network::TargetClassifier],
            2,
        ),
        (
            Kind::Pretrain,
            vec![Network::Encoder, Network::SourceClassifier],
            1,
        ),
    ]
}

fn copies_since(before: HostCopies, engine: &dyn Engine) -> HostCopies {
    let now = engine.host_copies();
    HostCopies {
        scalars: now.scalars - before.scalars,
        tensors: now.tensors - before.tensors,
    }
}

#[test]
fn a_step_copies_scalars_to_the_host_and_no_tensor_and_a_deliberate_copy_is_counted() {
    let architecture = small_architecture(NORMS[0]);
    let problem = Problem::random(&architecture, ROWS, 1);
    let parameters = lively_parameters(&architecture, 2);
    let mut engine = candle(&architecture, &parameters, Precision::F32);
    problem.load(&mut engine);
    let batch: Vec<u32> = (0..8).collect();
    let mut generator = Generator::new(3);
    for (kind, _, scalars) in kinds() {
        let before = engine.host_copies();
        let adam = Adam::with_rate(1e-3);
        take(kind, &mut engine, &problem, &batch, adam, &mut generator).unwrap();
        let tensors = 0;
        assert_eq!(
            copies_since(before, &engine),
            HostCopies { scalars, tensors }
        );
    }
    // What a step must not do, the count would show.
    let before = engine.host_copies();
    engine.read_target(&mut Vec::new()).unwrap();
    assert_eq!(copies_since(before, &engine).tensors, 1);
    // Saving and restoring stays on the device.
    let before = engine.host_copies();
    let saved = engine.save().unwrap();
    engine.restore(&saved).unwrap();
    assert_eq!(copies_since(before, &engine), HostCopies::default());
}

#[test]
fn every_parameter_of_a_trained_network_gets_a_gradient() {
    for norm in NORMS {
        let dense = small_architecture(norm);
        let mut fields = dense.clone();
        fields.encoder = EncoderShape::Fields {
            numbers: 2,
            bags: 2,
            buckets: 11,
            embedding: 3,
            hidden: vec![6],
            final_relu: false,
        };
        for architecture in [dense, fields] {
            let problem = Problem::random(&architecture, ROWS, 1);
            let parameters = lively_parameters(&architecture, 2);
            let mut engine = candle(&architecture, &parameters, Precision::F64);
            problem.load(&mut engine);
            let batch: Vec<u32> = (0..8).collect();
            let mut generator = Generator::new(3);
            for (kind, networks, _) in kinds() {
                let adam = Adam::with_rate(1e-3);
                engine.import(&parameters).unwrap();
                take(kind, &mut engine, &problem, &batch, adam, &mut generator).unwrap();
                let gradients = crate::common::gradients(&engine);
                let names: Vec<String> = gradients.keys().cloned().collect();
                assert_eq!(names, trained_names(&architecture, &networks), "{norm:?}");
                for (name, gradient) in gradients {
                    let values = gradient.to_f64();
                    let exact_zero = crate::common::moves_by_rounding_only(&architecture, &name);
                    let any = values.iter().any(|value| *value != 0.0);
                    assert!(any || exact_zero, "{norm:?}: `{name}` has gradient 0");
                }
            }
        }
    }
}
