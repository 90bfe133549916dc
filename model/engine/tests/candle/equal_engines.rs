//! All engines follow the same trajectory from the same start.

use ostar_engine::{Engine, Generator, architecture::Norm, candle::Precision, optimiser::Adam};

use crate::common::{
    assert_close, largest, lively_parameters, moves_by_rounding_only, small_architecture,
    steps::{Kind, Problem, Terms, take},
};
use crate::{all_engines, candle};

const ITERATIONS: usize = 20;
const CRITIC_STEPS: usize = 5;
const ROWS: usize = 60;
const BATCH: usize = 24;

/// Every report of a trajectory: critic steps, a map step, a classifier step, an encoder step.
/// No pretraining: with batch norm in f_S the gradient of the encoder's last bias is rounding noise.
fn trajectory(engine: &mut dyn Engine, problem: &Problem) -> Vec<(Kind, Vec<f64>)> {
    let mut generator = Generator::new(21);
    let mut reports = Vec::new();
    problem.load(engine);
    for _ in 0..ITERATIONS {
        let critic = Kind::Critic {
            penalty_weight: 10.0,
        };
        let mut kinds = vec![critic; CRITIC_STEPS];
        kinds.extend([
            Kind::Map,
            Kind::Classifier(Terms::MarginalEntropy),
            Kind::Encoder(Terms::Divergence),
            Kind::EncoderThroughMap(Terms::Divergence),
        ]);
        for kind in kinds {
            let batch: Vec<u32> = (0..BATCH).map(|_| generator.below(ROWS) as u32).collect();
            let adam = Adam::with_rate(1e-3);
            let report = take(kind, engine, problem, &batch, adam, &mut generator).unwrap();
            reports.push((kind, report));
        }
    }
    reports
}

fn check(norm: Norm) {
    let mut architecture = small_architecture(norm);
    architecture.classifier.dropout = 0.1;
    let problem = Problem::random(&architecture, ROWS, 22);
    let parameters = lively_parameters(&architecture, 23);
    let mut oracle = candle(&architecture, &parameters, Precision::F64);
    let expected_reports = trajectory(&mut oracle, &problem);
    let expected_end = oracle.export().unwrap();
    for mut tested in all_engines(&architecture, &parameters) {
        let reports = trajectory(tested.engine.as_mut(), &problem);
        let pairs = reports.iter().zip(&expected_reports);
        for (index, ((kind, found), (_, expected))) in pairs.enumerate() {
            let what = format!("{norm:?}, {}, step {index}, {kind:?}", tested.name);
            let scale = largest(expected).max(1.0);
            assert_close(&what, found, expected, scale, 2e-3);
        }
        let end = tested.engine.export().unwrap();
        assert!(end.keys().eq(expected_end.keys()), "{}", tested.name);
        for (name, expected) in &expected_end {
            if name.starts_with("adam.") || moves_by_rounding_only(&architecture, name) {
                continue;
            }
            let (found, expected) = (end[name].to_f64(), expected.to_f64());
            let what = format!("{norm:?}, {}: {name}", tested.name);
            assert_close(&what, &found, &expected, largest(&expected), 1e-2);
        }
    }
}

#[test]
fn engines_follow_the_same_trajectory_with_batch_norm() {
    check(Norm::Batch);
}

#[test]
fn engines_follow_the_same_trajectory_with_layer_norm() {
    check(Norm::Layer);
}

#[test]
fn engines_follow_the_same_trajectory_without_norm() {
    check(Norm::None);
}
