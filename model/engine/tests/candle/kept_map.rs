//! What the CPU engine leaves out must not show: phi kept for the map step, and products of the critic's gradient.

use ostar_engine::{
    Engine, Generator, HostTensor,
    candle::Precision,
    cpu::CpuEngine,
    engine::{Batch, CriticStep, MapStep},
    optimiser::Adam,
};

use crate::candle;
use crate::common::{
    NORMS, assert_close, largest, lively_parameters, small_architecture, state_bytes,
    steps::{Kind, Problem, take},
};

const ROWS: usize = 12;

/// A critic step and a map step; other rows for the second if `other` is given.
fn steps(engine: &mut CpuEngine, problem: &Problem, map_follows: bool, other: Option<&[u32]>) {
    let rows: Vec<u32> = (0..8).collect();
    let adam = Adam::with_rate(1e-3);
    let proportions = &problem.proportions;
    let step = CriticStep {
        proportions,
        positions: &[0.1, 0.9, 0.5, 0.3, 0.2, 0.7, 0.6, 0.4],
        penalty_weight: 10.0,
        map_follows,
        adam,
    };
    let batch = Batch {
        source: &rows,
        target: &rows,
    };
    engine.critic_step(batch, &step).unwrap();
    let step = MapStep {
        proportions,
        transport_weight: 0.5,
        adam,
    };
    let rows = other.unwrap_or(&rows);
    let batch = Batch {
        source: rows,
        target: rows,
    };
    engine.map_step(batch, &step).unwrap();
}

#[test]
fn a_kept_map_gives_the_state_of_a_second_forward_pass() {
    for norm in NORMS {
        for threads in [1, 2] {
            let architecture = small_architecture(norm);
            let problem = Problem::random(&architecture, ROWS, 1);
            let parameters = lively_parameters(&architecture, 2);
            let made = || {
                let mut engine =
                    CpuEngine::new(architecture.clone(), &parameters, threads).unwrap();
                problem.load(&mut engine);
                engine
            };
            let (mut kept, mut again) = (made(), made());
            steps(&mut kept, &problem, true, None);
            steps(&mut again, &problem, false, None);
            let (kept, again) = (kept.export().unwrap(), again.export().unwrap());
            for (name, tensor) in &again {
                let expected = tensor.to_f64();
                let scale = largest(&expected).max(1.0);
                assert_close(name, &kept[name].to_f64(), &expected, scale, 1e-4);
            }
            // Another batch, or a map that changed in between, must not take what was kept.
            let other: Vec<u32> = (4..12).collect();
            let (mut kept, mut again) = (made(), made());
            steps(&mut kept, &problem, true, Some(&other));
            steps(&mut again, &problem, false, Some(&other));
            assert!(state_bytes(&kept) == state_bytes(&again), "{norm:?}");
        }
    }
}

#[test]
fn a_critic_whose_output_weighs_a_unit_by_0_gets_the_gradient_of_the_reference() {
    let architecture = small_architecture(NORMS[2]);
    let problem = Problem::random(&architecture, ROWS, 1);
    let mut parameters = lively_parameters(&architecture, 2);
    let weights = &parameters["critic.fc3.weight"];
    let mut values = weights.to_f32();
    (values[0], values[3]) = (0.0, 1e-30);
    let zeroed = HostTensor::f32(weights.shape.clone(), values);
    parameters.insert("critic.fc3.weight".into(), zeroed);
    let mut reference = candle(&architecture, &parameters, Precision::F64);
    let mut engine = CpuEngine::new(architecture.clone(), &parameters, 2).unwrap();
    problem.load(&mut reference);
    problem.load(&mut engine);
    let rows: Vec<u32> = (0..8).collect();
    let penalty_weight = 10.0;
    let take_step = |engine: &mut dyn Engine| {
        let kind = Kind::Critic { penalty_weight };
        let (adam, mut generator) = (Adam::with_rate(0.0), Generator::new(3));
        take(kind, engine, &problem, &rows, adam, &mut generator).unwrap();
        crate::common::gradients(engine)
    };
    let expected = take_step(&mut reference);
    for (name, gradient) in take_step(&mut engine) {
        let expected = expected[&name].to_f64();
        let scale = largest(&expected).max(1e-3);
        assert_close(&name, &gradient.to_f64(), &expected, scale, 1e-4);
    }
}
