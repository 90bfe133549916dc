//! `features`: pairs of domains from feature files.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use super::{
    Common, methods,
    progress::JobProgress,
    queue::{Job, PlannedRun},
};
use crate::{
    data::{features::FeatureFile, locate},
    method::Method,
    protocol::{Protocol, Scale, features as protocol},
    results::{Line, Results},
};

#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    common: Common,
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
    /// Length of the schedule and size of the map.
    #[arg(long, value_enum, default_value_t = Scale::Quick)]
    scale: Scale,
}

pub(super) fn run(options: &Options) -> Result<()> {
    let common = &options.common;
    let results = Results::open::<Line>(&common.results("features"), common.resume)?;
    let file = FeatureFile::read(&path(options)?)?;
    let pairs = pairs(options, &file)?;
    let mut groups = Vec::new();
    for seed in 0..common.seeds {
        for (source, target) in &pairs {
            let planned = methods(&options.method)
                .into_iter()
                .map(|method| PlannedRun {
                    experiment: "features",
                    scale: options.scale.name(),
                    setting: format!("{source}-{target}"),
                    variant: options.set.clone(),
                    method,
                    seed,
                });
            let pending: Vec<PlannedRun> = planned.filter(|run| !run.is_done(&results)).collect();
            if !pending.is_empty() {
                groups.push((source, target, seed, pending));
            }
        }
    }
    let mut job = Job {
        results,
        progress: JobProgress::new(groups.iter().map(|(.., runs)| runs.len()).sum()),
        threads: common.threads,
    };
    for (source, target, seed, planned) in &groups {
        let task = file.task(source, target, 0.3, *seed)?;
        let whole = protocol(&options.set, source, file.width(), file.classes());
        let mut protocol = scaled(whole, options.scale);
        // The smallest domains have fewer rows than the paper's batch.
        let rows = task.source.count().min(task.target.count());
        protocol.batch = protocol.batch.min(rows);
        job.run_all(&task, &protocol, planned)?;
    }
    Ok(())
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

fn pairs(options: &Options, file: &FeatureFile) -> Result<Vec<(String, String)>> {
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
    let name = |(source, target): &(String, String)| format!("{source}-{target}");
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
