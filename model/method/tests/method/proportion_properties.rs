//! For any input, proportions are on the simplex, intervals are inside [0, 1], and the solver's answer is optimal.
#![allow(clippy::unwrap_used)]

use ostar_engine::Rows;
use ostar_method::proportions::{
    Confusion, Estimator, LabelProportions, Probabilities, ProportionEstimator, Tracker,
    TrackerSettings, prior_correct,
};
use proptest::prelude::*;

const ESTIMATORS: [Estimator; 4] = [
    Estimator::Confusion,
    Estimator::Em,
    Estimator::Regularised,
    Estimator::TwoStep,
];

/// Rows of probabilities, some of them exactly at a corner or on an edge.
fn rows(classes: usize, count: impl Strategy<Value = usize>) -> impl Strategy<Value = Vec<f64>> {
    let entry = prop_oneof![4 => 1e-6..1.0f64, 1 => Just(0.0), 1 => 0.0..1e-12f64];
    let row = (prop::collection::vec(entry, classes), 0..classes, 0..3u8).prop_map(
        move |(mut row, corner, kind)| {
            if kind == 0 {
                row.fill(0.0);
            }
            if row.iter().sum::<f64>() <= 1e-9 {
                row[corner] = 1.0;
            }
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|value| *value /= sum);
            row
        },
    );
    count
        .prop_flat_map(move |count| prop::collection::vec(row.clone(), count))
        .prop_map(|r| r.concat())
}

fn probabilities(values: &[f64], classes: usize) -> Probabilities {
    Probabilities::new("rows", Rows::new(values, classes).unwrap()).unwrap()
}

fn on_simplex(proportions: &LabelProportions) -> bool {
    let values = proportions.as_ref();
    values.iter().all(|value| (0.0..=1.0).contains(value))
        && (values.iter().sum::<f64>() - 1.0).abs() < 1e-9
}

