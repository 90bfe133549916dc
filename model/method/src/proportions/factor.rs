//! A Cholesky factor that rows enter at the end and leave anywhere, in quadratic time.

/// A pivot below this share of its diagonal entry means that the row depends on those before it.
const DEPENDENT: f64 = 1e-13;

/// Lower triangular L with L L' = H for the rows and columns of H that are in.
#[derive(Debug, Default)]
pub(crate) struct Factor {
    rows: Vec<Vec<f64>>,
}

impl Factor {
    /// Appends a row of H, given its entries with the rows that are in and its own diagonal; refuses one
    /// that depends on them.
    pub(crate) fn push(&mut self, entries: &[f64], diagonal: f64) -> bool {
        let mut row = self.forward(entries);
        let pivot = diagonal - row.iter().map(|value| value * value).sum::<f64>();
        let independent = pivot > DEPENDENT * diagonal;
        if independent {
            row.push(pivot.sqrt());
            self.rows.push(row);
        }
        independent
    }

    /// Takes row `place` out; Givens rotations make the rest triangular again.
    pub(crate) fn remove(&mut self, place: usize) {
        self.rows.remove(place);
        for pivot in place..self.rows.len() {
            let (left, right) = (self.rows[pivot][pivot], self.rows[pivot][pivot + 1]);
            let length = left.hypot(right);
            let (cosine, sine) = (left / length, right / length);
            for row in &mut self.rows[pivot..] {
                let (a, b) = (row[pivot], row[pivot + 1]);
                row[pivot] = cosine * a + sine * b;
                row[pivot + 1] = cosine * b - sine * a;
            }
            self.rows[pivot].truncate(pivot + 1);
        }
    }

    /// The solution of H x = `right`.
    pub(crate) fn solve(&self, right: &[f64]) -> Vec<f64> {
        let mut solution = self.forward(right);
        for place in (0..solution.len()).rev() {
            let row = &self.rows[place];
            solution[place] /= row[place];
            let value = solution[place];
            let (before, _) = solution.split_at_mut(place);
            before
                .iter_mut()
                .zip(row)
                .for_each(|(x, entry)| *x -= entry * value);
        }
        solution
    }

    /// The solution of L x = `right`.
    fn forward(&self, right: &[f64]) -> Vec<f64> {
        let mut solution: Vec<f64> = Vec::with_capacity(right.len() + 1);
        for (row, value) in self.rows.iter().zip(right) {
            let known: f64 = row.iter().zip(&solution).map(|(entry, x)| entry * x).sum();
            solution.push((value - known) / row[solution.len()]);
        }
        solution
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_solves_what_is_left_after_rows_came_and_went() {
        let matrix = [[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]];
        let mut factor = Factor::default();
        for row in 0..3 {
            assert!(factor.push(&matrix[row][..row], matrix[row][row]));
        }
        factor.remove(0);
        let solution = factor.solve(&[1.0, 2.0]);
        assert!((3.0 * solution[0] + 0.2 * solution[1] - 1.0).abs() < 1e-14);
        assert!((0.2 * solution[0] + 2.0 * solution[1] - 2.0).abs() < 1e-14);
        assert!(
            !factor.push(&[3.0, 0.2], 3.0),
            "a copy of the first row is dependent"
        );
    }
}
