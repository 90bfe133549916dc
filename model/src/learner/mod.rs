//! Turns steps into a method that can run for ever.
//!
//! A [`Learner`] observes blocks of target rows, takes alignment iterations on a window of them, and
//! gives out [`Snapshot`]s that score the frozen, the prior-corrected and the adapted classifier. For a
//! black box, whose events carry probabilities, it follows proportions alone.

mod adaptation;
mod black_box;
mod candidate;
mod mixture;
mod picture;
mod refresh;
mod report;
mod settings;
mod snapshot;
mod source;
mod state;
mod translation;
mod transport_weight;
mod view;
mod window;

pub use picture::Picture;
pub use report::{BlockReport, RefreshReport, StepReport};
pub use settings::{AlignmentProportions, LearnerSettings, Rates, TransportWeight};
pub use snapshot::{Scores, Snapshot};
pub use source::SourceSampling;
pub use state::STATE_FORMAT_VERSION;
pub use window::WindowKind;

use std::sync::Arc;

use self::{adaptation::Adaptation, black_box::BlackBox, candidate::Candidate, snapshot::Networks};
use crate::{
    Error, Generator, Inputs, Result, Rows,
    bundle::Bundle,
    proportions::{LabelProportions, Probabilities, ProportionEstimator, Published},
};

/// Owns all that is learned.
pub struct Learner {
    settings: LearnerSettings,
    digest: String,
    classes: usize,
    black_box: BlackBox,
    training_proportions: LabelProportions,
    frozen: Candidate,
    /// `None` for a black box.
    adaptation: Option<Adaptation>,
    generator: Generator,
    blocks: u64,
}

impl Learner {
    /// A learner that has seen nothing of the target.
    pub fn new(bundle: &Bundle, settings: LearnerSettings) -> Result<Self> {
        settings.validate()?;
        let mut generator = Generator::new(settings.seed);
        let adaptation = Adaptation::new(bundle, &settings, &mut generator)?;
        let training_proportions = bundle.description().training_proportions.clone();
        let (probabilities, labels) = held_out(bundle)?;
        let prior = training_proportions.clone();
        let estimator = ProportionEstimator::new(settings.estimator, probabilities, labels, prior)?;
        Ok(Self {
            frozen: Candidate::new(estimator, &settings.tracker)?,
            digest: bundle.digest().to_owned(),
            classes: bundle.classes(),
            black_box: BlackBox::new(bundle),
            training_proportions,
            adaptation,
            generator,
            blocks: 0,
            settings,
        })
    }

    /// Settings as given.
    pub fn settings(&self) -> &LearnerSettings {
        &self.settings
    }

    /// Blocks observed since the start.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Alignment iterations taken; 0 for ever for a black box.
    pub fn iterations(&self) -> u64 {
        self.adaptation.as_ref().map_or(0, |a| a.iterations)
    }

    /// Takes a block of target rows (encoder inputs, or a black box's probabilities) into the window and
    /// the tracked proportions. On an error nothing has changed.
    pub fn observe(&mut self, inputs: Inputs<'_>) -> Result<BlockReport> {
        let (rows, adapted) = match &mut self.adaptation {
            Some(adaptation) => {
                let latents = adaptation.encode(inputs)?;
                let source = adaptation.score_source(&latents)?;
                match adaptation.good.iterations {
                    // f_N is still f_S.
                    0 => adaptation.adapted.observe(&source)?,
                    _ => {
                        let target = adaptation.score_served(&latents)?;
                        adaptation.adapted.observe(&target)?;
                    }
                }
                self.frozen.observe(&source)?;
                adaptation.keep(&latents, &mut self.generator)?;
                (source.count(), adaptation.adapted.published.clone())
            }
            None => {
                let mut values = Vec::new();
                self.black_box.read(&inputs, &mut values)?;
                let rows = Rows::new(&values[..], self.classes)?;
                let probabilities = Probabilities::new("probabilities", rows)?;
                self.frozen.observe(&probabilities)?;
                (probabilities.count(), None)
            }
        };
        self.blocks += 1;
        let known = "a block has just been published";
        Ok(BlockReport {
            rows,
            frozen: self.frozen.published.clone().expect(known),
            adapted,
            published: self.published().cloned().expect(known),
        })
    }

    /// Whether the window holds enough rows for [`Learner::step`].
    pub fn is_ready(&self) -> bool {
        let enough = |a: &Adaptation| a.window.len() >= self.settings.batch;
        self.adaptation.as_ref().is_some_and(enough)
    }

    /// One alignment iteration. The first is preceded by a refresh, and so is every
    /// `refresh_every`-th after it, whose report comes along.
    pub fn step(&mut self) -> Result<(StepReport, Option<RefreshReport>)> {
        let iterations = ready(&mut self.adaptation, &self.settings)?.iterations;
        let refresh = match iterations.is_multiple_of(self.settings.refresh_every) {
            true => Some(self.refresh_proportions()?),
            false => None,
        };
        let adaptation = ready(&mut self.adaptation, &self.settings)?;
        let step = adaptation.iterate(&self.settings, &mut self.generator)?;
        Ok((step, refresh))
    }

