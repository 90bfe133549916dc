//! `ostard`: follows label and conditional shift of a deployed classifier, without labels.

mod backtest;
mod cli;
mod config;
mod control;
mod current;
mod demo;
mod exit;
mod grpc;
mod health;
mod http;
mod log;
mod metrics;
mod open_inference;
mod page;
mod pipeline;
mod run;
mod servers;
mod serving;
mod shutdown;
mod status;

/// Services of `daemon/proto`; public for the end-to-end tests, which are clients of them.
#[expect(missing_docs, reason = "generated")]
pub mod proto {
    tonic::include_proto!("ostar.v1");
}

use std::process::ExitCode;

use clap::Parser;

/// The whole program; a library only so that the end-to-end tests can build it with theirs.
pub fn main() -> ExitCode {
    exit::report(cli::Cli::parse().execute())
}
