//! `ostard` as the end-to-end tests run it.

use std::process::ExitCode;

fn main() -> ExitCode {
    ostard::main()
}