/// Classes, held-out rows (twice as many as classes, with labels in turn), and rows of three target blocks.
fn problems() -> impl Strategy<Value = (usize, Vec<f64>, Vec<f64>)> {
    (1..6usize).prop_flat_map(|classes| {
        let held_out = rows(classes, Just(2 * classes));
        (Just(classes), held_out, rows(classes, 3..20usize))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_estimator_and_tracker_stays_on_the_simplex((classes, held_out, target) in problems()) {
        let held_out = probabilities(&held_out, classes);
        let labels: Vec<u32> = (0..held_out.count()).map(|row| (row % classes) as u32).collect();
        let target = probabilities(&target, classes);
        for kind in ESTIMATORS {
            let prior = LabelProportions::uniform(classes);
            let estimator =
                ProportionEstimator::new(kind, held_out.clone(), labels.clone(), prior).unwrap();
            let mut tracker = Tracker::new(&TrackerSettings::default()).unwrap();
            for row in target.rows() {
                let block = probabilities(row, classes);
                let evidence = estimator.evidence(&block, None).unwrap();
                let estimate = tracker.update(&evidence).unwrap();
                prop_assert!(on_simplex(&estimate.proportions), "{:?} {:?}", kind, estimate);
                prop_assert!(estimate.effective_rows >= 0.99, "{:?}", estimate);
            }
            let estimate = estimator.estimate(&target).unwrap();
            prop_assert!(on_simplex(&estimate.proportions), "{:?} {:?}", kind, estimate);
            for (interval, proportion) in estimate.intervals.iter().zip(estimate.proportions.as_ref()) {
                prop_assert!(interval.low >= 0.0 && interval.high <= 1.0, "{:?}", interval);
                prop_assert!(interval.contains(*proportion), "{:?} {}", interval, proportion);
            }
            let accuracy = estimator.accuracy(&held_out, &estimate).unwrap();
            prop_assert!((0.0..=1.0).contains(&accuracy.value), "{:?}", accuracy);
            prop_assert!(accuracy.interval.low <= accuracy.interval.high, "{:?}", accuracy);
        }
    }

    #[test]
    fn the_confusion_solver_s_answer_is_optimal((classes, held_out, target) in problems()) {
        let held_out = probabilities(&held_out, classes);
        let labels: Vec<u32> = (0..held_out.count()).map(|row| (row % classes) as u32).collect();
        let confusion = Confusion::new(&held_out, &labels).unwrap();
        assert_optimal(&confusion, &probabilities(&target, classes).mean());
    }

    #[test]
    fn prior_corrected_rows_are_probabilities((classes, values, target) in problems()) {
        let prior = LabelProportions::from_counts(&values[..classes]).unwrap();
        let proportions = LabelProportions::from_counts(&values[classes..2 * classes]).unwrap();
        let mut corrected = target.clone();
        prior_correct(&mut corrected, &prior, &proportions);
        for row in corrected.chunks(classes) {
            prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{:?}", row);
            prop_assert!(row.iter().all(|value| *value >= 0.0));
        }
    }
}

/// Karush-Kuhn-Tucker conditions of min 1/2 ||q - C w||^2 over w >= 0, D'w = 1. With the multiplier of the equation,
/// the derivative by a class is 0 where its proportion is above 0, and not negative elsewhere.
fn assert_optimal(confusion: &Confusion, marginal: &[f64]) {
    let classes = confusion.classes();
    let held_out = confusion.proportions();
    let proportions = confusion.solve(marginal).unwrap();
    let weights: Vec<f64> = (0..classes).map(|j| proportions[j] / held_out[j]).collect();
    let rows = confusion.to_rows();
    let residual: Vec<f64> = rows
        .chunks(classes)
        .zip(marginal)
        .map(|(row, q)| row.iter().zip(&weights).map(|(c, w)| c * w).sum::<f64>() - q)
        .collect();
    // Derivatives by p = D w, so that the constraint's derivative is 1 for every class.
    let slope = |j: usize| {
        let dot: f64 = (0..classes)
            .map(|i| rows[i * classes + j] * residual[i])
            .sum();
        dot / held_out[j]
    };
    let multiplier: f64 = (0..classes).map(|j| proportions[j] * slope(j)).sum();
    for class in 0..classes {
        let reduced = slope(class) - multiplier;
        assert!(
            reduced > -1e-9,
            "class {class} would lower the distance: {reduced}"
        );
        assert!(
            proportions[class] * reduced.abs() < 1e-9,
            "class {class}: {reduced}"
        );
    }
}

#[test]
fn identical_columns_corners_and_tiny_shares_have_optimal_answers() {
    let identical = [0.25, 0.25, 0.0, 0.05, 0.05, 0.1, 0.1, 0.1, 0.1];
    let corner = [0.3, 0.05, 0.03, 0.27];
    for (matrix, marginals) in [
        (
            &identical[..],
            vec![[0.6, 0.2, 0.2], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
        ),
        (
            &corner[..],
            vec![[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.001, 0.999, 0.0]],
        ),
    ] {
        let classes = matrix.len().isqrt();
        let confusion = Confusion::from_rows(matrix, classes).unwrap();
        for marginal in marginals {
            assert_optimal(&confusion, &marginal[..classes]);
        }
    }
}

#[test]
fn a_class_that_looks_like_another_has_an_interval_that_says_so() {
    let values = [
        0.5, 0.4, 0.1, 0.4, 0.5, 0.1, 0.4, 0.5, 0.1, 0.5, 0.4, 0.1, 0.1, 0.1, 0.8, 0.0, 0.2, 0.8,
    ];
    let held_out = probabilities(&values.repeat(50), 3);
    let labels = [0, 0, 1, 1, 2, 2].repeat(50);
    let prior = LabelProportions::uniform(3);
    let estimator =
        ProportionEstimator::new(Estimator::Confusion, held_out.clone(), labels, prior).unwrap();
    let estimate = estimator.estimate(&held_out).unwrap();
    assert!(estimator.confusion().smallest_singular_value() < 1e-12);
    for class in 0..2 {
        assert_eq!(
            (
                estimate.intervals[class].low,
                estimate.intervals[class].high
            ),
            (0.0, 1.0)
        );
    }
    assert!(
        estimate.intervals[2].high < 1.0,
        "the third class is told apart: {estimate:?}"
    );
}

#[test]
fn a_thousand_classes_are_solved() {
    let classes = 1000;
    let mut matrix = vec![0.0; classes * classes];
    for row in 0..classes {
        for column in 0..classes {
            let near = f64::from(row.abs_diff(column) <= 3) * 0.1;
            let here = f64::from(row == column) * 0.6;
            matrix[row * classes + column] = (near + here) / classes as f64;
        }
    }
    let confusion = Confusion::from_rows(&matrix, classes).unwrap();
    // A mean prediction that would need negative proportions of many classes.
    let mut marginal: Vec<f64> = (0..classes)
        .map(|k| f64::from((k * 7919 % 13) as u32))
        .collect();
    let sum: f64 = marginal.iter().sum();
    marginal.iter_mut().for_each(|q| *q /= sum);
    assert_optimal(&confusion, &marginal);
    let absent = confusion.solve(&marginal).unwrap();
    assert!(
        absent
            .as_ref()
            .iter()
            .filter(|proportion| **proportion == 0.0)
            .count()
            > 50
    );
}
