//! Runs one training after the other and writes each result down when it is done.

use std::{path::PathBuf, time::Duration};

use anyhow::Result;

use super::{Common, progress::JobProgress, training::Saving};
use crate::{
    method::Method,
    protocol::Protocol,
    results::{Line, Record, Results, TraceLine},
    score::Score,
    task::Task,
    train::{Checkpoints, EpochTrace, Outcome, Pretrained, Setup, Watch, pretrain, run},
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

/// A results file, the progress bar over the runs that go into it, and what all of them share.
pub(super) struct Job {
    pub(super) results: Results,
    pub(super) progress: JobProgress,
    pub(super) threads: usize,
    /// One line for each epoch of OSTAR's alignment, if asked for.
    trace: Option<Results>,
    /// Folder of the checkpoints of unfinished runs.
    unfinished: PathBuf,
    resume: bool,
    save_every: Duration,
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

    fn trace_line(&self, epoch: &EpochTrace) -> TraceLine {
        TraceLine {
            scale: self.scale.to_owned(),
            setting: self.setting.clone(),
            variant: self.variant.clone(),
            method: self.method.to_string(),
            seed: self.seed,
            epoch: epoch.epoch,
            distance: rounded(epoch.distance),
            transport_cost: rounded(epoch.transport_cost),
            displacement: rounded(epoch.displacement),
            source_spread: rounded(epoch.source_spread),
            target_spread: rounded(epoch.target_spread),
            class_gap: rounded(epoch.class_gap),
            mapped_class_gap: rounded(epoch.mapped_class_gap),
            class_distance: rounded(epoch.class_distance),
            balanced_accuracy: rounded(epoch.balanced_accuracy),
            proportion_error: rounded(epoch.proportion_error),
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
    /// A job of so many runs, whose results go to the file of `experiment`.
    pub(super) fn new(
        common: &Common,
        saving: &Saving,
        experiment: &str,
        results: Results,
        runs: usize,
    ) -> Result<Self> {
        let trace = match &saving.trace {
            Some(path) => Some(Results::open::<TraceLine>(path, common.resume)?),
            None => None,
        };
        let mut unfinished = common.results(experiment).into_os_string();
        unfinished.push(".unfinished");
        Ok(Self {
            results,
            progress: JobProgress::new(runs),
            threads: common.threads,
            trace,
            unfinished: unfinished.into(),
            resume: common.resume,
            save_every: Duration::from_secs(saving.save_every),
        })
    }

    fn checkpoints(&self, setup: &Setup<'_>, run: &PlannedRun, part: &str) -> Checkpoints {
        let PlannedRun {
            experiment,
            scale,
            setting,
            variant,
            seed,
            ..
        } = run;
        let name = format!("{experiment}-{scale}-{setting}-{variant}-{part}-{seed}.safetensors");
        let name = name.replace(['/', ' '], "_");
        let path = self.unfinished.join(name);
        let identity = format!("{part}, {}", setup.identity());
        Checkpoints::at(&path, identity, self.resume, self.save_every)
    }

    /// Pretrains for the runs of one task and seed, of which `run` is any. Its checkpoint stays until
    /// [`Checkpoints::remove`].
    pub(super) fn pretrain(
        &self,
        setup: &Setup<'_>,
        run: &PlannedRun,
    ) -> Result<(Pretrained, Checkpoints)> {
        let mut watch = Watch {
            checkpoints: self.checkpoints(setup, run, "pretraining"),
            ..Watch::none()
        };
        let pretrained = pretrain(setup, &mut watch)?;
        Ok((pretrained, watch.checkpoints))
    }

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
        let (pretrained, checkpoints) = self.pretrain(&setup, first)?;
        for run in planned {
            self.progress.name(&title(run.method.name()));
            self.run_one(&setup, run, &pretrained)?;
        }
        checkpoints.remove()
    }

    pub(super) fn run_one(
        &mut self,
        setup: &Setup<'_>,
        planned: &PlannedRun,
        pretrained: &Pretrained,
    ) -> Result<Outcome> {
        let checkpoints = self.checkpoints(setup, planned, planned.method.name());
        let (outcome, checkpoints) = {
            let mut watch = Watch {
                progress: Box::new(|fraction| self.progress.set_fraction(fraction)),
                epochs: None,
                checkpoints,
            };
            if let Some(trace) = &mut self.trace {
                let tell = |epoch: &EpochTrace| trace.append_new(&planned.trace_line(epoch));
                watch.epochs = Some(Box::new(tell));
            }
            let outcome = run(setup, planned.method, pretrained, &mut watch)?;
            (outcome, watch.checkpoints)
        };
        let seconds = checkpoints.seconds();
        let cost = matches!(planned.method, Method::Ostar(_)).then_some(outcome.transport_cost);
        let line = planned.line(&outcome.score, cost, seconds);
        self.results.append(&line)?;
        checkpoints.remove()?;
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
