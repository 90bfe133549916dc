//! The gate on small streams: what is served, what is claimed, and how much work is done.

use ostar_bundle::{
    Bundle,
    fit::{FitSettings, Labelled, LabelledRows, fit},
};
use ostar_engine::{Generator, Inputs, Rows};
use ostar_method::{
    Candidate,
    learner::{BlockReport, EstimatedAccuracies, Learner, LearnerSettings},
    proportions::{Estimator, Interval, LabelProportions, Probabilities, ProportionEstimator},
};

use crate::two_classes::{STEPS, learn};

const WIDTH: usize = 4;
const BLOCK: usize = 500;

/// Two Gaussians; `moved` shifts the first across, which no shares explain.
fn draw(rows: usize, second: f64, moved: f64, generator: &mut Generator) -> (Vec<f32>, Vec<u32>) {
    let (mut latents, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..rows {
        let label = u32::from(generator.uniform() < second);
        let mean = if label == 1 { 1.2 } else { -1.2 };
        for place in 0..WIDTH {
            let across = if place % 2 == 0 { moved } else { -moved };
            latents.push((mean + across + generator.normal()) as f32);
        }
        labels.push(label);
    }
    (latents, labels)
}

fn labelled_bundle(black_box: bool) -> Bundle {
    let (latents, labels) = draw(4_000, 0.5, 0.0, &mut Generator::new(1));
    let classes = ["no".to_owned(), "yes".to_owned()];
    let probabilities = probabilities(&latents);
    let rows = if black_box {
        LabelledRows::Probabilities(Rows::new(&probabilities[..], 2).unwrap())
    } else {
        LabelledRows::Latents(Rows::new(&latents[..], WIDTH).unwrap())
    };
    let labelled = Labelled {
        classes: &classes,
        labels: &labels,
        rows,
    };
    fit(labelled, &FitSettings::default(), &mut |_| ()).unwrap()
}

/// What the best classifier of these Gaussians predicts.
fn probabilities(latents: &[f32]) -> Vec<f32> {
    let of_row = |row: &[f32]| {
        let logit = 2.4 * row.iter().sum::<f32>();
        let yes = 1.0 / (1.0 + (-logit).exp());
        [1.0 - yes, yes]
    };
    latents.chunks_exact(WIDTH).flat_map(of_row).collect()
}

fn settings() -> LearnerSettings {
    LearnerSettings {
        batch: 50,
        threads: 1,
        ..LearnerSettings::default()
    }
}

fn observe(learner: &mut Learner, latents: &[f32]) -> BlockReport {
    learner.plan_steps(STEPS);
    learn(learner, Inputs::Dense(Rows::new(latents, WIDTH).unwrap())).unwrap()
}

#[test]
fn prior_correction_is_served_while_label_shift_explains_the_stream_and_no_step_is_taken() {
    let mut learner =
        Learner::new(&labelled_bundle(false).deployed().unwrap(), settings()).unwrap();
    let mut generator = Generator::new(2);
    for block in 0..12 {
        let second = if block < 6 { 0.2 } else { 0.7 };
        let (latents, _) = draw(BLOCK, second, 0.0, &mut generator);
        let report = observe(&mut learner, &latents);
        assert_eq!(
            report.verdict.candidate,
            Candidate::Prior,
            "block {block}: {:?}",
            report.verdict
        );
        assert!(report.served.known, "block {block}");
        assert_eq!(report.steps_due, 0, "an unmoved stream takes no steps");
        assert_eq!(learner.snapshot().candidate, Candidate::Prior);
    }
}

#[test]
fn classes_that_changed_are_told_at_once_and_the_shares_are_not_claimed() {
    let mut learner =
        Learner::new(&labelled_bundle(false).deployed().unwrap(), settings()).unwrap();
    let mut generator = Generator::new(3);
    for _ in 0..6 {
        let (latents, _) = draw(BLOCK, 0.5, 0.0, &mut generator);
        observe(&mut learner, &latents);
    }
    for block in 0..6 {
        let (latents, _) = draw(BLOCK, 0.5, 1.5, &mut generator);
        let report = observe(&mut learner, &latents);
        assert!(report.steps_due > 5, "a change is worth many steps");
        assert_eq!(report.verdict.candidate, Candidate::Frozen, "block {block}");
        assert!(report.verdict.refuted, "block {block}");
        let accuracies = learner.estimated_accuracies().unwrap();
        assert_eq!(accuracies, EstimatedAccuracies::default(), "nor accuracies");
        assert!(!report.served.known);
        assert!(
            report
                .served
                .intervals
                .iter()
                .all(|interval| *interval == Interval::WHOLE)
        );
        assert!(
            report
                .verdict
                .reason
                .to_string()
                .contains("the classes changed")
        );
    }
    let changes: Vec<Candidate> = learner.gate().history().map(|d| d.candidate).collect();
    assert_eq!(changes, [Candidate::Prior, Candidate::Frozen]);
}

/// Rows of the two classes in 100 numbers, which are projected in another way than few. `moved` is the length of a
/// shift in a random direction.
fn draw_wide(rows: usize, moved: f64, generator: &mut Generator) -> (Vec<f32>, Vec<u32>) {
    const WIDE: usize = 100;
    let normals = |seed: u64| {
        let mut fixed = Generator::new(seed);
        let values: Vec<f64> = (0..WIDE).map(|_| fixed.normal()).collect();
        let length = values.iter().map(|v| v * v).sum::<f64>().sqrt();
        values.into_iter().map(move |value| value / length)
    };
    let (class, shift): (Vec<f64>, Vec<f64>) = (normals(11).collect(), normals(12).collect());
    let (mut latents, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..rows {
        let label = u32::from(generator.uniform() < 0.4);
        let side = if label == 1 { 2.0 } else { -2.0 };
        let means = class.iter().zip(&shift).map(|(c, s)| side * c + moved * s);
        latents.extend(means.map(|mean| (mean + generator.normal()) as f32));
        labels.push(label);
    }
    (latents, labels)
}

#[test]
fn a_shift_of_wide_latents_is_seen_and_its_absence_too() {
    let (latents, labels) = draw_wide(4_000, 0.0, &mut Generator::new(1));
    let classes = ["no".to_owned(), "yes".to_owned()];
    let labelled = Labelled {
        classes: &classes,
        labels: &labels,
        rows: LabelledRows::Latents(Rows::new(&latents[..], 100).unwrap()),
    };
    let bundle = fit(labelled, &FitSettings::default(), &mut |_| ()).unwrap();
    for (moved, expected) in [(0.0, Candidate::Prior), (2.5, Candidate::Frozen)] {
        let mut learner = Learner::new(&bundle.deployed().unwrap(), settings()).unwrap();
        let mut generator = Generator::new(5);
        for block in 0..6 {
            let (latents, _) = draw_wide(BLOCK, moved, &mut generator);
            let inputs = Inputs::Dense(Rows::new(&latents[..], 100).unwrap());
            let verdict = learn(&mut learner, inputs).unwrap().verdict;
            let tests = verdict.prior.as_ref().unwrap();
            assert_eq!(verdict.candidate, expected, "block {block}: {tests:?}");
        }
    }
}

#[test]
fn a_black_box_has_a_gate_too() {
    let bundle = labelled_bundle(true);
    let mut learner = Learner::new(&bundle.deployed().unwrap(), settings()).unwrap();
    let mut generator = Generator::new(4);
    let observe = |learner: &mut Learner, rows: &[f32]| {
        let report = learn(learner, Inputs::Dense(Rows::new(rows, 2).unwrap()));
        report.unwrap().verdict.candidate
    };
    let (latents, _) = draw(6 * BLOCK, 0.2, 0.0, &mut generator);
    assert_eq!(
        observe(&mut learner, &probabilities(&latents)),
        Candidate::Prior
    );
    // Half of the rows near the border, which neither class often has.
    let unsure: Vec<f32> = (0..6 * BLOCK)
        .flat_map(|row| {
            if row % 2 == 0 {
                [0.52, 0.48]
            } else {
                [0.45, 0.55]
            }
        })
        .collect();
    assert_eq!(observe(&mut learner, &unsure), Candidate::Frozen);
}

#[test]
fn too_few_held_out_rows_of_a_class_leave_the_frozen_model() {
    let (latents, labels) = draw(2_000, 0.01, 0.0, &mut Generator::new(5));
    let classes = ["no".to_owned(), "yes".to_owned()];
    let labelled = Labelled {
        classes: &classes,
        labels: &labels,
        rows: LabelledRows::Latents(Rows::new(&latents[..], WIDTH).unwrap()),
    };
    let bundle = fit(labelled, &FitSettings::default(), &mut |_| ()).unwrap();
    let mut learner = Learner::new(&bundle.deployed().unwrap(), settings()).unwrap();
    let (latents, _) = draw(BLOCK, 0.5, 0.0, &mut Generator::new(6));
    let report = observe(&mut learner, &latents);
    assert_eq!(report.verdict.candidate, Candidate::Frozen);
    assert_eq!(report.verdict.reason.label(), "too_few_held_out_rows");
    assert!(!report.verdict.refuted, "nothing was tested");
    assert!(!report.served.known, "so nothing is claimed either");
}

/// An estimator of a classifier that separates its classes well.
fn sharp_estimator() -> ProportionEstimator {
    let (mut values, mut labels) = (Vec::new(), Vec::new());
    let mut generator = Generator::new(7);
    for row in 0..400u32 {
        let sure = 0.9 + 0.05 * generator.uniform();
        let label = row % 2;
        values.extend(if label == 0 {
            [sure, 1.0 - sure]
        } else {
            [1.0 - sure, sure]
        });
        labels.push(label);
    }
    let held_out = Probabilities::new("held-out", Rows::new(&values[..], 2).unwrap()).unwrap();
    ProportionEstimator::new(
        Estimator::Confusion,
        held_out,
        labels,
        LabelProportions::uniform(2),
    )
    .unwrap()
}

#[test]
fn a_reading_that_contradicts_every_share_is_no_certainty() {
    // Far surer of the second class than it ever was on held-out rows.
    let values: Vec<f64> = [0.001, 0.999].repeat(500);
    let window = Probabilities::new("window", Rows::new(&values[..], 2).unwrap()).unwrap();
    let estimate = sharp_estimator().estimate(&window).unwrap();
    assert!(!estimate.known, "{estimate:?}");
    assert_eq!(estimate.intervals, [Interval::WHOLE, Interval::WHOLE]);
}

#[test]
fn what_was_published_does_not_come_back_as_evidence() {
    // Scores in the middle, which no mixture of the classes has. Fed back, the share went from 0 to 1 and back.
    let bundle = labelled_bundle(true);
    let mut learner = Learner::new(&bundle.deployed().unwrap(), settings()).unwrap();
    let mut generator = Generator::new(8);
    let mut last: Option<f64> = None;
    for block in 0..10 {
        let rows: Vec<f32> = (0..BLOCK)
            .flat_map(|_| {
                let yes = (0.35 + 0.1 * generator.uniform()) as f32;
                [1.0 - yes, yes]
            })
            .collect();
        let inputs = Inputs::Dense(Rows::new(&rows[..], 2).unwrap());
        let report = learn(&mut learner, inputs).unwrap();
        let share = report.frozen.proportions[1];
        if let Some(last) = last {
            assert!(
                (share - last).abs() < 0.3,
                "block {block}: from {last} to {share}"
            );
        }
        last = Some(share);
    }
}
