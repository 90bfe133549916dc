//! Models of known quality whose outputs are in the right order, and in wrong ones.

use ostar_engine::Generator;

use super::*;

/// Rows of a model whose classes are Gaussians around the corners of a simplex.
struct Model {
    /// Distance of a class's mean from the origin, in deviations.
    separation: f64,
    /// The true logits are multiplied by this: above 1 the model is too sure.
    sharpness: f64,
    /// Shares that the model was trained with, as weights; its prior.
    trained_on: Vec<f64>,
}

impl Model {
    fn new(classes: usize, separation: f64) -> Self {
        Self {
            separation,
            sharpness: 1.0,
            trained_on: vec![1.0; classes],
        }
    }

    /// Probabilities for rows with these numbers of labels, sorted by class.
    fn rows(&self, counts: &[usize], seed: u64) -> (Vec<f32>, Vec<u32>) {
        let mut generator = Generator::new(seed);
        let (mut values, mut labels) = (Vec::new(), Vec::new());
        for (class, count) in counts.iter().enumerate() {
            for _ in 0..*count {
                let logits: Vec<f64> = (0..counts.len())
                    .map(|other| {
                        let at = generator.normal()
                            + self.separation * f64::from(u8::from(other == class));
                        self.sharpness * (self.separation * at + self.trained_on[other].ln())
                    })
                    .collect();
                let largest = logits.iter().copied().fold(f64::MIN, f64::max);
                let powers = logits.iter().map(|logit| (logit - largest).exp());
                let sum: f64 = powers.clone().sum();
                values.extend(powers.map(|power| (power / sum) as f32));
                labels.push(class as u32);
            }
        }
        (values, labels)
    }
}

/// The columns as `order` says: column c is what column `order[c]` was.
fn permuted(values: &[f32], order: &[usize]) -> Vec<f32> {
    let rows = values.chunks_exact(order.len());
    rows.flat_map(|row| order.iter().map(|column| row[*column]))
        .collect()
}

fn check((values, labels): &(Vec<f32>, Vec<u32>), classes: usize) -> OrderCheck {
    check_class_order(Rows::new(&values[..], classes).unwrap(), labels).unwrap()
}

fn check_permuted(rows: &(Vec<f32>, Vec<u32>), order: &[usize]) -> OrderCheck {
    check(&(permuted(&rows.0, order), rows.1.clone()), order.len())
}

/// The names of classes are their numbers.
fn names(classes: usize) -> Vec<String> {
    (0..classes).map(|class| class.to_string()).collect()
}

#[test]
fn two_classes_the_wrong_way_round_are_found_down_to_one_percent_of_positives() {
    for positives in [10, 30, 100, 500] {
        let rows = Model::new(2, 1.0).rows(&[1_000 - positives, positives], 1);
        let right = check(&rows, 2);
        assert_eq!(
            (right.better, right.unchecked),
            (None, vec![]),
            "{positives}"
        );
        let wrong = check_permuted(&rows, &[1, 0]);
        assert_eq!(
            wrong.better.as_ref().unwrap().classes,
            [1, 0],
            "{positives}"
        );
        let text = wrong.contradiction(&["no".into(), "click".into()]).unwrap();
        assert!(
            text.starts_with(
                "the order of the classes is no, click, but 1000 labelled rows fit click, no better"
            ),
            "{text}"
        );
    }
}

#[test]
fn a_model_that_calls_everything_common_has_the_order_of_its_ranks() {
    // 3 % of positives, none of which is predicted; then a model for which positives were common: 9 of 10 rows are wrong.
    for trained_on in [[0.999, 0.001], [0.01, 0.99]] {
        let mut model = Model::new(2, 1.0);
        model.trained_on = trained_on.to_vec();
        let rows = model.rows(&[970, 30], 2);
        let right = check(&rows, 2);
        assert_eq!(
            (right.better, right.unchecked),
            (None, vec![]),
            "{trained_on:?}"
        );
        assert!(
            check_permuted(&rows, &[1, 0]).better.is_some(),
            "{trained_on:?}"
        );
    }
}

