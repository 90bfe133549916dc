//! `shares`: class shares by labels of randomly drawn rows, on streams where they cannot be told otherwise.

use std::time::Instant;

use anyhow::Result;
use clap::Args;
use ostar_bundle::Bundle;
use serde::{Deserialize, Serialize};

use super::Common;
use crate::{
    gate::suites::Suite,
    results::{Record, Results},
    shares::replay,
    stream::train_classes,
    task::Domain,
};

#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    common: Common,
    /// Streams to replay.
    #[arg(long, value_enum, value_delimiter = ',', required = true)]
    suite: Vec<Suite>,
    /// Labels to ask for after every block, at random.
    #[arg(long, default_value_t = 20)]
    random: usize,
}

/// Line of the results file: one stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SharesLine {
    pub(crate) suite: String,
    pub(crate) setting: String,
    pub(crate) seed: u64,
    /// Labels asked for after every block.
    pub(crate) random: usize,
    /// Blocks with shares by labels, and those in which label shift was refuted.
    pub(crate) blocks: usize,
    pub(crate) refuted: usize,
    /// Intervals, those that cover, and those that are wider than from labels alone.
    pub(crate) intervals: usize,
    pub(crate) covered: usize,
    pub(crate) wider: usize,
    /// Mean widths: of the intervals, from labels alone, and these narrowed as theory says.
    pub(crate) width: f64,
    pub(crate) alone: f64,
    pub(crate) theory: f64,
    pub(crate) seconds: f64,
}

impl Record for SharesLine {
    fn key(&self) -> String {
        format!("{}|{}|{}", self.suite, self.setting, self.seed)
    }
}

pub(super) fn run(options: &Options) -> Result<()> {
    let common = &options.common;
    let mut results = Results::open::<SharesLine>(&common.results("shares"), common.resume)?;
    for suite in &options.suite {
        for seed in 0..common.seeds {
            let mut trained: Option<(Domain, Bundle)> = None;
            suite.each(&common.data, seed, &mut |scenario| {
                let key = format!("{}|{}|{seed}", suite.name(), scenario.name);
                if results.has(&key) {
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
                let outcome = replay(&bundle, &scenario.stream, options.random, seed)?;
                let mean = |sum: f64| (1e6 * sum / outcome.intervals.max(1) as f64).round() / 1e6;
                let line = SharesLine {
                    suite: suite.name().to_owned(),
                    setting: scenario.name,
                    seed,
                    random: options.random,
                    blocks: outcome.blocks,
                    refuted: outcome.refuted,
                    intervals: outcome.intervals,
                    covered: outcome.covered,
                    wider: outcome.wider,
                    width: mean(outcome.width),
                    alone: mean(outcome.alone),
                    theory: mean(outcome.theory),
                    seconds: (10.0 * start.elapsed().as_secs_f64()).round() / 10.0,
                };
                print(&line);
                results.append(&line)
            })?;
        }
    }
    Ok(())
}

#[expect(
    clippy::print_stdout,
    reason = "a line for each stream is the command's output"
)]
fn print(line: &SharesLine) {
    println!(
        "{} {} seed {}: {} of {} intervals cover, width {:.3}, from labels alone {:.3}, by theory {:.3}, refuted in {} of {} blocks",
        line.suite,
        line.setting,
        line.seed,
        line.covered,
        line.intervals,
        line.width,
        line.alone,
        line.theory,
        line.refuted,
        line.blocks,
    );
}
