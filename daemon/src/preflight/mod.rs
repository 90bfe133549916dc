//! `ostard config check --connect`: what `ostard run` would find, before it is deployed. Reads only; the one thing that it
//! writes is a file in the checkpoint folder, which it removes again.

mod files;
mod topics;

use std::time::Duration;

use ostar_bundle::Bundle;
use ostar_connectors::{checkpoint::Checkpoint, kafka::Survey, settings::without_credentials};

use crate::{
    config::{Config, Role},
    error_text::one_line,
    named::named,
    run::check_resume,
};

named! {
    /// What became of one check.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Verdict {
        Good = "ok",
        /// The daemon runs, but perhaps not as somebody expects.
        Warning = "warning",
        /// The daemon would end, or wait.
        Problem = "problem",
    }
}

/// The outcome of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) verdict: Verdict,
    /// Key of the configuration.
    pub(crate) key: &'static str,
    pub(crate) text: String,
}

/// Findings in the order of the checks.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

/// Carries out all checks that can be, whatever others find. A broker gets the timeout for each answer.
pub(crate) fn check(mut config: Config, timeout: Duration) -> Vec<Finding> {
    let mut findings = Findings::default();
    let bundle = files::bundle(&config, &mut findings);
    let newest = files::checkpoints(&config, &mut findings);
    files::others(&config, &mut findings);
    if let Some(bundle) = &bundle {
        config.choose_group(bundle);
    }
    match Survey::open(&config.kafka, timeout) {
        Ok(survey) => {
            let brokers = &config.kafka.brokers;
            let brokers = without_credentials(brokers);
            let text = format!("{brokers} answers, {}", count(survey.brokers(), "broker"));
            findings.good("kafka.brokers", text);
            topics::check(&config, &survey, &mut findings);
            topics::check_own(&config, &survey, &mut findings);
            // A learner's offsets are in its state.
            if let Some(bundle) = bundle.as_ref().filter(|_| config.role != Role::Learner) {
                check_group(&config, bundle, newest, &survey, &mut findings);
            }
        }
        Err(error) => findings.problem("kafka.brokers", error.to_string()),
    }
    findings.0
}

/// The group's commits and the checkpoint must belong to this daemon.
fn check_group(
    config: &Config,
    bundle: &Bundle,
    newest: Option<Checkpoint>,
    survey: &Survey,
    findings: &mut Findings,
) {
    let kafka = &config.kafka;
    let commits = survey
        .connection()
        .and_then(|connection| connection.committed(survey.timeout()));
    let commits = match commits {
        Ok(commits) => commits,
        Err(error) => return findings.problem("kafka.group", error.to_string()),
    };
    match check_resume(config, bundle, newest, &commits) {
        Ok(()) => {
            let partitions = count(commits.len(), "partition");
            let text = format!("{:?} has commits of {partitions}", kafka.group());
            findings.good("kafka.group", text);
        }
        Err(error) => findings.problem("kafka.group", one_line(&error)),
    }
}

/// A number of things.
fn count(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        _ => format!("{number} {thing}s"),
    }
}

// === impl Findings ===

impl Findings {
    fn good(&mut self, key: &'static str, text: String) {
        self.push(Verdict::Good, key, text);
    }

    fn warning(&mut self, key: &'static str, text: String) {
        self.push(Verdict::Warning, key, text);
    }

    fn problem(&mut self, key: &'static str, text: String) {
        self.push(Verdict::Problem, key, text);
    }

    fn push(&mut self, verdict: Verdict, key: &'static str, text: String) {
        self.0.push(Finding { verdict, key, text });
    }
}
