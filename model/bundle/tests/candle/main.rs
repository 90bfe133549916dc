//! The learner on another device than the CPU engine's: the same course, checkpoints that cross, and nothing copied
//! to the host in a step.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

#[path = "../shared/two_classes/mod.rs"]
mod two_classes;

use ostar_bundle::Bundle;
use ostar_engine::{Device, Generator, Inputs, Rows};
use ostar_method::learner::{Learner, LearnerSettings};

use two_classes::{draw, learn, settings};

const WIDTH: usize = 4;

fn bundle() -> Bundle {
    two_classes::bundle(WIDTH)
}

/// A block of which the second class has this share, all of it moved by `moved`.
fn block(share: f64, moved: f32, generator: &mut Generator) -> Vec<f32> {
    let (mut latents, _) = draw(250, WIDTH, share, generator);
    for row in latents.chunks_exact_mut(WIDTH) {
        row[0] += moved;
        row[1] -= moved;
    }
    latents
}

fn observe(learner: &mut Learner, latents: &[f32]) {
    let rows = Rows::new(latents, WIDTH).unwrap();
    learn(learner, Inputs::Dense(rows)).unwrap();
}

/// 20 blocks in which shares move, and from the tenth on the classes, too.
fn stream() -> Vec<Vec<f32>> {
    let mut generator = Generator::new(2);
    let moved = |number: usize| if number < 10 { 0.0 } else { 1.5 };
    (0..20)
        .map(|number| block(0.2 + 0.02 * number as f64, moved(number), &mut generator))
        .collect()
}

fn feed(learner: &mut Learner, blocks: &[Vec<f32>]) {
    for block in blocks {
        observe(learner, block);
        for _ in 0..5 {
            if learner.is_ready() {
                learner.step().unwrap();
            }
        }
    }
}

#[test]
fn shares_on_candle_follow_those_on_the_cpu_engine_for_twenty_blocks() {
    let bundle = bundle();
    let mut learners = [Device::Cpu, Device::Candle]
        .map(|device| Learner::on(device, &bundle.deployed().unwrap(), settings()).unwrap());
    for (number, block) in stream().iter().enumerate() {
        for learner in &mut learners {
            feed(learner, std::slice::from_ref(block));
        }
        let [cpu, candle] = &learners;
        for class in 0..2 {
            let apart = (cpu.proportions()[class] - candle.proportions()[class]).abs();
            assert!(apart < 1e-3, "block {number}, class {class}: {apart}");
        }
        let verdicts = learners.each_ref().map(|l| l.gate().verdict().candidate);
        assert_eq!(verdicts[0], verdicts[1], "block {number}");
    }
    assert!(
        learners[1].gate().verdict().refuted,
        "the gate saw the move"
    );
}

#[test]
fn classes_that_moved_far_are_translated_on_candle_as_on_the_cpu_engine() {
    const WIDE: usize = 8;
    let bundle = two_classes::bundle(WIDE);
    let mut generator = Generator::new(5);
    let (mut latents, _) = draw(2_000, WIDE, 0.3, &mut generator);
    // In a direction that other shares do not explain.
    for row in latents.chunks_exact_mut(WIDE) {
        row[0] += 1.6;
        row[1] += 1.6;
    }
    let proportions = [Device::Cpu, Device::Candle].map(|device| {
        let settings = LearnerSettings {
            window: 2_000,
            ..settings()
        };
        let mut learner = Learner::on(device, &bundle.deployed().unwrap(), settings).unwrap();
        let inputs = Inputs::Dense(Rows::new(&latents[..], WIDE).unwrap());
        learn(&mut learner, inputs).unwrap();
        let refresh = learner.step().unwrap().1.unwrap();
        assert!(refresh.translated, "{device}: {refresh:?}");
        refresh.alignment_proportions[1]
    });
    assert!((proportions[0] - 0.3).abs() < 0.05, "{proportions:?}");
    assert!(
        (proportions[0] - proportions[1]).abs() < 1e-3,
        "{proportions:?}"
    );
}

#[test]
fn a_step_of_the_learner_copies_scalars_only() {
    let mut learner =
        Learner::on(Device::Candle, &bundle().deployed().unwrap(), settings()).unwrap();
    feed(&mut learner, &stream()[..2]);
    let steps = settings().refresh_every - 1;
    assert!(learner.steps().is_multiple_of(settings().refresh_every));
    // The first refreshes, the others only step.
    learner.step().unwrap();
    let before = learner.host_copies();
    for _ in 0..steps {
        learner.step().unwrap();
    }
    let now = learner.host_copies();
    assert_eq!(now.tensors, before.tensors);
    let each = settings().critic_steps as u64 + 2;
    assert_eq!(now.scalars - before.scalars, steps * each);
}

#[test]
fn a_checkpoint_crosses_devices_and_back_without_a_changed_byte() {
    let bundle = bundle();
    let stream = stream();
    let load = |device, bytes: &[u8]| {
        Learner::load_on(device, &bundle.deployed().unwrap(), settings(), bytes).unwrap()
    };
    let mut learner = Learner::on(Device::Cpu, &bundle.deployed().unwrap(), settings()).unwrap();
    for (number, device) in [Device::Candle, Device::Cpu, Device::Candle]
        .into_iter()
        .enumerate()
    {
        feed(&mut learner, &stream[4 * number..][..4]);
        let saved = learner.save().unwrap();
        learner = load(device, &saved);
        assert_eq!(learner.device(), device);
        assert!(learner.save().unwrap() == saved, "to {device}");
    }
}

#[test]
fn a_learner_on_candle_resumes_byte_by_byte() {
    let bundle = bundle();
    let stream = stream();
    let mut whole = Learner::on(Device::Candle, &bundle.deployed().unwrap(), settings()).unwrap();
    feed(&mut whole, &stream);
    let mut half = Learner::on(Device::Candle, &bundle.deployed().unwrap(), settings()).unwrap();
    feed(&mut half, &stream[..11]);
    let saved = half.save().unwrap();
    let mut resumed = Learner::load_on(
        Device::Candle,
        &bundle.deployed().unwrap(),
        settings(),
        &saved,
    )
    .unwrap();
    feed(&mut resumed, &stream[11..]);
    assert!(resumed.save().unwrap() == whole.save().unwrap());
}

#[test]
fn a_state_saved_by_one_engine_is_refused_by_the_other() {
    let architecture = small_architecture(NORMS[1]);
    let parameters = lively_parameters(&architecture, 2);
    let engine = |device: Device| device.engine(architecture.clone(), &parameters, 1).unwrap();
    let (mut cpu, mut candle) = (engine(Device::Cpu), engine(Device::Candle));
    let error = cpu.restore(&candle.save().unwrap()).unwrap_err();
    assert!(error.to_string().contains("candle engine"), "{error}");
    let error = candle.restore(&cpu.save().unwrap()).unwrap_err();
    assert!(error.to_string().contains("CPU engine"), "{error}");
}
