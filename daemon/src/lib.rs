//! `ostard`: follows label and conditional shift of a deployed classifier, without labels.

mod backtest;
mod class_order;
mod cli;
mod config;
mod control;
mod current;
mod demo;
mod error_text;
mod exit;
mod facts;
#[cfg(test)]
mod fuzz;
mod grpc;
mod health;
mod http;
mod inspect;
mod log;
mod metrics;
mod named;
mod open_inference;
mod page;
mod pipeline;
mod preflight;
pub mod proto;
mod run;
mod servers;
mod serving;
mod shutdown;
mod state;
mod status;
mod table;
mod transport;
mod words;

use std::process::ExitCode;

use clap::Parser;
use ostar_connectors::clock;

/// Runs the command line. A library only so that the end-to-end tests can build the program with theirs.
pub fn main() -> ExitCode {
    exit::report(cli::Cli::parse().execute())
}
