//! The gate: which candidate is served, decided from evidence that needs no label, and from the labels that come.
//!
//! A stream may have moved in two ways that look alike: the shares of the classes moved (label shift), or the inputs did and each
//! input still means the same (covariate shift). Under the one story prior correction gains, under the other it loses. It is
//! served once the rows prove the first, or as far as it would cost next to nothing under the second; else the frozen
//! model is. The [`Verdict`] says why, with the figures that decided, and what can be said of the shares.
//!
//! The parts: `StoryTests` judges the two stories on a `StoryWindow`, [`ShapeTests`] says whether label shift fits at all,
//! `LabelTally` counts what labels say, `Strengths` how far they carry prior correction, `GateState` turns the evidence of
//! a block into a decision.

mod beta;
mod bins;
mod change;
mod decision;
mod duel;
mod explanation;
mod histogram;
mod labels;
mod lines;
mod outcomes;
mod projections;
mod reference;
mod settings;
mod shape;
mod states;
mod stories;
mod strength;
mod window;

use serde::{Deserialize, Serialize};

pub(crate) use change::{Change, WHOLE};
pub use decision::{Decided, GateReason, Known, Verdict, at_strength};
pub use explanation::{ShapeTest, ShapeTests};
pub use labels::{DuelReport, LabelEvidence, Objective};
pub(crate) use labels::{LabelTally, LabelledRow};
pub use reference::{ReferenceDifference, reference_differs};
pub use settings::GateSettings;
pub(crate) use shape::HeldOutShape;
pub use states::GateState;
pub use stories::Stories;

use ostar_engine::Result;

use self::{
    explanation::is_near,
    shape::Binning,
    states::{AdaptedEvidence, MOST_DEVIATIONS, StreamEvidence},
    stories::{Correction, StoryTests, StoryWindow},
    window::{Counted, EvidenceWindow},
};
use crate::{
    deployed::Deployed,
    proportions::{LabelProportions, Probabilities, ProportionEstimate},
};

/// Of latents: label shift fits while they lie within so many deviations of it.
const MOST_LATENT_DEVIATIONS: f64 = 3.0;
/// What correction gained on a block counts this much with the next.
const GAIN_KEPT: f64 = 0.95;

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
    stories: StoryTests,
    training_proportions: LabelProportions,
    memory: GateMemory,
}

/// The gate's part of a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GateMemory {
    window: EvidenceWindow,
    stories: StoryWindow,
    state: GateState,
    /// What the window last said, and the strength of a step that it allows; `None` where it cannot be judged.
    judged: Option<(Stories, f64)>,
    /// Points that correction chosen before each block gained on it, faded.
    gained: f64,
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

/// A block as the gate looks at it.
#[derive(Debug)]
pub(crate) struct ObservedBlock<'a> {
    /// Counted from 1, so that 0 means before the first.
    pub(crate) number: u64,
    /// Empty for a black box.
    pub(crate) latents: &'a [f32],
    /// By the frozen model.
    pub(crate) probabilities: &'a Probabilities,
    /// Shares that the frozen model's predictions were followed to.
    pub(crate) estimate: &'a ProportionEstimate,
    /// What the stream's evidence would have corrected each group of rows to, and how many rows that was.
    pub(crate) chosen: &'a [(usize, Option<LabelProportions>)],
    /// The map that is served, with the shares of its predictions.
    pub(crate) mapped: Option<(&'a MappedShape, &'a LabelProportions)>,
}

impl Gate {
    pub(crate) fn new(deployed: &Deployed, settings: GateSettings) -> Result<Self> {
        let held_out = &deployed.held_out;
        let binning = Binning::new(held_out)?;
        Ok(Self {
            settings,
            objective: Objective::default(),
            cell_widths: binning.cell_widths().collect(),
            shape: HeldOutShape::new(&binning, held_out)?,
            binning,
            stories: StoryTests::new(held_out, deployed.reference.as_ref()),
            training_proportions: deployed.training_proportions.clone(),
            memory: GateMemory {
                window: EvidenceWindow::new(),
                stories: StoryWindow::default(),
                state: GateState::default(),
                judged: None,
                gained: 0.0,
                reference: None,
                labels: None,
            },
        })
    }

