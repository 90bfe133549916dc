//! `ostard` with the features that the end-to-end tests need.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The variable FAILPOINTS makes a part panic.
    let _scenario = fail::FailScenario::setup();
    ostard::main()
}
