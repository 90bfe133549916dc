//! Prequential evaluation: as in the daemon, every block is scored with what was known before it, then learned from.

use anyhow::Result;
use ostar_bundle::{
    Bundle,
    fit::{FitSettings, Labelled, LabelledRows, fit},
};
use ostar_engine::{Generator, Inputs, Rows, argmax};
use ostar_method::{
    learner::{Learner, LearnerSettings, Scores},
    proportions::{
        Estimator, LabelProportions, Probabilities, ProportionEstimator, Tracker, TrackerSettings,
        prior_correct,
    },
};

use crate::{
    learn,
    score::l1,
    task::{Domain, proportions},
};

/// Events of a block, and alignment steps after it: the daemon's defaults.
const BLOCK: usize = 500;
const STEPS: usize = 5;
/// Equal parts of the stream, scored separately.
pub const PARTS: usize = 10;
/// Half-life of the `half-life` trackers, in blocks.
const HALF_LIFE: f64 = 4.0;

/// Label shift that is added to a stream of two classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Drift {
    /// None: the stream as it is.
    Natural,
    /// Jumps between 0.2 and 0.7, a quarter of the stream each.
    Square,
    /// Two waves between 0.15 and 0.75.
    Sinusoidal,
    /// Grows from 0.15 to 0.75.
    Monotone,
}

/// One candidate's measures along the stream.
#[derive(Debug, Clone)]
pub struct Track {
    /// `frozen`, `prior`, `ostar`, or estimator and tracker such as `em adaptive`.
    pub name: &'static str,
    /// [`PARTS`] of them.
    pub parts: Vec<Part>,
}

/// Sums over the events of a part.
#[derive(Debug, Clone, Copy, Default)]
pub struct Part {
    /// How many events there are.
    pub rows: f64,
    /// How many predictions are right.
    pub right: f64,
    /// Sum over events of the l1 error of the estimated proportions after their block.
    pub error: f64,
}

impl Track {
    /// A track on which nothing has been scored.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            parts: vec![Part::default(); PARTS],
        }
    }
}

impl Drift {
    /// Name on the command line and in results files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Natural => "natural",
            Self::Square => "square",
            Self::Sinusoidal => "sinusoidal",
            Self::Monotone => "monotone",
        }
    }

    /// Proportion of the second class at a place from 0 to 1; `None` leaves the stream as it is.
    fn second_class(self, place: f64) -> Option<f64> {
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

    /// Draws rows with these proportions, each class in its own order, until one class is used up.
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
        // The mean proportion is near one half: with twice the rows of the smaller class, neither class runs out long
        // before the end.
        let length = 2 * fewest;
        let mut numbers = Vec::new();
        for place in 0..length {
            let Some(proportion) = self.second_class(place as f64 / length as f64) else {
                return stream.clone();
            };
            let class = usize::from(generator.uniform() < proportion);
            match queues[class].next() {
                Some(number) => numbers.push(number),
                None => break,
            }
        }
        stream.select(&numbers)
    }
}

/// Trains a classifier of two classes with the defaults of `ostard fit`.
pub fn train(source: &Domain, seed: u64) -> Result<Bundle> {
    train_classes(source, 2, seed)
}

/// The same for any number of classes.
pub fn train_classes(source: &Domain, classes: usize, seed: u64) -> Result<Bundle> {
    let settings = FitSettings {
        seed,
        ..FitSettings::default()
    };
    fit_classes(source, classes, &settings)
}

/// The same with other settings.
pub fn fit_classes(source: &Domain, classes: usize, settings: &FitSettings) -> Result<Bundle> {
    let classes: Vec<String> = (0..classes).map(|class| class.to_string()).collect();
    let labelled = Labelled {
        classes: &classes,
        labels: &source.labels,
        rows: LabelledRows::Dense(Rows::new(&source.rows[..], source.width)?),
    };
    Ok(fit(labelled, settings, &mut |_| ())?)
}

