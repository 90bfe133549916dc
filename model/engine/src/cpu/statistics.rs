//! Statistics of a batch whose rows are spread over members, and the running statistics that follow them.

use pulp::Arch;

use super::{
    buffers::{refill, zero},
    normalise::EPSILON,
    team::Member,
};

/// Weight of the newest batch in running statistics, as PyTorch's default.
const MOMENTUM: f64 = 0.1;

/// Statistics of a batch over all members' rows, and the buffers to combine them.
#[derive(Debug, Default)]
pub(crate) struct BatchStatistics {
    pub(crate) moments: BatchMoments,
    /// This member's part: count, means, squared deviations.
    local: Vec<f64>,
    /// In single precision: first this member's means and squared deviations, then the means of all.
    narrow: Vec<f32>,
}

/// Mean and squared deviations of each column over all members' rows.
#[derive(Debug, Default)]
pub(crate) struct BatchMoments {
    pub(crate) mean: Vec<f64>,
    /// Sum of squared deviations from the mean, by column.
    pub(crate) squares: Vec<f64>,
    /// How many rows all members have.
    pub(crate) count: f64,
}

// === impl BatchStatistics ===

impl BatchStatistics {
    /// Mean and squared deviations of each column over the rows of all members.
    pub(crate) fn measure(&mut self, arch: Arch, values: &[f32], width: usize, member: &Member) {
        self.begin(width);
        self.add(arch, values);
        self.exchange(member);
    }

    /// Starts a measurement, for [`BatchStatistics::add`] and then [`BatchStatistics::exchange`].
    pub(crate) fn begin(&mut self, width: usize) {
        zero(&mut self.local, 1 + 2 * width);
    }

    /// Adds some of this member's rows.
    pub(crate) fn add(&mut self, arch: Arch, values: &[f32]) {
        let width = self.local.len() / 2;
        zero(&mut self.narrow, 2 * width);
        let (mean, squares) = self.narrow.split_at_mut(width);
        arch.dispatch(
            #[inline(always)]
            || column_moments(values, width, mean, squares),
        );
        let (count, columns) = self.local.split_at_mut(1);
        let (into_mean, into_squares) = columns.split_at_mut(width);
        let into = (&mut count[0], into_mean, into_squares);
        let parts = (
            mean.iter().map(|v| f64::from(*v)),
            squares.iter().map(|v| f64::from(*v)),
        );
        merge(into, (values.len() / width) as f64, parts);
    }

    /// Combines the members' measurements. Every member gets the same result.
    pub(crate) fn exchange(&mut self, member: &Member) {
        let width = self.local.len() / 2;
        self.moments.count = 0.0;
        zero(&mut self.moments.mean, width);
        zero(&mut self.moments.squares, width);
        let BatchMoments {
            mean,
            squares,
            count,
        } = &mut self.moments;
        member.gather(&self.local, |part| {
            let into = (&mut *count, &mut mean[..], &mut squares[..]);
            let columns = part[1..].split_at(width);
            let parts = (columns.0.iter().copied(), columns.1.iter().copied());
            merge(into, part[0], parts);
        });
        let means = self.moments.mean.iter().map(|mean| *mean as f32);
        refill(&mut self.narrow, means);
    }

    /// Uses running statistics in place of a batch's. With a count of 1, squares are the variance.
    pub(crate) fn load_running(&mut self, mean: &[f32], variance: &[f32]) {
        self.moments.count = 1.0;
        mean.clone_into(&mut self.narrow);
        let (mean, variance) = (mean.iter().copied(), variance.iter().copied());
        refill(&mut self.moments.mean, mean.map(f64::from));
        refill(&mut self.moments.squares, variance.map(f64::from));
    }

    /// One over the deviation of each column.
    pub(crate) fn inverse_deviations(&self, out: &mut Vec<f32>) {
        let BatchMoments { squares, count, .. } = &self.moments;
        let inverse = |squares: &f64| (1.0 / (squares / count + EPSILON).sqrt()) as f32;
        refill(out, squares.iter().map(inverse));
    }

    /// Mean of each column, in single precision.
    pub(crate) fn narrow_mean(&self) -> &[f32] {
        &self.narrow[..self.moments.mean.len()]
    }
}

// === impl BatchMoments ===

impl BatchMoments {
    /// Replaces these by others and keeps the memory.
    pub(crate) fn copy(&mut self, others: &Self) {
        self.mean.clone_from(&others.mean);
        self.squares.clone_from(&others.squares);
        self.count = others.count;
    }

    /// Moves running statistics towards this batch's. `bias` is that of the layer in front, whose output was measured
    /// without it. A batch of one row has no variance and does not change the running one.
    pub(crate) fn update_running(
        &self,
        bias: &[f32],
        running_mean: &mut [f32],
        running_variance: &mut [f32],
    ) {
        let towards = |old: &mut f32, new: f64| {
            *old = ((1.0 - MOMENTUM) * f64::from(*old) + MOMENTUM * new) as f32;
        };
        for ((old, mean), bias) in running_mean.iter_mut().zip(&self.mean).zip(bias) {
            towards(old, mean + f64::from(*bias));
        }
        if self.count > 1.0 {
            for (old, squares) in running_variance.iter_mut().zip(&self.squares) {
                towards(old, squares / (self.count - 1.0));
            }
        }
    }
}

/// Merges a part's count, means and squared deviations into those so far, by Chan's formula: it has no cancellation, as
/// a difference of squares would.
fn merge(
    (count, mean, squares): (&mut f64, &mut [f64], &mut [f64]),
    part_count: f64,
    (part_mean, part_squares): (impl Iterator<Item = f64>, impl Iterator<Item = f64>),
) {
    if part_count == 0.0 {
        return;
    }
    let total = *count + part_count;
    let (moves, spreads) = (part_count / total, *count * part_count / total);
    let columns = mean.iter_mut().zip(squares.iter_mut());
    for ((mean, squares), (part_mean, part_squares)) in columns.zip(part_mean.zip(part_squares)) {
        let delta = part_mean - *mean;
        *mean += delta * moves;
        *squares += part_squares + delta * delta * spreads;
    }
    *count = total;
}

#[inline(always)]
fn column_moments(values: &[f32], width: usize, mean: &mut [f32], squares: &mut [f32]) {
    let rows = (values.len() / width).max(1) as f32;
    for row in values.chunks_exact(width) {
        for (sum, value) in mean.iter_mut().zip(row) {
            *sum += value;
        }
    }
    mean.iter_mut().for_each(|sum| *sum /= rows);
    for row in values.chunks_exact(width) {
        for ((sum, value), mean) in squares.iter_mut().zip(row).zip(&*mean) {
            let deviation = value - mean;
            *sum += deviation * deviation;
        }
    }
}
