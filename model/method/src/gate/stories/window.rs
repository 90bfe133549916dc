//! The rows since the stream last changed, as the stories need them.

use std::collections::VecDeque;

use nalgebra::DMatrix;
use serde::{Deserialize, Serialize};

use super::points::{Points, Prepared, Products, Space};

/// Rows of a segment at least: the window forgets whole segments.
const SEGMENT_ROWS: u32 = 500;
/// Segments before the recent rows are joined up to this size, so that a checkpoint has few.
const OLD_SEGMENT_ROWS: u32 = 2_500;
/// Most rows that are looked at. Beyond 20,000 the tiniest misfit of the calibration shows; rows of more than two classes are
/// kept one by one, so fewer.
const MOST_ROWS: u32 = 20_000;
const MOST_ROWS_OF_MANY_CLASSES: u32 = 3_000;
/// A block is compared with this many rows before it, and so many of the newest with the older rest.
const RECENT_ROWS: u32 = 3_000;
/// Deviations of chi squared that chance alone exceeds once in 1,000 blocks, and once in 10,000.
const BLOCK_JUMPED: f64 = 3.09;
const WINDOW_JUMPED: f64 = 3.72;
/// Bins with fewer rows are left out of the comparison.
const FEWEST_IN_BIN: u32 = 8;
/// Rows whose mean score tells whether rows resemble their neighbours, and how many such groups make the larger one.
const GROUP: usize = 25;
const GROUPS_TOGETHER: usize = 4;

/// Some hundred rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Segment {
    rows: u32,
    /// Rows by bin of the change test.
    coarse: Vec<u32>,
    /// Rows of each bin; with more than two classes the probabilities of each row.
    values: Vec<f32>,
    /// Sums of the components of each bin; with more than two classes the components of each row.
    components: Vec<f32>,
    /// Sum of the components' products over all rows; empty where rows are kept one by one.
    products: Vec<f32>,
    /// Mean score of each group of rows.
    group_scores: Vec<f32>,
    /// Sum and sum of squares of the score.
    score: [f64; 2],
}

/// Segments, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoryWindow {
    segments: VecDeque<Segment>,
    rows_since_jump: u64,
    /// Rows since the window was judged.
    unjudged: u32,
}

impl Segment {
    /// `coarse` has the rows by bin of the change test.
    /// Only what the change test needs.
    pub(super) fn counted(rows: usize, coarse: &[u32]) -> Self {
        Self {
            rows: rows as u32,
            coarse: coarse.to_vec(),
            ..Self::default()
        }
    }

    pub(super) fn new(space: &Space, classes: usize, prepared: &Prepared, coarse: &[u32]) -> Self {
        let rows = prepared.calibrated.len() / classes;
        let count = prepared.components.len() / rows.max(1);
        let score = |row: &[f64]| match classes {
            2 => row[1],
            _ => row.iter().copied().fold(0.0, f64::max),
        };
        let scores: Vec<f64> = prepared
            .calibrated
            .chunks_exact(classes)
            .map(score)
            .collect();
        let group = |group: &[f64]| (group.iter().sum::<f64>() / GROUP as f64) as f32;
        let mut segment = Self {
            group_scores: scores.chunks_exact(GROUP).map(group).collect(),
            score: [scores.iter().sum(), scores.iter().map(|s| s * s).sum()],
            ..Self::counted(rows, coarse)
        };
        if space.bins() == 0 {
            segment.values = prepared.calibrated.iter().map(|f| *f as f32).collect();
            segment.components.clone_from(&prepared.components);
            return segment;
        }
        segment.values = vec![0.0; space.bins()];
        segment.components = vec![0.0; space.bins() * count];
        segment.products = vec![0.0; count * count];
        for (number, row) in prepared.calibrated.chunks_exact(classes).enumerate() {
            let bin = space.bin(row).unwrap_or(0);
            segment.values[bin] += 1.0;
            let row = &prepared.components[number * count..][..count];
            for (a, left) in row.iter().enumerate() {
                segment.components[bin * count + a] += left;
                for (sum, right) in segment.products[a * count..][..=a].iter_mut().zip(row) {
                    *sum += left * right;
                }
            }
        }
        segment
    }

