//! What a block of 500 events costs the learner: with many classes, and how much of it is closing the block, which is
//! mostly the gate.
//!
//! Without `--latent` the model is a black box whose predictions are too sure of themselves, with `--latent 128` a
//! classifier 100-100 on latents. The stream's shares are Zipf's, dealt to other classes every 50 blocks. Times are in
//! milliseconds. The first blocks are counted apart: they fill what is kept between blocks.

#![expect(clippy::print_stdout, reason = "the figures are the result")]

use std::time::Instant;

use anyhow::Result;
use clap::Parser;
use ostar_bundle::{
    Bundle,
    fit::{FitSettings, Labelled, LabelledRows, fit},
};
use ostar_engine::{Generator, Inputs, Rows, architecture::ClassifierShape, evaluate::Scratch};
use ostar_method::{
    frozen::FrozenScores,
    learner::{Learner, LearnerSettings},
};

const BLOCK: usize = 500;
/// Blocks after which the shares go to other classes.
const REGIME: usize = 50;
/// How far a class lies from the others, in deviations.
const SEPARATION: f64 = 4.0;
/// What logits are multiplied by: above 1 the model is too sure of itself.
const SHARPNESS: f64 = 1.3;

#[derive(Parser)]
#[command(about = "Times blocks of 500 events")]
struct Options {
    /// Number of classes.
    #[arg(long, default_value_t = 1_000)]
    classes: usize,
    /// Held-out rows of each class.
    #[arg(long, default_value_t = 30)]
    held_out: usize,
    /// Width of the latents; 0 for a black box.
    #[arg(long, default_value_t = 0)]
    latent: usize,
    /// Blocks to time.
    #[arg(long, default_value_t = 200)]
    blocks: usize,
    /// Blocks before those, counted apart.
    #[arg(long, default_value_t = 10)]
    first: usize,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let world = World::new(&options);
    let mut generator = Generator::new(1);
    let bundle = world.bundle(&options, &mut generator)?;
    let began = Instant::now();
    let settings = LearnerSettings {
        threads: 1,
        ..LearnerSettings::default()
    };
    let mut learner = Learner::new(&bundle.deployed()?, settings)?;
    println!("start {:.0} ms", milliseconds(began));
    let (mut totals, mut tracked, mut closed) = (Vec::new(), Vec::new(), Vec::new());
    let (mut scores, mut scratch) = (FrozenScores::default(), Scratch::default());
    for block in 0..options.first + options.blocks {
        let shares = world.shares(block / REGIME);
        let (rows, _) = world.draw(BLOCK, |g| pick(&shares, g), &mut generator);
        let inputs = Inputs::Dense(Rows::new(&rows[..], world.width)?);
        let began = Instant::now();
        learner.model().score(inputs, &mut scratch, &mut scores)?;
        learner.follow(scores.all(), None)?;
        tracked.push(milliseconds(began));
        let closing = Instant::now();
        let report = learner.close(&[], &[])?;
        closed.push(milliseconds(closing));
        totals.push(milliseconds(began));
        if block % REGIME == REGIME - 1 {
            let shown = report.frozen.proportions.as_ref().iter().zip(&shares);
            let error: f64 = shown.map(|(a, b)| (a - b).abs()).sum();
            println!(
                "block {block}: l1 error {error:.4}, {}",
                report.verdict.reason.label()
            );
        }
    }
    let first = options.first;
    println!("first {first} blocks: {}", summary(&totals[..first]));
    println!("blocks:          {}", summary(&totals[first..]));
    println!("  score, track:  {}", summary(&tracked[first..]));
    println!("  close, gate:   {}", summary(&closed[first..]));
    Ok(())
}

/// Where rows come from.
struct World {
    classes: usize,
    /// Numbers of a row.
    width: usize,
    /// Centres of the classes' latents; empty for a black box.
    centres: Vec<f32>,
}

