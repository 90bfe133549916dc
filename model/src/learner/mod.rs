//! The learner: proportions, alignment steps and decisions for a stream without an end.
//!
//! A [`Learner`] observes blocks of target rows, takes alignment steps on a window of them, and
//! gives out [`Snapshot`]s that score the frozen, the prior-corrected and the adapted classifier. For a
//! black box, whose events carry probabilities, it follows proportions alone.

mod accuracy;
mod adaptation;
mod black_box;
mod effort;
mod evidence;
mod frozen;
mod labels;
mod mixture;
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
mod ungated;
mod window;

use std::sync::Arc;

pub use accuracy::EstimatedAccuracies;
pub use frozen::{FrozenModel, FrozenRows, FrozenScores};
pub use labels::{
    ArrivedLabel, BlockEvent, JoinCounts, LabelBlock, LabelDelays, LabelRequest, LabelUse,
    Negatives, RandomAnswer, RequestKind, SharesByLabels,
};
pub use picture::Picture;
pub use report::{BlockReport, RefreshReport, StepReport};
pub use saved_snapshot::LoadedSnapshot;
pub use settings::{AlignmentProportions, LearnerSettings, Rates, TransportWeight};
pub use snapshot::{Scores, Snapshot};
pub use source::SourceSampling;
pub use state::STATE_FORMAT_VERSION;
pub use window::WindowKind;

use self::{
    adaptation::Adaptation, effort::Effort, labels::LabelBook, tracked::TrackedProportions,
};
use crate::{
    Candidate, Device, Error, Generator, Inputs, Result, Rows,
    alarms::{AlarmReport, Alarms, BlockStatistics},
    bundle::Bundle,
    checks,
    engine::HostCopies,
    evaluate::Scratch,
    gate::{Gate, GateState, Verdict},
    proportions::{LabelProportions, Probabilities, ProportionEstimate, ProportionEstimator},
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
    generator: Generator,
    blocks: u64,
    /// Probabilities of the groups that were tracked since the last block, so that they are checked and converted once.
    tracked: Vec<f64>,
    device: Device,
}

impl Learner {
    /// A learner on the CPU engine that has seen nothing of the target.
    pub fn new(bundle: &Bundle, settings: LearnerSettings) -> Result<Self> {
        Self::on(Device::Cpu, bundle, settings)
    }

    /// [`Learner::new`] on a device.
    pub fn on(device: Device, bundle: &Bundle, settings: LearnerSettings) -> Result<Self> {
        settings.validate()?;
        device.check()?;
        let mut generator = Generator::new(settings.seed);
        let adaptation = Adaptation::new(bundle, &settings, device, &mut generator)?;
        let training_proportions = bundle.description().training_proportions.clone();
        let held_out = bundle.held_out()?;
        let gate = Gate::new(&held_out, settings.gate)?;
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
            digest: bundle.digest().to_owned(),
            model: FrozenModel::new(bundle)?,
            alarms: Alarms::new(settings.alarms, training_proportions.clone())
                .with_inputs(bundle.inputs().cloned().map(Arc::new)),
            training_proportions,
            adaptation,
            gate,
            labels: None,
            effort: Effort::default(),
            generator,
            blocks: 0,
            tracked: Vec::new(),
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
        self.check_scores(scores)?;
        self.track_groups(scores)?;
        self.close_block(scores)
    }

    fn track_groups(&mut self, scores: FrozenRows<'_>) -> Result<()> {
        let rows = self.group_rows();
        for first in (0..scores.len()).step_by(rows) {
            self.track(scores.slice(first..(first + rows).min(scores.len())))?;
        }
        Ok(())
    }

    /// Rows that [`Learner::track`] takes at a time.
    pub fn group_rows(&self) -> usize {
        self.settings.group.max(self.training_proportions.classes())
    }

    /// Lets the proportions follow a group of rows. A block is complete when all its groups were tracked, in
    /// order, and [`Learner::close_block`] was called with all its rows. On an error nothing has changed.
    pub fn track(&mut self, group: FrozenRows<'_>) -> Result<()> {
        let frozen = self.check_scores(group)?;
        if let Some(mut book) = self.labels.take() {
            let predicted = book.predict(&self.snapshot(), group);
            self.labels = Some(book);
            predicted?;
        }
        let reference = self.gate.reference();
        if let Some(adaptation) = &mut self.adaptation
            && adaptation.good.steps > 0
        {
            let adapted = adaptation.score_served(group.latents())?;
            adaptation.adapted.track(&adapted, None)?;
        }
        self.frozen.track(&frozen, reference)?;
        self.tracked.extend_from_slice(frozen.as_slice());
        Ok(())
    }

