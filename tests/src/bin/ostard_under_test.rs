//! `ostard` with the features that the end-to-end tests need.

use std::process::ExitCode;

fn main() -> ExitCode {
    ostard::main()
}
