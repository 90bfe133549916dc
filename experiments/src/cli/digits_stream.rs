//! `digits-stream`: the daemon's learner on latents of the paper's encoder, USPS after MNIST.

use anyhow::{Context, Result};
use clap::Args;
use ostar_bundle::{
    Bundle,
    fit::{FitSettings, Labelled, LabelledRows, fit},
};
use ostar_engine::{Inputs, Rows};
use ostar_method::{
    diagnostics::Decision,
    learner::{Learner, LearnerSettings, RefreshReport, Scores, StepPlan},
};
use serde::{Deserialize, Serialize};

use super::Common;
use crate::{
    data::digits::{Digits, Intensity, Preparation, Setting},
    learn,
    method::Method,
    protocol::{Protocol, Scale, digits as protocol},
    results::{Record, Results},
    score::Score,
    task::Task,
    train::{Setup, Watch, pretrain, run as run_method},
};

/// Events of a block, and usual steps after one: the daemon's defaults.
const BLOCK: usize = 500;
const STEPS: usize = 5;
/// Steps between two lines of the results.
const TOLD_EVERY: u64 = 500;

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
    /// Settings of the learner that differ from the daemon's defaults, as JSON, one run each: '{"entropy_weight": 1}'. Under
    /// the key "fit": settings of the frozen classifier that differ from those of `ostard fit`.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    settings: Vec<String>,
}

/// Line of the results file: what the learner had reached after so many steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DigitsStreamLine {
    pub(crate) scale: String,
    pub(crate) setting: String,
    pub(crate) preparation: String,
    /// What differs from the daemon's defaults, as JSON.
    pub(crate) settings: String,
    pub(crate) seed: u64,
    pub(crate) steps: u64,
    /// Balanced accuracies on the whole target, in percent: of the encoder with the classifier it was trained with,
    /// and of the daemon's candidates on its latents.
    pub(crate) source: f64,
    pub(crate) frozen: f64,
    pub(crate) prior: f64,
    pub(crate) adapted: f64,
    /// Candidate that mode `auto` serves.
    pub(crate) auto: String,
    pub(crate) distance_before_map: f64,
    pub(crate) distance_after_map: f64,
    pub(crate) noise_floor: f64,
    /// Whether the guard agreed to the state of the newest refresh, or why not.
    pub(crate) guard: String,
}

impl Record for DigitsStreamLine {
    fn key(&self) -> String {
        let Self {
            scale,
            setting,
            preparation,
            settings,
            seed,
            steps,
            ..
        } = self;
        format!("{scale}|{setting}|{preparation}|{settings}|{seed}|{steps}")
    }
}

/// Latents of a trained encoder, and the score of the classifier that it was trained with.
struct Encoded {
    width: usize,
    source: Vec<f32>,
    target: Vec<f32>,
    score: f64,
}

pub(super) fn run(options: &Options) -> Result<()> {
    let common = &options.common;
    let path = common.results("digits_stream");
    let mut results = Results::open::<DigitsStreamLine>(&path, common.resume)?;
    let digits = Digits::read(&common.data, options.preparation, Intensity::Signed)?;
    for seed in 0..common.seeds {
        let task = digits.task(options.setting, options.scale, seed)?;
        let protocol = protocol(options.scale, options.setting.from_usps);
        let encoded = encode(&task, &protocol, common.threads, seed)?;
        for changed in &options.settings {
            let (fit, mut settings) = read_settings(changed).context("--settings")?;
            (settings.threads, settings.seed) = (common.threads, seed);
            let fit = FitSettings { seed, ..fit };
            let learner = Learner::new(&train(&task, &encoded, &fit)?.deployed()?, settings)?;
            let run = Run {
                options,
                task: &task,
                encoded: &encoded,
                settings: changed,
            };
            run.follow(learner, &mut results)?;
        }
    }
    Ok(())
}

/// Settings of the frozen classifier and of the learner.
fn read_settings(text: &str) -> Result<(FitSettings, LearnerSettings)> {
    let mut values: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text)?;
    let fit = values.remove("fit");
    let fit = fit.map(serde_json::from_value).transpose()?;
    let settings = serde_json::from_value(values.into())?;
    Ok((fit.unwrap_or_default(), settings))
}