    /// Takes in a block that the frozen model has scored, and decides.
    pub(crate) fn observe(&mut self, block: &ObservedBlock<'_>) -> &Verdict {
        let ObservedBlock {
            number,
            latents,
            probabilities,
            estimate,
            chosen,
            mapped,
        } = block;
        let counted = Counted::from(self.binning.histogram(latents, probabilities));
        let (settings, memory) = (&self.settings, &mut self.memory);
        let coarse = &counted.histogram.bins;
        (self.stories).take_in(&mut memory.stories, latents, probabilities, coarse);
        let rows = u64::from(counted.histogram.rows);
        let jumped = memory.stories.since_jump() <= rows;
        let gain = self
            .stories
            .gain(probabilities, &self.training_proportions, chosen);
        memory.gained = GAIN_KEPT * memory.gained + gain;
        let stays = |reference: &LabelProportions| is_near(reference, &estimate.proportions);
        if !memory.reference.as_ref().is_some_and(stays) {
            memory.reference = Some(estimate.proportions.clone());
        }
        let adapted = mapped.map(|(mapped, shares)| AdaptedEvidence {
            tests: ShapeTests::on_lines(
                &mapped.shape,
                &counted,
                shares,
                &self.cell_widths,
                settings,
            ),
            smallest_recall: mapped.smallest_recall,
            largest_deformation: mapped.largest_deformation,
        });
        let most = memory.stories.since_jump().min(settings.window as u64) as u32;
        memory.window.add(counted, most, jumped);
        let evidence = self.evidence(estimate, jumped);
        let GateMemory { state, labels, .. } = &mut self.memory;
        let (settings, objective) = (&self.settings, self.objective);
        state.decide(
            *number,
            evidence,
            adapted,
            labels.as_mut(),
            settings,
            objective,
        )
    }

    /// What the window shows.
    fn evidence(&mut self, estimate: &ProportionEstimate, jumped: bool) -> StreamEvidence {
        let correction = Correction {
            training: &self.training_proportions,
            target: &estimate.proportions,
        };
        let memory = &mut self.memory;
        if self.stories.is_due(&memory.stories) {
            let judged =
                (self.stories).judge(&mut memory.stories, &estimate.proportions, &correction);
            memory.judged = judged;
        }
        let (stories, bounded_strength) = self.memory.judged.clone().unzip();
        // Where latents tell whether label shift fits, the odds suffice.
        let least_power = match (self.stories.sees_latents(), self.stories.has_reference()) {
            (true, _) => 0.0,
            (false, true) => self.settings.least_power,
            (false, false) => self.settings.least_power + 1.0,
        };
        StreamEvidence {
            tests: self.compare(stories.as_ref(), &estimate.proportions),
            stories,
            bounded_strength: bounded_strength.unwrap_or(0.0),
            gained: self.memory.gained,
            jumped,
            least_power,
        }
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

    /// Whether label shift fits, or why that cannot be tested.
    fn compare(
        &self,
        stories: Option<&Stories>,
        shares: &LabelProportions,
    ) -> std::result::Result<ShapeTests, GateReason> {
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
        let shares = stories.map_or(shares, |stories| &stories.if_shares_moved);
        let mut tests =
            ShapeTests::on_lines(&self.shape, window, shares, &self.cell_widths, settings);
        if let Some(stories) = stories {
            match stories.latents {
                Some(apart) => {
                    tests.latents = ShapeTest {
                        statistic: apart,
                        limit: MOST_LATENT_DEVIATIONS,
                    }
                }
                None => {
                    tests.scores = Some(ShapeTest {
                        statistic: stories.from_shares.abs(),
                        limit: MOST_DEVIATIONS,
                    })
                }
            }
        }
        Ok(tests)
    }

    /// Proportions near those of the window, for the estimator and for the tests' noise. They stay while no share moves by
    /// more than 0.05: each change costs a pass over all held-out rows, which noise alone would cause in every second
    /// block of ten classes.
    pub(crate) fn reference(&self) -> Option<&LabelProportions> {
        self.memory.reference.as_ref()
    }

    /// Rows since the stream last jumped.
    pub(crate) fn rows_since_jump(&self) -> u64 {
        self.memory.stories.since_jump()
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
