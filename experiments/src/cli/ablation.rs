//! `ablation`: what the map's settings do, on MNIST to USPS with high label shift.

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::{
    Common,
    progress::JobProgress,
    queue::{Wanted, run_one},
};
use crate::{
    data::digits::{Digits, Intensity, Preparation, Setting, Shift},
    method::{Method, Stage},
    protocol::{Protocol, Scale, digits as protocol},
    results::{Line, Results},
    score::Score,
    task::Task,
    train::{Latents, Setup, pretrain},
    transport,
};

/// lambda_OT of the paper's table and beyond.
const TRANSPORT_WEIGHTS: [f64; 7] = [0.0, 1e-3, 1e-2, 1e-1, 1.0, 1e2, 1e4];
/// Gains of the map's orthogonal weights.
const GAINS: [f64; 4] = [0.02, 0.1, 0.2, 0.3];

#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    common: Common,
    /// What is varied.
    #[arg(long, value_enum, default_value_t = Subject::Lambda)]
    subject: Subject,
    /// Size of the networks, samples and schedule.
    #[arg(long, value_enum, default_value_t = Scale::Quick)]
    scale: Scale,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// The weight of the transport cost.
    Lambda,
    /// The gain of the map's first weights, with and without transport cost.
    Gain,
    /// Terms (A) and (L) of the target-risk bound, by exact transport on a sample.
    Bound,
}

/// One changed protocol.
struct Variant {
    name: String,
    transport_weight: f64,
    gain: f64,
    stage: Stage,
}

pub(super) fn run(options: &Options) -> Result<()> {
    let common = &options.common;
    let mut results = Results::open::<Line>(&common.results("ablation"), common.resume)?;
    let digits = Digits::read(&common.data, Preparation::Fill, Intensity::Signed)?;
    let setting = Setting {
        from_usps: false,
        shift: Shift::High,
    };
    let variants = variants(options.subject);
    let mut progress = JobProgress::new(common.seeds as usize * (variants.len() + 1));
    for seed in 0..common.seeds {
        let wanted = |variant: &str, method: Method| Wanted {
            experiment: match options.subject {
                Subject::Lambda => "ablation-lambda",
                Subject::Gain => "ablation-gain",
                Subject::Bound => "ablation-bound",
            },
            scale: options.scale.name(),
            setting: setting.name(),
            variant: variant.to_owned(),
            method,
            seed,
        };
        let source = wanted("", Method::Source);
        let pending: Vec<(&Variant, Wanted)> = variants
            .iter()
            .map(|variant| (variant, wanted(&variant.name, Method::Ostar(variant.stage))))
            .filter(|(_, run)| !run.is_done(&results))
            .collect();
        if pending.is_empty() && source.is_done(&results) {
            continue;
        }
        let task = digits.task(setting, options.scale, seed)?;
        let mut protocol = protocol(options.scale, false);
        progress.name(&format!("seed {seed}: pretraining"));
        // One encoder and source classifier for all: only the alignment differs.
        let pretrained = pretrain(&setup(common, &task, &protocol, seed), &mut |_| ())?;
        if !source.is_done(&results) {
            let setup = setup(common, &task, &protocol, seed);
            let outcome = run_one(&setup, &source, &pretrained, &mut results, &mut progress)?;
            if options.subject == Subject::Bound {
                let terms = wanted("terms", Method::Source);
                write_terms(&setup, &terms, &outcome.latents, &mut results)?;
            }
        }
        for (variant, run) in &pending {
            progress.name(&format!("seed {seed}: {}", variant.name));
            protocol.transport_weight = variant.transport_weight;
            protocol.map_gain = variant.gain;
            let setup = setup(common, &task, &protocol, seed);
            let start = pretrained.with_map_gain(variant.gain);
            let outcome = run_one(&setup, run, &start, &mut results, &mut progress)?;
            if options.subject == Subject::Bound {
                let name = format!("{} terms", variant.name);
                let terms = wanted(&name, run.method);
                write_terms(&setup, &terms, &outcome.latents, &mut results)?;
            }
        }
    }
    Ok(())
}

fn setup<'t>(common: &Common, task: &'t Task, protocol: &'t Protocol, seed: u64) -> Setup<'t> {
    Setup {
        task,
        protocol,
        threads: common.threads,
        seed,
    }
}

/// (A), the distance of the (mapped) source, reweighted by the true target proportions, and the target, and
/// (L), the same of each class, weighted by its share. They stand in the columns of accuracies.
fn write_terms(
    setup: &Setup<'_>,
    wanted: &Wanted,
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
    results.append(&wanted.line(&score, None, 0.0))
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