fn encode(task: &Task, protocol: &Protocol, threads: usize, seed: u64) -> Result<Encoded> {
    let setup = Setup {
        task,
        protocol,
        threads,
        seed,
    };
    let pretrained = pretrain(&setup, &mut Watch::none())?;
    let source = run_method(&setup, Method::Source, &pretrained, &mut Watch::none())?;
    Ok(Encoded {
        width: protocol.architecture.latent,
        source: source.latents.source,
        target: source.latents.target,
        score: source.score.balanced_accuracy,
    })
}

fn train(task: &Task, encoded: &Encoded, settings: &FitSettings) -> Result<Bundle> {
    let classes: Vec<String> = (0..task.classes).map(|class| class.to_string()).collect();
    let labelled = Labelled {
        classes: &classes,
        labels: &task.source.labels,
        rows: LabelledRows::Latents(Rows::new(&encoded.source[..], encoded.width)?),
    };
    Ok(fit(labelled, settings, &mut |_| ())?)
}

/// One learner on one stream.
struct Run<'r> {
    options: &'r Options,
    task: &'r Task,
    encoded: &'r Encoded,
    settings: &'r str,
}

impl Run<'_> {
    /// Streams the target until the steps are taken, and tells from time to time what is reached.
    fn follow(&self, mut learner: Learner, results: &mut Results) -> Result<()> {
        let width = self.encoded.width;
        let blocks = self.encoded.target.chunks_exact(BLOCK * width).cycle();
        let (mut told, mut refresh) = (0, None);
        // As in mode `adapted`.
        learner.plan_steps(StepPlan {
            usual: STEPS,
            always: true,
        });
        for block in blocks {
            let report = learn(&mut learner, Inputs::Dense(Rows::new(block, width)?))?;
            for _ in 0..report.steps_due {
                refresh = learner.step()?.1.or(refresh);
            }
            if learner.steps() >= told + TOLD_EVERY {
                told = learner.steps();
                let refresh = refresh.as_ref().context("a refresh within 500 steps")?;
                let line = self.line(&learner, refresh)?;
                print(&line);
                if !results.has(&line.key()) {
                    results.append(&line)?;
                }
            }
            if told >= self.options.steps {
                break;
            }
        }
        Ok(())
    }

    fn line(&self, learner: &Learner, refresh: &RefreshReport) -> Result<DigitsStreamLine> {
        let (options, task, encoded) = (self.options, self.task, self.encoded);
        let mut scores = Scores::default();
        let snapshot = learner.snapshot();
        let inputs = Inputs::Dense(Rows::new(&encoded.target[..], encoded.width)?);
        snapshot.score(inputs, &mut scores)?;
        let rounded = |value: f64| (1e3 * value).round() / 1e3;
        let score = |rows: &[f32]| {
            rounded(Score::new(rows, &task.target.labels, task.classes).balanced_accuracy)
        };
        Ok(DigitsStreamLine {
            scale: options.scale.name().to_owned(),
            setting: options.setting.name(),
            preparation: options.preparation.name().to_owned(),
            settings: self.settings.to_owned(),
            seed: learner.settings().seed,
            steps: learner.steps(),
            source: rounded(encoded.score),
            frozen: score(&scores.frozen),
            prior: score(&scores.prior),
            adapted: score(&scores.adapted),
            auto: snapshot.candidate.name().to_owned(),
            distance_before_map: rounded(refresh.distance_before_map),
            distance_after_map: rounded(refresh.distance_after_map),
            noise_floor: rounded(refresh.noise_floor),
            guard: match &refresh.decision {
                Decision::Serve => "serve".to_owned(),
                Decision::Refuse(reason) => reason.label().to_owned(),
            },
        })
    }
}

#[expect(clippy::print_stdout, reason = "the lines are the command's output")]
fn print(line: &DigitsStreamLine) {
    println!(
        "seed {} settings {} steps {}: source {:.2} frozen {:.2} prior {:.2} adapted {:.2}, distance {:.3} before and {:.3} after the map, floor {:.3}, {}, auto {}",
        line.seed,
        line.settings,
        line.steps,
        line.source,
        line.frozen,
        line.prior,
        line.adapted,
        line.distance_before_map,
        line.distance_after_map,
        line.noise_floor,
        line.guard,
        line.auto,
    );
}
