//! A stream through the learner, block by block as the daemon takes it: every block is scored with what was
//! known before it, then learned from.

use anyhow::Result;
use ostar_model::{
    Bundle, Generator, Inputs, Rows, argmax,
    fit::{FitSettings, Labelled, LabelledRows, fit},
    learner::{Learner, LearnerSettings, Scores},
    proportions::{
        Estimator, LabelProportions, Probabilities, ProportionEstimator, Tracker, TrackerSettings,
        prior_correct,
    },
};

use crate::{score::l1, task::Domain};

/// Events of a block, and alignment steps after it: the daemon's defaults.
const BLOCK: usize = 500;
const STEPS: usize = 5;
/// Parts of the stream that are scored on their own.
pub const PARTS: usize = 10;
/// Half-life of the tracker of that name, in blocks.
const HALF_LIFE: f64 = 4.0;

/// How the label shares move, on top of the stream's own order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Drift {
    /// As they come.
    Natural,
    /// Between two values.
    Square,
    /// In two waves.
    Sinusoidal,
    /// From low to high.
    Monotone,
}

/// One candidate's way through the stream.
#[derive(Debug, Clone)]
pub struct Track {
    /// What it is.
    pub name: &'static str,
    /// Part by part.
    pub parts: Vec<Part>,
}

/// A candidate on a part of the stream.
#[derive(Debug, Clone, Copy, Default)]
pub struct Part {
    /// Events.
    pub rows: f64,
    /// Right predictions.
    pub right: f64,
    /// Sum over events of the l1 error of the shares after their block.
    pub error: f64,
}

impl Drift {
    /// As on the command line and in results files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Natural => "natural",
            Self::Square => "square",
            Self::Sinusoidal => "sinusoidal",
            Self::Monotone => "monotone",
        }
    }

    /// Share of the second class at a place from 0 to 1.
    fn share(self, place: f64) -> Option<f64> {
        match self {
            Self::Natural => None,
            Self::Square => Some(match (4.0 * place) as usize {
                0 | 2 => 0.2,
                _ => 0.7,
            }),
            Self::Sinusoidal => Some(0.45 + 0.3 * (4.0 * std::f64::consts::PI * place).sin()),
            Self::Monotone => Some(0.15 + 0.6 * place),
        }
    }

    /// The stream with these shares: each class in its own order, until one is used up.
    pub fn apply(self, stream: &Domain, seed: u64) -> Domain {
        let mut generator = Generator::new(seed ^ 0x57e4);
        let mut queues = [0, 1].map(|class| {
            let numbered = stream.labels.iter().enumerate();
            let of_class = numbered.filter(move |(_, label)| **label == class);
            of_class
                .map(|(number, _)| number)
                .collect::<Vec<_>>()
                .into_iter()
        });
        let fewest = queues.iter().map(ExactSizeIterator::len).min().unwrap_or(0);
        // About twice as many as the smaller class has: neither runs out long before the end.
        let length = 2 * fewest;
        let mut numbers = Vec::new();
        for place in 0..length {
            let Some(share) = self.share(place as f64 / length as f64) else {
                return stream.clone();
            };
            let class = usize::from(generator.uniform() < share);
            match queues[class].next() {
                Some(number) => numbers.push(number),
                None => break,
            }
        }
        stream.select(&numbers)
    }
}

/// A classifier of two classes by the defaults of `ostard fit`.
pub fn train(source: &Domain, seed: u64) -> Result<Bundle> {
    let classes = ["no".to_owned(), "yes".to_owned()];
    let labelled = Labelled {
        classes: &classes,
        labels: &source.labels,
        rows: LabelledRows::Dense(Rows::new(&source.rows[..], source.width)?),
    };
    let settings = FitSettings {
        seed,
        ..FitSettings::default()
    };
    Ok(fit(labelled, &settings, &mut |_| ())?)
}

/// Prior correction of the frozen classifier by one estimator and one tracker.
struct Corrected {
    name: &'static str,
    estimator: ProportionEstimator,
    tracker: Tracker,
    proportions: LabelProportions,
}

impl Corrected {
    fn all(bundle: &Bundle) -> Result<Vec<Self>> {
        let half_life = TrackerSettings::HalfLife { blocks: HALF_LIFE };
        let adaptive = TrackerSettings::default();
        let cumulative = TrackerSettings::Cumulative;
        let kinds = [
            ("confusion cumulative", Estimator::Confusion, &cumulative),
            ("confusion half-life", Estimator::Confusion, &half_life),
            ("confusion adaptive", Estimator::Confusion, &adaptive),
            ("em cumulative", Estimator::Em, &cumulative),
            ("em half-life", Estimator::Em, &half_life),
            ("em adaptive", Estimator::Em, &adaptive),
        ];
        let prior = &bundle.description().training_proportions;
        let (held_out, labels) = held_out(bundle)?;
        kinds
            .into_iter()
            .map(|(name, estimator, tracker)| {
                let (held_out, labels) = (held_out.clone(), labels.clone());
                Ok(Self {
                    name,
                    estimator: ProportionEstimator::new(
                        estimator,
                        held_out,
                        labels,
                        prior.clone(),
                    )?,
                    tracker: Tracker::new(tracker)?,
                    proportions: prior.clone(),
                })
            })
            .collect()
    }

