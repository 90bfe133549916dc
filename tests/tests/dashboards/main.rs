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

fn main() {
    let mut arguments = Arguments::from_args();
    // They share the demo and two cores.
    arguments.test_threads = Some(1);
    let stage = Arc::new(Stage::default());
    let skip = prometheus::missing_tool().is_some() && !ostar_tests::services_are_required();
    let files = rules::TESTS.iter().map(|(name, test)| trial(name, *test));
    let services = rules::PROMTOOL_TESTS.iter();
    let services = services.map(|(name, test)| trial(name, *test));
    let live = live::TESTS.iter().map(|(name, test)| {
        let stage = Arc::clone(&stage);
        trial(name, move || stage.run(*test))
    });
    let services = services.chain(live);
    let services = services.map(|trial| trial.with_ignored_flag(skip));
    let conclusion = libtest_mimic::run(&arguments, files.chain(services).collect());
    // Exiting would leave Prometheus and the demo behind.
    drop(stage);
    conclusion.exit();
}

fn trial(name: &str, test: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || {
        test().map_err(|error| Failed::from(format!("{error:?}")))
    })
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
