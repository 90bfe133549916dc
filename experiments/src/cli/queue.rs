//! Runs of one task after the other, each written down when it is done.

use std::time::Instant;

use anyhow::Result;

use super::progress::JobProgress;
use crate::{
    method::Method,
    protocol::Protocol,
    results::{Line, Record, Results},
    score::Score,
    task::Task,
    train::{Outcome, Pretrained, Setup, pretrain, run},
};

/// A run that is wanted.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) experiment: &'static str,
    pub(super) scale: &'static str,
    pub(super) setting: String,
    pub(super) variant: String,
    pub(super) method: Method,
    pub(super) seed: u64,
}

impl Wanted {
    /// The run's line with these results.
    pub(super) fn line(&self, score: &Score, extra: Option<f64>, seconds: f64) -> Line {
        Line {
            experiment: self.experiment.to_owned(),
            scale: self.scale.to_owned(),
            setting: self.setting.clone(),
            variant: self.variant.clone(),
            method: self.method.to_string(),
            seed: self.seed,
            balanced_accuracy: rounded(score.balanced_accuracy),
            accuracy: rounded(score.accuracy),
            proportion_error: score.proportion_error.map(rounded),
            extra: extra.map(rounded),
            seconds: (10.0 * seconds).round() / 10.0,
        }
    }

    pub(super) fn is_done(&self, results: &Results) -> bool {
        let nothing = Score {
            balanced_accuracy: 0.0,
            accuracy: 0.0,
            proportion_error: None,
        };
        results.has(&self.line(&nothing, None, 0.0).key())
    }
}

/// Four digits behind the point: a results file should not pretend to more.
fn rounded(value: f64) -> f64 {
    (1e4 * value).round() / 1e4
}

/// Runs what is wanted of one task and seed; pretraining is shared, and timed with none of them.
pub(super) fn run_all(
    task: &Task,
    protocol: &Protocol,
    wanted: &[Wanted],
    threads: usize,
    results: &mut Results,
    progress: &mut JobProgress,
) -> Result<()> {
    let Some(first) = wanted.first() else {
        return Ok(());
    };
    let setup = Setup {
        task,
        protocol,
        threads,
        seed: first.seed,
    };
    let what = |part: &str| format!("{} seed {}: {part}", first.setting, first.seed);
    progress.name(&what("pretraining"));
    let pretrained = pretrain(&setup, &mut |_| ())?;
    for run in wanted {
        progress.name(&what(run.method.name()));
        run_one(&setup, run, &pretrained, results, progress)?;
    }
    Ok(())
}

/// Runs one, and gives what came of it.
pub(super) fn run_one(
    setup: &Setup<'_>,
    wanted: &Wanted,
    pretrained: &Pretrained,
    results: &mut Results,
    progress: &mut JobProgress,
) -> Result<Outcome> {
    let start = Instant::now();
    let outcome = run(setup, wanted.method, pretrained, &mut |share| {
        progress.share(share);
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let cost = matches!(wanted.method, Method::Ostar(_)).then_some(outcome.transport_cost);
    let line = wanted.line(&outcome.score, cost, seconds);
    results.append(&line)?;
    let error = line
        .proportion_error
        .map_or(String::new(), |error| format!(", l1 of p {error:.3}"));
    progress.finish_run(&format!(
        "{} {} {} {} seed {}: balanced accuracy {:.2}{error}, {seconds:.1} s",
        line.experiment, line.scale, line.setting, line.method, line.seed, line.balanced_accuracy
    ));
    Ok(outcome)
}
