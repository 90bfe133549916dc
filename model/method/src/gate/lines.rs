//! The lines that latents are projected onto.

use ostar_engine::{Generator, Result, linear::Packed};
use pulp::{Arch, Simd, WithSimd};

use crate::diagnostics::Directions;

/// How many lines there are.
pub(crate) const LINES: usize = 32;
/// Rows narrower than this have directions of their own for each line.
const WIDE: usize = 2 * LINES;
/// Numbers of an AVX2 register, and the registers that hold a number for each line.
const LANES: usize = 8;
const REGISTERS: usize = LINES / LANES;
/// The directions are the same for every learner: evidence of two runs can be compared. States hold what was counted on
/// these lines: others need another format version of the state.
const SEED: u64 = 0x67_61_74_65;

/// Unit vectors, uniform on the sphere, one for each line.
#[derive(Debug, Clone)]
pub(crate) enum Lines {
    Narrow(Packed),
    /// One vector, with other signs for each line. The signs are those of Walsh functions of a coordinate's place
    /// among its 32 neighbours. So each line by itself is as random as the vector, two of them hardly have
    /// anything in common, and a row of 128 numbers takes 416 additions and multiplications instead of 8,192.
    Wide(Vec<[f32; LINES]>),
}

impl Lines {
    /// Lines for rows of `width` numbers.
    pub(crate) fn new(width: usize) -> Result<Self> {
        let mut generator = Generator::new(SEED);
        if width < WIDE {
            let directions = Directions::new(width, LINES, &mut generator)?;
            let packed = Packed::new(directions.vectors(), width, LINES);
            return Ok(Self::Narrow(packed));
        }
        let vector = Directions::new(width, 1, &mut generator)?;
        let (groups, rest) = vector.vectors().as_chunks::<LINES>();
        let mut last = [0.0; LINES];
        last[..rest.len()].copy_from_slice(rest);
        Ok(Self::Wide([groups, &[last]].concat()))
    }

    /// Where rows of `width` numbers lie on each line, row after row.
    pub(crate) fn project(&self, rows: &[f32], width: usize) -> Vec<[f32; LINES]> {
        let count = rows.len() / width;
        let mut projected = vec![[0.0; LINES]; count];
        match self {
            Self::Narrow(vectors) => {
                vectors.multiply(count, rows, projected.as_flattened_mut());
            }
            Self::Wide(vector) => Arch::new().dispatch(WideProjection {
                rows,
                width,
                vector,
                out: &mut projected,
            }),
        }
        projected
    }
}

/// A type of its own: a closure of this size would not be compiled for the processor's vector instructions.
struct WideProjection<'a> {
    rows: &'a [f32],
    width: usize,
    vector: &'a [[f32; LINES]],
    out: &'a mut [[f32; LINES]],
}

impl WithSimd for WideProjection<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (row, out) in self.rows.chunks_exact(self.width).zip(self.out) {
            *out = with_all_signs(weigh(row, self.vector));
        }
    }
}

/// Sums over groups of neighbours of the row times the vector.
#[inline(always)]
fn weigh(row: &[f32], vector: &[[f32; LINES]]) -> [[f32; LANES]; REGISTERS] {
    let (groups, rest) = row.as_chunks::<LINES>();
    let mut sums = [[0.0; LANES]; REGISTERS];
    for (group, weights) in groups.iter().zip(vector) {
        add_products(&mut sums, group, weights);
    }
    if !rest.is_empty() {
        let mut group = [0.0; LINES];
        group[..rest.len()].copy_from_slice(rest);
        add_products(&mut sums, &group, &vector[groups.len()]);
    }
    sums
}

#[inline(always)]
fn add_products(
    sums: &mut [[f32; LANES]; REGISTERS],
    group: &[f32; LINES],
    weights: &[f32; LINES],
) {
    let (group, weights) = (group.as_chunks::<LANES>().0, weights.as_chunks::<LANES>().0);
    for ((sums, group), weights) in sums.iter_mut().zip(group).zip(weights) {
        for ((sum, value), weight) in sums.iter_mut().zip(group).zip(weights) {
            *sum += value * weight;
        }
    }
}

/// Walsh and Hadamard's transform: the sums of all values, under 32 patterns of signs.
#[inline(always)]
fn with_all_signs(mut values: [[f32; LANES]; REGISTERS]) -> [f32; LINES] {
    // First between registers, then within each.
    for stride in [2, 1] {
        let before = values;
        for register in 0..REGISTERS {
            let (own, other) = (before[register], before[register ^ stride]);
            for lane in 0..LANES {
                values[register][lane] = if register & stride == 0 {
                    own[lane] + other[lane]
                } else {
                    other[lane] - own[lane]
                };
            }
        }
    }
    let mut out = [0.0; LINES];
    for (out, register) in out.as_chunks_mut::<LANES>().0.iter_mut().zip(values) {
        *out = butterflies::<1>(butterflies::<2>(butterflies::<4>(register)));
    }
    out
}

/// Sum and difference of values that are `STRIDE` apart. The stride is known to the compiler, which makes shuffles of it.
#[inline(always)]
fn butterflies<const STRIDE: usize>(values: [f32; LANES]) -> [f32; LANES] {
    let sign = |place: usize| if place & STRIDE == 0 { 1.0 } else { -1.0 };
    let other: [f32; LANES] = std::array::from_fn(|place| values[place ^ STRIDE]);
    std::array::from_fn(|place| other[place] + sign(place) * values[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The directions, one a column: projections of unit vectors.
    fn directions(width: usize) -> Vec<[f32; LINES]> {
        let mut units = vec![0.0; width * width];
        for place in 0..width {
            units[place * width + place] = 1.0;
        }
        Lines::new(width).unwrap().project(&units, width)
    }

    #[test]
    fn directions_have_length_one_and_differ_from_each_other() {
        for width in [1, 2, 63, 64, 100, 128, 1_000] {
            let directions = directions(width);
            for one in 0..LINES {
                for other in 0..=one {
                    let products = directions.iter().map(|row| row[one] * row[other]);
                    let product: f32 = products.sum();
                    if one == other {
                        assert!((product - 1.0).abs() < 1e-5, "{width}: {product}");
                    } else if width >= WIDE {
                        assert!(product.abs() < 0.6, "{width}, {one}, {other}: {product}");
                    }
                }
            }
        }
    }

    #[test]
    fn lines_of_wide_rows_are_one_vector_with_walsh_signs() {
        let directions = directions(100);
        for (place, row) in directions.iter().enumerate() {
            for (line, value) in row.iter().enumerate() {
                let is_negative = (line & (place % LINES)).count_ones() % 2 == 1;
                let expected = if is_negative { -row[0] } else { row[0] };
                assert_eq!(*value, expected, "{place}, {line}");
            }
        }
    }

    #[test]
    fn a_row_is_projected_alike_whatever_rows_are_beside_it() {
        let mut generator = Generator::new(1);
        let rows: Vec<f32> = (0..7 * 90).map(|_| generator.normal() as f32).collect();
        let lines = Lines::new(90).unwrap();
        let together = lines.project(&rows, 90);
        for (row, expected) in rows.chunks_exact(90).zip(together) {
            assert_eq!(lines.project(row, 90), [expected]);
        }
    }
}
