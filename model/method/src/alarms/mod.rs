//! Alarms: when the shares or the shape of the classes have left their usual level.
//!
//! Each share, and the worst of the gate's tests, is a series with one value a block. A cumulative sum of surprises is
//! compared with a limit that follows from the number of false alarms a week that the user sets. What is surprising is
//! judged by the series' own spread from block to block and by how far each block follows the one before, so that
//! autocorrelation does not cry wolf. The inputs of the model are watched in the same way, field by field. Everything follows from the stream: a replay raises the same alarms.

mod baseline;
mod detector;
mod inputs;
mod limit;
mod pace;
mod report;

use std::{collections::VecDeque, sync::Arc};

use serde::{Deserialize, Serialize};

use self::{
    detector::{Change, Detector, Direction},
    inputs::{InputMemory, InputWatch},
    limit::limit,
    pace::Pace,
};
pub use self::{
    inputs::{FieldAlarm, FieldStatus},
    report::{Alarm, AlarmKind, AlarmReport, AlarmSeries},
};
use ostar_engine::{Error, Inputs, checks};

use crate::{
    profile::InputProfile,
    proportions::{Interval, LabelProportions},
};

/// Most classes whose shares are watched: those that were most common in training.
const MOST_CLASSES: usize = 40;
/// Alarms that are remembered.
const REMEMBERED: usize = 32;
/// Blocks for which an alarm stands. Then the new level is the usual one.
const STANDS_BLOCKS: u64 = 100;
/// Part of the false alarms that shares may raise; shape may raise the others.
const OF_SHARES: f64 = 0.5;
/// Part of all false alarms that fields of the input may raise, if they are watched.
const OF_INPUTS: f64 = 0.2;
/// Deviations from training at which the first level of a share is told. Looked at once.
const FIRST_LEVEL: f64 = 3.5;

/// How easily alarms are raised.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AlarmSettings {
    /// False alarms in a week of a stream that does not change, on average; 0 switches alarms off. All limits follow from
    /// it.
    pub false_per_week: f64,
}

impl Default for AlarmSettings {
    fn default() -> Self {
        Self {
            false_per_week: 1.0,
        }
    }
}

impl AlarmSettings {
    pub(crate) fn problems(&self) -> Vec<Error> {
        checks::problems([checks::weight("alarms.false_per_week", self.false_per_week)])
    }
}

/// Limits of sums.
#[derive(Debug, Clone, Copy)]
struct Limits {
    share: f64,
    shape: f64,
    input: f64,
}

/// What is known of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockStatistics<'a> {
    /// Counted from 1.
    pub block: u64,
    /// Mean readings of the shares in this block alone; `None` while label shift is refuted, so that they cannot be told.
    pub shares: Option<&'a [f64]>,
    /// Intervals of the shares by now, which also know what training data leave open; `None` for none.
    pub intervals: Option<&'a [Interval]>,
    /// The gate's worst test in parts of its limit; `None` while nothing can be tested.
    pub shape: Option<f64>,
}

/// Watches a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Alarms {
    settings: AlarmSettings,
    training: LabelProportions,
    memory: AlarmMemory,
    /// `None` if it is not known what training had.
    inputs: Option<InputWatch>,
}

/// The part of a checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AlarmMemory {
    pace: Pace,
    /// Of the classes that are watched.
    shares: Vec<Detector>,
    shape: Detector,
    /// Whether an alarm about the shape stands.
    shape_stands: bool,
    history: VecDeque<Alarm>,
    /// `None` if inputs are not watched.
    inputs: Option<InputMemory>,
}

impl Alarms {
    /// Nothing was seen yet.
    pub fn new(settings: AlarmSettings, training: LabelProportions) -> Self {
        let mut alarms = Self {
            settings,
            training,
            memory: AlarmMemory::default(),
            inputs: None,
        };
        let watched = alarms.watched().len();
        alarms.memory.shares.resize(watched, Detector::default());
        alarms
    }

    /// Watches the inputs of the model, too.
    pub fn with_inputs(mut self, profile: Option<Arc<InputProfile>>) -> Self {
        self.inputs = profile.map(InputWatch::new);
        self
    }

    /// Counts rows of the block that is observed next. A sample of its rows is enough.
    pub fn count_inputs(&mut self, inputs: Inputs<'_>, rows: usize) {
        if let Some(watch) = &mut self.inputs {
            watch.count(inputs, rows);
        }
    }