    fn append(&mut self, other: Self, has_bins: bool) {
        self.rows += other.rows;
        add(&mut self.coarse, &other.coarse);
        if has_bins {
            add(&mut self.values, &other.values);
            add(&mut self.components, &other.components);
            add(&mut self.products, &other.products);
        } else {
            self.values.extend(other.values);
            self.components.extend(other.components);
        }
        self.group_scores.extend(other.group_scores);
        (0..2).for_each(|power| self.score[power] += other.score[power]);
    }
}

fn add<T: Copy + std::ops::AddAssign>(sums: &mut [T], values: &[T]) {
    sums.iter_mut()
        .zip(values)
        .for_each(|(sum, value)| *sum += *value);
}

impl StoryWindow {
    pub(super) fn rows(&self) -> u32 {
        self.segments.iter().map(|segment| segment.rows).sum()
    }

    pub(super) fn rows_since_jump(&self) -> u64 {
        self.rows_since_jump
    }

    /// Whether so many rows came since it was judged, or it has few rows, of which each block is a large part.
    pub(super) fn is_new_by(&self, rows: u32) -> bool {
        self.unjudged >= rows || self.rows_since_jump <= u64::from(RECENT_ROWS)
    }

    pub(super) fn note_judged(&mut self) {
        self.unjudged = 0;
    }

    /// Takes a block in. One that does not look like the rows before it starts a new window, and so do the newest rows
    /// if they do not look like the older ones: a window that mixes two regimes is explained by neither story.
    pub(super) fn add(&mut self, block: Segment, has_bins: bool) {
        let independent = self.independent();
        let recent = self.recent(RECENT_ROWS);
        let before = self.coarse(recent..self.segments.len());
        if differ(&before, &block.coarse, independent) > BLOCK_JUMPED {
            self.segments.clear();
            self.rows_since_jump = 0;
        }
        self.rows_since_jump += u64::from(block.rows);
        self.unjudged = self.unjudged.saturating_add(block.rows);
        match self.segments.back_mut() {
            Some(open) if open.rows < SEGMENT_ROWS => open.append(block, has_bins),
            _ => self.segments.push_back(block),
        }
        let newest = self.recent(RECENT_ROWS);
        if newest > 0 {
            let (older, newer) = (0..newest, newest..self.segments.len());
            let apart = differ(&self.coarse(older), &self.coarse(newer), independent);
            if apart > WINDOW_JUMPED {
                self.segments.drain(..newest);
                self.rows_since_jump = u64::from(self.rows());
            }
        }
        self.join_old(has_bins);
        let most = if has_bins {
            MOST_ROWS
        } else {
            MOST_ROWS_OF_MANY_CLASSES
        };
        let mut rows = self.rows();
        while let Some(oldest) = self.segments.front().map(|segment| segment.rows)
            && self.segments.len() > 1
            && rows - oldest >= most
        {
            rows -= oldest;
            self.segments.pop_front();
        }
    }

    /// Joins the two newest segments of those before the recent rows, if they are small.
    fn join_old(&mut self, has_bins: bool) {
        let newest = self.recent(RECENT_ROWS);
        if newest < 2 {
            return;
        }
        let (before, last) = (&self.segments[newest - 2], &self.segments[newest - 1]);
        if before.rows + last.rows <= OLD_SEGMENT_ROWS
            && let Some(last) = self.segments.remove(newest - 1)
        {
            self.segments[newest - 2].append(last, has_bins);
        }
    }

    /// The first of the newest segments that have `rows` rows together, or all.
    fn recent(&self, rows: u32) -> usize {
        let mut sum = 0;
        for (number, segment) in self.segments.iter().enumerate().rev() {
            sum += segment.rows;
            if sum >= rows {
                return number;
            }
        }
        0
    }

    fn coarse(&self, segments: std::ops::Range<usize>) -> Vec<u32> {
        let mut sum = Vec::new();
        for segment in self.segments.range(segments) {
            sum.resize(segment.coarse.len(), 0);
            add(&mut sum, &segment.coarse);
        }
        sum
    }