#[test]
fn the_right_order_of_many_classes_is_found() {
    for classes in [3usize, 10, 50] {
        let counts: Vec<usize> = (0..classes).map(|class| 40 + 10 * class).collect();
        let rows = Model::new(classes, 2.5).rows(&counts, classes as u64);
        let right = check(&rows, classes);
        assert_eq!((right.better, right.unchecked), (None, vec![]), "{classes}");
        let mut swapped: Vec<usize> = (0..classes).collect();
        swapped.swap(1, classes - 1);
        let mut turned: Vec<usize> = (0..classes).collect();
        turned.rotate_left(1);
        for order in [swapped, turned] {
            let wrong = check_permuted(&rows, &order);
            assert_eq!(
                wrong.better_names(&names(classes)).unwrap(),
                order.iter().map(usize::to_string).collect::<Vec<_>>()
            );
            let better = wrong.better.unwrap();
            assert!(
                better.found > better.given && better.standard_errors > 3.0,
                "{better:?}"
            );
        }
    }
}

#[test]
fn neither_certainty_nor_the_prior_makes_a_right_order_wrong() {
    for (sharpness, trained_on) in [
        (30.0, [1.0, 1.0, 1.0]),
        (0.05, [1.0, 1.0, 1.0]),
        (1.0, [0.01, 0.09, 0.9]),
        (30.0, [0.9, 0.09, 0.01]),
    ] {
        let model = Model {
            separation: 1.2,
            sharpness,
            trained_on: trained_on.to_vec(),
        };
        for seed in 0..20 {
            let rows = model.rows(&[900, 80, 40], seed);
            let right = check(&rows, 3);
            assert_eq!(right.better, None, "{sharpness} {trained_on:?} {seed}");
            let wrong = check_permuted(&rows, &[2, 0, 1]);
            assert!(
                wrong.better.is_some() || !wrong.unchecked.is_empty(),
                "{sharpness} {trained_on:?} {seed}"
            );
        }
    }
}

#[test]
fn chance_is_no_better_order() {
    // 3 standard errors are exceeded by chance once in 741 times.
    for classes in [2usize, 3, 10, 50] {
        let wrong = (0..200).filter(|seed| {
            let (values, mut labels) =
                Model::new(classes, 1.0).rows(&vec![200 / classes; classes], *seed);
            Generator::new(seed + 1_000).shuffle(&mut labels);
            check(&(values, labels), classes).better.is_some()
        });
        let wrong = wrong.count();
        assert!(wrong <= 2, "{wrong} of 200 with {classes} classes");
    }
}

#[test]
fn a_weak_model_is_not_refused_and_not_confirmed() {
    for seed in 0..50 {
        let rows = Model::new(10, 0.3).rows(&[30; 10], seed);
        let right = check(&rows, 10);
        assert_eq!(right.better, None, "{seed}");
        assert!(right.unchecked.len() > 5, "{seed}");
    }
}

#[test]
fn a_class_with_few_rows_is_named_and_the_others_are_checked() {
    let rows = Model::new(4, 3.0).rows(&[100, 100, 100, 2], 5);
    let right = check(&rows, 4);
    assert_eq!(
        (right.better.as_ref(), &right.unchecked[..]),
        (None, &[3][..])
    );
    let text = right
        .not_checked(&["a".into(), "b".into(), "c".into(), "d".into()])
        .unwrap();
    assert!(
        text.starts_with("order of d not checked: 302 labelled rows are too few"),
        "{text}"
    );
    let swapped = check_permuted(&rows, &[0, 2, 1, 3]);
    let text = swapped
        .contradiction(&["a".into(), "c".into(), "b".into(), "d".into()])
        .unwrap();
    assert!(
        text.contains("fit a, b, c, d better") && text.contains("order of d not checked"),
        "{text}"
    );
    assert_eq!(swapped.better.unwrap().classes, [0, 2, 1, 3]);
    // Nothing can be said of classes without rows, or of one class alone.
    let alone = check(&Model::new(3, 3.0).rows(&[100, 0, 0], 6), 3);
    assert_eq!((alone.better, alone.unchecked.len()), (None, 3));
}