/// Prior correction of the frozen model by one estimator and one tracker.
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
        let held_out = bundle.held_out()?;
        kinds
            .into_iter()
            .map(|(name, estimator, tracker)| {
                let held_out = held_out.clone();
                Ok(Self {
                    name,
                    estimator: ProportionEstimator::new(
                        estimator,
                        held_out.probabilities,
                        held_out.labels,
                        prior.clone(),
                    )?,
                    tracker: Tracker::new(tracker)?,
                    proportions: prior.clone(),
                })
            })
            .collect()
    }

    fn observe(&mut self, block: &Probabilities) -> Result<()> {
        let evidence = self.estimator.evidence(block, None)?;
        self.proportions = self.tracker.update(&evidence)?.proportions;
        Ok(())
    }
}

/// What all candidates made of one block.
struct BlockOutcome {
    /// Class probabilities of each candidate, in the order of its track.
    predictions: Vec<Vec<f32>>,
    /// l1 error of each candidate's proportions after the block.
    errors: Vec<f64>,
}

/// The learner, and the other ways of prior correction that it is compared with.
struct Replay {
    learner: Learner,
    corrected: Vec<Corrected>,
    training_proportions: LabelProportions,
    scores: Scores,
}

impl Replay {
    fn new(bundle: &Bundle, threads: usize, seed: u64) -> Result<Self> {
        let settings = LearnerSettings {
            threads,
            seed,
            ..LearnerSettings::default()
        };
        Ok(Self {
            learner: Learner::new(&bundle.deployed()?, settings)?,
            corrected: Corrected::all(bundle)?,
            training_proportions: bundle.description().training_proportions.clone(),
            scores: Scores::default(),
        })
    }

    /// Empty tracks of the candidates. The last name marks a stream as done in results files.
    fn tracks(&self) -> Vec<Track> {
        let corrected = self.corrected.iter().map(|candidate| candidate.name);
        let names = ["frozen"].into_iter().chain(corrected);
        names.chain(["prior", "ostar"]).map(Track::new).collect()
    }

    /// Scores a block with what was known before it, then learns from it.
    fn take(&mut self, inputs: Inputs<'_>, labels: &[u32]) -> Result<BlockOutcome> {
        self.learner.snapshot().score(inputs, &mut self.scores)?;
        let scores = &self.scores;
        let training = &self.training_proportions;
        let mut predictions = vec![scores.frozen.clone()];
        for candidate in &self.corrected {
            let mut rows = scores.frozen.clone();
            prior_correct(&mut rows, training, &candidate.proportions);
            predictions.push(rows);
        }
        predictions.extend([scores.prior.clone(), scores.adapted.clone()]);

        let frozen = Rows::new(&scores.frozen[..], training.classes())?;
        let block = Probabilities::new("predictions", frozen)?;
        for candidate in &mut self.corrected {
            candidate.observe(&block)?;
        }
        let report = learn(&mut self.learner, inputs)?;
        for _ in 0..STEPS {
            if self.learner.is_ready() {
                self.learner.step()?;
            }
        }
        let truth = proportions(labels, training.classes());
        let error = |estimate: &LabelProportions| l1(estimate.as_ref(), &truth);
        let mut errors = vec![error(training)];
        errors.extend(self.corrected.iter().map(|c| error(&c.proportions)));
        errors.push(error(&report.frozen.proportions));
        errors.push(error(self.learner.proportions()));
        Ok(BlockOutcome {
            predictions,
            errors,
        })
    }
}

/// Takes a stream through all candidates, block by block.
pub fn replay(bundle: &Bundle, stream: &Domain, threads: usize, seed: u64) -> Result<Vec<Track>> {
    let mut replay = Replay::new(bundle, threads, seed)?;
    let mut tracks = replay.tracks();
    let blocks = stream.rows.chunks(BLOCK * stream.width);
    for (number, (rows, labels)) in blocks.zip(stream.labels.chunks(BLOCK)).enumerate() {
        let inputs = Inputs::Dense(Rows::new(rows, stream.width)?);
        let block = replay.take(inputs, labels)?;
        let candidates = block.predictions.iter().zip(block.errors);
        for (track, (rows, error)) in tracks.iter_mut().zip(candidates) {
            let rows = rows.chunks_exact(bundle.classes()).zip(labels);
            for (place, (row, label)) in rows.enumerate() {
                let place = number * BLOCK + place;
                let part = &mut track.parts[place * PARTS / stream.count()];
                part.rows += 1.0;
                part.right += f64::from(u8::from(argmax(row) == *label as usize));
                part.error += error;
            }
        }
    }
    Ok(tracks)
}
