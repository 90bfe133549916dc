//! `digits`: adaptation between MNIST and USPS, in both directions.

use anyhow::Result;
use clap::Args;

use super::{
    Common, methods,
    queue::{Job, PlannedRun},
    training::{Changes, Saving},
};
use crate::{
    data::digits::{Digits, Intensity, Preparation, Setting, variant},
    method::Method,
    protocol::{Scale, digits as protocol},
    results::{Line, Results},
};

#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    saving: Saving,
    /// Methods to run, separated by commas [default: all].
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    method: Vec<Method>,
    /// Settings to run, such as m2u-high or u2m-balanced [default: all six].
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    setting: Vec<Setting>,
    /// Size of the networks, samples and schedule.
    #[arg(long, value_enum, default_value_t = Scale::Quick)]
    scale: Scale,
    /// How USPS images are brought to 32x32.
    #[arg(long, value_enum, default_value_t = Preparation::Fill)]
    preparation: Preparation,
    /// Range that pixels are scaled to.
    #[arg(long, value_enum, default_value_t = Intensity::Signed)]
    intensity: Intensity,
    #[command(flatten)]
    changes: Changes,
}

pub(super) fn run(options: &Options) -> Result<()> {
    let common = &options.common;
    let results = Results::open::<Line>(&common.results("digits"), common.resume)?;
    let settings = match &options.setting[..] {
        [] => Setting::all(),
        some => some.to_vec(),
    };
    let prepared = variant(options.preparation, options.intensity);
    let mut groups: Vec<(Setting, u64, Vec<PlannedRun>)> = Vec::new();
    for seed in 0..common.seeds {
        for setting in &settings {
            let planned = methods(&options.method)
                .into_iter()
                .map(|method| PlannedRun {
                    experiment: "digits",
                    scale: options.scale.name(),
                    setting: setting.name(),
                    variant: options.changes.name(&prepared),
                    method,
                    seed,
                });
            let pending = planned.filter(|run| !run.is_done(&results));
            groups.push((*setting, seed, pending.collect()));
        }
    }
    let runs = groups.iter().map(|(_, _, runs)| runs.len()).sum();
    let mut job = Job::new(common, &options.saving, "digits", results, runs)?;
    let digits = Digits::read(&common.data, options.preparation, options.intensity)?;
    for (setting, seed, planned) in groups.iter().filter(|(_, _, runs)| !runs.is_empty()) {
        let task = digits.task(*setting, options.scale, *seed)?;
        let mut protocol = protocol(options.scale, setting.from_usps);
        options.changes.apply(&mut protocol)?;
        job.run_all(&task, &protocol, planned)?;
    }
    Ok(())
}