    /// Numbers of the classes whose shares are watched. Of two classes the second alone: the first mirrors it.
    fn watched(&self) -> Vec<usize> {
        let shares = self.training.as_ref();
        if shares.len() == 2 {
            return vec![1];
        }
        let mut classes: Vec<usize> = (0..shares.len()).collect();
        classes.sort_by(|a, b| shares[*b].total_cmp(&shares[*a]).then(a.cmp(b)));
        classes.truncate(MOST_CLASSES);
        classes.sort_unstable();
        classes
    }

    /// The next block is full; its newest event has this time. Without times five minutes a block are assumed.
    pub fn note_time(&mut self, time_ms: i64) {
        self.memory.pace.note(time_ms);
    }

    /// The limits of all sums; `None` if alarms are off.
    fn limits(&self) -> Option<Limits> {
        let rate = self.settings.false_per_week;
        if rate <= 0.0 {
            return None;
        }
        let blocks = self.memory.pace.blocks_per_week() / rate;
        let sums = 2.0 * self.memory.shares.len().max(1) as f64;
        let fields = self.inputs.as_ref().map_or(0, InputWatch::fields);
        let others = if fields > 0 { 1.0 - OF_INPUTS } else { 1.0 };
        Some(Limits {
            share: limit(blocks * sums / (others * OF_SHARES)),
            shape: limit(blocks / (others * (1.0 - OF_SHARES))),
            input: limit(blocks * fields.max(1) as f64 / OF_INPUTS),
        })
    }

    /// Takes in a block, and tells what has changed.
    pub fn observe(&mut self, block: BlockStatistics<'_>) -> AlarmReport {
        let broken = self.observe_inputs(block);
        let Some(limits) = self.limits() else {
            return AlarmReport {
                inputs: self.inputs(block.shares),
                ..AlarmReport::default()
            };
        };
        let mut raised = Vec::new();
        for (place, class) in self.watched().into_iter().enumerate() {
            let detector = &mut self.memory.shares[place];
            let Some(shares) = block.shares else {
                detector.interrupt();
                continue;
            };
            let kind = AlarmKind::Share(class);
            let change = detector.observe(shares[class], limits.share, Direction::Both);
            raised.extend(change.map(|change| Alarm::of(kind, block.block, change)));
            let first = detector.has_just_settled() && self.memory.history.is_empty();
            if first && change.is_none() {
                let interval = block.intervals.map(|intervals| intervals[class]);
                let apart = level_apart(detector, self.training[class], interval);
                raised.extend(apart.map(|level| {
                    Alarm::from_training(kind, block.block, self.training[class], level)
                }));
            }
        }
        raised.extend(self.observe_shape(block, limits.shape));
        for alarm in &raised {
            self.memory.history.push_back(*alarm);
        }
        while self.memory.history.len() > REMEMBERED {
            self.memory.history.pop_front();
        }
        let is_refuted = block.shares.is_none();
        let is_recent = self.is_recent(AlarmKind::Shape, block.block);
        self.memory.shape_stands = is_recent || (self.memory.shape_stands && is_refuted);
        AlarmReport {
            inputs: self.inputs(block.shares),
            broken,
            ..self.report(block.block, raised)
        }
    }

    /// Takes in the inputs that were counted, and tells which fields broke.
    fn observe_inputs(&mut self, block: BlockStatistics<'_>) -> Vec<FieldAlarm> {
        let limit = self.limits().map_or(f64::INFINITY, |limits| limits.input);
        let proportions = self.possible_shares(block.shares);
        match &mut self.inputs {
            Some(watch) => watch.observe(block.block, &proportions, limit),
            None => Vec::new(),
        }
    }

    /// The inputs beside training, if the classes have these shares.
    fn inputs(&self, shares: Option<&[f64]>) -> Vec<FieldStatus> {
        let limit = self.limits().map_or(f64::INFINITY, |limits| limits.input);
        let proportions = self.possible_shares(shares);
        let watch = self.inputs.as_ref();
        watch.map_or_else(Vec::new, |watch| watch.status(&proportions, limit))
    }

