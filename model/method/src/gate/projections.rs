//! Latents on fixed lines, each line cut into cells of one width: what the latent test compares.

use ostar_engine::{Result, powers};
use pulp::Arch;

use super::lines::{LINES, Lines};

/// Cells of a line. Held-out rows lie in the middle half, so that moved rows have room on both sides.
pub(crate) const CELLS: usize = 128;
/// Just inside the last cell.
const LAST_CELL: f32 = CELLS as f32 - 0.51;
/// 2^23: a number of this size has no fraction.
const WHOLE_NUMBERS: f32 = 8_388_608.0;
/// Log-probabilities of a black box are cut off here: an exact 0 from a rounded softmax is no certainty.
const SMALLEST_PROBABILITY: f32 = 1e-6;
/// With more classes than this, logarithms are vectorised: there are half a million in a block at 1,000 classes.
const EXACT_LOGARITHMS: usize = 64;

/// Projects rows and says which cell of each line they fall in.
#[derive(Debug, Clone)]
pub(crate) struct Projections {
    width: usize,
    lines: Lines,
    /// Where the cells of each line start.
    starts: [f32; LINES],
    /// Cells for each unit of a line's length.
    cells_per_unit: [f32; LINES],
}

impl Projections {
    /// Lines for rows of `width` numbers, cut so that `held_out` lies in the middle.
    pub(crate) fn new(held_out: &[f32], width: usize) -> Result<Self> {
        let mut projections = Self {
            width,
            lines: Lines::new(width)?,
            starts: [0.0; LINES],
            cells_per_unit: [0.0; LINES],
        };
        let projected = projections.lines.project(held_out, width);
        for line in 0..LINES {
            let (start, cells_per_unit) = cut(projected.iter().map(|row| row[line]));
            projections.starts[line] = start;
            projections.cells_per_unit[line] = cells_per_unit;
        }
        Ok(projections)
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Adds every row to the cell that it falls in on each line; `counts` has the cells of all lines.
    pub(crate) fn count(&self, rows: &[f32], counts: &mut [u32]) {
        let projected = self.lines.project(rows, self.width);
        let (lines, _) = counts.as_chunks_mut::<CELLS>();
        // Plain loops over arrays: `dispatch` lets the compiler vectorise the first.
        Arch::new().dispatch(
            #[inline(always)]
            || {
                let mut cells = [0u32; LINES];
                for row in &projected {
                    for line in 0..LINES {
                        let cell = (row[line] - self.starts[line]) * self.cells_per_unit[line];
                        // What lies outside falls into the outermost cells.
                        let inside = cell.clamp(0.0, LAST_CELL);
                        // Rounds down: the sum's lowest bits are the whole part. `as` would check each number.
                        cells[line] = (inside - 0.5 + WHOLE_NUMBERS).to_bits();
                    }
                    for (line, cell) in lines.iter_mut().zip(&cells) {
                        line[*cell as usize % CELLS] += 1;
                    }
                }
            },
        );
    }

    /// Width of a cell of each line.
    pub(crate) fn cell_widths(&self) -> impl Iterator<Item = f64> {
        let widths = self.cells_per_unit.iter();
        widths.map(|cells| 1.0 / f64::from(*cells))
    }
}

/// Where the cells of a line start, and how many there are for each unit of length.
fn cut(values: impl Iterator<Item = f32>) -> (f32, f32) {
    let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
    for value in values {
        (low, high) = (low.min(value), high.max(value));
    }
    // All rows in one place: any length will do.
    let length = if high > low { high - low } else { 1.0 };
    (low - 0.5 * length, CELLS as f32 / (2.0 * length))
}

/// What stands for the latents of a black box: its log-probabilities, less their mean.
pub(crate) fn centred_logs(probabilities: &[f32], classes: usize) -> Vec<f32> {
    let cut_off = probabilities
        .iter()
        .map(|value| value.max(SMALLEST_PROBABILITY));
    let mut logs: Vec<f32> = cut_off.collect();
    if classes > EXACT_LOGARITHMS {
        powers::take_logarithms(&mut logs);
    } else {
        logs.iter_mut().for_each(|value| *value = value.ln());
    }
    for row in logs.chunks_exact_mut(classes) {
        let mean = row.iter().sum::<f32>() / classes as f32;
        row.iter_mut().for_each(|value| *value -= mean);
    }
    logs
}
