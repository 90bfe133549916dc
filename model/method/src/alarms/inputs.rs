//! Watches the inputs of the model, field by field: what tells a broken pipeline from a moved class.
//!
//! The series of a field is its distance from training beyond chance, one value a block, from a sample of its rows. The
//! same cumulative sums as for shares tell when it rises a little. A field that breaks altogether, or is broken when the
//! stream begins, is told after two blocks: the sums take a jump of many deviations for odd blocks.

use std::sync::Arc;

use ostar_engine::Inputs;
use serde::{Deserialize, Serialize};

use super::{
    baseline::SETTLED_PAIRS,
    detector::{Detector, Direction},
};
use crate::profile::{FieldReport, InputProfile, Tally};

/// What the counts of a block keep of their weight with each block after it: about ten blocks count.
const KEPT: f64 = 0.9;
/// Distance beyond chance that is told before the usual level is known. No mixture of classes is so far.
const GROSS: f64 = 0.25;
/// Rise of the distance above its usual level that is told at once.
const STEP: f64 = 0.15;
/// The same in deviations of a block's distance.
const STEP_DEVIATIONS: f64 = 6.0;
/// Blocks in a row that must be so far.
const STEP_BLOCKS: u64 = 2;
/// Blocks that the usual level is over, about.
const USUAL_BLOCKS: f64 = 200.0;
/// Distance beyond chance, or a rise of it, below which a field is not called broken.
const NOTABLE: f64 = 0.05;
/// Deviations from 0 at which the first usual level is told. Looked at once.
const FIRST_LEVEL: f64 = 3.5;
/// Blocks after an alarm in which it is not taken back.
const LEAST_BLOCKS: u64 = 10;

/// A field after the latest block.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FieldStatus {
    /// About the last ten blocks.
    pub report: FieldReport,
    /// Cumulative sum of surprises of its distance.
    pub statistic: f64,
    /// An alarm is raised when the statistic reaches it; infinite if alarms are off.
    pub limit: f64,
    /// Whether an alarm stands: since it was raised, the distance has not fallen below half.
    pub broken: bool,
    /// The block since which it is broken.
    pub since_block: Option<u64>,
}

/// A field has left what training had.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FieldAlarm {
    /// Name of the field.
    pub field: String,
    /// The block after which it was told, counted from 1.
    pub block: u64,
    /// The block with which it began, as far as can be seen.
    pub since_block: u64,
    /// What is wrong, in a sentence without a full stop.
    pub told: String,
}

/// Counts the rows of a stream beside training's.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct InputWatch {
    profile: Arc<InputProfile>,
    /// Of the block that is being filled.
    block: Tally,
    memory: InputMemory,
}

/// The part of a checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputMemory {
    blocks: u64,
    window: Tally,
    /// Sum of the squared weights of the window's rows.
    squares: f64,
    fields: Vec<FieldMemory>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldMemory {
    detector: Detector,
    stands: Option<Standing>,
    /// Whether the first usual level was looked at.
    settled: bool,
    /// Mean distance beyond chance of the blocks that were not far, and how many they were.
    usual: f64,
    usual_blocks: f64,
    /// Blocks in a row that were far.
    far: u64,
}

/// An alarm that stands.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Standing {
    block: u64,
    since_block: u64,
    /// Distance beyond chance when it was raised.
    level: f64,
}

impl InputWatch {
    pub(super) fn new(profile: Arc<InputProfile>) -> Self {
        let fields = vec![FieldMemory::default(); profile.fields.len()];
        Self {
            profile,
            block: Tally::default(),
            memory: InputMemory {
                fields,
                ..InputMemory::default()
            },
        }
    }

    pub(super) fn fields(&self) -> usize {
        self.profile.fields.len()
    }

    pub(super) fn memory(&self) -> &InputMemory {
        &self.memory
    }

    /// Takes over what an earlier process remembers of the same fields.
    pub(super) fn restore(&mut self, memory: InputMemory) {
        if memory.fields.len() == self.fields() && memory.window.fits(&self.profile) {
            self.memory = memory;
        }
    }

    /// Counts rows of the block that is being filled.
    pub(super) fn count(&mut self, inputs: Inputs<'_>, rows: usize) {
        self.block.add(&self.profile, inputs, rows);
    }

