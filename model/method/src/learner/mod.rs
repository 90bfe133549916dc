//! The learner: proportions, alignment steps and decisions for a stream without an end.
//!
//! A [`Learner`] follows target rows as they come, closes blocks of them, takes alignment steps on a window, and
//! gives out [`Snapshot`]s that score the frozen, the prior-corrected and the adapted classifier. For a
//! black box, whose events carry probabilities, it follows proportions alone.

mod accuracy;
mod adaptation;
mod blocks;
mod correction;
mod effort;
mod evidence;
mod labels;
mod mixture;
mod open_block;
mod picture;
mod refresh;
mod report;
mod saved_snapshot;
mod settings;
mod snapshot;
mod source;
mod state;
mod tracked;
mod translation;
mod transport_weight;
mod window;

use std::sync::Arc;

pub use accuracy::EstimatedAccuracies;
pub use effort::StepPlan;
pub use labels::{
    ArrivedLabel, BlockEvent, JoinCounts, LabelBlock, LabelDelays, LabelMeasures, LabelRequest,
    LabelUse, Measurement, Measures, Negatives, Predictor, RequestKind, SentClasses,
    SharesByLabels,
};
pub use open_block::InputSample;
pub use picture::Picture;
pub use report::{BlockReport, RefreshReport, StepReport};
pub use saved_snapshot::LoadedSnapshot;
pub use settings::{AlignmentProportions, LearnerSettings, Rates, TransportWeight};
pub use snapshot::{Scores, Snapshot};
pub use source::SourceSampling;
pub use state::STATE_FORMAT_VERSION;
pub use window::WindowKind;

use ostar_engine::{Device, Error, Generator, Result, engine::HostCopies};

use self::{
    adaptation::Adaptation, effort::Effort, labels::LabelBook, open_block::OpenBlock,
    tracked::TrackedProportions,
};
use crate::{
    Deployed,
    alarms::{AlarmReport, Alarms},
    diagnostics::OrderCheck,
    frozen::FrozenModel,
    gate::{Gate, GateState, WHOLE},
    proportions::{LabelProportions, Probabilities, ProportionEstimator},
};

/// Owns all that is learned.
pub struct Learner {
    settings: LearnerSettings,
    digest: String,
    model: FrozenModel,
    training_proportions: LabelProportions,
    frozen: TrackedProportions,
    /// What the frozen model predicts for held-out rows; `None` with very many.
    held_out: Option<Probabilities>,
    /// `None` for a black box.
    adaptation: Option<Adaptation>,
    gate: Gate,
    alarms: Alarms,
    /// What waits for a label; `None` if none are read.
    labels: Option<LabelBook>,
    effort: Effort,
    plan: StepPlan,
    generator: Generator,
    blocks: u64,
    /// Not saved: a start reads its rows again.
    open: OpenBlock,
    device: Device,
}

impl Learner {
    /// A learner on the CPU engine that has seen nothing of the target.
    pub fn new(deployed: &Deployed, settings: LearnerSettings) -> Result<Self> {
        Self::on(Device::Cpu, deployed, settings)
    }

    /// [`Learner::new`] on a device.
    pub fn on(device: Device, deployed: &Deployed, settings: LearnerSettings) -> Result<Self> {
        settings.validate()?;
        device.check()?;
        let mut generator = Generator::new(settings.seed);
        let adaptation = Adaptation::new(deployed, &settings, device, &mut generator)?;
        let training_proportions = deployed.training_proportions.clone();
        let held_out = deployed.held_out.clone();
        let mut gate = Gate::new(&held_out, settings.gate)?;
        gate.serve_for(settings.objective);
        gate.use_labels(settings.labels.is_some());
        let labels = settings.labels;
        let labels = labels.map(|labels| LabelBook::new(labels, training_proportions.classes()));
        let values = held_out.labels.len() * training_proportions.classes();
        let kept = (values <= accuracy::MOST_KEPT).then(|| held_out.probabilities.clone());
        let estimator = ProportionEstimator::new(
            settings.estimator,
            held_out.probabilities,
            held_out.labels,
            training_proportions.clone(),
        )?;
        Ok(Self {
            frozen: TrackedProportions::new(estimator, &settings.tracker)?,
            held_out: kept,
            digest: deployed.digest.clone(),
            model: deployed.model.clone(),
            alarms: Alarms::new(settings.alarms, training_proportions.clone())
                .with_inputs(deployed.inputs.clone()),
            training_proportions,
            adaptation,
            gate,
            labels,
            effort: Effort::default(),
            plan: StepPlan::default(),
            generator,
            blocks: 0,
            open: OpenBlock::default(),
            device,
            settings,
        })
    }

    /// The device that the learner was made on.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Copies from the device to the host so far; none for a black box, which has no engine.
    pub fn host_copies(&self) -> HostCopies {
        let adaptation = self.adaptation.as_ref();
        adaptation.map_or_else(HostCopies::default, |a| a.engine.host_copies())
    }

    /// The settings that the learner was made with; they never change.
    pub fn settings(&self) -> &LearnerSettings {
        &self.settings
    }

    /// The part of the model that stays as the bundle has it.
    pub fn model(&self) -> &FrozenModel {
        &self.model
    }

