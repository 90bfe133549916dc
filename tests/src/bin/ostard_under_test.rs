//! `ostard` with the features that the end-to-end tests need.

use std::{process::ExitCode, thread, time::Duration};

/// The program's own: without it memory is not what a user sees.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // The variable FAILPOINTS makes a part panic.
    let _scenario = fail::FailScenario::setup();
    if let Ok(bytes) = std::env::var("LEAK_BYTES_PER_SECOND") {
        let bytes = bytes.parse().expect("LEAK_BYTES_PER_SECOND is a number");
        thread::spawn(move || leak(bytes));
    }
    ostard::main()
}

/// Loses memory, so that the ledger can show that it notices.
fn leak(bytes: usize) {
    loop {
        std::mem::forget(vec![1_u8; bytes]);
        thread::sleep(Duration::from_secs(1));
    }
}
