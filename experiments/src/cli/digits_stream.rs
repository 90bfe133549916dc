//! `digits-stream`: the daemon's learner on latents of the paper's encoder, USPS after MNIST.

use anyhow::{Context, Result};
use clap::Args;
use ostar_model::{
    Inputs, Rows,
    fit::{FitSettings, Labelled, LabelledRows, fit},
    learner::{Learner, LearnerSettings, Scores},
};

use super::Common;
use crate::{
    data::digits::{Digits, Intensity, Preparation, Setting},
    method::Method,
    protocol::{Scale, digits as protocol},
    score::Score,
    train::{Setup, pretrain, run as run_method},
};

/// Events of a block, and usual steps after one: the daemon's defaults.
const BLOCK: usize = 500;
const STEPS: usize = 5;

#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    common: Common,
    /// Source and target, and the label shift.
    #[arg(long, default_value = "m2u-high")]
    setting: Setting,
    /// Size of the encoder and of its training.
    #[arg(long, value_enum, default_value_t = Scale::Paper)]
    scale: Scale,
    /// How USPS images are brought to 32x32.
    #[arg(long, value_enum, default_value_t = Preparation::Fill)]
    preparation: Preparation,
    /// Alignment steps in all. The target is streamed again until they are taken.
    #[arg(long, default_value_t = 5_000)]
    steps: u64,
}

#[expect(clippy::print_stdout, reason = "the lines are the command's output")]
pub(super) fn run(options: &Options) -> Result<()> {
    let common = &options.common;
    let digits = Digits::read(&common.data, options.preparation, Intensity::Signed)?;
    for seed in 0..common.seeds {
        let task = digits.task(options.setting, options.scale, seed)?;
        let protocol = protocol(options.scale, options.setting.from_usps);
        let setup = Setup {
            task: &task,
            protocol: &protocol,
            threads: common.threads,
            seed,
        };
        let pretrained = pretrain(&setup, &mut |_| ())?;
        let source = run_method(&setup, Method::Source, &pretrained, &mut |_| ())?;
        println!("seed {seed}: source {:.2}", source.score.balanced_accuracy);
        let width = protocol.architecture.latent;
        let classes: Vec<String> = (0..task.classes).map(|class| class.to_string()).collect();
        let labelled = Labelled {
            classes: &classes,
            labels: &task.source.labels,
            rows: LabelledRows::Latents(Rows::new(&source.latents.source[..], width)?),
        };
        let settings = FitSettings {
            seed,
            ..FitSettings::default()
        };
        let bundle = fit(labelled, &settings, &mut |_| ())?;
        let settings = LearnerSettings {
            threads: common.threads,
            seed,
            ..LearnerSettings::default()
        };
        let mut learner = Learner::new(&bundle, settings)?;
        let target = &source.latents.target;
        let score = |learner: &Learner| -> Result<[f64; 3]> {
            let mut scores = Scores::default();
            let inputs = Inputs::Dense(Rows::new(&target[..], width)?);
            learner.snapshot().score(inputs, &mut scores)?;
            let of = |rows: &[f32]| {
                Score::new(rows, &task.target.labels, task.classes).balanced_accuracy
            };
            Ok([of(&scores.frozen), of(&scores.prior), of(&scores.adapted)])
        };
        let mut told = 0;
        while learner.steps() < options.steps {
            for block in target.chunks_exact(BLOCK * width) {
                let report = learner.observe(Inputs::Dense(Rows::new(block, width)?))?;
                let mut refresh = None;
                for _ in 0..learner.steps_due(STEPS, true) {
                    refresh = learner.step()?.1.or(refresh);
                }
                if learner.steps() >= told + 500 {
                    told = learner.steps();
                    let [frozen, prior, adapted] = score(&learner)?;
                    let refresh = refresh.context("a refresh within 500 steps")?;
                    println!(
                        "  {told} steps: frozen {frozen:.2} prior {prior:.2} adapted {adapted:.2}, distance {:.3} before and {:.3} after the map, floor {:.3}, {:?}, auto {}",
                        refresh.distance_before_map,
                        refresh.distance_after_map,
                        refresh.noise_floor,
                        refresh.decision,
                        report.verdict.candidate,
                    );
                }
            }
        }
    }
    Ok(())
}
