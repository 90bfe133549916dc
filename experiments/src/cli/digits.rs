//! `digits`: MNIST and USPS.

use anyhow::Result;
use clap::Args;

use super::{
    Common, methods,
    progress::JobProgress,
    queue::{Wanted, run_all},
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
    /// What numbers pixels become.
    #[arg(long, value_enum, default_value_t = Intensity::Signed)]
    intensity: Intensity,
}

pub(super) fn run(options: &Options) -> Result<()> {
    let common = &options.common;
    let mut results = Results::open::<Line>(&common.results("digits"), common.resume)?;
    let settings = match &options.setting[..] {
        [] => Setting::all(),
        some => some.to_vec(),
    };
    let mut groups: Vec<(Setting, u64, Vec<Wanted>)> = Vec::new();
    for seed in 0..common.seeds {
        for setting in &settings {
            let wanted = methods(&options.method).into_iter().map(|method| Wanted {
                experiment: "digits",
                scale: options.scale.name(),
                setting: setting.name(),
                variant: variant(options.preparation, options.intensity),
                method,
                seed,
            });
            let wanted: Vec<Wanted> = wanted.filter(|run| !run.is_done(&results)).collect();
            groups.push((*setting, seed, wanted));
        }
    }
    let mut progress = JobProgress::new(groups.iter().map(|(_, _, runs)| runs.len()).sum());
    let digits = Digits::read(&common.data, options.preparation, options.intensity)?;
    for (setting, seed, wanted) in groups.iter().filter(|(_, _, runs)| !runs.is_empty()) {
        let task = digits.task(*setting, options.scale, *seed)?;
        let protocol = protocol(options.scale, setting.from_usps);
        run_all(
            &task,
            &protocol,
            wanted,
            common.threads,
            &mut results,
            &mut progress,
        )?;
    }
    Ok(())
}
