//! What rows look like: how they are counted, and the counts of held-out rows by class.

use ostar_engine::{Result, Rows};
use pulp::Arch;

use super::{
    bins::ScoreBins,
    histogram::Histogram,
    lines::LINES,
    mixture::ClassHistograms,
    noise::ScoreNoise,
    projections::{CELLS, Projections, centred_logs},
};
use crate::{deployed::HeldOut, proportions::Probabilities};

/// Share of the held-out rows inside the support's radius.
const SUPPORT_QUANTILE: f64 = 0.995;
/// Rows that are counted at a time.
const PART_ROWS: usize = 64;

/// How rows become a [`Histogram`]; fixed by the bundle.
#[derive(Debug, Clone)]
pub(crate) struct Binning {
    bins: ScoreBins,
    projections: Projections,
    /// Largest mean squared latent of nearly all held-out rows; `None` for a black box.
    radius: Option<f64>,
}

/// The held-out rows by class, as the frozen encoder puts them or as the map does.
#[derive(Debug, Clone)]
pub(crate) struct HeldOutShape {
    pub(crate) histograms: ClassHistograms,
    pub(crate) noise: ScoreNoise,
    /// Held-out rows of each class.
    pub(crate) counts: Vec<f64>,
    /// Distribution function of each class at the upper end of every cell, class after class.
    cumulative: Vec<f32>,
}

// === impl Binning ===

impl Binning {
    pub(crate) fn new(held_out: &HeldOut) -> Result<Self> {
        let HeldOut {
            latents,
            probabilities,
            labels,
        } = held_out;
        let classes = probabilities.classes();
        let bins = ScoreBins::new(probabilities, labels);
        if latents.is_empty() {
            let logs = centred_logs(&probabilities.to_f32(), classes);
            return Ok(Self {
                bins,
                projections: Projections::new(&logs, classes)?,
                radius: None,
            });
        }
        let width = latents.len() / labels.len();
        let mut squares: Vec<f64> = latents.chunks_exact(width).map(mean_square).collect();
        squares.sort_unstable_by(f64::total_cmp);
        let rank = (SUPPORT_QUANTILE * squares.len() as f64).ceil() as usize;
        Ok(Self {
            bins,
            projections: Projections::new(latents, width)?,
            radius: Some(squares[rank.clamp(1, squares.len()) - 1]),
        })
    }

    pub(crate) fn bins(&self) -> usize {
        self.bins.count()
    }

    /// Counts rows. `latents` is empty for a black box.
    pub(crate) fn histogram(&self, latents: &[f32], probabilities: &Probabilities) -> Histogram {
        let mut histogram = Histogram::new(self.bins());
        histogram.rows = probabilities.count() as u32;
        for row in probabilities.rows() {
            histogram.bins[self.bins.bin(row)] += 1;
        }
        let logs;
        let rows = if latents.is_empty() {
            logs = centred_logs(&probabilities.to_f32(), probabilities.classes());
            &logs[..]
        } else {
            latents
        };
        let width = self.projections.width();
        // In parts that stay in the cache, because each is read twice.
        for part in rows.chunks(PART_ROWS * width) {
            self.projections.count(part, &mut histogram.cells);
            if let Some(radius) = self.radius {
                histogram.beyond_support += count_beyond(part, width, radius);
            }
        }
        histogram
    }

    pub(crate) fn cell_widths(&self) -> impl Iterator<Item = f64> {
        self.projections.cell_widths()
    }
}

/// Rows whose mean square exceeds `radius`.
fn count_beyond(rows: &[f32], width: usize, radius: f64) -> u32 {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let rows = rows.chunks_exact(width);
            rows.map(|row| u32::from(mean_square(row) > radius)).sum()
        },
    )
}

/// Sums in lanes: one sum would wait for each addition.
#[inline(always)]
fn mean_square(row: &[f32]) -> f64 {
    let (chunks, rest) = row.as_chunks::<16>();
    let mut lanes = [0.0f32; 16];
    for chunk in chunks {
        for (sum, value) in lanes.iter_mut().zip(chunk) {
            *sum += value * value;
        }
    }
    let rest: f32 = rest.iter().map(|value| value * value).sum();
    f64::from(lanes.iter().sum::<f32>() + rest) / row.len() as f64
}

// === impl HeldOutShape ===

impl HeldOutShape {
    pub(crate) fn new(binning: &Binning, held_out: &HeldOut) -> Result<Self> {
        let HeldOut {
            latents,
            probabilities,
            labels,
        } = held_out;
        let classes = probabilities.classes();
        let binned = probabilities.rows().zip(labels);
        let binned = binned.map(|(row, label)| (*label, binning.bins.bin(row)));
        let histograms = ClassHistograms::new(binning.bins(), classes, binned);
        let mut cumulative = Vec::with_capacity(classes * LINES * CELLS);
        let width = latents.len() / labels.len();
        for class in 0..classes as u32 {
            let of_class = |row: &usize| labels[*row] == class;
            let rows: Vec<usize> = (0..labels.len()).filter(of_class).collect();
            let latents: Vec<f32> = rows
                .iter()
                .flat_map(|row| latents[row * width..(row + 1) * width].iter().copied())
                .collect();
            let scores: Vec<f64> = rows
                .iter()
                .flat_map(|row| probabilities.row(*row).iter().copied())
                .collect();
            let scores = Probabilities::new("held-out", Rows::new(&scores[..], classes)?)?;
            let histogram = binning.histogram(&latents, &scores);
            cumulative.extend(histogram.cumulative());
        }
        Ok(Self {
            counts: histograms.rows().collect(),
            histograms,
            noise: ScoreNoise::default(),
            cumulative,
        })
    }

    /// Distribution function of the classes mixed in these proportions.
    pub(crate) fn mixed(&self, proportions: &[f64]) -> Vec<f32> {
        let mut mixed = vec![0.0; LINES * CELLS];
        let classes = self.cumulative.chunks_exact(LINES * CELLS);
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for (class, proportion) in classes.zip(proportions) {
                    let proportion = *proportion as f32;
                    for (sum, value) in mixed.iter_mut().zip(class) {
                        *sum += proportion * value;
                    }
                }
            },
        );
        mixed
    }

    /// How many rows of the mixture its held-out rows are worth: one over the sum of p_k^2 / n_k.
    pub(crate) fn effective_rows(&self, proportions: &[f64]) -> f64 {
        let parts = proportions.iter().zip(&self.counts);
        1.0 / parts.map(|(p, count)| p * p / count).sum::<f64>()
    }
}
