//! `ostard` with the features that the end-to-end tests need.

use std::process::ExitCode;

/// The program's own: without it memory is not what a user sees.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // The variable FAILPOINTS makes a part panic.
    let _scenario = fail::FailScenario::setup();
    ostard::main()
}