#[test]
fn a_few_rows_of_each_class_show_an_order_that_is_wrong_throughout() {
    let rows = Model::new(10, 4.0).rows(&[5; 10], 7);
    let right = check(&rows, 10);
    assert_eq!((right.better, right.unchecked.len()), (None, 10));
    let order: Vec<usize> = (0..10).rev().collect();
    assert!(check_permuted(&rows, &order).better.is_some());
    // Two of ten: not enough to refuse, and it says so.
    let swapped = check_permuted(&rows, &[1, 0, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(swapped.unchecked.len(), 10);
}

#[test]
fn copies_of_rare_rows_are_no_evidence() {
    // Three rows of the rare classes, a hundred times each; the model does not distinguish these classes.
    for seed in 0..50 {
        let (mut values, labels) = Model::new(4, 2.0).rows(&[300, 3, 3, 3], seed);
        let mut generator = Generator::new(seed);
        for row in values.chunks_exact_mut(4).skip(300) {
            generator.shuffle(&mut row[1..]);
        }
        let (mut copied, mut copied_labels) = (values.clone(), labels.clone());
        for _ in 0..100 {
            copied.extend_from_slice(&values[4 * 300..]);
            copied_labels.extend_from_slice(&labels[300..]);
        }
        let with_copies = check(&(copied, copied_labels), 4);
        assert_eq!(with_copies, check(&(values, labels), 4));
        assert_eq!(with_copies.better, None, "{seed}");
    }
}

#[test]
fn a_model_without_shares_is_checked_by_its_decisions() {
    let (values, labels) = Model::new(3, 2.0).rows(&[100, 100, 100], 8);
    let decided: Vec<f32> = values
        .chunks_exact(3)
        .flat_map(|row| {
            let best = argmax(row);
            (0..3).map(move |class| f32::from(u8::from(class == best)))
        })
        .collect();
    let rows = (decided, labels);
    let right = check(&rows, 3);
    assert_eq!((right.better, right.unchecked), (None, vec![]));
    assert_eq!(
        check_permuted(&rows, &[1, 2, 0]).better.unwrap().classes,
        [1, 2, 0]
    );
}

#[test]
fn scores_that_are_all_the_same_confirm_nothing() {
    for classes in [2usize, 3, 10] {
        let mut row = vec![0.5 / classes as f32; classes];
        row[0] += 0.5;
        let labels: Vec<u32> = (0..900).map(|number| u32::from(number % 9 == 0)).collect();
        let check = check(&(row.repeat(900), labels), classes);
        assert_eq!((check.better, check.unchecked.len()), (None, classes));
    }
}

#[test]
fn the_order_of_rows_changes_nothing_that_is_decided() {
    let (values, labels) = Model::new(5, 2.0).rows(&[60; 5], 9);
    let mut numbers: Vec<usize> = (0..labels.len()).collect();
    Generator::new(10).shuffle(&mut numbers);
    let mixed = (
        numbers
            .iter()
            .flat_map(|n| values[5 * n..][..5].to_vec())
            .collect(),
        numbers.iter().map(|n| labels[*n]).collect(),
    );
    let sorted = (values, labels);
    for order in [[0, 1, 2, 3, 4], [0, 1, 2, 4, 3]] {
        let (one, other) = (
            check_permuted(&sorted, &order),
            check_permuted(&mixed, &order),
        );
        assert_eq!(one.unchecked, other.unchecked);
        assert_eq!(
            one.better.map(|better| better.classes),
            other.better.map(|better| better.classes)
        );
    }
}

#[test]
fn of_random_models_no_right_order_is_refused_and_no_wrong_one_passes_without_a_word() {
    let mut generator = Generator::new(77);
    let (mut refused, mut confirmed) = (0, 0);
    for seed in 0..500 {
        let classes = [2, 3, 4, 10, 20][generator.below(5)];
        let model = Model {
            separation: 0.1 + 2.0 * generator.uniform(),
            sharpness: (2.0 * generator.normal()).exp(),
            trained_on: (0..classes).map(|_| generator.normal().exp()).collect(),
        };
        let count =
            |generator: &mut Generator| 1 + (30.0 * (1.5 * generator.normal()).exp()) as usize;
        let counts: Vec<usize> = (0..classes).map(|_| count(&mut generator)).collect();
        let rows = model.rows(&counts, seed);
        let right = check(&rows, classes);
        assert_eq!(right.better, None, "{seed}: {counts:?}");
        confirmed += usize::from(right.is_confirmed());
        let mut order: Vec<usize> = (0..classes).collect();
        if generator.below(2) == 0 {
            order.swap(0, 1 + generator.below(classes - 1));
        } else {
            order.rotate_left(1);
        }
        let wrong = check_permuted(&rows, &order);
        let displaced = |class: &usize| order[*class] != *class;
        assert!(
            wrong.better.is_some() || wrong.unchecked.iter().any(displaced),
            "{seed}: {counts:?}, {order:?}"
        );
        refused += usize::from(wrong.better.is_some());
    }
    assert!(
        refused > 200 && confirmed > 100,
        "{refused} refused, {confirmed} confirmed"
    );
}
