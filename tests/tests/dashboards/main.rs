//! Dashboards and alert rules against a real Prometheus that scrapes a running `ostard demo`. Where Prometheus cannot
//! be had the tests say so and are ignored, unless CI or OSTARD_REQUIRE_SERVICES is set.

mod live;
mod panels;
mod rules;

use std::{path::PathBuf, process::Command, sync::Arc};

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use ostar_tests::prometheus;

use self::live::Stage;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_ostard-under-test");

/// What a test needs that the machine may lack.
#[derive(Debug, Clone, Copy)]
enum Needs {
    Nothing,
    Python,
    Prometheus,
}

fn main() {
    let mut arguments = Arguments::from_args();
    // They share the demo and two cores.
    arguments.test_threads = Some(1);
    let stage = Arc::new(Stage::default());
    let files = rules::TESTS
        .iter()
        .map(|(name, needs, test)| trial(name, *needs, *test));
    let live = live::TESTS.iter().map(|(name, test)| {
        let stage = Arc::clone(&stage);
        trial(name, Needs::Prometheus, move || stage.run(*test))
    });
    let conclusion = libtest_mimic::run(&arguments, files.chain(live).collect());
    // Exiting would leave Prometheus and the demo behind.
    drop(stage);
    conclusion.exit();
}

fn trial(name: &str, needs: Needs, test: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    let missing = needs.missing();
    let skip = missing.is_some() && !ostar_tests::services_are_required();
    let name = match missing {
        Some(tool) if skip => format!("{name} (skipped: no {tool})"),
        _ => name.to_owned(),
    };
    let run = move || test().map_err(|error| Failed::from(format!("{error:?}")));
    Trial::test(name, run).with_ignored_flag(skip)
}

impl Needs {
    fn missing(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Python => (!ostar_tests::is_on_the_path("python3")).then_some("python3"),
            Self::Prometheus => prometheus::missing_tool(),
        }
    }
}

/// A path in the repository.
fn repository(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(path)
}

/// Runs a command that must succeed; an error has all that it wrote.
fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let written = [output.stdout, output.stderr].concat();
    let written = String::from_utf8_lossy(&written);
    ensure!(output.status.success(), "{command:?}: {written}");
    Ok(())
}
