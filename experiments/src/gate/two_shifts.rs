//! Classes turn and move, and their shares change, at once: where correction alone is wrong and a map helps.

use ostar_engine::Generator;

use crate::task::Domain;

/// Classes of the stream.
pub(super) const CLASSES: usize = 5;
const WIDTH: usize = 16;
const RADIUS: f64 = 4.0;
const SOURCE_ROWS: usize = 5_000;
/// Rows before the shift; the second half of the stream begins 8 blocks of 500 after it.
const UNMOVED_ROWS: usize = 3_000;
const ROWS: usize = 14_000;
const SOURCE_PROPORTIONS: [f64; CLASSES] = [0.2; CLASSES];
const TARGET_PROPORTIONS: [f64; CLASSES] = [0.4, 0.3, 0.15, 0.1, 0.05];

/// How far classes move.
#[derive(Debug, Clone, Copy)]
pub(super) struct TwoShifts {
    pub(super) rotation_degrees: f64,
    /// As a share of the smallest distance between two means.
    pub(super) translation: f64,
}

impl TwoShifts {
    /// Those of the suite.
    pub(super) const USUAL: Self = Self {
        rotation_degrees: 55.0,
        translation: 0.5,
    };
}

/// Labelled rows to train on, the stream, and so many more rows as in training.
pub(super) fn generate(
    seed: u64,
    shifts: TwoShifts,
    reference_rows: usize,
) -> (Domain, Domain, Domain) {
    let mut generator = Generator::new(1000 + seed);
    let means: Vec<Vec<f64>> = (0..CLASSES)
        .map(|_| of_length(RADIUS, &mut generator))
        .collect();
    let offset = of_length(
        shifts.translation * smallest_distance(&means),
        &mut generator,
    );
    let source = draw(SOURCE_ROWS, &means, SOURCE_PROPORTIONS, &mut generator);
    let mut stream = draw(UNMOVED_ROWS, &means, SOURCE_PROPORTIONS, &mut generator);
    let moved = ROWS - UNMOVED_ROWS;
    let mut moved = draw(moved, &means, TARGET_PROPORTIONS, &mut generator);
    shift(
        &mut moved.rows,
        shifts.rotation_degrees.to_radians(),
        &offset,
    );
    stream.rows.extend(moved.rows);
    stream.labels.extend(moved.labels);
    let reference = draw(reference_rows, &means, SOURCE_PROPORTIONS, &mut generator);
    (source, stream, reference)
}

fn draw(
    rows: usize,
    means: &[Vec<f64>],
    proportions: [f64; CLASSES],
    generator: &mut Generator,
) -> Domain {
    let mut domain = Domain {
        width: WIDTH,
        rows: Vec::with_capacity(rows * WIDTH),
        labels: Vec::with_capacity(rows),
    };
    for _ in 0..rows {
        let mut at = generator.uniform();
        let label = proportions.iter().position(|proportion| {
            at -= proportion;
            at < 0.0
        });
        let label = label.unwrap_or(CLASSES - 1);
        let values = means[label].iter().map(|mean| mean + generator.normal());
        domain.rows.extend(values.map(|value| value as f32));
        domain.labels.push(label as u32);
    }
    domain
}

/// Turns rows in the planes of neighbouring coordinates, and moves them.
fn shift(rows: &mut [f32], angle: f64, offset: &[f64]) {
    let (sine, cosine) = angle.sin_cos();
    for row in rows.chunks_exact_mut(WIDTH) {
        for pair in row.chunks_exact_mut(2) {
            let (x, y) = (f64::from(pair[0]), f64::from(pair[1]));
            pair[0] = (cosine * x - sine * y) as f32;
            pair[1] = (sine * x + cosine * y) as f32;
        }
        for (value, offset) in row.iter_mut().zip(offset) {
            *value += *offset as f32;
        }
    }
}

fn of_length(length: f64, generator: &mut Generator) -> Vec<f64> {
    let vector: Vec<f64> = (0..WIDTH).map(|_| generator.normal()).collect();
    let norm = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
    vector.iter().map(|v| v * length / norm).collect()
}

fn smallest_distance(means: &[Vec<f64>]) -> f64 {
    let mut smallest = f64::INFINITY;
    for (number, mean) in means.iter().enumerate() {
        for other in &means[..number] {
            let square: f64 = mean.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum();
            smallest = smallest.min(square.sqrt());
        }
    }
    smallest
}
