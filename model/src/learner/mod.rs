//! Turns steps into a method that can run for ever.
//!
//! A [`Learner`] observes blocks of target rows, takes alignment steps on a window of them, and
//! gives out [`Snapshot`]s that score the frozen, the prior-corrected and the adapted classifier. For a
//! black box, whose events carry probabilities, it follows proportions alone.

mod adaptation;
mod black_box;
mod evidence;
mod frozen;
mod mixture;
mod picture;
mod refresh;
mod report;
mod settings;
mod snapshot;
mod source;
mod state;
mod tracked;
mod translation;
mod transport_weight;
mod window;

use std::sync::Arc;

pub use frozen::{FrozenModel, FrozenRows, FrozenScores};
pub use picture::Picture;
pub use report::{BlockReport, RefreshReport, StepReport};
pub use settings::{AlignmentProportions, LearnerSettings, Rates, TransportWeight};
pub use snapshot::{Scores, Snapshot};
pub use source::SourceSampling;
pub use state::STATE_FORMAT_VERSION;
pub use window::WindowKind;

use self::{adaptation::Adaptation, tracked::TrackedProportions};
use crate::{
    Error, Generator, Inputs, Result, Rows,
    bundle::Bundle,
    evaluate::Scratch,
    proportions::{LabelProportions, Probabilities, ProportionEstimate, ProportionEstimator},
};

/// Owns all that is learned.
pub struct Learner {
    settings: LearnerSettings,
    digest: String,
    model: FrozenModel,
    training_proportions: LabelProportions,
    frozen: TrackedProportions,
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
        let held_out = bundle.held_out()?;
        let estimator = ProportionEstimator::new(
            settings.estimator,
            held_out.probabilities,
            held_out.labels,
            training_proportions.clone(),
        )?;
        Ok(Self {
            frozen: TrackedProportions::new(estimator, &settings.tracker)?,
            digest: bundle.digest().to_owned(),
            model: FrozenModel::new(bundle)?,
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

    /// The part of the model that stays as the bundle has it.
    pub fn model(&self) -> &FrozenModel {
        &self.model
    }

    /// Blocks observed since the start.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Alignment steps taken; 0 for ever for a black box.
    pub fn steps(&self) -> u64 {
        self.adaptation.as_ref().map_or(0, |a| a.steps)
    }

    /// Takes a block of target rows (encoder inputs, or a black box's probabilities) into the window and
    /// the tracked proportions. On an error nothing has changed.
    pub fn observe(&mut self, inputs: Inputs<'_>) -> Result<BlockReport> {
        let mut scores = FrozenScores::default();
        self.model
            .score(inputs, &mut Scratch::default(), &mut scores)?;
        self.observe_scored(scores.rows(0..scores.len()))
    }

    /// [`Learner::observe`] of rows that the frozen model has scored before.
    pub fn observe_scored(&mut self, scores: FrozenRows<'_>) -> Result<BlockReport> {
        let (classes, latent) = (self.training_proportions.classes(), self.model.latent());
        if scores.widths() != (classes, latent) {
            return Err(Error::shape(
                "scores of a block",
                format!("{classes} classes and latents of {latent}"),
                format!("{:?}", scores.widths()),
            ));
        }
        let frozen = Rows::new(scores.probabilities(), classes)?;
        let frozen = Probabilities::new("probabilities", frozen)?;
        let mut adapted = None;
        if let Some(adaptation) = &mut self.adaptation {
            let latents = scores.latents();
            if adaptation.good.steps > 0 {
                let target = adaptation.score_served(latents)?;
                adaptation.adapted.observe(&target)?;
            }
            self.frozen.observe(&frozen)?;
            if adaptation.good.steps == 0 {
                // f_N is still f_S.
                adaptation.adapted.follow(&self.frozen);
            }
            adaptation.keep(latents, &mut self.generator)?;
            adapted = adaptation.adapted.estimate.clone();
        } else {
            self.frozen.observe(&frozen)?;
        }
        self.blocks += 1;
        let known = "a block was just observed";
        Ok(BlockReport {
            rows: frozen.count(),
            frozen: self.frozen.estimate.clone().expect(known),
            adapted,
            served: self.served_estimate().cloned().expect(known),
        })
    }

    /// Whether the window holds enough rows for [`Learner::step`].
    pub fn is_ready(&self) -> bool {
        let enough = |a: &Adaptation| a.window.len() >= self.settings.batch;
        self.adaptation.as_ref().is_some_and(enough)
    }

    /// One alignment step. The first is preceded by a refresh, and so is every
    /// `refresh_every`-th after it, whose report comes along.
    pub fn step(&mut self) -> Result<(StepReport, Option<RefreshReport>)> {
        let steps = ready(&mut self.adaptation, &self.settings)?.steps;
        let due = steps.is_multiple_of(self.settings.refresh_every);
        let refresh = due.then(|| self.refresh_proportions()).transpose()?;
        let adaptation = ready(&mut self.adaptation, &self.settings)?;
        let step = adaptation.step(&self.settings, &mut self.generator)?;
        Ok((step, refresh))
    }

    /// Estimates the proportions on the window, moves the transport weight, measures, and asks the guard
    /// whether the state may be served.
    pub fn refresh_proportions(&mut self) -> Result<RefreshReport> {
        let adaptation = ready(&mut self.adaptation, &self.settings)?;
        adaptation.refresh(&self.settings, &self.frozen, &mut self.generator)
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
        let estimate = self.served_estimate();
        estimate.map_or(&self.training_proportions, |p| &p.proportions)
    }

    /// The estimate to believe: the frozen classifier's, unless the stream refutes that only shares moved.
    fn served_estimate(&self) -> Option<&ProportionEstimate> {
        let estimated = AlignmentProportions::Estimated;
        let apart = self.settings.alignment_proportions != estimated;
        let learned = |a: &&Adaptation| a.good.steps > 0 && (a.label_shift_refuted || apart);
        let adapted = self.adaptation.as_ref().filter(learned);
        let adapted = adapted.and_then(|a| a.adapted.estimate.as_ref());
        adapted.or(self.frozen.estimate.as_ref())
    }

    /// Where a sample of source and stream lay at the last refresh; `None` before it, and for a black box.
    pub fn picture(&self) -> Option<&Arc<Picture>> {
        self.adaptation.as_ref()?.picture.as_ref()
    }

    /// What may be served now: the last state that the guard agreed to, with the newest proportions.
    pub fn snapshot(&self) -> Snapshot {
        let prior = &self.training_proportions;
        let frozen = self.frozen.estimate.as_ref();
        let frozen_proportions = frozen.map_or(prior, |p| &p.proportions).clone();
        let good = self.adaptation.as_ref().map(|adaptation| &adaptation.good);
        let learned = good.filter(|good| good.steps > 0);
        Snapshot {
            steps: learned.map_or(0, |good| good.steps),
            model: self.model.clone(),
            target: learned.map(|good| Arc::clone(&good.target_classifier)),
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
    if held < batch {
        return Err(Error::setting(
            "target window",
            format!("holds {held} rows, alignment needs at least batch = {batch}"),
        ));
    }
    Ok(adaptation)
}
