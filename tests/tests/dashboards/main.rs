//! Dashboards and alert rules against a real Prometheus that scrapes a running `ostard demo`, and a scorer and a learner
//! over a real Apache Kafka. Where a tool is missing the tests are ignored, unless CI or OSTARD_REQUIRE_SERVICES is set.

mod live;
mod panels;
mod rules;
mod split;

use std::{path::PathBuf, process::Command, sync::Arc};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use ostar_tests::{
    harness::{Shared, trial},
    kafka, prometheus,
};

use self::live::Running;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ostard-under-test");

/// The tool that a test needs, which the machine may lack.
#[derive(Debug, Clone, Copy)]
enum Needs {
    Nothing,
    Python,
    Prometheus,
}

fn main() {
    let mut arguments = Arguments::from_args();
    // They share the demo, and in CI two cores.
    arguments.test_threads = Some(1);
    let shared = Arc::new(Shared::<Running>::default());
    let files = rules::TESTS
        .iter()
        .map(|(name, needs, test)| trial(name, needs.missing(), *test));
    let live = live::TESTS.iter().map(|(name, test)| {
        let shared = Arc::clone(&shared);
        let run = move || shared.run(Running::start, test);
        trial(name, Needs::Prometheus.missing(), run)
    });
    let conclusion = libtest_mimic::run(&arguments, files.chain(live).collect());
    // `exit` runs no destructors: Prometheus and the demo would keep running.
    drop(shared);
    conclusion.exit();
}

impl Needs {
    fn missing(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Python => (!ostar_tests::is_on_the_path("python3")).then_some("python3"),
            Self::Prometheus => prometheus::missing_tool().or_else(kafka::missing_tool),
        }
    }
}

/// A path in the repository.
fn repository(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(path)
}

/// Runs a command that must succeed; the error holds its output.
fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let written = [output.stdout, output.stderr].concat();
    let written = String::from_utf8_lossy(&written);
    ensure!(output.status.success(), "{command:?}: {written}");
    Ok(())
}
