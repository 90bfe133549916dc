//! Tests of what many classes change: the fast way beside the exact one, and what intervals are worth.

use ostar_engine::{Generator, Rows};

use super::{
    Estimator, Interval, LabelProportions, Probabilities, ProportionEstimator,
    unmixing::EXACT_CLASSES,
};

/// How far a class lies from the others, in deviations.
const SEPARATION: f64 = 4.0;
/// Logits are multiplied by this: the classifier is too sure of itself.
const SHARPNESS: f64 = 1.3;

/// What a classifier predicts for rows of these classes.
fn predictions(labels: &[u32], classes: usize, generator: &mut Generator) -> Probabilities {
    let mut values = Vec::with_capacity(labels.len() * classes);
    for label in labels {
        let first = values.len();
        values.extend((0..classes).map(|class| {
            let centre = if class == *label as usize {
                SEPARATION
            } else {
                0.0
            };
            (SHARPNESS * SEPARATION * (centre + generator.normal() - SEPARATION)).exp()
        }));
        let total: f64 = values[first..].iter().sum();
        values[first..].iter_mut().for_each(|value| *value /= total);
    }
    Probabilities::new("test", Rows::new(&values[..], classes).unwrap()).unwrap()
}

/// Held-out predictions and their labels, as many rows of every class.
fn held_out(classes: usize, rows: usize, generator: &mut Generator) -> (Probabilities, Vec<u32>) {
    let labels: Vec<u32> = (0..classes * rows)
        .map(|row| (row % classes) as u32)
        .collect();
    (predictions(&labels, classes, generator), labels)
}

/// Zipf's shares, dealt by chance, and labels drawn from them.
fn window(classes: usize, rows: usize, generator: &mut Generator) -> (LabelProportions, Vec<u32>) {
    let mut weights: Vec<f64> = (1..=classes).map(|rank| 1.0 / rank as f64).collect();
    generator.shuffle(&mut weights);
    let shares = LabelProportions::from_counts(&weights).unwrap();
    let draw = |at: f64| {
        let mut left = at;
        let reached = shares.as_ref().iter().position(|share| {
            left -= share;
            left < 0.0
        });
        reached.unwrap_or(classes - 1) as u32
    };
    let labels = (0..rows).map(|_| draw(generator.uniform())).collect();
    (shares, labels)
}

#[test]
fn with_100_classes_the_fast_way_is_as_accurate_as_the_exact_one() {
    let classes = 100;
    let mut generator = Generator::new(1);
    let (rows, labels) = held_out(classes, 30, &mut generator);
    let estimator = |kind, exact| {
        let prior = LabelProportions::uniform(classes);
        ProportionEstimator::exact_up_to(exact, kind, rows.clone(), labels.clone(), prior).unwrap()
    };
    for kind in [Estimator::Confusion, Estimator::TwoStep] {
        let (fast, exact) = (estimator(kind, EXACT_CLASSES), estimator(kind, classes));
        let (mut fast_error, mut exact_error, mut apart) = (0.0, 0.0, 0.0);
        for _ in 0..10 {
            let (shares, drawn) = window(classes, 1_000, &mut generator);
            let target = predictions(&drawn, classes, &mut generator);
            let fast = fast.estimate(&target).unwrap().proportions;
            let exact = exact.estimate(&target).unwrap().proportions;
            fast_error += fast.l1_distance(&shares) / 10.0;
            exact_error += exact.l1_distance(&shares) / 10.0;
            apart += fast.l1_distance(&exact) / 10.0;
        }
        match kind {
            // The same readings, solved in two ways.
            Estimator::Confusion => assert!(apart < 1e-3, "{apart}"),
            // Another reference: other noise, of the same size.
            _ => assert!(apart < 0.5 * exact_error && fast_error < 1.1 * exact_error),
        }
    }
}

/// Share of intervals that cover, and their mean length, over windows of 2,000 rows of 200 classes.
fn coverage(held_out_rows: usize, exact_classes: usize) -> (f64, f64) {
    let (classes, windows) = (200, 10);
    let mut generator = Generator::new(2);
    let (rows, labels) = held_out(classes, held_out_rows, &mut generator);
    let (kind, prior) = (Estimator::TwoStep, LabelProportions::uniform(classes));
    let estimator =
        ProportionEstimator::exact_up_to(exact_classes, kind, rows, labels, prior).unwrap();
    let (mut covered, mut length) = (0, 0.0);
    for _ in 0..windows {
        let (shares, drawn) = window(classes, 2_000, &mut generator);
        let target = predictions(&drawn, classes, &mut generator);
        let estimate = estimator.estimate(&target).unwrap();
        assert!(estimate.known);
        for (interval, share) in estimate.intervals.iter().zip(shares.as_ref()) {
            assert_ne!(*interval, Interval::WHOLE);
            covered += usize::from(interval.contains(*share));
            length += interval.high - interval.low;
        }
    }
    let intervals = (windows * classes) as f64;
    (covered as f64 / intervals, length / intervals)
}

#[test]
fn with_200_classes_intervals_cover_shares_that_moved_as_often_as_exact_ones() {
    for (held_out_rows, least) in [(30, 0.93), (5, 0.88)] {
        let (fast, length) = coverage(held_out_rows, EXACT_CLASSES);
        let (exact, exact_length) = coverage(held_out_rows, 200);
        assert!(fast > least, "{held_out_rows} held-out rows: {fast}");
        assert!(
            fast > exact - 0.01,
            "{held_out_rows} held-out rows: {fast}, exact {exact}"
        );
        assert!(
            length < 1.1 * exact_length,
            "{length}, exact {exact_length}"
        );
    }
}