    /// Estimates the proportions on the window, moves the transport weight, measures, and asks the guard
    /// whether the state may be served.
    pub fn refresh_proportions(&mut self) -> Result<RefreshReport> {
        let adaptation = ready(&mut self.adaptation, &self.settings)?;
        let published = self.frozen.published.as_ref();
        let published = published.expect("rows of the window were published when they came");
        adaptation.refresh(
            &self.settings,
            &self.frozen.estimator,
            published,
            &self.training_proportions,
            &mut self.generator,
        )
    }

    /// Goes back to the weights that the guard last agreed to. The window, the proportions and all counters
    /// stay. Nothing to do for a black box.
    pub fn roll_back(&mut self) -> Result<()> {
        match &mut self.adaptation {
            None => Ok(()),
            Some(adaptation) => adaptation.restore(),
        }
    }

    /// The stream's shares as they are published; before the first block those of training.
    pub fn proportions(&self) -> &LabelProportions {
        let published = self.published();
        published.map_or(&self.training_proportions, |p| &p.proportions)
    }

    /// The estimate to believe: the frozen classifier's, unless the stream refutes that only shares moved.
    fn published(&self) -> Option<&Published> {
        let estimated = AlignmentProportions::Estimated;
        let apart = self.settings.alignment_proportions != estimated;
        let learned = |a: &&Adaptation| a.good.iterations > 0 && (a.label_shift_refuted || apart);
        let adapted = self.adaptation.as_ref().filter(learned);
        let adapted = adapted.and_then(|a| a.adapted.published.as_ref());
        adapted.or(self.frozen.published.as_ref())
    }

    /// Where a sample of source and stream lay at the last refresh; `None` before it, and for a black box.
    pub fn picture(&self) -> Option<&Arc<Picture>> {
        self.adaptation.as_ref()?.picture.as_ref()
    }

    /// What may be served now: the last state that the guard agreed to, with the newest proportions.
    pub fn snapshot(&self) -> Snapshot {
        let prior = &self.training_proportions;
        let frozen = self.frozen.published.as_ref();
        let frozen_proportions = frozen.map_or(prior, |p| &p.proportions).clone();
        let (networks, iterations) = match &self.adaptation {
            None => (None, 0),
            Some(adaptation) => {
                let source = adaptation.source_classifier.clone();
                let target = match adaptation.good.iterations {
                    0 => source.clone(),
                    _ => adaptation.good.target_classifier.clone(),
                };
                let networks = Networks {
                    encoder: adaptation.encoder.clone(),
                    source,
                    target,
                };
                (Some(networks), adaptation.good.iterations)
            }
        };
        Snapshot {
            iterations,
            black_box: self.black_box,
            networks,
            training_proportions: prior.clone(),
            frozen_proportions,
            adapted_proportions: self.proportions().clone(),
        }
    }
}

/// What aligns, if there is one and its window holds a batch.
fn ready<'a>(
    adaptation: &'a mut Option<Adaptation>,
    settings: &LearnerSettings,
) -> Result<&'a mut Adaptation> {
    let Some(adaptation) = adaptation else {
        return Err(Error::setting(
            "bundle",
            "is a black box, alignment needs a model with latents",
        ));
    };
    let (held, batch) = (adaptation.window.len(), settings.batch);
    match held >= batch {
        true => Ok(adaptation),
        false => Err(Error::setting(
            "target window",
            format!("holds {held} rows, alignment needs at least batch = {batch}"),
        )),
    }
}

/// Predictions of the frozen model on the bundle's held-out rows, and their labels.
fn held_out(bundle: &Bundle) -> Result<(Probabilities, Vec<u32>)> {
    let source = bundle.source();
    let values = bundle.standardised_source()?;
    let width = source.rows().width();
    let rows = values.chunks_exact(width).zip(source.held_out());
    let kept: Vec<f32> = rows
        .filter(|(_, held_out)| **held_out)
        .flat_map(|(row, _)| row.iter().copied())
        .collect();
    let labels = source.labels().iter().zip(source.held_out());
    let labels = labels
        .filter(|(_, held_out)| **held_out)
        .map(|(label, _)| *label);
    let probabilities = match bundle.source_classifier()? {
        None => kept,
        Some(classifier) => {
            let mut probabilities = Vec::new();
            let mut scratch = crate::evaluate::Scratch::default();
            classifier.score(
                Rows::new(&kept[..], width)?,
                &mut scratch,
                &mut probabilities,
            )?;
            probabilities
        }
    };
    let rows = Rows::new(&probabilities[..], bundle.classes())?;
    Ok((
        Probabilities::new("held-out probabilities", rows)?,
        labels.collect(),
    ))
}