    /// Readings of shares, which may be below 0, as shares; training's if there are none.
    fn possible_shares(&self, readings: Option<&[f64]>) -> Vec<f64> {
        let readings = readings.unwrap_or(self.training.as_ref());
        let shares: Vec<f64> = readings.iter().map(|share| share.clamp(0.0, 1.0)).collect();
        let sum: f64 = shares.iter().sum();
        if !(sum.is_finite() && sum > 0.0) {
            return self.training.as_ref().to_vec();
        }
        shares.into_iter().map(|share| share / sum).collect()
    }

    fn observe_shape(&mut self, block: BlockStatistics<'_>, limit: f64) -> Option<Alarm> {
        let detector = &mut self.memory.shape;
        let Some(shape) = block.shape else {
            detector.interrupt();
            return None;
        };
        // A ratio: what doubles it counts the same wherever it was.
        let value = shape.clamp(1e-3, 1e3).ln();
        if let Some(change) = detector.observe(value, limit, Direction::Up) {
            let change = Change {
                before: change.before.exp(),
                after: change.after.exp(),
                ..change
            };
            return Some(Alarm::of(AlarmKind::Shape, block.block, change));
        }
        let is_first = !self
            .memory
            .history
            .iter()
            .any(|alarm| alarm.kind == AlarmKind::Shape);
        if !(is_first && detector.has_just_settled()) {
            return None;
        }
        let level = detector.baseline().mean()?.exp();
        (level > 1.0).then(|| Alarm::from_training(AlarmKind::Shape, block.block, 1.0, level))
    }

    fn is_recent(&self, kind: AlarmKind, block: u64) -> bool {
        let recent = |alarm: &&Alarm| block < alarm.block + STANDS_BLOCKS;
        let mut recent = self.memory.history.iter().filter(recent);
        recent.any(|alarm| alarm.kind == kind)
    }

    /// What stands after `block`.
    pub(crate) fn report(&self, block: u64, raised: Vec<Alarm>) -> AlarmReport {
        let Some(limits) = self.limits() else {
            return AlarmReport {
                inputs: self.inputs(None),
                ..AlarmReport::default()
            };
        };
        let share = |(class, detector): (usize, &Detector)| AlarmSeries {
            kind: AlarmKind::Share(class),
            statistic: detector.statistic(Direction::Both),
            limit: limits.share,
            firing: self.is_recent(AlarmKind::Share(class), block),
            effective_rows: effective_rows(detector),
        };
        let shares = self.watched().into_iter().zip(&self.memory.shares);
        let mut series: Vec<AlarmSeries> = shares.map(share).collect();
        series.push(AlarmSeries {
            kind: AlarmKind::Shape,
            statistic: self.memory.shape.statistic(Direction::Up),
            limit: limits.shape,
            firing: self.memory.shape_stands,
            effective_rows: None,
        });
        AlarmReport {
            series,
            raised,
            history: self.memory.history.iter().copied().collect(),
            blocks_per_week: self.memory.pace.blocks_per_week(),
            inputs: self.inputs(None),
            broken: Vec::new(),
        }
    }

    pub(crate) fn memory(&self) -> AlarmMemory {
        AlarmMemory {
            inputs: self.inputs.as_ref().map(|watch| watch.memory().clone()),
            ..self.memory.clone()
        }
    }

    pub(crate) fn restore(&mut self, mut memory: AlarmMemory) {
        if let (Some(watch), Some(inputs)) = (&mut self.inputs, memory.inputs.take()) {
            watch.restore(inputs);
        }
        self.memory = memory;
    }
}

/// Independent rows whose mean would spread as much as block means do in the long run.
fn effective_rows(detector: &Detector) -> Option<f64> {
    let share = detector.baseline().mean()?.clamp(0.0, 1.0);
    let variance = detector.baseline().long_run_variance()?;
    let rows = share * (1.0 - share) / variance;
    (rows > 0.0 && rows.is_finite()).then_some(rows)
}

/// The first level of a share, if it is clearly another than in training.
fn level_apart(detector: &Detector, training: f64, interval: Option<Interval>) -> Option<f64> {
    let baseline = detector.baseline();
    let level = baseline.mean()?;
    let sampling = baseline.long_run_variance()? / baseline.blocks();
    // The interval is of 1.96 deviations to each side, and never wider than the range.
    let known = interval.map_or(0.0, |interval| (interval.high - interval.low) / 3.92);
    let deviation = sampling.sqrt().max(known);
    ((level - training).abs() > FIRST_LEVEL * deviation).then_some(level)
}