    fn observe(&mut self, block: &Probabilities) -> Result<()> {
        let evidence = self.estimator.evidence(block, self.tracker.reference())?;
        self.proportions = self.tracker.update(&evidence)?.proportions;
        Ok(())
    }
}

/// Takes a stream through all candidates.
pub fn replay(bundle: &Bundle, stream: &Domain, threads: usize, seed: u64) -> Result<Vec<Track>> {
    let settings = LearnerSettings {
        threads,
        seed,
        ..LearnerSettings::default()
    };
    let mut learner = Learner::new(bundle, settings)?;
    let mut corrected = Corrected::all(bundle)?;
    let prior = bundle.description().training_proportions.clone();
    let classes = bundle.classes();
    let mut names = vec!["frozen"];
    names.extend(corrected.iter().map(|candidate| candidate.name));
    names.extend(["prior", "ostar"]);
    let mut tracks: Vec<Track> = names
        .into_iter()
        .map(|name| Track {
            name,
            parts: vec![Part::default(); PARTS],
        })
        .collect();
    let mut scores = Scores::default();
    let blocks = stream.rows.chunks(BLOCK * stream.width);
    for (number, (rows, labels)) in blocks.zip(stream.labels.chunks(BLOCK)).enumerate() {
        let inputs = Inputs::Dense(Rows::new(rows, stream.width)?);
        learner.snapshot().score(inputs, &mut scores)?;
        let mut predictions = vec![scores.frozen.clone()];
        for candidate in &corrected {
            let mut rows = scores.frozen.clone();
            prior_correct(&mut rows, &prior, &candidate.proportions);
            predictions.push(rows);
        }
        predictions.extend([scores.prior.clone(), scores.adapted.clone()]);

        let frozen = Rows::new(&scores.frozen[..], classes)?;
        let block = Probabilities::new("predictions", frozen)?;
        for candidate in &mut corrected {
            candidate.observe(&block)?;
        }
        let report = learner.observe(inputs)?;
        for _ in 0..STEPS {
            if learner.is_ready() {
                learner.step()?;
            }
        }
        let truth = shares(labels, classes);
        let mut errors = vec![l1(prior.as_ref(), &truth)];
        errors.extend(corrected.iter().map(|c| l1(c.proportions.as_ref(), &truth)));
        errors.push(l1(report.frozen.proportions.as_ref(), &truth));
        errors.push(l1(learner.proportions().as_ref(), &truth));

        let first = number * BLOCK;
        for ((track, rows), error) in tracks.iter_mut().zip(&predictions).zip(errors) {
            for (place, (row, label)) in rows.chunks_exact(classes).zip(labels).enumerate() {
                let part = &mut track.parts[(first + place) * PARTS / stream.count()];
                part.rows += 1.0;
                part.right += f64::from(u8::from(argmax(row) == *label as usize));
                part.error += error;
            }
        }
    }
    Ok(tracks)
}

fn shares(labels: &[u32], classes: usize) -> Vec<f64> {
    let mut shares = vec![0.0; classes];
    for label in labels {
        shares[*label as usize] += 1.0 / labels.len() as f64;
    }
    shares
}

/// The frozen classifier's predictions on the bundle's held-out rows, and their labels.
fn held_out(bundle: &Bundle) -> Result<(Probabilities, Vec<u32>)> {
    let source = bundle.source();
    let values = bundle.standardised_source()?;
    let width = source.rows().width();
    let (mut kept, mut labels) = (Vec::new(), Vec::new());
    let rows = values.chunks_exact(width).zip(source.labels());
    for ((row, label), held_out) in rows.zip(source.held_out()) {
        if *held_out {
            kept.extend_from_slice(row);
            labels.push(*label);
        }
    }
    let mut probabilities = kept.clone();
    if let Some(classifier) = bundle.source_classifier()? {
        let mut scratch = ostar_model::evaluate::Scratch::default();
        classifier.score(
            Rows::new(&kept[..], width)?,
            &mut scratch,
            &mut probabilities,
        )?;
    }
    let rows = Rows::new(&probabilities[..], bundle.classes())?;
    Ok((Probabilities::new("held-out predictions", rows)?, labels))
}
