//! `gate`: what mode `auto` serves, on streams where its assumption holds and where it does not.

pub(crate) mod families;

use std::time::Instant;

use anyhow::Result;
use clap::Args;
use ostar_bundle::Bundle;
use serde::{Deserialize, Serialize};

use super::Common;
use crate::{
    gate::{
        ADAPTED, AUTO, Answering, FROZEN, Outcome, PRIOR, Replay,
        failures::{self, Failure},
        replay,
        suites::{Scenario, Suite},
    },
    results::{Record, Results},
    stream::train_classes,
    task::Domain,
};

#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    common: Common,
    /// Streams to replay.
    #[arg(long, value_enum, value_delimiter = ',', required_unless_present_any = ["families", "summary"])]
    suite: Vec<Suite>,
    #[command(flatten)]
    families: families::Options,
    /// Alignment steps of a block while label shift is refuted; 0 leaves the adapted model out.
    #[arg(long, default_value_t = 0)]
    steps: usize,
    /// Lets the gate serve the adapted model without labels.
    #[arg(long)]
    adapted_without_labels: bool,
    /// Prints what the gate said after every block, too.
    #[arg(long)]
    blocks: bool,
    /// Streams whose names contain this text alone.
    #[arg(long, default_value = "")]
    only: String,
    #[command(flatten)]
    answering: Answering,
}

impl Options {
    fn replay(&self, rivals: bool, seed: u64) -> Replay {
        Replay {
            steps: self.steps,
            always: false,
            adapted_without_labels: self.adapted_without_labels,
            rivals,
            answering: self.answering,
            seed,
        }
    }
}

/// Line of the results file: one stream, all candidates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct GateLine {
    pub(crate) suite: String,
    pub(crate) setting: String,
    pub(crate) seed: u64,
    pub(crate) rows: usize,
    /// Prequential accuracies in percent.
    pub(crate) frozen: f64,
    pub(crate) prior: f64,
    pub(crate) adapted: f64,
    pub(crate) auto: f64,
    /// Correction with the true shares of each block.
    pub(crate) oracle: f64,
    /// Correction with shares over all rows so far.
    pub(crate) cumulative: f64,
    /// Correction with shares over the last 1,000 rows.
    pub(crate) window: f64,
    /// `auto` less frozen in the worst tenth of the stream.
    pub(crate) worst_tenth: f64,
    /// `auto` less frozen in the worst 2,000 rows.
    pub(crate) worst_window: f64,
    /// `auto` and the adapted model less frozen, in the second half of the stream.
    pub(crate) later_auto: f64,
    pub(crate) later_adapted: f64,
    /// `prior`, which has no gate, less frozen in the worst 2,000 rows.
    pub(crate) prior_worst_window: f64,
    /// Share of blocks whose proportions were published as known.
    pub(crate) known: f64,
    /// Share of their intervals that cover; empty without one.
    pub(crate) covered: Option<f64>,
    /// Share of blocks after which prior correction was served, and the adapted model.
    pub(crate) served_prior: f64,
    pub(crate) served_adapted: f64,
    /// Reasons of the gate with their numbers of blocks.
    pub(crate) reasons: String,
    pub(crate) steps: u64,
    /// Labels that were joined.
    pub(crate) labels: u64,
    pub(crate) seconds: f64,
}

impl Record for GateLine {
    fn key(&self) -> String {
        format!("{}|{}|{}", self.suite, self.setting, self.seed)
    }
}

pub(super) fn run(options: &Options) -> Result<()> {
    let common = &options.common;
    if options.families.are_asked_for() {
        return families::run(options);
    }
    let mut results = Results::open::<GateLine>(&common.results("gate"), common.resume)?;
    for suite in &options.suite {
        for seed in 0..common.seeds {
            let mut trained: Option<(Domain, Bundle)> = None;
            suite.each(&common.data, seed, &mut |scenario| {
                let key = format!("{}|{}|{seed}", suite.name(), scenario.name);
                if results.has(&key) || !scenario.name.contains(&options.only) {
                    return Ok(());
                }
                // Streams of one source follow each other.
                let known = trained
                    .as_ref()
                    .filter(|(source, _)| *source == scenario.source);
                let bundle = match known {
                    Some((_, bundle)) => bundle.clone(),
                    None => train_classes(&scenario.source, scenario.classes, seed)?,
                };
                trained = Some((scenario.source.clone(), bundle.clone()));
                let start = Instant::now();
                let how = options.replay(true, seed);
                let outcome = replay(&bundle, &scenario.stream, how)?;
                let line = line(
                    *suite,
                    &scenario,
                    seed,
                    &outcome,
                    start.elapsed().as_secs_f64(),
                );
                print(&line);
                if options.blocks {
                    print_blocks(&outcome);
                }
                results.append(&line)
            })?;
        }
    }
    Ok(())
}

