//! Scrapes of models with many classes.

use std::sync::Arc;

use ostar_bundle::Description;
use ostar_engine::Generator;
use ostar_method::{
    Candidate,
    learner::{JoinCounts, Predictor, SharesByLabels},
    proportions::{Interval, LabelProportions, ProportionEstimate, ShareByLabels},
};

use super::*;
use crate::{
    current::{Current, ServingMode, Version},
    health::Health,
    metrics::{Metrics, ScoringPath},
    serving::fixture,
    status::Status,
};

/// The model of the fixture, with these classes.
fn description(names: Vec<String>, training: LabelProportions) -> Description {
    Description {
        classes: names,
        training_proportions: training,
        ..fixture::bundle().description().clone()
    }
}

fn names(classes: usize) -> Vec<String> {
    (0..classes)
        .map(|class| format!("class {class:04}"))
        .collect()
}

fn settings(max_classes: usize, classes: &[&str]) -> MetricsSettings {
    MetricsSettings {
        max_classes,
        classes: classes.iter().map(ToString::to_string).collect(),
    }
}

/// Shares of which none is 0, in no order.
fn shares(classes: usize, generator: &mut Generator) -> LabelProportions {
    let weights: Vec<f64> = (0..classes).map(|_| 0.01 + generator.uniform()).collect();
    let sum: f64 = weights.iter().sum();
    LabelProportions::new(weights.iter().map(|weight| weight / sum).collect()).unwrap()
}

/// Metrics of a daemon to which everything has happened that has to do with classes.
fn observed(description: &Description, settings: &MetricsSettings, seed: u64) -> Arc<Metrics> {
    let classes = description.classes.len();
    let mut generator = Generator::new(seed);
    let metrics = Metrics::new(description, settings).unwrap();
    let mut learned = fixture::learned(&fixture::bundle());
    let mut estimate = || ProportionEstimate {
        proportions: shares(classes, &mut generator),
        intervals: vec![
            Interval {
                low: 0.0,
                high: 1.0
            };
            classes
        ],
        effective_rows: 100.0,
        known: true,
    };
    learned.block.frozen = estimate();
    learned.block.adapted = Some(estimate());
    learned.block.served = estimate();
    learned.block.alarms.series.clear();
    metrics.learner.observe_block(&learned.block);
    let moves = &mut learned.refresh.movement.classes;
    *moves = moves.iter().copied().cycle().take(classes).collect();
    for (class, moved) in moves.iter_mut().enumerate() {
        let moved = moved
            .as_mut()
            .expect("both classes of the fixture have rows");
        moved.ratio = Some(class as f64 / classes as f64);
    }
    metrics.learner.observe_refresh(&learned.refresh);
    for path in [ScoringPath::Stream, ScoringPath::Request] {
        metrics
            .scoring
            .observe(path, 0..classes, 0, std::time::Duration::from_millis(1));
    }
    let (mut labels, evidence) = (
        learned.block.labels.unwrap(),
        learned.block.verdict.labels.unwrap(),
    );
    labels.measured.window = Some(fixture::measured(classes));
    metrics
        .labels
        .observe_block(&labels, &evidence, &JoinCounts::default());
    let by_labels: ShareByLabels = fixture::shares_by_labels().classes[0];
    metrics.labels.show_shares(Some(&SharesByLabels {
        classes: vec![by_labels; classes],
        ..fixture::shares_by_labels()
    }));
    let current = Current::new(learned.snapshot, Version::default(), ServingMode::Auto);
    metrics
        .process
        .observe(&current, &Health::new(), &Status::default());
    metrics
}

/// The label `class` and the value of each series of a family, among those that have the other label.
fn values(metrics: &Metrics, family: &str, other: Option<(&str, &str)>) -> Vec<(String, f64)> {
    let families = metrics.gather();
    let family = families.iter().find(|found| found.name() == family);
    let series = family.into_iter().flat_map(|family| family.get_metric());
    let mut found = Vec::new();
    for one in series {
        let label = |name: &str| {
            let label = one.get_label().iter().find(|label| label.name() == name);
            label.map(|label| label.value().to_owned())
        };
        let value = one.get_gauge().get_value() + one.get_counter().get_value();
        if other.is_none_or(|(name, value)| label(name).as_deref() == Some(value)) {
            found.extend(label("class").map(|class| (class, value)));
        }
    }
    found
}

