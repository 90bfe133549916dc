//! Accuracy of the frozen, prior-corrected and adapted classifier under label shift and conditional shift together, and
//! under label shift alone, with the same configuration. An oracle, trained on target labels, is the upper bound.
//!
//! Classes are unit Gaussians with means on a sphere. In the first regime the target is rotated in every plane and
//! translated, in the second it is not. In both its label proportions are far from the source's. The target is observed
//! in blocks, repeatedly, with a fixed number of steps after each, as in the daemon. Accuracy is that of a snapshot on
//! rows that the learner has not seen.

mod stream;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use ostar_bundle::{
    Bundle,
    fit::{FitSettings, Labelled, LabelledRows, fit},
};
use ostar_engine::Generator;
use ostar_method::learner::{Learner, LearnerSettings, RefreshReport, Scores, StepPlan};

use stream::{Data, Pace, accuracy, l1, learn, settings};

const WIDTH: usize = 16;
const CLASSES: usize = 5;
const RADIUS: f64 = 4.0;
const SOURCE_PROPORTIONS: [f64; CLASSES] = [0.2; CLASSES];
const TARGET_PROPORTIONS: [f64; CLASSES] = [0.4, 0.3, 0.15, 0.1, 0.05];

#[derive(Parser)]
#[command(about = "Accuracy of frozen, prior-corrected and adapted classifiers under two shifts")]
struct Options {
    /// How many seeds to average over.
    #[arg(long, default_value_t = 5)]
    seeds: u64,
    /// First of the seeds to average over.
    #[arg(long, default_value_t = 0)]
    first_seed: u64,
    /// Rows of the source, of the target and of the test data.
    #[arg(long, default_value_t = 5000)]
    rows: usize,
    #[command(flatten)]
    pace: Pace,
    /// Rotation in degrees, and translation as a fraction of the smallest distance between two means. Default: both
    /// regimes.
    #[arg(long, num_args = 2)]
    shift: Option<Vec<f64>>,
    /// Prints a line for each block.
    #[arg(long)]
    verbose: bool,
    /// Observes 3,000 rows that have not moved, then the shifted ones, each once, and prints the adapted model's
    /// accuracy after every block of 500 with what the gate chose.
    #[arg(long)]
    stream: bool,
}

/// Accuracy of each candidate, and the l1 errors of their proportions.
#[derive(Clone, Copy, Default)]
struct Outcome {
    frozen: f64,
    prior: f64,
    adapted: f64,
    oracle: f64,
    frozen_l1: f64,
    adapted_l1: f64,
    refused: f64,
}

#[expect(clippy::print_stdout, reason = "the table is the result")]
fn main() -> Result<()> {
    let options = Options::parse();
    ensure!(options.seeds > 0, "--seeds must be at least 1");
    let regimes = match options.shift.as_deref() {
        Some(shift) => vec![(shift[0], shift[1])],
        None => vec![(55.0, 0.5), (0.0, 0.0)],
    };
    if options.stream {
        for (degrees, translation) in regimes {
            for seed in options.first_seed..options.first_seed + options.seeds {
                follow(&options, degrees, translation, seed)?;
            }
        }
        return Ok(());
    }
    println!(
        "rotation translation | frozen  prior adapted oracle | of oracle: frozen adapted | l1: frozen adapted | refused"
    );
    for (degrees, translation) in regimes {
        let mut sum = Outcome::default();
        for seed in options.first_seed..options.first_seed + options.seeds {
            let outcome = run(&options, degrees, translation, seed)?;
            println!("{}", outcome.line(&format!("  seed {seed}")));
            sum = sum.combined(&outcome, |a, b| a + b);
        }
        let seeds = options.seeds as f64;
        let mean = sum.combined(&sum, |a, _| a / seeds);
        println!("{}", mean.line(&format!("{degrees} {translation}, mean")));
    }
    Ok(())
}

