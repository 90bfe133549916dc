//! Memory does not grow in a long run.

use std::hint::black_box;

use ostar_engine::architecture::Norm;

use crate::alignment::{Alignment, small_networks};

const STEPS: usize = 10_000;
const WARM_UP: usize = 200;
const LIMIT_KIB: usize = 5 * 1000 * 1000 / 1024;

/// Resident memory of this process, in KiB.
fn resident_kib() -> usize {
    // Not `statm`: it counts pages, whose size differs between machines.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.unwrap().split_whitespace().nth(1);
    number.unwrap().parse().unwrap()
}

/// Takes 10,000 steps and returns by how many KiB the process grew; an error if that is too much.
fn check_growth(mut step: impl FnMut(usize)) -> Result<usize, usize> {
    (0..WARM_UP).for_each(&mut step);
    let before = resident_kib();
    (0..STEPS).for_each(&mut step);
    match resident_kib().saturating_sub(before) {
        growth if growth < LIMIT_KIB => Ok(growth),
        growth => Err(growth),
    }
}

/// Every kind of step in turn.
fn take(alignment: &mut Alignment, number: usize) {
    alignment.draw();
    match number % 4 {
        0 => drop(alignment.critic_step().unwrap()),
        1 => drop(alignment.map_step().unwrap()),
        2 => drop(alignment.classifier_step(false).unwrap()),
        _ => drop(alignment.classifier_step(true).unwrap()),
    }
}

pub(crate) fn ten_thousand_steps_grow_the_process_by_less_than_5_mb_and_a_leak_is_caught() {
    let mut alignment = Alignment::new(&small_networks(Norm::Batch), 32, 2, 1).unwrap();
    let steps = check_growth(|number| take(&mut alignment, number));
    assert!(steps.is_ok(), "grew by {steps:?} KiB");

    let leaking = check_growth(|number| {
        take(&mut alignment, number);
        // Without the black box the compiler removes the allocation.
        std::mem::forget(black_box(vec![1u8; 1024]));
    });
    assert!(leaking.is_err(), "a KiB a step was missed: {leaking:?} KiB");
}
