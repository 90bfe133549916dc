//! `digits`: adaptation between MNIST and USPS, in both directions.

use anyhow::Result;
use clap::Args;

use super::{
    Common, methods,
    progress::JobProgress,
    queue::{Job, PlannedRun},
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
}

pub(super) fn run(options: &Options) -> Result<()> {
    let common = &options.common;
    let results = Results::open::<Line>(&common.results("digits"), common.resume)?;
    let settings = match &options.setting[..] {
        [] => Setting::all(),
        some => some.to_vec(),
    };
    let mut groups: Vec<(Setting, u64, Vec<PlannedRun>)> = Vec::new();
    for seed in 0..common.seeds {
        for setting in &settings {
            let planned = methods(&options.method)
                .into_iter()
                .map(|method| PlannedRun {
                    experiment: "digits",
                    scale: options.scale.name(),
                    setting: setting.name(),
                    variant: variant(options.preparation, options.intensity),
                    method,
                    seed,
                });
            let pending = planned.filter(|run| !run.is_done(&results));
            groups.push((*setting, seed, pending.collect()));
        }
    }
    let mut job = Job {
        results,
        progress: JobProgress::new(groups.iter().map(|(_, _, runs)| runs.len()).sum()),
        threads: common.threads,
    };
    let digits = Digits::read(&common.data, options.preparation, options.intensity)?;
    for (setting, seed, planned) in groups.iter().filter(|(_, _, runs)| !runs.is_empty()) {
        let task = digits.task(*setting, options.scale, *seed)?;
        let protocol = protocol(options.scale, setting.from_usps);
        job.run_all(&task, &protocol, planned)?;
    }
    Ok(())
}
