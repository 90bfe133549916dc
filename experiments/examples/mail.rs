//! A spam filter trained on one inbox is applied to another, which has a different share of spam, other words and other
//! senders. Prints the accuracy of the frozen, prior-corrected and adapted classifier.
//!
//! `experiments/enron_features.py` writes the input file. The encoder and the frozen classifier are trained by `fit`.

mod stream;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    path::PathBuf,
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use ostar_bundle::{
    Bundle,
    fit::{FitSettings, Labelled, LabelledRows, fit},
};
use ostar_engine::{Generator, HostTensor, tensors::from_safetensors};
use ostar_method::learner::{Learner, Scores};

use stream::{Data, Pace, accuracy, l1, learn, settings};

/// Pairs of a source and a target inbox.
const PAIRS: [(usize, usize); 10] = [
    (4, 1),
    (2, 4),
    (1, 6),
    (6, 1),
    (3, 5),
    (5, 3),
    (1, 2),
    (4, 6),
    (6, 4),
    (2, 3),
];

#[derive(Parser)]
#[command(about = "Accuracy of frozen, prior-corrected and adapted spam filters on other inboxes")]
struct Options {
    /// File with the features of six inboxes, in safetensors.
    path: PathBuf,
    /// How many seeds to average over, starting at 0.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    #[command(flatten)]
    pace: Pace,
}

/// Accuracies, and the l1 error of the adapted proportions.
struct Outcome {
    frozen: f64,
    prior: f64,
    adapted: f64,
    adapted_l1: f64,
}

#[expect(clippy::print_stdout, reason = "the table is the result")]
fn main() -> Result<()> {
    let options = Options::parse();
    ensure!(options.seeds > 0, "--seeds must be at least 1");
    let inboxes = read(&options.path)?;
    println!(
        "pair | frozen  prior adapted | l1 of p | refused translated | distance: before map, after map, noise floor"
    );
    let mut outcomes = Vec::new();
    for seed in 0..options.seeds {
        let mut bundles = BTreeMap::new();
        for (source, target) in PAIRS {
            let bundle: &Bundle = match bundles.entry(source) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => place.insert(train(&inboxes[source - 1], seed)?),
            };
            let (outcome, line) = run(&options, bundle, &inboxes[target - 1], seed)?;
            println!("{source}->{target} | {line}");
            outcomes.push(outcome);
        }
    }
    let mean =
        |of: fn(&Outcome) -> f64| outcomes.iter().map(of).sum::<f64>() / outcomes.len() as f64;
    let worst = |of: fn(&Outcome) -> f64| outcomes.iter().map(of).fold(f64::INFINITY, f64::min);
    println!(
        "mean | {:6.4} {:6.4} {:7.4} | {:7.3} | worst against frozen, in points: prior {:.1}, adapted {:.1}",
        mean(|o| o.frozen),
        mean(|o| o.prior),
        mean(|o| o.adapted),
        mean(|o| o.adapted_l1),
        100.0 * worst(|o| o.prior - o.frozen),
        100.0 * worst(|o| o.adapted - o.frozen),
    );
    Ok(())
}

fn run(options: &Options, bundle: &Bundle, inbox: &Data, seed: u64) -> Result<(Outcome, String)> {
    let target = shuffled(inbox, seed);
    let spam = target.labels.iter().sum::<u32>() as f64 / target.labels.len() as f64;
    let mut learner = Learner::new(&bundle.deployed()?, settings(&options.pace.settings, seed)?)?;
    let decisions = learn(&mut learner, &target, &options.pace, |_, _| Ok(()))?;
    let (_, refresh) = learner.step()?;
    let refresh = refresh.context("the steps are no multiple of refresh_every")?;
    let mut scores = Scores::default();
    learner.snapshot().score(target.inputs()?, &mut scores)?;
    let right = |probabilities: &[f32]| accuracy(probabilities, &target.labels);
    let outcome = Outcome {
        frozen: right(&scores.frozen),
        prior: right(&scores.prior),
        adapted: right(&scores.adapted),
        adapted_l1: l1(refresh.alignment_proportions.as_ref(), &[1.0 - spam, spam]),
    };
    let line = format!(
        "{:6.4} {:6.4} {:7.4} | {:7.3} | {:3}/{:3} {:10} | {:.3} {:.3} {:.3} lambda {:.3} moved {:.3}",
        outcome.frozen,
        outcome.prior,
        outcome.adapted,
        outcome.adapted_l1,
        decisions.refused,
        decisions.refreshes,
        decisions.translated,
        refresh.distance_before_map,
        refresh.distance_after_map,
        refresh.noise_floor,
        refresh.transport_weight,
        refresh.movement.all.ratio.unwrap_or(f64::NAN),
    );
    Ok((outcome, line))
}

fn read(path: &PathBuf) -> Result<Vec<Data>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let tensors = from_safetensors(&bytes)?;
    let tensor = |name: String| -> Result<&HostTensor> {
        let found = tensors.get(&name);
        found.with_context(|| format!("{} has no tensor {name}", path.display()))
    };
    let inbox = |number: usize| {
        let features = tensor(format!("features.{number}"))?;
        let labels = tensor(format!("labels.{number}"))?.to_f32();
        Ok(Data {
            width: features.shape[1],
            rows: features.to_f32(),
            labels: labels.into_iter().map(|label| label as u32).collect(),
        })
    };
    (1..=6).map(inbox).collect()
}

fn train(inbox: &Data, seed: u64) -> Result<Bundle> {
    let classes = ["ham".to_owned(), "spam".to_owned()];
    let labelled = Labelled {
        classes: &classes,
        labels: &inbox.labels,
        rows: LabelledRows::Dense(inbox.matrix()?),
    };
    let settings = FitSettings {
        seed,
        ..FitSettings::default()
    };
    Ok(fit(labelled, &settings, &mut |_| ())?)
}

/// The inbox's mails in random order. In the file they are sorted by date, and all spam is younger than all ham.
fn shuffled(inbox: &Data, seed: u64) -> Data {
    let mut order: Vec<usize> = (0..inbox.labels.len()).collect();
    Generator::new(seed).shuffle(&mut order);
    let width = inbox.width;
    let row = |number: &usize| inbox.rows[number * width..][..width].iter().copied();
    Data {
        width,
        rows: order.iter().flat_map(row).collect(),
        labels: order.iter().map(|number| inbox.labels[*number]).collect(),
    }
}
