//! Compares the gradients of the adversarial methods with differences of their objectives.

use ostar_engine::{
    Engine, Generator, HostTensor, NamedTensors, Rows,
    architecture::{EncoderShape, MapShape, Norm},
    cpu::{Adversary, CpuEngine, InvariantStep},
    engine::{Batch, CriticStep, RawBatch},
    optimiser::Adam,
};

use crate::common::{
    assert_close, largest, lively_parameters, small_architecture,
    steps::{Problem, row_numbers},
};

const ROWS: usize = 12;
const WEIGHT: f64 = 0.5;
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

/// The encoder's gradients in a step with a learning rate of 0.
fn gradients(
    problem: &Problem,
    parameters: &NamedTensors,
    adversary: Adversary<'_>,
) -> NamedTensors {
    let mut engine = CpuEngine::new(problem.architecture.clone(), parameters, 2).unwrap();
    let step = InvariantStep {
        class_weights: &problem.class_weights,
        adversary,
        encoder_adam: Adam::with_rate(0.0),
        classifier_adam: Adam::with_rate(0.0),
    };
    let mut generator = Generator::new(1);
    engine
        .invariant_step(batch(problem), &step, &mut generator)
        .unwrap();
    let mut gradients = engine.gradients().unwrap();
    gradients.retain(|name, _| name.starts_with("g."));
    gradients
}

/// The adversary's loss on both domains' latents, as a step of its own reports it.
fn adversary_loss(problem: &Problem, parameters: &NamedTensors, adversary: Adversary<'_>) -> f64 {
    let mut engine = CpuEngine::new(problem.architecture.clone(), parameters, 1).unwrap();
    let (mut source, mut target) = (Vec::new(), Vec::new());
    let both = batch(problem);
    engine
        .encode_together(both, &mut source, &mut target)
        .unwrap();
    let width = problem.architecture.latent;
    engine
        .set_source(Rows::new(&source[..], width).unwrap(), &problem.labels)
        .unwrap();
    engine
        .set_target(0, Rows::new(&target[..], width).unwrap())
        .unwrap();
    let all = row_numbers(0, ROWS);
    let batch = Batch {
        source: &all,
        target: &all,
    };
    let still = Adam::with_rate(0.0);
    match adversary {
        Adversary::None => 0.0,
        Adversary::Critic {
            proportions,
            target_weight,
            ..
        } => {
            let step = CriticStep {
                proportions,
                positions: &[0.5; ROWS],
                penalty_weight: 0.0,
                map_follows: false,
                adam: still,
            };
            engine
                .weighted_critic_step(batch, &step, target_weight)
                .unwrap()
                .distance
        }
        // Gradient reversal: the encoder maximises the discriminator's loss.
        Adversary::Discriminator { .. } => -engine.discriminator_step(batch, still).unwrap(),
    }
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

fn check(what: &str, adversary: Adversary<'_>) {
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
    let proportions = [0.5, 0.3, 0.2];
    for target_weight in [0.5, 3.0] {
        let adversary = Adversary::Critic {
            weight: WEIGHT,
            proportions: &proportions,
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
    problem.load(&mut engine);
    let all = row_numbers(0, ROWS);
    let batch = Batch {
        source: &all,
        target: &all,
    };
    let adam = Adam::with_rate(1e-2);
    let first = engine.discriminator_step(batch, adam).unwrap();
    let losses: Vec<f64> = (0..200)
        .map(|_| engine.discriminator_step(batch, adam).unwrap())
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
        let (mut source, mut target) = (Vec::new(), Vec::new());
        engine
            .encode_together(batch(&problem), &mut source, &mut target)
            .unwrap();
        let wide = |values: &[f32]| values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>();
        let running = engine.export().unwrap()["g.bn1.running_mean"].to_f64();
        assert_ne!(running, parameters["g.bn1.running_mean"].to_f64());
        outcomes.push((wide(&source), wide(&target)));
    }
    assert_eq!(
        outcomes[0].0.len(),
        (ROWS + 1) * problem.architecture.latent
    );
    assert_close("source", &outcomes[1].0, &outcomes[0].0, 1.0, 1e-4);
    assert_close("target", &outcomes[1].1, &outcomes[0].1, 1.0, 1e-4);
}
