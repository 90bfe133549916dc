//! Tests that measure the process: how often it allocates, how much memory it holds. One at a time and on the main
//! thread, because the standard harness allocates when a test starts or ends.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

#[path = "../shared/alignment/mod.rs"]
mod alignment;
#[path = "../shared/counting/mod.rs"]
mod counting;

mod allocation;
mod allocation_convolution;
#[cfg(feature = "candle")]
mod gemm_crate;
#[cfg(target_os = "linux")]
mod growth;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let tests: &[(&str, fn())] = &[
        (
            "allocation::warm_steps_allocate_nothing_on_any_thread",
            allocation::warm_steps_allocate_nothing_on_any_thread,
        ),
        (
            "allocation_convolution::a_warm_convolution_allocates_nothing",
            allocation_convolution::a_warm_convolution_allocates_nothing,
        ),
        #[cfg(feature = "candle")]
        (
            "gemm_crate::the_gemm_crate_allocates_in_every_call",
            gemm_crate::the_gemm_crate_allocates_in_every_call,
        ),
        #[cfg(target_os = "linux")]
        (
            "growth::ten_thousand_steps_grow_the_process_by_less_than_5_mb_and_a_leak_is_caught",
            growth::ten_thousand_steps_grow_the_process_by_less_than_5_mb_and_a_leak_is_caught,
        ),
    ];
    let trial = |(name, test): &(&str, fn())| {
        let test = *test;
        Trial::test(*name, move || {
            test();
            Ok(())
        })
    };
    libtest_mimic::run(&arguments, tests.iter().map(trial).collect()).exit();
}