/// Replays generated streams and prints what came of them.
pub(super) fn show(failures: &[Failure], seeds: u64) -> Result<()> {
    for failure in failures {
        for seed in 0..seeds {
            let (source, stream) = failure.generate(seed);
            let scenario = Scenario {
                name: failure.name().to_owned(),
                source,
                stream,
                classes: failures::CLASSES,
            };
            let start = Instant::now();
            let bundle = train_classes(&scenario.source, scenario.classes, seed)?;
            let how = Replay {
                steps: 0,
                always: false,
                adapted_without_labels: false,
                rivals: true,
                answering: Answering::NONE,
                seed,
            };
            let outcome = replay(&bundle, &scenario.stream, how)?;
            let seconds = start.elapsed().as_secs_f64();
            print(&line(Suite::Failures, &scenario, seed, &outcome, seconds));
        }
    }
    Ok(())
}

#[expect(
    clippy::print_stdout,
    reason = "a line for each stream is the command's output"
)]
fn print(line: &GateLine) {
    println!(
        "{} {} seed {}: frozen {:.2} prior {:+.2} adapted {:+.2} auto {:+.2} oracle {:+.2}, worst window {:+.2}, later adapted {:+.2} auto {:+.2}, known {:.2}, covered {}, {}",
        line.suite,
        line.setting,
        line.seed,
        line.frozen,
        line.prior - line.frozen,
        line.adapted - line.frozen,
        line.auto - line.frozen,
        line.oracle - line.frozen,
        line.worst_window,
        line.later_adapted,
        line.later_auto,
        line.known,
        line.covered
            .map_or("-".to_owned(), |covered| format!("{covered:.2}")),
        line.reasons,
    );
}

#[expect(
    clippy::print_stdout,
    reason = "a line for each block is what was asked for"
)]
fn print_blocks(outcome: &Outcome) {
    for (number, verdict) in outcome.verdicts.iter().enumerate() {
        let gain = |candidate: usize| {
            outcome.block_accuracy(candidate, number) - outcome.block_accuracy(FROZEN, number)
        };
        println!(
            "  block {}: prior {:+.1} adapted {:+.1} auto {:+.1}, then {verdict}",
            number + 1,
            gain(PRIOR),
            gain(ADAPTED),
            gain(AUTO),
        );
    }
}

fn line(suite: Suite, scenario: &Scenario, seed: u64, outcome: &Outcome, seconds: f64) -> GateLine {
    let rounded = |value: f64| (1e3 * value).round() / 1e3;
    let accuracy = |candidate: usize| rounded(outcome.accuracy(candidate));
    let share = |count: usize| rounded(count as f64 / outcome.blocks.max(1) as f64);
    let (covered, intervals) = outcome.covered;
    let reasons = outcome.reasons.iter();
    let reasons: Vec<String> = reasons
        .map(|(label, count)| format!("{label} {count}"))
        .collect();
    GateLine {
        suite: suite.name().to_owned(),
        setting: scenario.name.clone(),
        seed,
        rows: scenario.stream.count(),
        frozen: accuracy(0),
        prior: accuracy(1),
        adapted: accuracy(2),
        auto: accuracy(3),
        oracle: accuracy(4),
        cumulative: accuracy(5),
        window: accuracy(6),
        worst_tenth: rounded(outcome.worst_tenth()),
        worst_window: rounded(outcome.worst_window(AUTO)),
        prior_worst_window: rounded(outcome.worst_window(PRIOR)),
        later_auto: rounded(outcome.later_gain(AUTO)),
        later_adapted: rounded(outcome.later_gain(ADAPTED)),
        known: share(outcome.known),
        covered: (intervals > 0).then(|| rounded(covered as f64 / intervals as f64)),
        served_prior: share(outcome.served[1]),
        served_adapted: share(outcome.served[2]),
        reasons: reasons.join("; "),
        steps: outcome.steps,
        labels: outcome.labels,
        seconds: (10.0 * seconds).round() / 10.0,
    }
}
