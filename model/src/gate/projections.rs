//! Latents on fixed lines, each line cut into cells of one width: what the latent test compares.

use pulp::Arch;

use crate::{
    Generator, Result,
    cpu::gemm::{Epilogue, Left, Packed, multiply},
    diagnostics::Directions,
};

/// Lines that latents are projected onto.
pub(crate) const LINES: usize = 32;
/// Cells of a line. Held-out rows lie in the middle half, so that moved rows have room on both sides.
pub(crate) const CELLS: usize = 128;
/// The directions are the same for every learner: evidence of two runs can be compared.
const SEED: u64 = 0x67_61_74_65;
/// Log-probabilities of a black box are cut off here: an exact 0 from a rounded softmax is no certainty.
const SMALLEST_PROBABILITY: f32 = 1e-6;

/// Projects rows and says which cell of each line they fall in.
#[derive(Debug, Clone)]
pub(crate) struct Projections {
    width: usize,
    vectors: Packed,
    /// Of each line: where its cells start, and cells for each unit of length.
    lines: Vec<Line>,
}

#[derive(Debug, Clone, Copy)]
struct Line {
    start: f32,
    cells_per_unit: f32,
}

impl Projections {
    /// Lines for rows of `width` numbers, cut so that `held_out` lies in the middle.
    pub(crate) fn new(held_out: &[f32], width: usize) -> Result<Self> {
        let directions = Directions::new(width, LINES, &mut Generator::new(SEED))?;
        let mut vectors = Packed::default();
        vectors.pack_columns(directions.vectors(), width, LINES);
        let mut projections = Self {
            width,
            vectors,
            lines: Vec::new(),
        };
        let projected = projections.project(held_out);
        projections.lines = (0..LINES)
            .map(|line| Line::around(projected.iter().skip(line).step_by(LINES)))
            .collect();
        Ok(projections)
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Calls `visit` with the cell of every row on every line, counted over all lines.
    pub(crate) fn cells(&self, rows: &[f32], mut visit: impl FnMut(usize)) {
        let projected = self.project(rows);
        for row in projected.chunks_exact(LINES) {
            for (number, (value, line)) in row.iter().zip(&self.lines).enumerate() {
                visit(number * CELLS + line.cell(*value));
            }
        }
    }

    /// Width of a cell of each line.
    pub(crate) fn cell_widths(&self) -> impl Iterator<Item = f64> {
        self.lines
            .iter()
            .map(|line| 1.0 / f64::from(line.cells_per_unit))
    }

    fn project(&self, rows: &[f32]) -> Vec<f32> {
        let count = rows.len() / self.width;
        let mut projected = vec![0.0; count * LINES];
        let left = Left::Rows(rows);
        multiply(
            Arch::new(),
            count,
            left,
            &self.vectors,
            Epilogue::Set,
            &mut projected,
        );
        projected
    }
}

// === impl Line ===

impl Line {
    fn around<'a>(values: impl Iterator<Item = &'a f32>) -> Self {
        let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
        for value in values {
            (low, high) = (low.min(*value), high.max(*value));
        }
        // All rows in one place: any length will do.
        let length = if high > low { high - low } else { 1.0 };
        Self {
            start: low - 0.5 * length,
            cells_per_unit: CELLS as f32 / (2.0 * length),
        }
    }

    #[inline]
    fn cell(self, value: f32) -> usize {
        // A cast from float saturates: what lies outside falls into the outermost cells.
        (((value - self.start) * self.cells_per_unit) as usize).min(CELLS - 1)
    }
}

/// What stands for the latents of a black box: its log-probabilities, less their mean.
pub(crate) fn centred_logs(probabilities: &[f32], classes: usize) -> Vec<f32> {
    let mut logs: Vec<f32> = probabilities
        .iter()
        .map(|value| value.max(SMALLEST_PROBABILITY).ln())
        .collect();
    for row in logs.chunks_exact_mut(classes) {
        let mean = row.iter().sum::<f32>() / classes as f32;
        row.iter_mut().for_each(|value| *value -= mean);
    }
    logs
}