    /// [`Learner::track`] of rows whose block is not full. A state that is saved meanwhile is that of the latest full
    /// block: a start reads these rows again.
    pub fn track_ahead(&mut self, group: FrozenRows<'_>) -> Result<()> {
        self.frozen.open_block();
        if let Some(adaptation) = &mut self.adaptation {
            adaptation.adapted.open_block();
        }
        self.track(group)
    }

    /// Uses labels from now on, or none. What waits for one is kept if labels were used before.
    pub fn use_labels(&mut self, labels: Option<LabelUse>) {
        self.gate.use_labels(labels.map(|labels| labels.objective));
        self.labels = labels.map(|settings| match self.labels.take() {
            Some(mut book) => {
                book.set(settings);
                book
            }
            None => LabelBook::new(settings, self.training_proportions.classes()),
        });
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

    /// Labels that were asked for and have not come, oldest first.
    pub fn wanted_labels(&self) -> Vec<LabelRequest> {
        self.labels
            .as_ref()
            .map_or_else(Vec::new, LabelBook::wanted)
    }

    /// Takes a block, whose groups were tracked, into window and gate.
    pub fn close_block(&mut self, block: FrozenRows<'_>) -> Result<BlockReport> {
        self.close_labelled_block(block, &[], &[])
    }

    /// [`Learner::close_block`] with the block's events, in the order of its rows, and the labels that take effect with
    /// it. Without [`Learner::use_labels`] both are ignored.
    pub fn close_labelled_block(
        &mut self,
        block: FrozenRows<'_>,
        events: &[BlockEvent<'_>],
        labels: &[ArrivedLabel],
    ) -> Result<BlockReport> {
        let frozen = self.tracked_probabilities(block)?;
        let labels = self.join_labels(block.len(), events, labels)?;
        self.frozen.close_block();
        let known = "a block's groups are tracked before it is closed";
        let frozen_estimate = self.frozen.estimate.clone().expect(known);
        let was_refuted = self.gate.state().verdict().refuted;
        let mapped = self.adaptation.as_mut();
        let mapped = mapped.and_then(|adaptation| adaptation.good.mapped.as_mut());
        let rows_since_jump = self.gate.rows_since_jump();
        let verdict = self.gate.observe(
            // Counted from 1, so that 0 means before the first.
            self.blocks + 1,
            block.latents(),
            &frozen,
            frozen_estimate.effective_rows,
            mapped,
        );
        let verdict = verdict.clone();
        let jumped = self.gate.rows_since_jump() <= rows_since_jump;
        let alarms = self.watch(&frozen_estimate, &verdict);
        if let Some(adaptation) = &mut self.adaptation {
            adaptation.keep(block.latents(), &mut self.generator)?;
            if verdict.refuted && (jumped || !was_refuted) {
                let rows = self.gate.rows_since_jump().min(usize::MAX as u64) as usize;
                adaptation.shorten_window(rows.max(self.settings.batch))?;
                self.effort.begin();
                if let Some(tally) = self.gate.labels_mut() {
                    tally.renew_adapted(self.blocks + 1);
                }
            }
            if adaptation.good.steps > 0 {
                adaptation.adapted.close_block();
            } else {
                // f_N is still f_S.
                adaptation.adapted.follow(&self.frozen);
            }
        }
        if !verdict.refuted {
            self.effort.end();
        }
        self.blocks += 1;
        let mut report = self.report(block.len(), frozen_estimate, verdict);
        report.labels = labels;
        report.alarms = alarms;
        Ok(report)
    }

    /// Lets alarms look at the block that was tracked.
    fn watch(&mut self, estimate: &ProportionEstimate, verdict: &Verdict) -> AlarmReport {
        let readings = self.frozen.take_block_readings();
        self.alarms.observe(BlockStatistics {
            block: self.blocks + 1,
            // After a restart within a block its groups are not known: a gap.
            shares: (!verdict.refuted && !readings.is_empty()).then_some(&readings[..]),
            intervals: Some(&estimate.intervals),
            shape: verdict.prior.as_ref().map(|tests| tests.worst_ratio()),
        })
    }

    /// The newest event of the block that is closed next has this time, in milliseconds since 1970. Alarms count weeks
    /// by it; without times they assume five minutes a block.
    pub fn note_time(&mut self, time_ms: i64) {
        self.alarms.note_time(time_ms);
    }

    /// Counts rows of the block that is closed next beside training's. A sample of its rows is enough. Does nothing if
    /// the bundle does not say what training had.
    pub fn count_inputs(&mut self, inputs: Inputs<'_>, rows: usize) {
        self.alarms.count_inputs(inputs, rows);
    }

    /// What has left its usual level, after the latest block.
    pub fn alarms(&self) -> AlarmReport {
        self.alarms.report(self.blocks, Vec::new())
    }

    /// Joins labels and events, and lets the gate count what they say.
    fn join_labels(
        &mut self,
        rows: usize,
        events: &[BlockEvent<'_>],
        labels: &[ArrivedLabel],
    ) -> Result<Option<LabelBlock>> {
        let (Some(book), Some(tally)) = (&mut self.labels, self.gate.labels_mut()) else {
            return Ok(None);
        };
        if events.is_empty() {
            book.discard();
        } else {
            checks::length("events of a block", events.len(), rows)?;
        }
        let classes = self.training_proportions.classes();
        let known: Vec<u32> = labels.iter().map(|label| label.class).collect();
        checks::labels(&known, classes)?;
        Ok(Some(book.close(self.blocks + 1, events, labels, tally)))
    }

    /// The probabilities of a block: those of its groups, or its own after a restart, which forgets groups.
    fn tracked_probabilities(&mut self, block: FrozenRows<'_>) -> Result<Probabilities> {
        let tracked = std::mem::take(&mut self.tracked);
        if tracked.len() != block.probabilities().len() {
            return self.check_scores(block);
        }
        self.check_widths(block)?;
        let classes = self.training_proportions.classes();
        Ok(Probabilities::from_checked(tracked, classes))
    }

    fn report(&self, rows: usize, frozen: ProportionEstimate, verdict: Verdict) -> BlockReport {
        let flagged = |estimate: ProportionEstimate, known: bool| {
            if known {
                estimate
            } else {
                estimate.into_unknown()
            }
        };
        let learned = self.adaptation.as_ref();
        let adapted = learned.and_then(|adaptation| adaptation.adapted.estimate.clone());
        // Before the first step the adapted model is the frozen one, and known as far as it is. Afterwards its intervals know
        // nothing of the map's errors: where its tests passed clearly, half of them covered.
        let has_learned = learned.is_some_and(|adaptation| adaptation.good.steps > 0);
        let explained = !has_learned && verdict.proportions_known;
        let frozen = flagged(frozen, verdict.proportions_known);
        let adapted = adapted.map(|estimate| flagged(estimate, explained));
        let served = match (&adapted, verdict.candidate) {
            (Some(adapted), Candidate::Adapted) => adapted.clone(),
            _ => frozen.clone(),
        };
        BlockReport {
            rows,
            frozen,
            adapted,
            served,
            verdict,
            labels: None,
            alarms: AlarmReport::default(),
        }
    }

    /// The probabilities of rows that are as wide as the model's.
    fn check_scores(&self, scores: FrozenRows<'_>) -> Result<Probabilities> {
        self.check_widths(scores)?;
        let classes = self.training_proportions.classes();
        Probabilities::new("probabilities", Rows::new(scores.probabilities(), classes)?)
    }

    fn check_widths(&self, scores: FrozenRows<'_>) -> Result<()> {
        let (classes, latent) = (self.training_proportions.classes(), self.model.latent());
        if scores.widths() != (classes, latent) {
            return Err(Error::shape(
                "scores of a block",
                format!("{classes} classes and latents of {latent}"),
                format!("{:?}", scores.widths()),
            ));
        }
        Ok(())
    }

    /// The gate's decision after the latest block, and those before it.
    pub fn gate(&self) -> &GateState {
        self.gate.state()
    }

    /// Alignment steps to take after the latest block, of which `usual` are enough while nothing changes. None
    /// while label shift explains the window, unless `always`; many after a change.
    pub fn steps_due(&mut self, usual: usize, always: bool) -> usize {
        if !self.is_ready() {
            return 0;
        }
        let refuted = self.gate.state().verdict().refuted;
        self.effort.spend(usual, refuted, always)
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
        let smallest = smallest_served(prior.classes());
        let frozen = self.frozen.proportions.as_ref().unwrap_or(prior);
        let good = self.adaptation.as_ref().map(|adaptation| &adaptation.good);
        let learned = good.filter(|good| good.steps > 0);
        Snapshot {
            steps: learned.map_or(0, |good| good.steps),
            candidate: self.gate.state().verdict().candidate,
            model: self.model.clone(),
            target: learned.map(|good| Arc::clone(&good.target_classifier)),
            training_proportions: prior.clone(),
            frozen_proportions: frozen.floored(smallest),
            adapted_proportions: self.proportions().floored(smallest),
        }
    }
}

/// Smallest proportion that predictions are corrected to. A class at exactly 0 would overrule rows that the
/// model is sure of.
fn smallest_served(classes: usize) -> f64 {
    if classes == 2 {
        0.01
    } else {
        (0.1 / classes as f64).min(1e-3)
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