fn of(values: &[(String, f64)], class: &str) -> Option<f64> {
    let mut named = values.iter().filter(|(name, _)| name == class);
    let found = named.next().map(|(_, value)| *value);
    assert!(named.next().is_none(), "{class} is there twice");
    found
}

/// Series and bytes of a scrape.
fn size(metrics: &Metrics) -> (usize, usize) {
    let text = metrics.render().unwrap();
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    (series, text.len())
}

#[test]
fn a_scrape_of_a_thousand_classes_is_hardly_larger_than_one_of_forty() {
    let size_of = |classes: usize, max_classes| {
        let training = LabelProportions::uniform(classes);
        let description = description(names(classes), training);
        size(&observed(&description, &settings(max_classes, &[]), 1))
    };
    let (forty, thousand, unbounded) = (size_of(40, 40), size_of(1_000, 40), size_of(1_000, 1_000));
    println!(
        "series and bytes: {forty:?} of 40 classes, {thousand:?} of 1,000, {unbounded:?} without a bound"
    );
    // One series `other` in each of 2 paths, 4 candidates, and 2 shares.
    assert_eq!(thousand.0, forty.0 + 8);
    assert!(thousand.0 < 1_500 && thousand.1 < 150_000, "{thousand:?}");
    assert!(unbounded.0 > 20_000, "{unbounded:?}");
}

#[test]
fn shares_and_counts_of_the_others_are_what_is_missing_to_the_sum_of_all() {
    let mut generator = Generator::new(7);
    for round in 0..40 {
        let classes = 2 + generator.below(if round % 8 == 0 { 1_000 } else { 60 });
        let most = 1 + generator.below(60);
        let description = description(names(classes), shares(classes, &mut generator));
        let metrics = observed(&description, &settings(most, &[]), round as u64);
        let summed = |family: &str, other| {
            let found = values(&metrics, family, other);
            assert_eq!(found.len(), classes.min(most + 1), "{family}");
            assert_eq!(of(&found, "other").is_some(), classes > most, "{family}");
            found.iter().map(|(_, value)| value).sum::<f64>()
        };
        let near_one = |sum: f64| (sum - 1.0).abs() < 1e-9;
        for candidate in ["training", "frozen", "adapted", "served"] {
            let sum = summed("ostar_label_proportion", Some(("candidate", candidate)));
            assert!(near_one(sum), "{candidate} sums to {sum}");
        }
        assert!(near_one(summed("ostar_served_proportion", None)));
        assert!(near_one(summed("ostar_true_proportion", None)));
        for path in ["stream", "request"] {
            let sum = summed("ostar_predictions_total", Some(("path", path)));
            assert_eq!(sum, classes as f64, "{path}");
        }
    }
}

#[test]
fn what_has_no_sum_is_absent_for_the_others_and_is_there_for_all_classes_together() {
    let mut generator = Generator::new(3);
    let description = description(names(1_000), shares(1_000, &mut generator));
    let metrics = observed(&description, &settings(40, &[]), 3);
    for (family, series) in [
        ("ostar_label_proportion_low", 3 * 40),
        ("ostar_label_proportion_high", 3 * 40),
        ("ostar_class_movement", 40),
        ("ostar_class_movement_ratio", 40),
        (
            "ostar_measured_calibration_ratio",
            Predictor::ALL.len() * 40,
        ),
        ("ostar_proportion_by_labels", 40),
        ("ostar_proportion_by_labels_low", 40),
        ("ostar_proportion_by_labels_high", 40),
    ] {
        let found = values(&metrics, family, None);
        assert_eq!(found.len(), series, "{family}");
        assert!(found.iter().all(|(class, _)| class != "other"), "{family}");
    }
    let text = metrics.render().unwrap();
    // Of the last class, which need not have a series.
    let line = "ostar_largest_class_movement_ratio 0.999\n";
    assert!(text.contains(line), "{text}");
    let found = |candidate| {
        values(
            &metrics,
            "ostar_label_proportion",
            Some(("candidate", candidate)),
        )
    };
    let (now, before) = (found(Candidate::Frozen.name()), found("training"));
    assert_eq!(now.len(), before.len());
    let (served, training) = (found("served"), found("training"));
    let differences = served
        .iter()
        .map(|(class, share)| (share - of(&training, class).unwrap()).abs());
    let of_series = differences.sum::<f64>() / 2.0;
    let line = text
        .lines()
        .find(|line| line.starts_with("ostar_distance_from_training "));
    let of_all: f64 = line.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(of_all > 2.0 * of_series, "{of_all} beside {of_series}");
}

