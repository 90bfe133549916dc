//! `features`: pairs of domains from feature files.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::Args;

use super::{
    Common, methods,
    queue::{Job, PlannedRun},
    training::{Changes, Saving},
};
use crate::{
    data::{features::FeatureFile, locate},
    method::Method,
    protocol::{Protocol, Scale, features as protocol},
    results::{Line, Results},
    task::Task,
};

#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    saving: Saving,
    /// Name of the set: office-caltech, amazon, or the stem of a file in --data (office31, officehome, visda12
    /// have the paper's protocols).
    #[arg(long, value_name = "NAME")]
    set: String,
    /// Methods to run, separated by commas [default: all].
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    method: Vec<Method>,
    /// Pairs to run, such as amazon-webcam [default: all].
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    setting: Vec<String>,
    /// Of two classes: the source is left as it is, and this percentage of the target's rows is of the second class, one
    /// task each. Without it the source keeps 30 % of the first half of its classes.
    #[arg(long, value_delimiter = ',', value_name = "PERCENTS")]
    positive: Vec<u32>,
    /// Most rows of a domain; more are left out at random.
    #[arg(long, value_name = "COUNT")]
    rows: Option<usize>,
    #[command(flatten)]
    changes: Changes,
    /// Length of the schedule and size of the map.
    #[arg(long, value_enum, default_value_t = Scale::Quick)]
    scale: Scale,
}

pub(super) fn run(options: &Options) -> Result<()> {
    let common = &options.common;
    let results = Results::open::<Line>(&common.results("features"), common.resume)?;
    let file = FeatureFile::read(&path(options)?)?;
    check_positive(options, &file)?;
    let shifts: Vec<Option<u32>> = match &options.positive[..] {
        [] => vec![None],
        some => some.iter().copied().map(Some).collect(),
    };
    let mut groups = Vec::new();
    for (seed, shift, pair) in combinations(common.seeds, &shifts, &pairs(options, &file)?) {
        let planned = methods(&options.method)
            .into_iter()
            .map(|method| PlannedRun {
                experiment: "features",
                scale: options.scale.name(),
                setting: format!("{}-{}", pair.0, pair.1),
                variant: variant(options, shift),
                method,
                seed,
            });
        let pending: Vec<PlannedRun> = planned.filter(|run| !run.is_done(&results)).collect();
        if !pending.is_empty() {
            groups.push((seed, shift, pair, pending));
        }
    }
    let runs = groups.iter().map(|(.., runs)| runs.len()).sum();
    let mut job = Job::new(common, &options.saving, "features", results, runs)?;
    for (seed, shift, (source, target), planned) in &groups {
        let task = task(options, &file, source, target, *shift, *seed)?;
        let whole = protocol(&options.set, source, file.width(), file.classes());
        let mut protocol = scaled(whole, options.scale);
        options.changes.apply(&mut protocol)?;
        // The smallest domains have fewer rows than the paper's batch.
        let rows = task.source.count().min(task.target.count());
        protocol.batch = protocol.batch.min(rows);
        job.run_all(&task, &protocol, planned)?;
    }
    Ok(())
}

fn check_positive(options: &Options, file: &FeatureFile) -> Result<()> {
    ensure!(
        options.positive.is_empty() || file.classes() == 2,
        "--positive is for two classes, {} has {}",
        options.set,
        file.classes()
    );
    if let Some(percent) = options.positive.iter().find(|p| !(1..100).contains(*p)) {
        bail!("--positive {percent}: expected a percentage from 1 to 99");
    }
    Ok(())
}

type Pair = (String, String);

fn combinations(
    seeds: u64,
    shifts: &[Option<u32>],
    pairs: &[Pair],
) -> Vec<(u64, Option<u32>, Pair)> {
    let mut all = Vec::new();
    for seed in 0..seeds {
        for pair in pairs {
            all.extend(shifts.iter().map(|shift| (seed, *shift, pair.clone())));
        }
    }
    all
}

/// The set's name with what was set besides it.
fn variant(options: &Options, shift: Option<u32>) -> String {
    let mut name = options.set.clone();
    if let Some(percent) = shift {
        name += &format!("-{percent}");
    }
    if let Some(rows) = options.rows {
        name += &format!("-rows{rows}");
    }
    options.changes.name(&name)
}

fn task(
    options: &Options,
    file: &FeatureFile,
    source: &str,
    target: &str,
    shift: Option<u32>,
    seed: u64,
) -> Result<Task> {
    let kept = if shift.is_some() { 1.0 } else { 0.3 };
    let mut task = file.task(source, target, kept, seed)?;
    if let Some(percent) = shift {
        let shuffled = task.target.shuffled(seed);
        task.target = shuffled.with_positive_share(f64::from(percent) / 100.0, seed);
    }
    if let Some(rows) = options.rows {
        task.source = task.source.first(rows);
        task.target = task.target.shuffled(seed).first(rows);
    }
    Ok(task)
}

/// Quick runs take a third of the epochs, a smaller map and fewer critic steps.
fn scaled(protocol: Protocol, scale: Scale) -> Protocol {
    match scale {
        Scale::Paper => protocol,
        Scale::Quick => {
            let mut quick = protocol;
            quick.epochs = quick.epochs.div_ceil(3);
            quick.alignment_epoch = quick.alignment_epoch.div_ceil(3) + 1;
            quick.encoder_epoch = quick.encoder_epoch.div_ceil(3) + 1;
            quick.architecture.map.blocks = 4;
            quick.critic_steps = 5;
            quick
        }
    }
}

fn path(options: &Options) -> Result<PathBuf> {
    let folder = options.common.data.join(&options.set);
    let of_csv = std::fs::read_dir(&folder).is_ok_and(|entries| {
        let mut paths = entries.flatten().map(|entry| entry.path());
        paths.any(|path| path.extension().is_some_and(|extension| extension == "csv"))
    });
    match &*options.set {
        _ if of_csv => Ok(folder),
        "office-caltech" => locate(&options.common.data, "office_caltech10_effnetlite2"),
        "amazon" => locate(&options.common.data, "amazon_reviews"),
        stem => locate(&options.common.data, stem),
    }
}

fn pairs(options: &Options, file: &FeatureFile) -> Result<Vec<Pair>> {
    let names = file.names();
    let mut all = Vec::new();
    for source in &names {
        for target in names.iter().filter(|target| *target != source) {
            all.push(((*source).to_owned(), (*target).to_owned()));
        }
    }
    if options.setting.is_empty() {
        return Ok(all);
    }
    let name = |(source, target): &Pair| format!("{source}-{target}");
    for setting in &options.setting {
        if !all.iter().any(|pair| name(pair) == *setting) {
            let known: Vec<String> = all.iter().map(name).collect();
            bail!(
                "unknown setting {setting:?}, expected one of {}",
                known.join(", ")
            );
        }
    }
    all.retain(|pair| options.setting.contains(&name(pair)));
    Ok(all)
}
