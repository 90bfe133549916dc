//! What alarms tell: series beside their limits, and what changed since when.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    detector::Change,
    inputs::{FieldAlarm, FieldStatus},
};

/// What an alarm is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlarmKind {
    /// The share of a class, counted from 0.
    Share(usize),
    /// What the classes look like.
    Shape,
}

/// The level of a series changed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Alarm {
    /// What changed.
    pub kind: AlarmKind,
    /// The block after which it was told, counted from 1.
    pub block: u64,
    /// The block with which it began, as far as can be seen.
    pub since_block: u64,
    /// The level before: a share, or the worst of the gate's tests in parts of its limit.
    pub before: f64,
    /// The level since.
    pub after: f64,
    /// Whether `before` is that of training: the stream has never been like it.
    pub from_training: bool,
}

/// A series beside its limit, after the latest block.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AlarmSeries {
    /// What it is about.
    pub kind: AlarmKind,
    /// Cumulative sum of surprises.
    pub statistic: f64,
    /// An alarm is raised when the statistic reaches it.
    pub limit: f64,
    /// Whether an alarm stands: it was raised within the last 100 blocks, or is about the shape, and label shift is still
    /// refuted.
    pub firing: bool,
    /// Independent rows that a block is worth for this share, by the spread of block means; `None` while that is not known.
    pub effective_rows: Option<f64>,
}

/// What alarms say after a block.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct AlarmReport {
    /// One for each share that is watched, then the shape.
    pub series: Vec<AlarmSeries>,
    /// Alarms of this block.
    pub raised: Vec<Alarm>,
    /// The last alarms, oldest first.
    pub history: Vec<Alarm>,
    /// Blocks of the stream in a week; what the limits are made for.
    pub blocks_per_week: f64,
    /// The inputs of the model beside training; none if the bundle does not say what training had.
    pub inputs: Vec<FieldStatus>,
    /// Fields that broke in this block.
    pub broken: Vec<FieldAlarm>,
}

// === impl Alarm ===

impl Alarm {
    pub(super) fn of(kind: AlarmKind, block: u64, change: Change) -> Self {
        Self {
            kind,
            block,
            since_block: (block + 1).saturating_sub(u64::from(change.blocks)),
            before: change.before,
            after: change.after,
            from_training: false,
        }
    }

    pub(super) fn from_training(kind: AlarmKind, block: u64, before: f64, after: f64) -> Self {
        Self {
            kind,
            block,
            since_block: 1,
            before,
            after,
            from_training: true,
        }
    }

    /// What changed and since when, in a sentence without a full stop.
    pub fn in_words(&self, classes: &[String]) -> String {
        struct Percent(f64);
        impl fmt::Display for Percent {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:.1} %", 100.0 * self.0.clamp(0.0, 1.0))
            }
        }
        let Self {
            block,
            since_block,
            before,
            after,
            ..
        } = *self;
        match self.kind {
            AlarmKind::Share(class) => {
                let name = classes.get(class).map_or("a class", String::as_str);
                let (before, after) = (Percent(before), Percent(after));
                if self.from_training {
                    return format!(
                        "the share of {name} is {after} since the start, {before} in training (told after block {block})"
                    );
                }
                let moved = if self.after > self.before {
                    "rose"
                } else {
                    "fell"
                };
                format!(
                    "the share of {name} {moved} from {before} to {after} since block {since_block} (told after block \
                     {block})"
                )
            }
            AlarmKind::Shape if self.from_training => format!(
                "the classes are not as in training since the start: the worst test is at {after:.1} times its limit \
                 (told after block {block})"
            ),
            AlarmKind::Shape => format!(
                "the classes changed shape since block {since_block}: the worst test went from {before:.1} to \
                 {after:.1} times its limit (told after block {block})"
            ),
        }
    }
}

// === impl AlarmKind ===

impl AlarmKind {
    /// The name in metrics and APIs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Share(_) => "share",
            Self::Shape => "shape",
        }
    }

    /// The class whose share it is.
    pub const fn class(self) -> Option<usize> {
        match self {
            Self::Share(class) => Some(class),
            Self::Shape => None,
        }
    }
}
