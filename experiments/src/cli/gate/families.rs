//! `gate --families`: the streams that the gate's rule is judged on, by family.

use std::{
    path::PathBuf,
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::{
    gate::{
        ADAPTED, AUTO, FROZEN, ORACLE, Outcome, PRIOR,
        families::{Families, Family, Half, STREAMS, Trial},
        replay,
    },
    report,
    results::{Record, Results, read},
};

#[derive(Debug, Args)]
pub(super) struct Options {
    /// Families of streams to replay, or `all`.
    #[arg(long, value_delimiter = ',', value_name = "FAMILIES")]
    families: Vec<String>,
    /// Streams to choose a rule on, or those to look at once.
    #[arg(long, value_enum, default_value_t = Half::Tuning)]
    half: Half,
    /// Streams of each family.
    #[arg(long, default_value_t = STREAMS)]
    streams: usize,
    /// Most unlabelled rows of the training period that are given along.
    #[arg(long, default_value_t = 20_000)]
    reference: usize,
    /// Streams that are replayed at the same time, a thread each.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Folder that trained models are kept in, for further runs; to be removed after a change of `fit`.
    #[arg(long, value_name = "DIR")]
    models: Option<PathBuf>,
    /// The program's commit, for the results file [default: that of the current folder].
    #[arg(long)]
    commit: Option<String>,
    /// Prints the table of a results file, a row a family, and runs nothing.
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
}

/// Line of the results file: one stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FamilyLine {
    pub(crate) family: String,
    /// The family that the stream was made for; a weak model's label shift is a family of its own.
    pub(crate) made_for: String,
    pub(crate) half: String,
    pub(crate) number: usize,
    /// Real set, or `synthetic`.
    pub(crate) set: String,
    pub(crate) setting: String,
    pub(crate) black_box: bool,
    pub(crate) commit: String,
    pub(crate) rows: usize,
    pub(crate) blocks: usize,
    pub(crate) classes: usize,
    pub(crate) held_out_rows: usize,
    pub(crate) held_out_accuracy: f64,
    pub(crate) reference_rows: usize,
    /// Prequential accuracies in percent.
    pub(crate) frozen: f64,
    pub(crate) prior: f64,
    pub(crate) adapted: f64,
    pub(crate) auto: f64,
    /// Correction with the true shares of each block.
    pub(crate) oracle: f64,
    /// `auto` less frozen.
    pub(crate) gain: f64,
    /// The same in the worst 2,000 rows, with its standard error.
    pub(crate) worst_window: f64,
    pub(crate) worst_window_error: f64,
    /// Windows below -2 points by more than 3 standard errors, and windows in all.
    pub(crate) windows_lost: usize,
    pub(crate) windows: usize,
    /// Blocks with each word for their shares.
    pub(crate) known: usize,
    pub(crate) range: usize,
    pub(crate) unknown: usize,
    /// Intervals of known blocks, those that cover, and their mean width.
    pub(crate) intervals: usize,
    pub(crate) covered: usize,
    pub(crate) width: Option<f64>,
    /// Blocks after which prior correction was served, and the adapted model.
    pub(crate) served_prior: usize,
    pub(crate) served_adapted: usize,
    /// Reasons of the gate with their numbers of blocks.
    pub(crate) reasons: String,
    pub(crate) steps: u64,
    pub(crate) labels: u64,
    /// Of the replay, without training.
    pub(crate) seconds: f64,
}

impl Record for FamilyLine {
    fn key(&self) -> String {
        key(&self.made_for, &self.half, self.number)
    }
}

fn key(family: &str, half: &str, number: usize) -> String {
    format!("{family}|{half}|{number}")
}

impl Options {
    pub(super) fn are_asked_for(&self) -> bool {
        self.summary.is_some() || !self.families.is_empty()
    }

    fn chosen(&self) -> Result<Vec<Family>> {
        if self.families.iter().any(|name| name == "all") {
            return Ok(Family::value_variants().to_vec());
        }
        let known = || {
            let names = Family::value_variants().iter().map(|family| family.name());
            names.collect::<Vec<_>>().join(", ")
        };
        let family = |name: &String| {
            Family::from_str(name, false).ok().with_context(|| {
                format!(
                    "unknown family {name:?}, expected all or some of {}",
                    known()
                )
            })
        };
        self.families.iter().map(family).collect()
    }
}

