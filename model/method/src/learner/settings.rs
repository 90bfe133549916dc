//! Settings of the learner. The defaults are the outcome of a comparison, `experiments/DEFAULTS.md`.

use ostar_engine::{
    Error, Result,
    architecture::{CriticShape, MapShape, Norm},
    checks,
    optimiser::RateSchedule,
};
use serde::{Deserialize, Serialize};

use super::{labels::LabelUse, source::SourceSampling, window::WindowKind};
use crate::{
    alarms::AlarmSettings,
    diagnostics::GuardLimits,
    gate::{GateSettings, Objective},
    proportions::{Estimator, TrackerSettings},
};

/// Everything that can be set. `Default` is what the daemon uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LearnerSettings {
    /// Shape of the transport map.
    pub map: MapShape,
    /// Shape of the critic, which measures the distance that the map reduces.
    pub critic: CriticShape,
    /// Rows of one gradient, from the source and from the window each.
    pub batch: usize,
    /// Critic steps before each step of the map.
    pub critic_steps: usize,
    /// How source batches are drawn.
    pub sampling: SourceSampling,
    /// Rows of the target window.
    pub window: usize,
    /// Which rows the window keeps.
    pub window_kind: WindowKind,
    /// Base rates of critic, map and classifier.
    pub rates: Rates,
    /// How rates move with the steps.
    pub schedule: RateSchedule,
    /// Weight of the critic's gradient penalty (gamma).
    pub penalty_weight: f64,
    /// Weight of the transport cost (lambda_OT).
    pub transport: TransportWeight,
    /// Weight of the entropy of target predictions; 0 by default, because it made every case worse
    /// that was tried.
    pub entropy_weight: f64,
    /// Weight of the divergence of the mean target prediction from the proportions. The target classifier
    /// otherwise keeps the prior of its training, from which this draws it away.
    pub divergence_weight: f64,
    /// Largest class weight in the classifier's cross-entropy.
    pub class_weight_cap: f64,
    /// How proportions are estimated from the classifier's predictions.
    pub estimator: Estimator,
    /// How the published proportions follow the stream.
    pub tracker: TrackerSettings,
    /// Rows between two updates of the proportions; at least one a class.
    pub group: usize,
    /// Where the alignment's proportions start and whether they follow the window.
    pub alignment_proportions: AlignmentProportions,
    /// Whether classes may be translated as wholes before the map, where label shift alone cannot explain
    /// the target and translations can: no distance between source and target is left to be seen. Only
    /// with a window of 2,000 rows or more.
    pub class_translations: bool,
    /// Steps between two refreshes of proportions, transport weight and guard.
    pub refresh_every: u64,
    /// When a learned state may be a candidate.
    pub guard: GuardLimits,
    /// Which candidate mode `auto` serves.
    pub gate: GateSettings,
    /// How easily alarms are raised.
    pub alarms: AlarmSettings,
    /// Threads of the CPU engine.
    pub threads: usize,
    /// Seed of everything random. The same seed and events give the same state.
    pub seed: u64,
    /// What predictions are used for. Other sections of a configuration say so.
    #[serde(skip)]
    pub objective: Objective,
    /// How labels are used; `None` if none are read. Other sections of a configuration say so.
    #[serde(skip)]
    pub labels: Option<LabelUse>,
}

/// Base learning rates of Adam, which the schedule scales.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Base rate of the critic's steps.
    pub critic: f64,
    /// Base rate of the map's steps.
    pub map: f64,
    /// Base rate of the target classifier's steps.
    pub classifier: f64,
}

/// The weight of the transport cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TransportWeight {
    /// The same weight in every step.
    Fixed {
        /// Weight of the transport cost, at least 0.
        weight: f64,
    },
    /// The strongest that still brings the sliced distance down to the noise of the window: it
    /// shrinks while the distance is above the floor, and grows while it is not. Where no map brings it
    /// down, as on mail, it ends at its least.
    Solved {
        /// Weight before the first refresh.
        start: f64,
        /// What a refresh multiplies or divides it by, above 1.
        factor: f64,
    },
}

/// The proportions that alignment uses (p_N).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AlignmentProportions {
    /// From the frozen model's estimate at the start, from the adapted model's at every refresh.
    #[default]
    Estimated,
    /// Uniform for ever, and the frozen model's estimate is used for nothing. Known to collapse when the target
    /// is not uniform; for tests.
    Uniform,
}

