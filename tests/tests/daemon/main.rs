//! The daemon against a real Apache Kafka. Where Java or Maven is missing the tests are ignored, unless CI or
//! OSTARD_REQUIRE_SERVICES is set.

mod chaos;
mod devices;
mod disk;
mod documents;
mod fields;
mod label_evidence;
mod labels;
mod lives;
mod offsets;
mod outages;
mod parts;
mod poison;
mod preflight;
mod python;
mod recreated;
mod refused;
mod registry;
mod requests;
mod restarts;
mod roles;
mod rolling;
mod secure;
mod security_page;
mod standby;
mod state_topic;
mod stopping;
mod topics;
mod truncated;

use std::{path::PathBuf, sync::Arc};

use anyhow::Result;
use libtest_mimic::Arguments;
use ostar_tests::{
    daemon::{Daemon, Settings},
    gaussians,
    harness::{Shared, trial},
    kafka::{Kafka, Listener, missing_tool},
};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ostard-under-test");

type Test = fn(&mut Kafka) -> Result<()>;

fn main() {
    let mut arguments = Arguments::from_args();
    // They share the broker, and in CI two cores.
    arguments.test_threads = Some(1);
    let shared = Arc::new(Shared::default());
    let tests = [
        restarts::TESTS,
        poison::TESTS,
        standby::TESTS,
        outages::TESTS,
        offsets::TESTS,
        refused::TESTS,
        recreated::TESTS,
        lives::TESTS,
        requests::TESTS,
        stopping::TESTS,
        labels::TESTS,
        label_evidence::TESTS,
        secure::TESTS,
        devices::TESTS,
        documents::TESTS,
        preflight::TESTS,
        truncated::TESTS,
        disk::TESTS,
        parts::TESTS,
        chaos::TESTS,
        security_page::TESTS,
        fields::TESTS,
        state_topic::TESTS,
        roles::TESTS,
        topics::TESTS,
    ]
    .concat();
    let missing = missing_tool();
    let tests = tests.into_iter().map(|test| (test, missing));
    let missing = missing.or_else(ostar_tests::python::missing_tool);
    let python_tests = [
        python::TESTS,
        registry::TESTS,
        rolling::TESTS,
        documents::PYTHON_TESTS,
    ];
    let python_tests = python_tests.into_iter().flatten();
    let python_tests = python_tests.map(|test| (*test, missing));
    let trials = tests.chain(python_tests).map(|((name, test), missing)| {
        let shared = Arc::clone(&shared);
        let broker = || Kafka::start(Listener::Plaintext);
        trial(name, missing, move || shared.run(broker, test))
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    // `exit` runs no destructors: the broker would keep running.
    drop(shared);
    conclusion.exit();
}

/// A temporary folder with a bundle in it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        gaussians::write_bundle(&folder.path().join("bundle"))?;
        Ok(Self { folder })
    }

    fn checkpoints(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A daemon that learns in small blocks from the raw events of a topic.
    fn settings(&self, kafka: &Kafka, topic: &str, checkpoints: &str) -> Settings {
        let bundle = self.folder.path().join("bundle");
        Settings::new(
            &kafka.bootstrap(),
            topic,
            &bundle,
            &self.checkpoints(checkpoints),
        )
        .with("kafka.group", &format!("{topic}-{checkpoints}"))
        .with("events.format", "raw")
        .with("learner.block", "250")
        .with("learner.steps_per_block", "2")
        .with("learner.when_behind", "wait")
        .with("learner.method.window", "1000")
        .with("learner.method.threads", "1")
        // At the default priority: tests run beside builds.
        .with("learner.nice", "0")
        .with("checkpoints.every_events", "250")
        .with("checkpoints.min_interval", "0s")
    }
}

fn start(settings: &Settings) -> Result<Daemon> {
    Daemon::start(PROGRAM, settings)
}