#[expect(clippy::print_stdout, reason = "the table is the command's output")]
pub(super) fn run(options: &super::Options) -> Result<()> {
    let (common, own) = (&options.common, &options.families);
    if let Some(file) = &own.summary {
        print!("{}", report::families::table_of(&read(file)?));
        return Ok(());
    }
    let results = Results::open::<FamilyLine>(&common.results("families"), common.resume)?;
    let commit = own.commit.clone().unwrap_or_else(commit_of_folder);
    let mut jobs: Vec<(Family, usize)> = Vec::new();
    for family in own.chosen()? {
        let left = (0..own.streams)
            .filter(|number| !results.has(&key(&family.name(), own.half.name(), *number)));
        jobs.extend(left.map(|number| (family, number)));
    }
    let families = Families::new(own.half, &common.data, own.models.clone());
    let worlds = families.by_world(&jobs);
    let (results, next) = (Mutex::new(results), AtomicUsize::new(0));
    let work = || -> Result<()> {
        while let Some(streams) = worlds.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (family, number) = streams[0];
            let world = families
                .world(family, number)
                .with_context(|| format!("the model of stream {number} of {}", family.name()))?;
            let Some(world) = world else {
                continue;
            };
            for (family, number) in streams {
                let trial = families
                    .trial(&world, *family, *number, own.reference)
                    .with_context(|| format!("stream {number} of {}", family.name()))?;
                if !trial.setting.contains(&options.only) {
                    continue;
                }
                let start = Instant::now();
                let how = options.replay(false, *number as u64);
                let outcome = replay(&trial.bundle, &trial.stream, how)?;
                let line = FamilyLine {
                    made_for: family.name(),
                    half: own.half.name().to_owned(),
                    number: *number,
                    commit: commit.clone(),
                    ..line(&trial, &outcome, start.elapsed().as_secs_f64())
                };
                print(&line);
                let mut results = results.lock().unwrap_or_else(|held| held.into_inner());
                results.append(&line)?;
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..own.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    let missing = families.missing();
    if !missing.is_empty() {
        println!(
            "left out streams of {}: not in {}",
            missing.join(", "),
            common.data.display()
        );
    }
    Ok(())
}

/// What git says of the current folder, with `+` if files differ from it; `unknown` without git.
fn commit_of_folder() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    let is_clean = changed.is_some_and(|files| files.is_empty());
    format!("{commit}{}", if is_clean { "" } else { "+" })
}

fn line(trial: &Trial, outcome: &Outcome, seconds: f64) -> FamilyLine {
    let rounded = |value: f64| (1e3 * value).round() / 1e3;
    let accuracy = |candidate: usize| outcome.accuracy(candidate);
    let windows = outcome.paired_windows();
    let (covered, intervals) = outcome.covered;
    let reasons = outcome.reasons.iter();
    let reasons: Vec<String> = reasons
        .map(|(label, count)| format!("{label} {count}"))
        .collect();
    FamilyLine {
        family: trial.family.name(),
        made_for: String::new(),
        half: String::new(),
        number: 0,
        set: trial.set.clone(),
        setting: trial.setting.clone(),
        black_box: trial.is_black_box,
        commit: String::new(),
        rows: trial.stream.count(),
        blocks: outcome.blocks,
        classes: trial.classes,
        held_out_rows: trial.held_out_rows,
        held_out_accuracy: rounded(trial.held_out_accuracy),
        reference_rows: trial.reference.as_ref().map_or(0, |rows| rows.count()),
        frozen: rounded(accuracy(FROZEN)),
        prior: rounded(accuracy(PRIOR)),
        adapted: rounded(accuracy(ADAPTED)),
        auto: rounded(accuracy(AUTO)),
        oracle: rounded(accuracy(ORACLE)),
        gain: rounded(accuracy(AUTO) - accuracy(FROZEN)),
        worst_window: rounded(windows.points),
        worst_window_error: rounded(windows.error),
        windows_lost: windows.lost,
        windows: windows.count,
        known: outcome.known,
        range: outcome.ranges,
        unknown: outcome.blocks - outcome.known - outcome.ranges,
        intervals,
        covered,
        width: (intervals > 0).then(|| (1e4 * outcome.width / intervals as f64).round() / 1e4),
        served_prior: outcome.served[1],
        served_adapted: outcome.served[2],
        reasons: reasons.join("; "),
        steps: outcome.steps,
        labels: outcome.labels,
        seconds: (100.0 * seconds).round() / 100.0,
    }
}

#[expect(
    clippy::print_stdout,
    reason = "a line for each stream is the command's output"
)]
fn print(line: &FamilyLine) {
    println!(
        "{} {} {}{}: frozen {:.2} prior {:+.2} auto {:+.2} oracle {:+.2}, worst window {:+.2} +- {:.2}, known {} of {}, {} of {} intervals cover, {}, {:.1} s",
        line.family,
        line.number,
        line.setting,
        if line.black_box { ", black box" } else { "" },
        line.frozen,
        line.prior - line.frozen,
        line.gain,
        line.oracle - line.frozen,
        line.worst_window,
        line.worst_window_error,
        line.known,
        line.blocks,
        line.covered,
        line.intervals,
        line.reasons,
        line.seconds,
    );
}
