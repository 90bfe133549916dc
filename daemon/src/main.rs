//! `ostard`: follows label and conditional shift of a deployed classifier, without labels.

mod cli;
mod config;
mod control;
mod current;
mod exit;
mod health;
mod log;
mod status;

/// Services of `daemon/proto`.
#[expect(unreachable_pub, reason = "generated")]
mod proto {
    tonic::include_proto!("ostar.v1");
}

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    exit::report(cli::Cli::parse().execute())
}
