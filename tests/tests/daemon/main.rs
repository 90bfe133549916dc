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

use std::sync::Arc;

use anyhow::Result;
use libtest_mimic::Arguments;
use ostar_tests::{
    daemon::{Daemon, Settings},
    harness::{Shared, trial},
    kafka::{Kafka, Listener, missing_tool},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_ostard-under-test");

/// Leaves the broker as it is, and runs beside others.
type Test = fn(&Kafka) -> Result<()>;
/// Stops the broker, or measures seconds.
type Alone = fn(&mut Kafka) -> Result<()>;

fn main() {
    let mut arguments = Arguments::from_args();
    // They wait more than they compute.
    arguments.test_threads = arguments.test_threads.or(Some(4));
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
        labels::TESTS,
        label_evidence::TESTS,
        secure::TESTS,
        devices::TESTS,
        documents::TESTS,
        preflight::TESTS,
        disk::TESTS,
        security_page::TESTS,
        fields::TESTS,
        state_topic::TESTS,
        roles::TESTS,
        topics::TESTS,
    ]
    .concat();
    let alone = [
        outages::ALONE,
        lives::ALONE,
        state_topic::ALONE,
        roles::ALONE,
        truncated::TESTS,
        stopping::TESTS,
        parts::TESTS,
        chaos::TESTS,
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
    let broker = || Kafka::start(Listener::Plaintext);
    let mut trials: Vec<_> = tests
        .chain(python_tests)
        .map(|((name, test), missing)| {
            let shared = Arc::clone(&shared);
            trial(name, missing, move || shared.run(broker, test))
        })
        .collect();
    trials.extend(alone.into_iter().map(|(name, test)| {
        let shared = Arc::clone(&shared);
        trial(name, missing_tool(), move || shared.run_alone(broker, test))
    }));
    let conclusion = libtest_mimic::run(&arguments, trials);
    // `exit` runs no destructors: the broker would keep running.
    drop(shared);
    conclusion.exit();
}

fn start(settings: &Settings) -> Result<Daemon> {
    Daemon::start(PROGRAM, settings)
}