    /// All rows as points of `space`.
    pub(super) fn points(&self, space: &Space, classes: usize, count: usize) -> Points {
        let wide = |values: &[f32]| -> Vec<f64> { values.iter().map(|v| f64::from(*v)).collect() };
        let Space::Bins {
            probabilities,
            logits,
            ..
        } = space
        else {
            let all = |of: fn(&Segment) -> &[f32]| -> Vec<f64> {
                self.segments
                    .iter()
                    .flat_map(|segment| wide(of(segment)))
                    .collect()
            };
            let probabilities = all(|segment| &segment.values);
            let rows = probabilities.chunks_exact(classes);
            return Points {
                weights: vec![1.0; rows.len()],
                logits: rows.flat_map(|row| space.logits(row)).collect(),
                components: all(|segment| &segment.components),
                probabilities,
                products: Products::OfRows,
                labels: Vec::new(),
            };
        };
        let mut weights = vec![0.0; logits.len()];
        let mut components = vec![0.0; logits.len() * count];
        let mut products = DMatrix::zeros(count, count);
        for segment in &self.segments {
            add(&mut weights, &wide(&segment.values));
            add(&mut components, &wide(&segment.components));
            for (place, product) in segment.products.iter().enumerate() {
                products[(place / count, place % count)] += f64::from(*product);
            }
        }
        Points {
            weights,
            probabilities: probabilities.clone(),
            logits: logits.clone(),
            components,
            products: Products::Total(products),
            labels: Vec::new(),
        }
    }

    /// Share of the rows that are independent, by how much the mean scores of neighbouring rows vary beyond chance: near copies of
    /// a row, as sessions and retries have them, count once.
    pub(super) fn independent(&self) -> f64 {
        let rows = f64::from(self.rows());
        let sum = |power: usize| self.segments.iter().map(|s| s.score[power]).sum::<f64>();
        let mean = sum(0) / rows;
        let variance = sum(1) / rows - mean * mean;
        let groups: Vec<f64> = (self.segments.iter())
            .flat_map(|segment| segment.group_scores.iter().map(|score| f64::from(*score)))
            .collect();
        let inflation = |together: usize| {
            let means = groups.chunks_exact(together);
            let count = means.len() as f64;
            if count < 8.0 || variance < 1e-12 {
                return 1.0;
            }
            let squares =
                means.map(|group| (group.iter().sum::<f64>() / together as f64 - mean).powi(2));
            let ratio = squares.sum::<f64>() / count * (GROUP * together) as f64 / variance;
            // What chance alone gives in one of a thousand windows is no resemblance.
            if ratio > 1.0 + BLOCK_JUMPED * (2.0 / count).sqrt() {
                ratio
            } else {
                1.0
            }
        };
        1.0 / inflation(1).max(inflation(GROUPS_TOGETHER))
    }
}

/// How many deviations the chi squared of two histograms is beyond what chance makes of it (by Wilson and Hilferty).
fn differ(left: &[u32], right: &[u32], independent: f64) -> f64 {
    let total = |bins: &[u32]| f64::from(bins.iter().sum::<u32>());
    let (rows_left, rows_right) = (total(left), total(right));
    if rows_left == 0.0 || rows_right == 0.0 {
        return f64::NEG_INFINITY;
    }
    let scale = (rows_right / rows_left).sqrt();
    let (mut square, mut bins) = (0.0, 0.0);
    for (a, b) in left.iter().zip(right) {
        if a + b >= FEWEST_IN_BIN {
            let apart = f64::from(*a) * scale - f64::from(*b) / scale;
            square += apart * apart / f64::from(a + b);
            bins += 1.0;
        }
    }
    let freedom: f64 = bins - 1.0;
    if freedom < 1.0 {
        return f64::NEG_INFINITY;
    }
    let spread = 2.0 / (9.0 * freedom);
    ((square * independent / freedom).cbrt() - (1.0 - spread)) / spread.sqrt()
}
