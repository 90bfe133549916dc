//! Learners of models with many classes: what the gate says, and that nothing is lost in a restart.

use ostar_bundle::{
    Bundle,
    fit::{FitSettings, Labelled, LabelledRows, fit},
};
use ostar_engine::{Generator, Inputs, Rows};
use ostar_method::{
    Candidate,
    gate::{GateReason, GateSettings},
    learner::{BlockReport, Learner, LearnerSettings},
    proportions::Interval,
};

use crate::two_classes::{STEPS, learn};

const CLASSES: usize = 100;
const BLOCK: usize = 500;

/// What a calibrated classifier predicts for rows of these classes. `moved` takes every row towards the class after its
/// own, which no shares explain.
fn predictions(labels: &[u32], moved: f64, generator: &mut Generator) -> Vec<f32> {
    let separation = 4.0;
    let mut values = Vec::new();
    for label in labels {
        let (own, next) = (*label as usize, (*label as usize + 1) % CLASSES);
        let powers: Vec<f64> = (0..CLASSES)
            .map(|class| {
                let centre = match class {
                    _ if class == own => separation - moved,
                    _ if class == next => moved,
                    _ => 0.0,
                };
                (separation * (centre + generator.normal() - separation)).exp()
            })
            .collect();
        let total: f64 = powers.iter().sum();
        values.extend(powers.iter().map(|power| (power / total) as f32));
    }
    values
}

fn bundle(held_out_rows: usize) -> Bundle {
    let labels: Vec<u32> = (0..CLASSES * held_out_rows)
        .map(|row| (row % CLASSES) as u32)
        .collect();
    let names: Vec<String> = (0..CLASSES).map(|class| class.to_string()).collect();
    let rows = predictions(&labels, 0.0, &mut Generator::new(1));
    let labelled = Labelled {
        classes: &names,
        labels: &labels,
        rows: LabelledRows::Probabilities(Rows::new(&rows[..], CLASSES).unwrap()),
    };
    fit(labelled, &FitSettings::default(), &mut |_| ()).unwrap()
}

/// A block of which half comes from the first ten classes.
fn block(moved: f64, generator: &mut Generator) -> Vec<f32> {
    let labels: Vec<u32> = (0..BLOCK)
        .map(|row| generator.below(if row % 2 == 0 { 10 } else { CLASSES }) as u32)
        .collect();
    predictions(&labels, moved, generator)
}

fn observe(learner: &mut Learner, rows: &[f32]) -> BlockReport {
    let inputs = Inputs::Dense(Rows::new(rows, CLASSES).unwrap());
    learner.plan_steps(STEPS);
    learn(learner, inputs).unwrap()
}

#[test]
fn with_five_held_out_rows_a_class_the_gate_says_so_whatever_the_stream_does() {
    let mut learner =
        Learner::new(&bundle(5).deployed().unwrap(), LearnerSettings::default()).unwrap();
    let mut generator = Generator::new(2);
    for moved in [0.0, 0.0, 2.0, 2.0] {
        let report = observe(&mut learner, &block(moved, &mut generator));
        let verdict = &report.verdict;
        assert_eq!(verdict.candidate, Candidate::Frozen);
        let expected = GateReason::TooFewHeldOutRows {
            class: 0,
            rows: 5,
            needed: 30,
        };
        assert_eq!(verdict.reason, expected);
        assert!(
            !verdict.refuted && verdict.prior.is_none(),
            "nothing is tested"
        );
        assert_eq!(report.steps_due, 0);
        if moved == 0.0 {
            // Shares are followed all the same, but not claimed.
            let head: f64 = report.served.proportions.as_ref()[..10].iter().sum();
            assert!((head - 0.55).abs() < 0.1, "{head}");
            assert!(!report.served.known);
            let mut intervals = report.served.intervals.iter();
            assert!(intervals.all(|interval| *interval == Interval::WHOLE));
        }
    }
}

#[test]
fn asked_to_judge_by_five_rows_a_class_the_gate_still_tells_moved_classes() {
    let settings = LearnerSettings {
        gate: GateSettings {
            held_out_rows: 5,
            ..GateSettings::default()
        },
        ..LearnerSettings::default()
    };
    let mut learner = Learner::new(&bundle(5).deployed().unwrap(), settings).unwrap();
    let mut generator = Generator::new(3);
    let mut candidates = Vec::new();
    for moved in [0.0, 0.0, 0.0, 0.0, 2.0, 2.0, 2.0, 2.0] {
        let report = observe(&mut learner, &block(moved, &mut generator));
        candidates.push(report.verdict.candidate);
    }
    assert_eq!(candidates[3], Candidate::Prior);
    assert_eq!(candidates[7], Candidate::Frozen);
}

#[test]
fn a_learner_of_many_classes_that_was_loaded_goes_on_as_if_it_had_not_been() {
    let (bundle, settings) = (bundle(30), LearnerSettings::default());
    let mut learner = Learner::new(&bundle.deployed().unwrap(), settings.clone()).unwrap();
    let mut generator = Generator::new(4);
    for _ in 0..3 {
        observe(&mut learner, &block(0.0, &mut generator));
    }
    let mut loaded = Learner::load(
        &bundle.deployed().unwrap(),
        settings,
        &learner.save().unwrap(),
    )
    .unwrap();
    for _ in 0..3 {
        let rows = block(0.0, &mut generator);
        let report = observe(&mut learner, &rows);
        assert_eq!(report.verdict.candidate, Candidate::Prior);
        assert_eq!(report, observe(&mut loaded, &rows));
    }
    assert_eq!(learner.save().unwrap(), loaded.save().unwrap());
}
