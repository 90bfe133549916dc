//! Compares the gradients of the adversarial methods with differences of their objectives.

use ostar_engine::{
    Engine, Generator, HostTensor, NamedTensors,
    architecture::{EncoderShape, MapShape, Norm},
    cpu::{Adversary, CpuEngine, InvariantStep},
    engine::{CriticStep, RawBatch},
    optimiser::Adam,
};

use crate::common::{
    self, assert_close, largest, lively_parameters, small_architecture, steps::Problem,
};

const ROWS: usize = 12;
const WEIGHT: f64 = 0.5;
const PROPORTIONS: [f64; 3] = [0.5, 0.3, 0.2];
/// Large enough for the difference to exceed the noise of single precision.
const DIFFERENCE: f64 = 5e-4;
const TOLERANCE: f64 = 2e-2;

fn problem() -> Problem {
    let mut architecture = small_architecture(Norm::Batch);
    architecture.map = MapShape {
        blocks: 0,
        norm: Norm::Batch,
    };
    // Linear: a difference must not step over a kink. gradients.rs tests input gradients of deep critics.
    architecture.critic.hidden = vec![];
    Problem::random(&architecture, ROWS, 3)
}

fn batch(problem: &Problem) -> RawBatch<'_> {
    RawBatch {
        source: problem.source_inputs.borrow(&problem.architecture),
        labels: &problem.labels,
        target: problem.target_inputs.borrow(&problem.architecture),
    }
}

fn take(engine: &mut CpuEngine, problem: &Problem, step: &InvariantStep<'_>) -> f64 {
    engine
        .invariant_step(batch(problem), step, &mut Generator::new(1))
        .unwrap()
}

/// The encoder's gradients in a step with a learning rate of 0.
fn gradients(problem: &Problem, parameters: &NamedTensors, adversary: Adversary) -> NamedTensors {
    let mut engine = CpuEngine::new(problem.architecture.clone(), parameters, 2).unwrap();
    let step = InvariantStep::Encoder {
        step: problem.pretrain_step(Adam::with_rate(0.0)),
        adversary,
        proportions: &PROPORTIONS,
    };
    take(&mut engine, problem, &step);
    let mut gradients = common::gradients(&engine);
    gradients.retain(|name, _| name.starts_with("g."));
    gradients
}

/// What the encoder minimises of the adversary's step on both domains' latents.
fn adversary_loss(problem: &Problem, parameters: &NamedTensors, adversary: Adversary) -> f64 {
    let mut engine = CpuEngine::new(problem.architecture.clone(), parameters, 1).unwrap();
    let still = Adam::with_rate(0.0);
    let step = match adversary {
        Adversary::None => return 0.0,
        Adversary::Critic { target_weight, .. } => InvariantStep::Critic {
            step: CriticStep {
                proportions: &PROPORTIONS,
                positions: &[0.5; ROWS],
                penalty_weight: 0.0,
                map_follows: false,
                adam: still,
            },
            target_weight,
        },
        Adversary::Discriminator { .. } => InvariantStep::Discriminator(still),
    };
    // The critic minimises minus its distance, and the discriminator's gradient is reversed.
    -take(&mut engine, problem, &step)
}

fn moved(parameters: &NamedTensors, name: &str, index: usize, by: f64) -> NamedTensors {
    let mut moved = parameters.clone();
    let tensor = &parameters[name];
    let mut values = tensor.to_f64();
    values[index] += by;
    let values = values.iter().map(|value| *value as f32).collect();
    moved.insert(
        name.to_owned(),
        HostTensor::f32(tensor.shape.clone(), values),
    );
    moved
}

fn check(what: &str, adversary: Adversary) {
    let problem = problem();
    let parameters = lively_parameters(&problem.architecture, 7);
    let without = gradients(&problem, &parameters, Adversary::None);
    let with = gradients(&problem, &parameters, adversary);
    for (name, without) in without {
        let without = without.to_f64();
        let found: Vec<f64> = with[&name]
            .to_f64()
            .iter()
            .zip(&without)
            .map(|(a, b)| a - b)
            .collect();
        let slope = |index: usize| {
            let at = |by: f64| {
                adversary_loss(&problem, &moved(&parameters, &name, index, by), adversary)
            };
            WEIGHT * (at(DIFFERENCE) - at(-DIFFERENCE)) / (2.0 * DIFFERENCE)
        };
        let expected: Vec<f64> = (0..found.len()).map(slope).collect();
        let scale = largest(&expected);
        assert!(scale > 1e-4, "{what}: {name} is told nothing");
        assert_close(
            &format!("{what}: {name}"),
            &found,
            &expected,
            scale,
            TOLERANCE,
        );
    }
}

#[test]
fn the_encoder_goes_down_the_critic_s_distance() {
    for target_weight in [0.5, 3.0] {
        let adversary = Adversary::Critic {
            weight: WEIGHT,
            target_weight,
        };
        check(&format!("target weight {target_weight}"), adversary);
    }
}

#[test]
fn the_encoder_goes_up_the_discriminator_s_loss() {
    check("discriminator", Adversary::Discriminator { weight: WEIGHT });
}

#[test]
fn a_discriminator_learns_to_tell_the_domains_apart() {
    let problem = Problem::random(&small_architecture(Norm::Batch), ROWS, 3);
    let parameters = lively_parameters(&problem.architecture, 7);
    let mut engine = CpuEngine::new(problem.architecture.clone(), &parameters, 1).unwrap();
    let step = InvariantStep::Discriminator(Adam::with_rate(1e-2));
    let first = take(&mut engine, &problem, &step);
    let losses: Vec<f64> = (0..200)
        .map(|_| take(&mut engine, &problem, &step))
        .collect();
    assert!(losses[199] < 0.3 * first, "{first} to {}", losses[199]);
}

#[test]
fn encoding_together_gives_both_domains_whatever_the_threads_and_moves_running_statistics() {
    let mut problem = problem();
    problem.architecture.encoder = EncoderShape::Convolution { filters: [3, 4] };
    let problem = Problem::random(&problem.architecture, ROWS + 1, 3);
    let parameters = lively_parameters(&problem.architecture, 7);
    let mut outcomes = Vec::new();
    for threads in [1, 2] {
        let mut engine =
            CpuEngine::new(problem.architecture.clone(), &parameters, threads).unwrap();
        take(&mut engine, &problem, &InvariantStep::Encode);
        let running = engine.export().unwrap()["g.bn1.running_mean"].to_f64();
        assert_ne!(running, parameters["g.bn1.running_mean"].to_f64());
        let mut latents = Vec::new();
        engine.read_target(&mut latents).unwrap();
        let target: Vec<f64> = latents.iter().map(|v| f64::from(*v)).collect();
        // Of both buffers.
        let still = InvariantStep::Discriminator(Adam::with_rate(0.0));
        let loss = take(&mut engine, &problem, &still);
        outcomes.push((target, loss));
    }
    let [one, two] = [&outcomes[0], &outcomes[1]];
    assert_eq!(one.0.len(), (ROWS + 1) * problem.architecture.latent);
    assert_close("target", &two.0, &one.0, 1.0, 1e-4);
    assert_close("loss", &[two.1], &[one.1], 1.0, 1e-4);
}
