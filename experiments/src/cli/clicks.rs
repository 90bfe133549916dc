//! `clicks`: a click model in time order; only clicks are labelled, their absence comes by waiting.

use std::collections::VecDeque;

use anyhow::Result;
use clap::Args;
use ostar_engine::{Inputs, Rows, evaluate::Scratch};
use ostar_method::{
    frozen::FrozenScores,
    gate::{Objective, Verdict},
    learner::{ArrivedLabel, BlockEvent, LabelUse, Learner, LearnerSettings, Negatives, Scores},
};

use super::Common;
use crate::{data::bandit::impressions, stream::train_classes};

/// Share of the impressions that the model is trained on.
const TRAINED: f64 = 0.6;
const BLOCK: usize = 500;
/// How long a click takes. The data do not say.
const CLICK_MS: i64 = 60_000;
const CANDIDATES: [&str; 4] = ["frozen", "prior", "adapted", "auto"];

#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    common: Common,
    /// Minutes after which an impression without a click is negative.
    #[arg(long, default_value_t = 30)]
    negative_after: i64,
    /// Prints what each block cost and what the gate said after it, too.
    #[arg(long)]
    blocks: bool,
}

/// Sums over impressions.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    log_loss: f64,
    predicted: f64,
}

pub(super) fn run(options: &Options) -> Result<()> {
    let (all, times) = impressions(&options.common.data)?;
    let trained = (TRAINED * all.count() as f64) as usize;
    let rows = |from: usize, to: usize| (from..to).collect::<Vec<_>>();
    let source = all.select(&rows(0, trained));
    for seed in 0..options.common.seeds {
        let bundle = train_classes(&source, 2, seed)?;
        let settings = LearnerSettings {
            threads: 1,
            seed,
            objective: Objective::Probability,
            labels: Some(LabelUse {
                negatives: Some(Negatives {
                    after_ms: options.negative_after * 60_000,
                    class: 0,
                }),
                ..LabelUse::default()
            }),
            ..LearnerSettings::default()
        };
        let mut learner = Learner::new(&bundle.deployed()?, settings)?;
        let mut sums = [Sums::default(); CANDIDATES.len()];
        let (mut clicks, mut count) = (0.0, 0);
        let mut coming: VecDeque<ArrivedLabel> = VecDeque::new();
        let (mut frozen, mut scores) = (FrozenScores::default(), Scores::default());
        let mut reasons = std::collections::BTreeMap::new();
        let mut negatives = 0;
        for first in (trained..all.count() - BLOCK).step_by(BLOCK) {
            let (before, clicks_before) = (sums, clicks);
            let values = &all.rows[first * all.width..(first + BLOCK) * all.width];
            let inputs = Inputs::Dense(Rows::new(values, all.width)?);
            learner
                .model()
                .clone()
                .score(inputs, &mut Scratch::default(), &mut frozen)?;
            let group = learner.group_rows();
            for start in (0..BLOCK).step_by(group) {
                let end = (start + group).min(BLOCK);
                let snapshot = learner.snapshot();
                snapshot.score_rows(frozen.rows(start..end), &mut scores)?;
                let served = scores.of(snapshot.candidate);
                let columns = [&scores.frozen[..], &scores.prior, &scores.adapted, served];
                for row in start..end {
                    let click = all.labels[first + row];
                    for (sums, column) in sums.iter_mut().zip(columns) {
                        let of = |class: usize| f64::from(column[(row - start) * 2 + class]);
                        sums.log_loss -= of(click as usize).max(1e-7).ln();
                        sums.predicted += of(1);
                    }
                    clicks += f64::from(click);
                    count += 1;
                }
                learner.follow(frozen.rows(start..end), None)?;
            }
            let ids: Vec<String> = (first..first + BLOCK).map(|row| row.to_string()).collect();
            let events: Vec<BlockEvent<'_>> = ids
                .iter()
                .zip(&times[first..])
                .map(|(id, time_ms)| BlockEvent {
                    id: Some(id),
                    time_ms: *time_ms,
                    sent: None,
                })
                .collect();
            let now = times[first + BLOCK - 1];
            let due = coming.partition_point(|label| label.time_ms <= now);
            let labels: Vec<ArrivedLabel> = coming.drain(..due).collect();
            let report = learner.close(&events, &labels)?;
            negatives = report.labels.map_or(0, |labels| labels.counts.negatives);
            *reasons.entry(report.verdict.reason.label()).or_insert(0) += 1;
            if options.blocks {
                let lost = |place: usize| {
                    let of = |sums: &[Sums; 4]| sums[place].log_loss - sums[0].log_loss;
                    of(&sums) - of(&before)
                };
                print_block(clicks - clicks_before, [lost(1), lost(3)], &report.verdict);
            }
            let clicked = (first..first + BLOCK).filter(|row| all.labels[*row] == 1);
            coming.extend(clicked.map(|row| ArrivedLabel {
                id: row.to_string().into(),
                class: 1,
                time_ms: times[row] + CLICK_MS,
            }));
        }
        print(
            seed,
            count,
            clicks,
            negatives,
            &sums,
            &format!("{reasons:?}"),
        );
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a line for each block was asked for")]
fn print_block(clicks: f64, [prior, auto]: [f64; 2], verdict: &Verdict) {
    println!(
        "  {clicks} clicks, log loss beside frozen's: prior {prior:+.3}, auto {auto:+.3}; then {}: {}",
        verdict.candidate, verdict.reason
    );
}

#[expect(
    clippy::print_stdout,
    reason = "a line for each seed is the command's output"
)]
fn print(seed: u64, count: usize, clicks: f64, negatives: u64, sums: &[Sums; 4], reasons: &str) {
    println!(
        "seed {seed}: {count} impressions, {clicks} clicks, {negatives} negative by waiting, {reasons}"
    );
    let frozen = sums[0].log_loss;
    for (name, sums) in CANDIDATES.iter().zip(sums) {
        println!(
            "  {name:8} log loss {:.5} ({:+.2} %), calibration ratio {:.3}",
            sums.log_loss / count as f64,
            100.0 * (sums.log_loss / frozen - 1.0),
            sums.predicted / clicks
        );
    }
}
