//! The gate: which candidate is served, decided from evidence that needs no label, and from the labels that come.
//!
//! Serve the least adapted candidate that explains the window. A candidate explains the window when the
//! held-out source rows, moved as the candidate says (`prior`: not at all; `adapted`: by the map) and
//! reweighted to its proportions, look like the stream: in the scores of the frozen model and in its
//! latents, as closely as noise allows. If none does, the frozen model is served, and the [`Verdict`] says
//! which test failed and by how much.
//!
//! The parts: `HeldOutShape` is what the held-out rows look like, `EvidenceWindow` what the stream looks
//! like, [`ShapeTests`] compares them, `LabelTally` counts what labels say, `Strengths` how far they
//! carry prior correction, `Gate` turns one comparison a block into a
//! decision that does not flicker.

mod beta;
mod bins;
mod change;
mod decision;
mod duel;
mod explanation;
mod histogram;
mod labels;
mod lines;
mod mixture;
mod noise;
mod outcomes;
mod projections;
mod settings;
mod shape;
mod states;
mod strength;
mod window;

use serde::{Deserialize, Serialize};

pub(crate) use change::{Change, WHOLE};
pub use decision::{Decided, GateReason, Verdict, at_strength};
pub use explanation::{ShapeTest, ShapeTests};
pub use labels::{DuelReport, LabelEvidence, Objective};
pub(crate) use labels::{LabelTally, LabelledRow};
pub use settings::GateSettings;
pub(crate) use shape::HeldOutShape;
pub use states::GateState;

use ostar_engine::Result;

use self::{
    explanation::is_near,
    shape::Binning,
    states::AdaptedEvidence,
    window::{Counted, EvidenceWindow},
};
use crate::{
    deployed::HeldOut,
    proportions::{LabelProportions, Probabilities},
};

/// Watches the stream beside the held-out rows and decides after every block.
#[derive(Debug)]
pub(crate) struct Gate {
    settings: GateSettings,
    /// What predictions are used for.
    objective: Objective,
    binning: Binning,
    cell_widths: Vec<f64>,
    /// Held-out rows as they are: what `prior` says the stream looks like.
    shape: HeldOutShape,
    memory: GateMemory,
}

/// The gate's part of a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GateMemory {
    window: EvidenceWindow,
    state: GateState,
    /// Proportions that explained the window best, after the latest block.
    proportions: Option<LabelProportions>,
    /// What the estimator's readings are made for, see [`Gate::reference`].
    reference: Option<LabelProportions>,
    /// What labels say; `None` if none are read.
    labels: Option<LabelTally>,
}

/// What a served map says that the stream looks like.
#[derive(Debug)]
pub(crate) struct MappedShape {
    pub(crate) shape: HeldOutShape,
    pub(crate) smallest_recall: f64,
    pub(crate) largest_deformation: f64,
}

impl Gate {
    pub(crate) fn new(held_out: &HeldOut, settings: GateSettings) -> Result<Self> {
        let binning = Binning::new(held_out)?;
        Ok(Self {
            settings,
            objective: Objective::default(),
            cell_widths: binning.cell_widths().collect(),
            shape: HeldOutShape::new(&binning, held_out)?,
            binning,
            memory: GateMemory {
                window: EvidenceWindow::new(),
                state: GateState::default(),
                proportions: None,
                reference: None,
                labels: None,
            },
        })
    }

