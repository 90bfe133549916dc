//! `ostard topics`.

use std::io::{self, Write};

use anyhow::{Result, bail, ensure};
use clap::Subcommand;
use ostar_connectors::{
    kafka::{Survey, TopicOutcome, TopicPlan},
    settings::Period,
};

use super::{format::Table, layers::LayerArgs};
use crate::config::{Config, Reading};

/// Make the topics between scorers and the learner.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(super) enum Command {
    /// Create samples.topic and checkpoints.topic where they are missing, with the settings that ostard relies on.
    ///
    /// Topics that are there are never changed: what differs is listed, and the exit code is 1.
    Apply {
        /// Only say what would be done.
        #[arg(long)]
        dry_run: bool,
        /// Replicas of a new topic. Without it, the brokers' default.
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(1..))]
        replicas: Option<i32>,
        /// How long a broker may take for each answer.
        #[arg(long, value_name = "PERIOD", default_value = "10s")]
        timeout: Period,
        #[command(flatten)]
        layers: Box<LayerArgs>,
    },
}

const EXAMPLES: &str = "\
Examples:
  ostard topics apply --dry-run --config ostard.toml
  ostard topics apply --config ostard.toml --replicas 3
  ostard topics apply --brokers localhost:9092 --topic mails --set samples.topic=mails-samples \\
      --set checkpoints.topic=mails-state";

/// Keys that other commands need: the job that makes topics has neither the bundle nor the listeners' files.
const UNUSED: [&str; 10] = [
    "bundle.path",
    "checkpoints.folder",
    "parked.topic",
    "tls.certificate",
    "tls.key",
    "tls.client_ca",
    "auth.token_file",
    "auth.predict_token_file",
    "auth.metrics_token_file",
    "auth.control_token_file",
];

impl Command {
    pub(super) fn execute(self) -> Result<()> {
        let Self::Apply {
            dry_run,
            replicas,
            timeout,
            layers,
        } = self;
        let config = Reading::new(&layers.layers()).valid_without(&UNUSED)?;
        let plans = plans(&config);
        if plans.is_empty() {
            bail!(
                "neither samples.topic nor checkpoints.topic is set; set those that this installation uses"
            );
        }
        let survey = Survey::open(&config.kafka, timeout.get())?;
        let mut rows = Vec::new();
        let mut differ = 0;
        for plan in &plans {
            let mut outcome = plan.compare(&survey)?;
            if outcome == TopicOutcome::Missing && !dry_run {
                plan.create(&config.kafka, replicas, timeout.get())?;
                outcome = TopicOutcome::Created;
            }
            differ += usize::from(matches!(outcome, TopicOutcome::Differs(_)));
            rows.push(vec![
                told(&outcome),
                plan.key.to_owned(),
                describe(plan, &outcome),
            ]);
        }
        let mut table = Table::new(&["topic", "key", "settings"]);
        write!(io::stdout().lock(), "{}", table.lines(rows))?;
        ensure!(
            differ == 0,
            "{differ} of {} topics differ; change them with Kafka's own tools, or delete them and apply again",
            plans.len()
        );
        Ok(())
    }
}

fn plans(config: &Config) -> Vec<TopicPlan> {
    let samples = config.samples.topic.as_deref().map(TopicPlan::samples);
    let state = config.checkpoints.topic.as_deref().map(TopicPlan::state);
    samples.into_iter().chain(state).collect()
}

fn told(outcome: &TopicOutcome) -> String {
    match outcome {
        TopicOutcome::Fits => "ok",
        TopicOutcome::Differs(_) => "differs",
        TopicOutcome::Missing => "to create",
        TopicOutcome::Created => "created",
    }
    .to_owned()
}

fn describe(plan: &TopicPlan, outcome: &TopicOutcome) -> String {
    let settings = match outcome {
        TopicOutcome::Differs(differences) => differences.join(", "),
        _ => {
            let settings = plan.settings.iter();
            let settings = settings.map(|(name, value)| format!("{name}={value}"));
            let partitions = format!("partitions={}", plan.partitions);
            let all: Vec<_> = [partitions].into_iter().chain(settings).collect();
            all.join(" ")
        }
    };
    format!("{}: {settings}", plan.name)
}
