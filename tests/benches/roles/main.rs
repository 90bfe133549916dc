//! Scorers and a learner: how soon scorers serve what is published, what the state topic comes to, and what each role costs.
//!
//! `make bench-roles`. `-- --follow` and `-- --cost` run one half each. OSTARD names the program to measure.
#![expect(
    clippy::print_stdout,
    reason = "a benchmark's outcome is what it prints"
)]

mod cost;
mod follow;

use std::{path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use ostar_tests::{
    daemon::Settings,
    kafka::{Kafka, Listener},
    large,
};

const EVENTS: &str = "events";
const STATE: &str = "state";
const PREDICTIONS: &str = "predictions";

fn main() -> Result<()> {
    let program = std::env::var("OSTARD").context("OSTARD names the ostard to measure")?;
    let asked = |half: &str| std::env::args().any(|argument| argument == half);
    let both = !asked("--follow") && !asked("--cost");
    let folder = tempfile::tempdir()?;
    large::write_bundle(&folder.path().join("bundle"))?;
    let kafka = Kafka::start(Listener::Plaintext)?;
    kafka.create_topic(EVENTS, 6, &[])?;
    for topic in [PREDICTIONS, "parked"] {
        kafka.create_topic(topic, 1, &[])?;
    }
    let bench = Bench {
        program,
        kafka,
        folder: folder.path(),
    };
    bench.make_topics()?;
    if both || asked("--follow") {
        follow::measure(&bench)?;
    }
    if both || asked("--cost") {
        cost::measure(&bench)?;
    }
    Ok(())
}

struct Bench<'a> {
    program: String,
    kafka: Kafka,
    folder: &'a Path,
}

impl Bench<'_> {
    /// With the settings that an installation gets.
    fn make_topics(&self) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.args(["topics", "apply", "--topic", EVENTS, "--brokers"]);
        command.arg(self.kafka.bootstrap());
        command.args(["--set", "samples.topic=samples"]);
        let status = command
            .args(["--set", &format!("checkpoints.topic={STATE}")])
            .status()?;
        ensure!(status.success(), "topics apply: {status}");
        Ok(())
    }

    /// What all roles have in common.
    fn settings(&self) -> Settings {
        let bundle = self.folder.join("bundle");
        Settings::new(&self.kafka.bootstrap(), EVENTS, &bundle, self.folder)
            .without("checkpoints.folder")
            .with("kafka.group", "roles")
            .with("events.format", "raw")
            .with("checkpoints.store", "kafka")
            .with("checkpoints.topic", STATE)
            .with("samples.topic", "samples")
            .with("predictions.topic", PREDICTIONS)
            .with("parked.topic", "parked")
    }

    fn role(&self, role: &str) -> Settings {
        self.settings().with("role", role)
    }
}
