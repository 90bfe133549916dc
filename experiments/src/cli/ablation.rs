//! `ablation`: the effect of the map's settings, on MNIST to USPS with high label shift.

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use super::{
    Common,
    queue::{Job, PlannedRun},
    training::Saving,
};
use crate::{
    data::digits::{Digits, Intensity, Preparation, Setting, Shift},
    method::{Method, Stage},
    protocol::{Protocol, Scale, digits as protocol},
    results::{Line, Results},
    score::Score,
    train::{Latents, Setup},
    transport,
};

/// Values of lambda_OT: those of the paper's table, and larger ones.
const TRANSPORT_WEIGHTS: [f64; 7] = [0.0, 1e-3, 1e-2, 1e-1, 1.0, 1e2, 1e4];
/// Gains of the map's orthogonal weights.
const GAINS: [f64; 4] = [0.02, 0.1, 0.2, 0.3];

#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    saving: Saving,
    /// Which setting is varied, or measured.
    #[arg(long, value_enum, default_value_t = Subject::Lambda)]
    subject: Subject,
    /// Size of the networks, samples and schedule.
    #[arg(long, value_enum, default_value_t = Scale::Quick)]
    scale: Scale,
    /// Variants to run, such as lambda=0.01, separated by commas [default: all].
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    variant: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// The weight of the transport cost.
    Lambda,
    /// The gain of the map's initial weights, with and without transport cost.
    Gain,
    /// Terms (A) and (L) of the target-risk bound, by exact transport on a sample.
    Bound,
}

/// A protocol that differs from the usual one in the map's settings.
struct Variant {
    name: String,
    transport_weight: f64,
    gain: f64,
    stage: Stage,
}

const SETTING: Setting = Setting {
    from_usps: false,
    shift: Shift::High,
};

pub(super) fn run(options: &Options) -> Result<()> {
    let common = &options.common;
    let results = Results::open::<Line>(&common.results("ablation"), common.resume)?;
    let digits = Digits::read(&common.data, Preparation::Fill, Intensity::Signed)?;
    let variants = chosen(options)?;
    let runs = common.seeds as usize * (variants.len() + 1);
    let mut job = Job::new(common, &options.saving, "ablation", results, runs)?;
    for seed in 0..common.seeds {
        run_seed(options, &digits, &variants, seed, &mut job)?;
    }
    Ok(())
}

/// Runs the unadapted classifier and all variants of one seed, as far as the results file lacks them.
fn run_seed(
    options: &Options,
    digits: &Digits,
    variants: &[Variant],
    seed: u64,
    job: &mut Job,
) -> Result<()> {
    let source = planned(options, "", Method::Source, seed);
    let pending: Vec<(&Variant, PlannedRun)> = variants
        .iter()
        .map(|variant| {
            let method = Method::Ostar(variant.stage);
            (variant, planned(options, &variant.name, method, seed))
        })
        .filter(|(_, run)| !run.is_done(&job.results))
        .collect();
    let source_done = source.is_done(&job.results);
    if pending.is_empty() && source_done {
        return Ok(());
    }
    let task = digits.task(SETTING, options.scale, seed)?;
    let protocol = protocol(options.scale, SETTING.from_usps);
    let setup = Setup {
        task: &task,
        protocol: &protocol,
        threads: job.threads,
        seed,
    };
    job.progress.name(&format!("seed {seed}: pretraining"));
    // One encoder and source classifier for all: only the alignment differs.
    let (pretrained, checkpoints) = job.pretrain(&setup, &source)?;
    if !source_done {
        let outcome = job.run_one(&setup, &source, &pretrained)?;
        if options.subject == Subject::Bound {
            let terms = planned(options, "terms", Method::Source, seed);
            write_terms(&setup, &terms, &outcome.latents, &mut job.results)?;
        }
    }
    for (variant, run) in &pending {
        job.progress.name(&format!("seed {seed}: {}", variant.name));
        let protocol = Protocol {
            transport_weight: variant.transport_weight,
            map_gain: variant.gain,
            ..protocol.clone()
        };
        let setup = Setup {
            protocol: &protocol,
            ..setup
        };
        let start = pretrained.with_map_gain(variant.gain);
        let outcome = job.run_one(&setup, run, &start)?;
        if options.subject == Subject::Bound {
            let name = format!("{} terms", variant.name);
            let terms = planned(options, &name, run.method, seed);
            write_terms(&setup, &terms, &outcome.latents, &mut job.results)?;
        }
    }
    checkpoints.remove()
}

fn planned(options: &Options, variant: &str, method: Method, seed: u64) -> PlannedRun {
    PlannedRun {
        experiment: match options.subject {
            Subject::Lambda => "ablation-lambda",
            Subject::Gain => "ablation-gain",
            Subject::Bound => "ablation-bound",
        },
        scale: options.scale.name(),
        setting: SETTING.name(),
        variant: variant.to_owned(),
        method,
        seed,
    }
}

/// Writes two terms of the target-risk bound into the columns of the accuracies.
///
/// (A) is the distance between the (mapped) source, reweighted by the true target proportions, and the target.
/// (L) is the mean of the same distance within each class, weighted by the class's proportion.
fn write_terms(
    setup: &Setup<'_>,
    run: &PlannedRun,
    latents: &Latents,
    results: &mut Results,
) -> Result<()> {
    let width = setup.protocol.architecture.latent;
    let terms = transport::bound_terms(setup.task, latents, width, setup.seed);
    let score = Score {
        balanced_accuracy: terms.alignment,
        accuracy: terms.classes,
        proportion_error: None,
    };
    results.append(&run.line(&score, None, 0.0))
}

/// The variants asked for, or all.
fn chosen(options: &Options) -> Result<Vec<Variant>> {
    let mut all = variants(options.subject);
    for name in &options.variant {
        if !all.iter().any(|variant| variant.name == *name) {
            let known: Vec<&str> = all.iter().map(|variant| variant.name.as_str()).collect();
            bail!(
                "unknown variant {name:?}, expected one of {}",
                known.join(", ")
            );
        }
    }
    if !options.variant.is_empty() {
        all.retain(|variant| options.variant.contains(&variant.name));
    }
    Ok(all)
}

fn variants(subject: Subject) -> Vec<Variant> {
    let lambda = |weight: f64| Variant {
        name: format!("lambda={weight}"),
        transport_weight: weight,
        gain: 0.02,
        stage: Stage::Alignment,
    };
    match subject {
        Subject::Lambda => TRANSPORT_WEIGHTS.map(lambda).into(),
        Subject::Gain => GAINS
            .iter()
            .flat_map(|gain| {
                [0.0, 1e-2].map(|weight| Variant {
                    name: format!("gain={gain} lambda={weight}"),
                    gain: *gain,
                    ..lambda(weight)
                })
            })
            .collect(),
        Subject::Bound => [Stage::Alignment, Stage::Classifier, Stage::Encoder]
            .map(|stage| Variant {
                name: String::new(),
                stage,
                ..lambda(1e-2)
            })
            .into(),
    }
}