    /// Takes in the block that was counted, and tells which fields broke.
    pub(super) fn observe(
        &mut self,
        block: u64,
        proportions: &[f64],
        limit: f64,
    ) -> Vec<FieldAlarm> {
        let rows = self.block.rows();
        if rows < 1.0 {
            return Vec::new();
        }
        let distances = self.profile.distances(&self.block, rows, proportions);
        let memory = &mut self.memory;
        memory.blocks += 1;
        memory.squares = KEPT * KEPT * memory.squares + rows;
        memory.window.blend(&self.profile, KEPT, &self.block);
        self.block.clear();
        let over = self
            .profile
            .distances(&memory.window, memory.rows(), proportions);
        let blocks = memory.blocks;
        let mut broken = Vec::new();
        for (place, (now, over)) in distances.iter().zip(&over).enumerate() {
            let field = &mut memory.fields[place];
            let excess = now.distance - now.noise_floor;
            field.recover(block, excess, over.distance - over.noise_floor);
            let change = field
                .detector
                .observe_noisy(excess, now.variance, limit, Direction::Up);
            let rise = change.filter(|change| change.after - change.before.max(0.0) > NOTABLE);
            let standing = |blocks: u64, level: f64| Standing {
                block,
                since_block: (block + 1).saturating_sub(blocks),
                level,
            };
            let raised = match rise {
                Some(change) => Some(standing(change.blocks.into(), change.after)),
                None if limit.is_finite() && field.stands.is_none() => {
                    let stepped = field.step(excess, now.variance);
                    let stepped = stepped.map(|level| standing(STEP_BLOCKS, level));
                    stepped.or_else(|| field.first_level().map(|level| standing(blocks, level)))
                }
                None => None,
            };
            if raised.is_some() {
                field.stands = raised;
                broken.push(place);
            }
        }
        self.tell(&broken, proportions)
    }

    fn tell(&self, broken: &[usize], proportions: &[f64]) -> Vec<FieldAlarm> {
        if broken.is_empty() {
            return Vec::new();
        }
        let reports = self.reports(proportions);
        let alarm = |place: &usize| {
            let standing = self.memory.fields[*place].stands?;
            Some(FieldAlarm {
                field: reports[*place].name.clone(),
                block: standing.block,
                since_block: standing.since_block,
                told: reports[*place].to_string(),
            })
        };
        broken.iter().filter_map(alarm).collect()
    }

    fn reports(&self, proportions: &[f64]) -> Vec<FieldReport> {
        let memory = &self.memory;
        self.profile
            .compare(&memory.window, memory.rows(), proportions)
    }

    /// All fields after the latest block; none before the first.
    pub(super) fn status(&self, proportions: &[f64], limit: f64) -> Vec<FieldStatus> {
        let reports = self.reports(proportions).into_iter();
        let fields = reports.zip(&self.memory.fields);
        fields
            .map(|(report, field)| FieldStatus {
                report,
                statistic: field.detector.statistic(Direction::Up),
                limit,
                broken: field.stands.is_some(),
                since_block: field.stands.map(|standing| standing.since_block),
            })
            .collect()
    }
}

impl InputMemory {
    /// Independent rows that the window is worth.
    fn rows(&self) -> f64 {
        let rows = self.window.rows();
        rows * rows / self.squares.max(1.0)
    }
}

impl FieldMemory {
    /// Takes an alarm back when the field is less than half as far from training as it was.
    fn recover(&mut self, block: u64, excess: f64, window: f64) {
        let Some(standing) = self.stands else {
            return;
        };
        let half = 0.5 * standing.level;
        if block >= standing.block + LEAST_BLOCKS && excess < half && window < half {
            // What is usual was learned while it was broken.
            *self = Self::default();
        }
    }

    /// The distance of a field that has left its usual level altogether.
    fn step(&mut self, excess: f64, variance: f64) -> Option<f64> {
        let least = if self.usual_blocks == 0.0 {
            GROSS
        } else {
            STEP
        };
        if excess < self.usual + least.max(STEP_DEVIATIONS * variance.sqrt()) {
            self.far = 0;
            self.usual_blocks = (self.usual_blocks + 1.0).min(USUAL_BLOCKS);
            self.usual += (excess - self.usual) / self.usual_blocks;
            return None;
        }
        self.far += 1;
        if self.far < STEP_BLOCKS {
            return None;
        }
        // What is usual is learned anew.
        self.detector = Detector::default();
        Some(excess)
    }

    /// The distance of a field that was never quite as in training, once its usual level is known.
    fn first_level(&mut self) -> Option<f64> {
        let baseline = self.detector.baseline();
        if baseline.blocks() < SETTLED_PAIRS || std::mem::replace(&mut self.settled, true) {
            return None;
        }
        let level = baseline.mean()?;
        let deviation = (baseline.long_run_variance()? / baseline.blocks()).sqrt();
        (level > 2.0 * NOTABLE && level > FIRST_LEVEL * deviation).then_some(level)
    }
}