    /// Blocks closed since the start.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Alignment steps taken; 0 for ever for a black box.
    pub fn steps(&self) -> u64 {
        self.adaptation.as_ref().map_or(0, |a| a.steps)
    }

    /// Whether labels are used.
    pub fn uses_labels(&self) -> bool {
        self.labels.is_some()
    }

    /// What became of labels so far; `None` if none are used.
    pub fn label_counts(&self) -> Option<JoinCounts> {
        self.labels.as_ref().map(LabelBook::counts)
    }

    /// Class shares by labels of randomly drawn events; `None` while there are too few.
    pub fn shares_by_labels(&self) -> Option<SharesByLabels> {
        self.labels.as_ref().and_then(LabelBook::shares)
    }

    /// What the newest labels say about the order of the classes; `None` without labels.
    pub fn check_class_order(&self) -> Result<Option<OrderCheck>> {
        match &self.labels {
            Some(book) => book.check_order(),
            None => Ok(None),
        }
    }

    /// Labels that were asked for and have not come, oldest first.
    pub fn wanted_labels(&self) -> Vec<LabelRequest> {
        self.labels
            .as_ref()
            .map_or_else(Vec::new, LabelBook::wanted)
    }

    /// What has left its usual level, after the latest block.
    pub fn alarms(&self) -> AlarmReport {
        self.alarms.report(self.blocks, Vec::new())
    }

    /// The gate's decision after the latest block, and those before it.
    pub fn gate(&self) -> &GateState {
        self.gate.state()
    }

    /// How many steps the blocks that are closed from now on ask for. An operator may change it while the learner runs.
    pub fn plan_steps(&mut self, plan: StepPlan) {
        self.plan = plan;
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
        let refresh = due.then(|| self.refresh()).transpose()?;
        let adaptation = ready(&mut self.adaptation, &self.settings)?;
        let step = adaptation.step(&self.settings, &mut self.generator)?;
        Ok((step, refresh))
    }

    /// Estimates the proportions on the window, moves the transport weight, measures, and asks the guard
    /// whether the state may be served.
    fn refresh(&mut self) -> Result<RefreshReport> {
        let adaptation = ready(&mut self.adaptation, &self.settings)?;
        let report = adaptation.refresh(
            &self.settings,
            &self.frozen,
            &self.gate,
            &mut self.generator,
        )?;
        if let (true, Some(tally)) = (report.translated, self.gate.labels_mut()) {
            tally.renew_adapted(self.blocks);
        }
        Ok(report)
    }

    /// Goes back to the weights that the guard last agreed to. The window, the proportions and all counters
    /// stay. Nothing to do for a black box.
    pub fn roll_back(&mut self) -> Result<()> {
        match &mut self.adaptation {
            None => Ok(()),
            Some(adaptation) => adaptation.restore(),
        }
    }

    /// The stream's shares after the latest group of rows; before the first those of training.
    pub fn proportions(&self) -> &LabelProportions {
        let proportions = self.tracked_proportions().proportions.as_ref();
        proportions.unwrap_or(&self.training_proportions)
    }

    /// The stream's shares after the latest full block, which are those of a saved state.
    pub fn proportions_at_border(&self) -> &LabelProportions {
        let proportions = self.tracked_proportions().proportions_at_border();
        proportions.unwrap_or(&self.training_proportions)
    }

    fn tracked_proportions(&self) -> &TrackedProportions {
        match &self.adaptation {
            Some(adaptation) if self.serves_adapted_proportions() => &adaptation.adapted,
            _ => &self.frozen,
        }
    }

    /// Whether the adapted classifier's estimate is the one to use: where label shift alone is refuted.
    fn serves_adapted_proportions(&self) -> bool {
        let estimated = AlignmentProportions::Estimated;
        let apart = self.settings.alignment_proportions != estimated;
        let refuted = self.gate.state().verdict().refuted;
        let learned = |a: &Adaptation| a.good.steps > 0 && (refuted || apart);
        self.adaptation.as_ref().is_some_and(learned)
    }

    /// Where a sample of source and stream lay at the last refresh; `None` before it, and for a black box.
    pub fn picture(&self) -> Option<&Arc<Picture>> {
        self.adaptation.as_ref()?.picture.as_ref()
    }

    /// What may be served now: the last state that the guard agreed to, with the newest proportions.
    pub fn snapshot(&self) -> Snapshot {
        let prior = &self.training_proportions;
        let whole = correction::whole(&self.frozen, prior, self.gate.objective());
        let verdict = self.gate.state().verdict();
        let strength = verdict.prior_strength;
        let corrected = if strength < WHOLE {
            prior.towards(&whole, strength)
        } else {
            whole.clone()
        };
        let good = self.adaptation.as_ref().map(|adaptation| &adaptation.good);
        let learned = good.filter(|good| good.steps > 0);
        Snapshot {
            steps: learned.map_or(0, |good| good.steps),
            candidate: verdict.candidate,
            model: self.model.clone(),
            target: learned.map(|good| Arc::clone(&good.target_classifier)),
            training_proportions: prior.clone(),
            // Before the first step the adapted model is the frozen one, and corrected like it.
            adapted_proportions: match learned {
                Some(_) => correction::floored(self.proportions(), prior),
                None => corrected.clone(),
            },
            frozen_proportions: corrected,
            whole_proportions: whole,
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
