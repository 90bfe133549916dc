//! The same seed gives the same bytes. Replay from a checkpoint depends on it.

use std::collections::BTreeMap;

use ostar_engine::{Engine, architecture::Norm, tensors::to_safetensors};

use crate::alignment::{Alignment, small_networks};

const STEPS: usize = 200;
const CRITIC_STEPS: usize = 5;
const BATCH: usize = 33;

/// Parameters and optimiser state after 200 alignment steps.
fn end_of_training(norm: Norm, threads: usize, seed: u64) -> Vec<u8> {
    let mut alignment = Alignment::new(&small_networks(norm), BATCH, threads, seed).unwrap();
    for step_number in 0..STEPS {
        for _ in 0..CRITIC_STEPS {
            alignment.draw();
            alignment.critic_step().unwrap();
        }
        alignment.map_step().unwrap();
        alignment.classifier_step(step_number % 2 == 0).unwrap();
    }
    let state = alignment.engine.export().unwrap();
    for network in ["critic", "phi", "f_n"] {
        assert!(state.contains_key(&format!("adam.steps.{network}")));
    }
    to_safetensors(&state, BTreeMap::new()).unwrap()
}

fn check(threads: usize) {
    for norm in [Norm::Batch, Norm::Layer, Norm::None] {
        let first = end_of_training(norm, threads, 7);
        let second = end_of_training(norm, threads, 7);
        let other_seed = end_of_training(norm, threads, 8);
        assert!(first == second, "{norm:?}");
        assert!(first != other_seed, "{norm:?}: the seed changes nothing");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_one_thread() {
    check(1);
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_two_threads() {
    check(2);
}