#[test]
fn the_classes_are_those_that_are_named_and_then_the_most_common_in_training() {
    let training = LabelProportions::new(vec![0.1, 0.3, 0.1, 0.3, 0.1, 0.1]).unwrap();
    let description = description(names(6), training);
    let chosen = |most, named: &[&str]| settings(most, named).chosen(&description).unwrap();
    assert_eq!(chosen(6, &[]), [1, 3, 0, 2, 4, 5]);
    assert_eq!(
        chosen(3, &[]),
        [1, 3, 0],
        "of equally common ones the first"
    );
    assert_eq!(chosen(3, &["class 0005", "class 0003"]), [5, 3, 1]);
    assert_eq!(chosen(2, &["class 0005", "class 0005"]), [5, 1]);
    let shown = |description: &Description| {
        let metrics = observed(description, &settings(3, &["class 0005"]), 1);
        let values = values(&metrics, "ostar_served_proportion", None);
        values
            .into_iter()
            .map(|(class, _)| class)
            .collect::<Vec<_>>()
    };
    let expected = ["class 0001", "class 0003", "class 0005", "other"];
    assert_eq!(shown(&description), expected);
    assert_eq!(shown(&description), expected, "after a restart");
    let training = LabelProportions::new(vec![0.4, 0.1, 0.1, 0.1, 0.2, 0.1]).unwrap();
    let next = Description {
        training_proportions: training,
        ..description
    };
    let expected = ["class 0000", "class 0004", "class 0005", "other"];
    assert_eq!(shown(&next), expected, "after a change of the bundle");
}

#[test]
fn a_model_of_few_classes_has_a_series_for_each_and_no_other() {
    for classes in [2, 3, 40] {
        let training = LabelProportions::uniform(classes);
        let metrics = observed(
            &description(names(classes), training),
            &MetricsSettings::default(),
            1,
        );
        let found = values(&metrics, "ostar_served_proportion", None);
        let found: Vec<_> = found.into_iter().map(|(class, _)| class).collect();
        assert_eq!(found, names(classes));
        assert!(!metrics.render().unwrap().contains("other\""));
    }
    let training = LabelProportions::uniform(41);
    let metrics = observed(
        &description(names(41), training),
        &MetricsSettings::default(),
        1,
    );
    let found = values(&metrics, "ostar_served_proportion", None);
    assert_eq!(found.len(), 41);
    assert_eq!(of(&found, "class 0040"), None);
    assert!(of(&found, "other").is_some_and(|share| share > 0.0));
}

#[test]
fn a_class_that_is_called_other_is_not_mixed_up_with_the_others() {
    let names = ["other", "other_", "rare", "rarer"].map(str::to_owned);
    let training = LabelProportions::new(vec![0.5, 0.3, 0.15, 0.05]).unwrap();
    let description = description(names.to_vec(), training);
    for (most, expected) in [
        (4, &["other", "other_", "rare", "rarer"][..]),
        (3, &["other", "other_", "other__", "rare"]),
        (1, &["other", "other__"]),
    ] {
        let metrics = observed(&description, &settings(most, &[]), 1);
        let training = Some(("candidate", "training"));
        let mut found = values(&metrics, "ostar_label_proportion", training);
        found.sort_by(|left, right| left.0.cmp(&right.0));
        let classes: Vec<_> = found.iter().map(|(class, _)| class.as_str()).collect();
        assert_eq!(classes, expected);
        assert_eq!(of(&found, "other"), Some(0.5));
    }
}

#[test]
fn a_name_that_no_class_has_is_an_error_that_tells_some_of_those_there_are() {
    let mut names = names(1_000);
    names[0] = "x".repeat(10_000);
    let description = description(names, LabelProportions::uniform(1_000));
    let refused = Metrics::new(&description, &settings(40, &["class 001", "class 0002"]));
    let told = refused.unwrap_err().to_string();
    for part in [
        "metrics.classes names \"class 001\", expected names of the bundle's classes: \"xxxx",
        "\"class 0001\", ",
        "\"class 0019\", and 980 more; did you mean \"class 000",
    ] {
        assert!(told.contains(part), "{told}");
    }
    assert!(!told.contains("class 0020"), "{told}");
    assert!(told.len() < 700, "{} bytes", told.len());
}
