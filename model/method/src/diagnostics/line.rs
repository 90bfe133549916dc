//! Exact Wasserstein distance on a line.

/// Three digits hold a value's 32 bits.
const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;

/// The points of a line in order. Each is one integer, ordered as its value, with its row in the low half,
/// so that a radix sort does: sorting is most of a distance's time, and comparing takes nearly twice as long.
#[derive(Debug, Clone, Default)]
pub(super) struct SortedLine {
    points: Vec<u64>,
    spare: Vec<u64>,
}

// === impl SortedLine ===

impl SortedLine {
    /// Replaces the points, which are numbered as they come. They are not NaN.
    pub(super) fn sort<'a>(&mut self, values: impl Iterator<Item = &'a f32>) {
        self.points.clear();
        let points = values.zip(0u64..).map(|(value, row)| {
            let bits = value.to_bits();
            let negative = bits >> 31 == 1;
            let key = if negative { !bits } else { bits | 1 << 31 };
            u64::from(key) << 32 | row
        });
        self.points.extend(points);
        for shift in [32, 32 + DIGIT_BITS, 32 + 2 * DIGIT_BITS] {
            self.sort_by_digit(shift);
        }
    }

    /// One pass of a radix sort, which leaves points with the same digit in their order.
    fn sort_by_digit(&mut self, shift: u32) {
        let digit = |point: u64| (point >> shift) as usize % DIGITS;
        let mut ends = [0usize; DIGITS];
        for point in &self.points {
            ends[digit(*point)] += 1;
        }
        let mut end = 0;
        for count in &mut ends {
            end += *count;
            *count = end;
        }
        self.spare.resize(self.points.len(), 0);
        for point in self.points.iter().rev() {
            let place = &mut ends[digit(*point)];
            *place -= 1;
            self.spare[*place] = *point;
        }
        std::mem::swap(&mut self.points, &mut self.spare);
    }

    /// W1: the area between two distribution functions. `masses`, by row, are positive for rows of the
    /// one and negative for rows of the other.
    pub(super) fn area_between(&self, masses: &[f64]) -> f64 {
        let mut area = 0.0;
        let mut gap: f64 = 0.0;
        let mut previous = self.points.first().map_or(0.0, |point| value(*point));
        for point in &self.points {
            let here = value(*point);
            area += gap.abs() * (here - previous);
            gap += masses[row(*point)];
            previous = here;
        }
        area
    }
}

fn value(point: u64) -> f64 {
    let key = (point >> 32) as u32;
    let negative = key >> 31 == 0;
    let bits = if negative { !key } else { key & !(1 << 31) };
    f64::from(f32::from_bits(bits))
}

fn row(point: u64) -> usize {
    (point & u64::from(u32::MAX)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_sorted_by_value_and_keep_their_rows() {
        let values = [0.5, -1.0, f32::MAX, -0.0, f32::MIN, -1e-40, 2.0];
        let mut line = SortedLine::default();
        line.sort(values.iter());
        let rows: Vec<usize> = line.points.iter().map(|point| row(*point)).collect();
        assert_eq!(rows, [4, 1, 5, 3, 0, 6, 2]);
        for point in line.points {
            assert_eq!(value(point), f64::from(values[row(point)]));
        }
    }
}