impl World {
    fn new(options: &Options) -> Self {
        let mut generator = Generator::new(2);
        let (classes, latent) = (options.classes, options.latent);
        // Two classes are about `SEPARATION` apart.
        let scale = SEPARATION / (2.0 * latent.max(1) as f64).sqrt();
        let centres = (0..classes * latent).map(|_| (scale * generator.normal()) as f32);
        Self {
            classes,
            width: if latent == 0 { classes } else { latent },
            centres: centres.collect(),
        }
    }

    fn bundle(&self, options: &Options, generator: &mut Generator) -> Result<Bundle> {
        // Of latents a fifth is held out.
        let each = options.held_out * if options.latent == 0 { 1 } else { 5 };
        let mut next = 0;
        let in_turn = |_: &mut Generator| {
            next += 1;
            (next - 1) % self.classes
        };
        let (rows, labels) = self.draw(each * self.classes, in_turn, generator);
        let classes: Vec<String> = (0..self.classes).map(|class| class.to_string()).collect();
        let values = Rows::new(&rows[..], self.width)?;
        let rows = match options.latent {
            0 => LabelledRows::Probabilities(values),
            _ => LabelledRows::Latents(values),
        };
        let labelled = Labelled {
            classes: &classes,
            labels: &labels,
            rows,
        };
        let settings = FitSettings {
            classifier: ClassifierShape {
                hidden: vec![100, 100],
                ..FitSettings::default().classifier
            },
            ..FitSettings::default()
        };
        Ok(fit(labelled, &settings, &mut |_| ())?)
    }

    /// Rows of classes that `class` picks: latents, or what a black box predicts for them.
    fn draw(
        &self,
        rows: usize,
        mut class: impl FnMut(&mut Generator) -> usize,
        generator: &mut Generator,
    ) -> (Vec<f32>, Vec<u32>) {
        let mut values = Vec::with_capacity(rows * self.width);
        let mut labels = Vec::with_capacity(rows);
        for _ in 0..rows {
            let label = class(generator);
            labels.push(label as u32);
            if self.centres.is_empty() {
                values.extend(self.prediction(label, generator));
            } else {
                let centre = &self.centres[label * self.width..][..self.width];
                values.extend(centre.iter().map(|c| c + generator.normal() as f32));
            }
        }
        (values, labels)
    }

    fn prediction(&self, label: usize, generator: &mut Generator) -> Vec<f32> {
        let logit = |class: usize| {
            let centre = if class == label { SEPARATION } else { 0.0 };
            SHARPNESS * SEPARATION * (centre + generator.normal())
        };
        let logits: Vec<f64> = (0..self.classes).map(logit).collect();
        let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let powers: Vec<f64> = logits.iter().map(|l| (l - largest).exp()).collect();
        let total: f64 = powers.iter().sum();
        powers.iter().map(|power| (power / total) as f32).collect()
    }

    /// Zipf's shares, in an order of their own for each regime.
    fn shares(&self, regime: usize) -> Vec<f64> {
        let mut shares: Vec<f64> = (1..=self.classes).map(|rank| 1.0 / rank as f64).collect();
        let total: f64 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share /= total);
        Generator::new(100 + regime as u64).shuffle(&mut shares);
        shares
    }
}

fn pick(shares: &[f64], generator: &mut Generator) -> usize {
    let mut left = generator.uniform();
    for (class, share) in shares.iter().enumerate() {
        left -= share;
        if left < 0.0 {
            return class;
        }
    }
    shares.len() - 1
}

fn milliseconds(began: Instant) -> f64 {
    1e3 * began.elapsed().as_secs_f64()
}

fn summary(times: &[f64]) -> String {
    let mut sorted = times.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let Some(largest) = sorted.last() else {
        return "none".to_owned();
    };
    let at = |share: f64| sorted[((share * sorted.len() as f64).ceil() as usize).max(1) - 1];
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    format!(
        "fastest {:.2}, mean {mean:.2}, p50 {:.2}, p99 {:.2}, max {largest:.2}",
        sorted[0],
        at(0.5),
        at(0.99)
    )
}
