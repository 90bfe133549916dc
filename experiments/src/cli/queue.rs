//! Runs one training after the other and writes each result down when it is done.

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

/// What identifies a run; its results file line starts with the same columns.
#[derive(Debug, Clone)]
pub(super) struct PlannedRun {
    pub(super) experiment: &'static str,
    pub(super) scale: &'static str,
    pub(super) setting: String,
    pub(super) variant: String,
    pub(super) method: Method,
    pub(super) seed: u64,
}

/// A results file, the progress bar over the runs that go into it, and the engine's threads.
pub(super) struct Job {
    pub(super) results: Results,
    pub(super) progress: JobProgress,
    pub(super) threads: usize,
}

// === impl PlannedRun ===

impl PlannedRun {
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
        // The key does not depend on the measures.
        let no_score = Score {
            balanced_accuracy: 0.0,
            accuracy: 0.0,
            proportion_error: None,
        };
        results.has(&self.line(&no_score, None, 0.0).key())
    }
}

/// Results files keep four decimals; differences below that are noise.
fn rounded(value: f64) -> f64 {
    (1e4 * value).round() / 1e4
}

// === impl Job ===

impl Job {
    /// Runs all methods that are planned for one task and seed. They share the pretraining, whose time counts for
    /// none of them.
    pub(super) fn run_all(
        &mut self,
        task: &Task,
        protocol: &Protocol,
        planned: &[PlannedRun],
    ) -> Result<()> {
        let Some(first) = planned.first() else {
            return Ok(());
        };
        let setup = Setup {
            task,
            protocol,
            threads: self.threads,
            seed: first.seed,
        };
        let title = |part: &str| format!("{} seed {}: {part}", first.setting, first.seed);
        self.progress.name(&title("pretraining"));
        let pretrained = pretrain(&setup, &mut |_| ())?;
        for run in planned {
            self.progress.name(&title(run.method.name()));
            self.run_one(&setup, run, &pretrained)?;
        }
        Ok(())
    }

    pub(super) fn run_one(
        &mut self,
        setup: &Setup<'_>,
        planned: &PlannedRun,
        pretrained: &Pretrained,
    ) -> Result<Outcome> {
        let start = Instant::now();
        let progress = &mut |fraction| self.progress.set_fraction(fraction);
        let outcome = run(setup, planned.method, pretrained, progress)?;
        let seconds = start.elapsed().as_secs_f64();
        let cost = matches!(planned.method, Method::Ostar(_)).then_some(outcome.transport_cost);
        let line = planned.line(&outcome.score, cost, seconds);
        self.results.append(&line)?;
        let error = line
            .proportion_error
            .map_or(String::new(), |error| format!(", l1 of p {error:.3}"));
        self.progress.finish_run(&format!(
            "{} {} {} {} seed {}: balanced accuracy {:.2}{error}, {seconds:.1} s",
            line.experiment,
            line.scale,
            line.setting,
            line.method,
            line.seed,
            line.balanced_accuracy
        ));
        Ok(outcome)
    }
}