/// One stream in the manner of mode `adapted`: unmoved rows, then shifted ones.
#[expect(clippy::print_stdout, reason = "the lines are the result")]
fn follow(options: &Options, degrees: f64, translation: f64, seed: u64) -> Result<()> {
    const UNMOVED_ROWS: usize = 3_000;
    const BLOCK: usize = 500;
    // The daemon's default.
    const STEPS: usize = 5;
    let mut generator = Generator::new(1000 + seed);
    let means: Vec<Vec<f64>> = (0..CLASSES)
        .map(|_| of_length(RADIUS, &mut generator))
        .collect();
    let offset = of_length(translation * smallest_distance(&means), &mut generator);
    let source = draw(options.rows, &means, &SOURCE_PROPORTIONS, &mut generator);
    let unmoved = draw(UNMOVED_ROWS, &means, &SOURCE_PROPORTIONS, &mut generator);
    let mut target = draw(options.rows, &means, &TARGET_PROPORTIONS, &mut generator);
    let mut test = draw(options.rows, &means, &TARGET_PROPORTIONS, &mut generator);
    for data in [&mut target, &mut test] {
        shift(&mut data.rows, degrees.to_radians(), &offset);
    }
    let bundle = train(&source, seed)?;
    let oracle = Learner::new(
        &train(&target, seed)?.deployed()?,
        LearnerSettings::default(),
    )?;
    let mut learner = Learner::new(&bundle.deployed()?, settings(&options.pace.settings, seed)?)?;
    let mut scores = Scores::default();
    oracle.snapshot().score(test.inputs()?, &mut scores)?;
    let oracle = accuracy(&scores.frozen, &test.labels);
    println!("{degrees} {translation} seed {seed}: oracle {oracle:.3}");
    learner.plan_steps(StepPlan {
        usual: STEPS,
        always: true,
    });
    let rows = unmoved
        .rows
        .chunks(BLOCK * WIDTH)
        .map(|block| (block, false));
    let rows = rows.chain(target.rows.chunks(BLOCK * WIDTH).map(|block| (block, true)));
    for (number, (block, shifted)) in rows.enumerate() {
        let inputs = ostar_engine::Inputs::Dense(ostar_engine::Rows::new(block, WIDTH)?);
        let report = ostar_experiments::learn(&mut learner, inputs)?;
        let due = report.steps_due;
        for _ in 0..due {
            learner.step()?;
        }
        learner.snapshot().score(test.inputs()?, &mut scores)?;
        let right = |probabilities: &[f32]| accuracy(probabilities, &test.labels);
        if shifted {
            let (frozen, adapted) = (right(&scores.frozen), right(&scores.adapted));
            println!(
                "  block {:2}: frozen {frozen:.3} prior {:.3} adapted {adapted:.3}, {:.2} of the gain, {due} steps, auto {}",
                number + 1 - UNMOVED_ROWS / BLOCK,
                right(&scores.prior),
                (adapted - frozen) / (oracle - frozen),
                report.verdict.candidate,
            );
        }
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the option asks for it")]
fn run(options: &Options, degrees: f64, translation: f64, seed: u64) -> Result<Outcome> {
    let mut generator = Generator::new(1000 + seed);
    let means: Vec<Vec<f64>> = (0..CLASSES)
        .map(|_| of_length(RADIUS, &mut generator))
        .collect();
    let offset = of_length(translation * smallest_distance(&means), &mut generator);
    let source = draw(options.rows, &means, &SOURCE_PROPORTIONS, &mut generator);
    let mut target = draw(options.rows, &means, &TARGET_PROPORTIONS, &mut generator);
    let mut test = draw(options.rows, &means, &TARGET_PROPORTIONS, &mut generator);
    for data in [&mut target, &mut test] {
        shift(&mut data.rows, degrees.to_radians(), &offset);
    }
    let bundle = train(&source, seed)?;
    let oracle = Learner::new(
        &train(&target, seed)?.deployed()?,
        LearnerSettings::default(),
    )?;
    let mut learner = Learner::new(&bundle.deployed()?, settings(&options.pace.settings, seed)?)?;

    let mut scores = Scores::default();
    let decisions = learn(&mut learner, &target, &options.pace, |learner, report| {
        if options.verbose {
            learner.snapshot().score(test.inputs()?, &mut scores)?;
            let served = accuracy(&scores.adapted, &test.labels);
            println!("{}", progress(report, served));
        }
        Ok(())
    })?;
    let (_, refresh) = learner.step()?;
    let refresh = refresh.context("the steps are no multiple of refresh_every")?;
    let estimate = ostar_experiments::learn(&mut learner, target.inputs()?)?;
    learner.snapshot().score(test.inputs()?, &mut scores)?;
    let right = |probabilities: &[f32]| accuracy(probabilities, &test.labels);
    let mut outcome = Outcome {
        frozen: right(&scores.frozen),
        prior: right(&scores.prior),
        adapted: right(&scores.adapted),
        oracle: 0.0,
        frozen_l1: l1(estimate.frozen.proportions.as_ref(), &TARGET_PROPORTIONS),
        adapted_l1: l1(refresh.alignment_proportions.as_ref(), &TARGET_PROPORTIONS),
        refused: decisions.refused as f64 / decisions.refreshes as f64,
    };
    oracle.snapshot().score(test.inputs()?, &mut scores)?;
    outcome.oracle = right(&scores.frozen);
    Ok(outcome)
}

fn progress(report: &RefreshReport, accuracy: f64) -> String {
    format!(
        "    {:5}: distance after map {:.4}, before map {:.4}, noise floor {:.4}, lambda {:8.4}, moved {:.3}, l1 of p {:.3}, served accuracy {accuracy:.3}, {:?}",
        report.steps,
        report.distance_after_map,
        report.distance_before_map,
        report.noise_floor,
        report.transport_weight,
        report.movement.all.ratio.unwrap_or(f64::NAN),
        l1(report.alignment_proportions.as_ref(), &TARGET_PROPORTIONS),
        report.decision,
    )
}

fn train(data: &Data, seed: u64) -> Result<Bundle> {
    let classes: Vec<String> = (0..CLASSES).map(|class| class.to_string()).collect();
    let labelled = Labelled {
        classes: &classes,
        labels: &data.labels,
        rows: LabelledRows::Latents(data.matrix()?),
    };
    let settings = FitSettings {
        seed,
        ..FitSettings::default()
    };
    Ok(fit(labelled, &settings, &mut |_| ())?)
}

fn of_length(length: f64, generator: &mut Generator) -> Vec<f64> {
    let vector: Vec<f64> = (0..WIDTH).map(|_| generator.normal()).collect();
    let norm = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
    vector.iter().map(|v| v * length / norm).collect()
}

fn smallest_distance(means: &[Vec<f64>]) -> f64 {
    let mut smallest = f64::INFINITY;
    for (number, mean) in means.iter().enumerate() {
        for other in &means[..number] {
            let square: f64 = mean.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum();
            smallest = smallest.min(square.sqrt());
        }
    }
    smallest
}

fn draw(rows: usize, means: &[Vec<f64>], proportions: &[f64], generator: &mut Generator) -> Data {
    let mut data = Data {
        width: WIDTH,
        ..Data::default()
    };
    for _ in 0..rows {
        let mut left = generator.uniform();
        let mut label = 0;
        while label + 1 < proportions.len() && left >= proportions[label] {
            left -= proportions[label];
            label += 1;
        }
        data.labels.push(label as u32);
        let row = means[label].iter();
        data.rows
            .extend(row.map(|mean| (mean + generator.normal()) as f32));
    }
    data
}

/// Rotates in the planes of neighbouring coordinates, then translates.
fn shift(latents: &mut [f32], angle: f64, offset: &[f64]) {
    let (sin, cos) = (angle.sin() as f32, angle.cos() as f32);
    for row in latents.chunks_exact_mut(WIDTH) {
        for pair in row.chunks_exact_mut(2) {
            let (x, y) = (pair[0], pair[1]);
            pair[0] = cos * x - sin * y;
            pair[1] = sin * x + cos * y;
        }
        for (value, offset) in row.iter_mut().zip(offset) {
            *value += *offset as f32;
        }
    }
}

// === impl Outcome ===

impl Outcome {
    fn combined(&self, other: &Self, with: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            frozen: with(self.frozen, other.frozen),
            prior: with(self.prior, other.prior),
            adapted: with(self.adapted, other.adapted),
            oracle: with(self.oracle, other.oracle),
            frozen_l1: with(self.frozen_l1, other.frozen_l1),
            adapted_l1: with(self.adapted_l1, other.adapted_l1),
            refused: with(self.refused, other.refused),
        }
    }

    fn line(&self, name: &str) -> String {
        format!(
            "{name:20} | {:6.3} {:6.3} {:7.3} {:6.3} | {:17.3} {:7.3} | {:10.3} {:7.3} | {:7.2}",
            self.frozen,
            self.prior,
            self.adapted,
            self.oracle,
            self.frozen / self.oracle,
            self.adapted / self.oracle,
            self.frozen_l1,
            self.adapted_l1,
            self.refused,
        )
    }
}