impl Default for LearnerSettings {
    fn default() -> Self {
        Self {
            map: MapShape {
                blocks: 5,
                norm: Norm::Layer,
            },
            critic: CriticShape {
                hidden: vec![128, 128],
            },
            batch: 200,
            critic_steps: 5,
            sampling: SourceSampling::ClassBalanced,
            window: 5_000,
            window_kind: WindowKind::Ring,
            rates: Rates {
                critic: 1e-3,
                map: 3e-4,
                classifier: 3e-4,
            },
            schedule: RateSchedule::Constant,
            penalty_weight: 10.0,
            transport: TransportWeight::Fixed { weight: 1.0 },
            entropy_weight: 0.0,
            divergence_weight: 0.0,
            class_weight_cap: 20.0,
            estimator: Estimator::default(),
            tracker: TrackerSettings::default(),
            group: 50,
            alignment_proportions: AlignmentProportions::Estimated,
            class_translations: true,
            refresh_every: 10,
            guard: GuardLimits::default(),
            gate: GateSettings::default(),
            alarms: AlarmSettings::default(),
            threads: 2,
            seed: 0,
            objective: Objective::Class,
            labels: None,
        }
    }
}

impl LearnerSettings {
    /// Refuses settings that cannot work; the first of [`LearnerSettings::problems`] is the error.
    pub fn validate(&self) -> Result<()> {
        checks::first(self.problems())
    }

    /// Everything that cannot work, with the fields' names.
    pub fn problems(&self) -> Vec<Error> {
        let mut problems = checks::problems([
            checks::not_zero("batch", self.batch),
            checks::not_zero("critic_steps", self.critic_steps),
            checks::not_zero("window", self.window),
            checks::not_zero("group", self.group),
            checks::not_zero("refresh_every", self.refresh_every as usize),
            self.check_window(),
            checks::weight("penalty_weight", self.penalty_weight),
            checks::weight("entropy_weight", self.entropy_weight),
            checks::weight("divergence_weight", self.divergence_weight),
            checks::weight("rates.critic", self.rates.critic),
            checks::weight("rates.map", self.rates.map),
            checks::weight("rates.classifier", self.rates.classifier),
            checks::above("class_weight_cap", self.class_weight_cap, 0.0),
        ]);
        problems.extend(self.transport.problems());
        problems.extend(self.guard.problems());
        problems.extend(self.gate.problems());
        problems.extend(self.alarms.problems());
        problems.extend(self.tracker.problems());
        problems
    }

    fn check_window(&self) -> Result<()> {
        // A window of 0 has been told already.
        if self.window == 0 || self.window >= self.batch {
            return Ok(());
        }
        let (window, batch) = (self.window, self.batch);
        let problem = format!("is {window}, expected at least batch = {batch}");
        Err(Error::setting("window", problem))
    }
}

impl TransportWeight {
    fn problems(self) -> Vec<Error> {
        match self {
            Self::Fixed { weight } => {
                checks::problems([checks::weight("transport.fixed.weight", weight)])
            }
            Self::Solved { start, factor } => checks::problems([
                checks::weight("transport.solved.start", start),
                checks::above("transport.solved.factor", factor, 1.0),
            ]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_are_told_at_once_each_with_its_field() {
        let mut settings = LearnerSettings {
            batch: 0,
            window: 0,
            class_weight_cap: f64::NAN,
            transport: TransportWeight::Solved {
                start: -1.0,
                factor: 1.0,
            },
            tracker: TrackerSettings::HalfLife { blocks: 0.0 },
            ..LearnerSettings::default()
        };
        settings.guard.one_class = -1.0;
        settings.gate.patience = 0;
        settings.alarms.false_per_week = -1.0;
        let told: Vec<String> = settings
            .problems()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            told,
            [
                "batch: is 0, expected at least 1",
                "window: is 0, expected at least 1",
                "class_weight_cap: is NaN, expected a finite number above 0",
                "transport.solved.start: is -1, expected a finite number, 0 or more",
                "transport.solved.factor: is 1, expected a finite number above 1",
                "guard.one_class: is -1, expected a finite number, 0 or more",
                "gate.patience: is 0, expected at least 1",
                "alarms.false_per_week: is -1, expected a finite number, 0 or more",
                "tracker.half_life.blocks: is 0, expected a finite number of blocks above 0",
            ]
        );
        let first = settings.validate().unwrap_err().to_string();
        assert_eq!(first, told[0]);
        assert!(LearnerSettings::default().problems().is_empty());
    }

    #[test]
    fn a_window_holds_at_least_a_batch() {
        let settings = LearnerSettings {
            window: 100,
            ..LearnerSettings::default()
        };
        let told = settings.validate().unwrap_err().to_string();
        assert_eq!(told, "window: is 100, expected at least batch = 200");
    }
}