    /// Takes in a block that the frozen model has scored, and decides. `latents` is empty for a black box.
    /// `effective_rows` is how many rows the tracked proportions are worth: few after the shares moved.
    pub(crate) fn observe(
        &mut self,
        block: u64,
        latents: &[f32],
        probabilities: &Probabilities,
        effective_rows: f64,
        mapped: Option<&mut MappedShape>,
    ) -> &Verdict {
        let counted = Counted::from(self.binning.histogram(latents, probabilities));
        let settings = &self.settings;
        let start = match &self.memory.proportions {
            Some(proportions) => proportions.clone(),
            None => LabelProportions::uniform(probabilities.classes()),
        };
        let adapted = mapped.map(|mapped| AdaptedEvidence {
            tests: ShapeTests::new(
                &mut mapped.shape,
                &counted,
                start.as_ref(),
                self.memory.reference.as_ref(),
                &self.cell_widths,
                settings,
            ),
            smallest_recall: mapped.smallest_recall,
            largest_deformation: mapped.largest_deformation,
        });
        let most = (effective_rows as usize).clamp(settings.fewest_rows, settings.window) as u32;
        self.memory.window.add(counted, most, &self.cell_widths);
        let prior = self.compare(start.as_ref());
        if let Ok(tests) = &prior {
            self.memory.proportions = Some(tests.proportions.clone());
            let stays = |reference: &LabelProportions| is_near(reference, &tests.proportions);
            if !self.memory.reference.as_ref().is_some_and(stays) {
                self.memory.reference = Some(tests.proportions.clone());
            }
        }
        let GateMemory { state, labels, .. } = &mut self.memory;
        let (settings, objective) = (&self.settings, self.objective);
        state.decide(block, prior, adapted, labels.as_mut(), settings, objective)
    }

    /// What predictions are used for.
    pub(crate) fn objective(&self) -> Objective {
        self.objective
    }

    /// Predictions are used for this from now on.
    pub(crate) fn serve_for(&mut self, objective: Objective) {
        self.objective = objective;
        if let Some(tally) = &mut self.memory.labels {
            tally.set_objective(objective);
        }
    }

    /// Counts labels from now on, or no longer.
    pub(crate) fn use_labels(&mut self, used: bool) {
        if used {
            let tally = self.memory.labels.get_or_insert_default();
            tally.set_objective(self.objective);
        } else {
            self.memory.labels = None;
        }
    }

    /// What labels say; `None` if none are read.
    pub(crate) fn labels_mut(&mut self) -> Option<&mut LabelTally> {
        self.memory.labels.as_mut()
    }

    /// The tests for `prior`, or why there can be none.
    fn compare(&mut self, start: &[f64]) -> std::result::Result<ShapeTests, GateReason> {
        let settings = &self.settings;
        let needed = settings.held_out_rows;
        let few = |count: &f64| (*count as usize) < needed;
        if let Some(class) = self.shape.counts.iter().position(few) {
            let rows = self.shape.counts[class] as usize;
            return Err(GateReason::TooFewHeldOutRows {
                class,
                rows,
                needed,
            });
        }
        let needed = settings.fewest_rows;
        let window = self.memory.window.total();
        let rows = window.map_or(0, |window| window.histogram.rows);
        let Some(window) = window.filter(|_| rows as usize >= needed) else {
            return Err(GateReason::TooFewRows { rows, needed });
        };
        Ok(ShapeTests::new(
            &mut self.shape,
            window,
            start,
            self.memory.reference.as_ref(),
            &self.cell_widths,
            settings,
        ))
    }

    /// Proportions that explained the window best; `None` before the first test.
    pub(crate) fn proportions(&self) -> Option<&LabelProportions> {
        self.memory.proportions.as_ref()
    }

    /// Proportions near those of the window, for the estimator and for the tests' noise. They stay while no share moves by
    /// more than 0.05: each change costs a pass over all held-out rows, which noise alone would cause in every second
    /// block of ten classes.
    pub(crate) fn reference(&self) -> Option<&LabelProportions> {
        self.memory.reference.as_ref()
    }

    /// Rows since the stream last jumped.
    pub(crate) fn rows_since_jump(&self) -> u64 {
        self.memory.window.rows_since_jump()
    }

    pub(crate) fn state(&self) -> &GateState {
        &self.memory.state
    }

    pub(crate) fn binning(&self) -> &Binning {
        &self.binning
    }

    pub(crate) fn memory(&self) -> &GateMemory {
        &self.memory
    }

    /// Takes over what was saved.
    pub(crate) fn restore(&mut self, memory: GateMemory) {
        self.memory = memory;
    }
}
