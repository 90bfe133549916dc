//! Counts of rows: by score bin, by cell of each line, and beyond the support.

use pulp::Arch;
use serde::{Deserialize, Serialize};

use super::{lines::LINES, projections::CELLS};

/// How rows are spread over bins and cells. Histograms of blocks add up to that of a window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Histogram {
    pub(crate) rows: u32,
    /// Rows farther out than nearly all held-out rows.
    pub(crate) beyond_support: u32,
    pub(crate) bins: Vec<u32>,
    /// Rows by cell, line after line.
    pub(crate) cells: Vec<u32>,
}

impl Histogram {
    pub(crate) fn new(bins: usize) -> Self {
        Self {
            rows: 0,
            beyond_support: 0,
            bins: vec![0; bins],
            cells: vec![0; LINES * CELLS],
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.beyond_support += other.beyond_support;
        let add = |(sum, count): (&mut u32, &u32)| *sum += count;
        self.bins.iter_mut().zip(&other.bins).for_each(add);
        self.cells.iter_mut().zip(&other.cells).for_each(add);
    }

    /// Takes rows out that were added before.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.rows -= other.rows;
        self.beyond_support -= other.beyond_support;
        let subtract = |(sum, count): (&mut u32, &u32)| *sum -= count;
        self.bins.iter_mut().zip(&other.bins).for_each(subtract);
        self.cells.iter_mut().zip(&other.cells).for_each(subtract);
    }

    /// Distribution function of each line at the upper end of its cells, line after line.
    pub(crate) fn cumulative(&self) -> Vec<f32> {
        let scale = 1.0 / self.rows.max(1) as f32;
        let mut cumulative = vec![0.0; self.cells.len()];
        let (lines, _) = self.cells.as_chunks::<CELLS>();
        let (out, _) = cumulative.as_chunks_mut::<CELLS>();
        // Whole numbers first: the compiler vectorises what follows.
        Arch::new().dispatch(
            #[inline(always)]
            || {
                let mut sums = [0u32; CELLS];
                for (line, out) in lines.iter().zip(out) {
                    let mut below = 0;
                    for (sum, count) in sums.iter_mut().zip(line) {
                        below += count;
                        *sum = below;
                    }
                    for (value, sum) in out.iter_mut().zip(&sums) {
                        *value = *sum as f32 * scale;
                    }
                }
            },
        );
        cumulative
    }
}
