//! The learner follows label shift, resumes with the same bytes, and names what is missing in its inputs.

use ostar_engine::{Generator, Inputs, Rows};
use ostar_method::{
    diagnostics::Decision,
    frozen::FrozenScores,
    learner::{Learner, LearnerSettings, LoadedSnapshot, Scores},
};

use crate::two_classes::{bundle, learn, settings};

const WIDTH: usize = 4;
const BLOCK: usize = 100;

fn draw(rows: usize, proportion: f64, generator: &mut Generator) -> (Vec<f32>, Vec<u32>) {
    crate::two_classes::draw(rows, WIDTH, proportion, generator)
}

fn inputs(latents: &[f32]) -> Inputs<'_> {
    Inputs::Dense(Rows::new(latents, WIDTH).unwrap())
}

/// Fraction of rows that are classified correctly.
fn accuracy(probabilities: &[f32], labels: &[u32]) -> f64 {
    let rows = probabilities.chunks_exact(2).zip(labels);
    let right = rows.filter(|(row, label)| (row[1] > row[0]) == (**label == 1));
    right.count() as f64 / labels.len() as f64
}

/// Observes blocks of a stream with one step after each.
fn feed(learner: &mut Learner, stream: &[f32]) {
    for block in stream.chunks(BLOCK * WIDTH) {
        learn(learner, inputs(block)).unwrap();
        learner.step().unwrap();
    }
}

#[test]
fn a_saved_learner_continues_as_if_nothing_had_happened() {
    let bundle = bundle(WIDTH);
    let (stream, _) = draw(100 * BLOCK, 0.2, &mut Generator::new(2));
    let (first, second) = stream.split_at(stream.len() / 2);
    let mut whole = Learner::new(&bundle.deployed().unwrap(), settings()).unwrap();
    feed(&mut whole, &stream);

    let mut half = Learner::new(&bundle.deployed().unwrap(), settings()).unwrap();
    feed(&mut half, first);
    let saved = half.save().unwrap();
    let mut resumed = Learner::load(&bundle.deployed().unwrap(), settings(), &saved).unwrap();
    assert_eq!(resumed.save().unwrap(), saved, "loading changes nothing");
    feed(&mut resumed, second);
    assert!(resumed.save().unwrap() == whole.save().unwrap());
}

#[test]
fn a_snapshot_that_is_read_elsewhere_scores_to_the_same_bits() {
    let bundle = bundle(WIDTH);
    let (stream, _) = draw(40 * BLOCK, 0.2, &mut Generator::new(2));
    let mut learner = Learner::new(&bundle.deployed().unwrap(), settings()).unwrap();
    let (rows, _) = draw(BLOCK, 0.5, &mut Generator::new(3));
    for part in stream.chunks(10 * BLOCK * WIDTH) {
        let bytes = learner.save_snapshot().unwrap();
        let read = LoadedSnapshot::read(&bundle.deployed().unwrap(), &settings(), &bytes).unwrap();
        let (mut own, mut theirs) = (Scores::default(), Scores::default());
        let snapshot = learner.snapshot();
        snapshot.score(inputs(&rows), &mut own).unwrap();
        read.snapshot.score(inputs(&rows), &mut theirs).unwrap();
        assert_eq!(own.frozen, theirs.frozen);
        assert_eq!(own.prior, theirs.prior);
        assert_eq!(own.adapted, theirs.adapted);
        assert_eq!(read.snapshot.candidate, snapshot.candidate);
        assert_eq!(&read.gate, learner.gate());
        feed(&mut learner, part);
    }
    assert!(learner.steps() > 0, "some snapshots are of a learned state");
    let other = crate::two_classes::bundle(WIDTH + 1);
    let bytes = learner.save_snapshot().unwrap();
    let refused = LoadedSnapshot::read(&other.deployed().unwrap(), &settings(), &bytes);
    assert!(refused.unwrap_err().to_string().contains("another bundle"));
}

#[test]
fn rows_that_were_scored_elsewhere_are_refused_unless_the_model_can_have_scored_them() {
    let learner = Learner::new(&bundle(WIDTH).deployed().unwrap(), settings()).unwrap();
    let (model, mut scores) = (learner.model(), FrozenScores::default());
    let good = [0.5; WIDTH];
    model
        .append_scored(&good, &[0.25, 0.75], &mut scores)
        .unwrap();
    let bad: [(&[f32], &[f32]); 5] = [
        (&good[1..], &[0.25, 0.75]),
        (&good, &[1.0]),
        (&good, &[0.5, 0.6]),
        (&good, &[-0.5, 1.5]),
        (&[f32::NAN; WIDTH], &[0.25, 0.75]),
    ];
    for (latents, probabilities) in bad {
        let refused = model.append_scored(latents, probabilities, &mut scores);
        assert!(refused.is_err(), "{latents:?} {probabilities:?}");
    }
    assert_eq!((scores.len(), scores.latents()), (1, &good[..]));
}

#[test]
fn the_guard_compares_both_classifiers_as_they_would_be_served() {
    // Overlapping classes: the best prediction for a row depends on their proportions.
    let blurred = |rows: usize, proportion: f64, seed: u64| {
        let mut generator = Generator::new(seed);
        let (mut latents, labels) = draw(rows, proportion, &mut generator);
        let mut blur = |value: &mut f32| *value += 3.0 * generator.normal() as f32;
        latents.iter_mut().for_each(&mut blur);
        (latents, labels)
    };
    let (latents, labels) = blurred(4000, 0.5, 1);
    let mut learner = Learner::new(
        &crate::two_classes::fitted(&latents, WIDTH, &labels)
            .deployed()
            .unwrap(),
        settings(),
    )
    .unwrap();
    let (stream, _) = blurred(1000, 0.95, 2);
    learn(&mut learner, inputs(&stream)).unwrap();
    let refresh = learner.step().unwrap().1.unwrap();
    // Before the first step f_N equals f_S, and the map is nearly the identity.
    let (adapted, frozen) = (refresh.adapted_cross_entropy, refresh.frozen_cross_entropy);
    assert!((adapted - frozen).abs() < 0.01, "{adapted} and {frozen}");
    let accuracies = learner.estimated_accuracies().unwrap();
    assert!(accuracies.prior.is_some(), "{accuracies:?}");
    assert_eq!(accuracies.adapted, accuracies.prior);
}

#[test]
fn label_shift_is_followed_and_no_candidate_falls_behind_the_frozen_one() {
    let bundle = bundle(WIDTH);
    let mut learner = Learner::new(&bundle.deployed().unwrap(), settings()).unwrap();
    let mut generator = Generator::new(3);
    let (stream, _) = draw(100 * BLOCK, 0.9, &mut generator);
    feed(&mut learner, &stream);
    let (latents, labels) = draw(5000, 0.9, &mut generator);
    let mut scores = Scores::default();
    let report = learn(&mut learner, inputs(&latents)).unwrap();
    learner
        .snapshot()
        .score(inputs(&latents), &mut scores)
        .unwrap();
    let accuracy = |probabilities: &[f32]| accuracy(probabilities, &labels);
    let source = accuracy(&scores.frozen);
    let (prior, adapted) = (accuracy(&scores.prior), accuracy(&scores.adapted));
    assert!(prior > source + 0.005, "prior {prior}, source {source}");
    assert!(adapted > prior - 0.005, "adapted {adapted}, prior {prior}");
    for estimate in [report.frozen, report.adapted.unwrap()] {
        let proportion = estimate.proportions[1];
        assert!((proportion - 0.9).abs() < 0.03, "proportion {proportion}");
    }
}

#[test]
fn a_refresh_leaves_a_picture_in_a_plane_that_stays() {
    let bundle = bundle(WIDTH);
    let mut learner = Learner::new(&bundle.deployed().unwrap(), settings()).unwrap();
    assert!(learner.picture().is_none());
    let (stream, _) = draw(2 * 10 * BLOCK, 0.9, &mut Generator::new(4));
    let (first, second) = stream.split_at(stream.len() / 2);
    feed(&mut learner, first);
    let early = learner.picture().unwrap().as_ref().clone();
    feed(&mut learner, second);
    let late = learner.picture().unwrap();
    assert_eq!(early.source, late.source, "neither rows nor plane change");
    assert_ne!(early.mapped, late.mapped, "the map has learned");
    let points = [late.source.len(), late.mapped.len(), late.labels.len()];
    assert_eq!(points, [300; 3]);
    assert_eq!(late.target.len(), late.predicted.len());
    let spam = late.predicted.iter().filter(|class| **class == 1).count();
    let proportion = spam as f64 / late.predicted.len() as f64;
    assert!(
        proportion > 0.75,
        "nine in ten are spam, {proportion} are shown as such"
    );
    // The classes are separated along the first axis, with spam on one side.
    let mean = |class: u32| {
        let rows = late.source.iter().zip(&late.labels);
        let own: Vec<f32> = rows
            .filter(|row| *row.1 == class)
            .map(|row| row.0[0])
            .collect();
        own.iter().sum::<f32>() / own.len() as f32
    };
    assert!((mean(1) - mean(0)).abs() > 1.5, "{} {}", mean(0), mean(1));
}

#[test]
fn classes_that_moved_far_are_followed_and_a_resumed_learner_knows_where_they_are() {
    let bundle = bundle(WIDTH);
    let mut generator = Generator::new(5);
    // Nearly to the frozen classifier's decision boundary, in a direction that more spam does not explain.
    let moved = |rows, generator: &mut Generator| {
        let (mut latents, labels) = draw(rows, 0.3, generator);
        for row in latents.chunks_exact_mut(WIDTH) {
            row[0] += 1.6;
            row[1] += 1.6;
        }
        (latents, labels)
    };
    let (stream, _) = moved(20 * BLOCK, &mut generator);
    let (test, labels) = moved(4000, &mut generator);
    let settings = LearnerSettings {
        window: 2000,
        ..settings()
    };
    let mut learner = Learner::new(&bundle.deployed().unwrap(), settings.clone()).unwrap();
    learn(&mut learner, inputs(&stream)).unwrap();
    let (_, refresh) = learner.step().unwrap();
    let refresh = refresh.unwrap();
    assert!(refresh.translated, "{refresh:?}");
    assert_eq!(refresh.decision, Decision::Serve);
    let proportion = refresh.alignment_proportions[1];
    assert!((proportion - 0.3).abs() < 0.05, "proportion {proportion}");

    let mut resumed = Learner::load(
        &bundle.deployed().unwrap(),
        settings,
        &learner.save().unwrap(),
    )
    .unwrap();
    for learner in [&mut learner, &mut resumed] {
        feed(learner, &stream);
    }
    assert!(learner.save().unwrap() == resumed.save().unwrap());
    let mut scores = Scores::default();
    let snapshot = learner.snapshot();
    snapshot.score(inputs(&test), &mut scores).unwrap();
    let accuracy = |probabilities: &[f32]| accuracy(probabilities, &labels);
    let (source, adapted) = (accuracy(&scores.frozen), accuracy(&scores.adapted));
    assert!(source < 0.85, "source {source}");
    assert!(adapted > 0.95, "adapted {adapted}");
}

#[test]
fn a_black_box_follows_proportions_without_latents() {
    // Predictions of a model that depends on the mean of a row's numbers.
    let predict = |latents: &[f32]| -> Vec<f32> {
        let odds = latents
            .chunks_exact(WIDTH)
            .map(|row| 2.0 * row.iter().sum::<f32>());
        odds.flat_map(|odds| [-odds / 2.0, odds / 2.0]).collect()
    };
    let (latents, labels) = draw(2000, 0.5, &mut Generator::new(1));
    let mut probabilities = predict(&latents);
    for row in probabilities.chunks_exact_mut(2) {
        let second = 1.0 / (1.0 + (row[0] - row[1]).exp());
        row.copy_from_slice(&[1.0 - second, second]);
    }
    let bundle = crate::two_classes::black_box(probabilities, labels);
    let mut learner = Learner::new(&bundle.deployed().unwrap(), settings()).unwrap();
    let (target, truth) = draw(4000, 0.1, &mut Generator::new(2));
    let logits = predict(&target);
    let rows = Inputs::Dense(Rows::new(&logits[..], 2).unwrap());
    let report = learn(&mut learner, rows).unwrap();
    let spam = truth.iter().sum::<u32>() as f64 / truth.len() as f64;
    let interval = report.frozen.intervals[1];
    assert!(interval.contains(spam), "{spam} in {interval:?}");
    assert!(report.adapted.is_none());
    let error = learner.step().unwrap_err().to_string();
    assert!(error.contains("black box"), "{error}");

    let saved = learner.save().unwrap();
    let resumed = Learner::load(&bundle.deployed().unwrap(), settings(), &saved).unwrap();
    assert_eq!(resumed.save().unwrap(), saved);
    let mut scores = Scores::default();
    resumed.snapshot().score(rows, &mut scores).unwrap();
    assert_eq!(scores.prior, scores.adapted);
    assert!(
        scores.prior[1] < scores.frozen[1],
        "corrected to fewer spam"
    );
}

#[test]
fn a_window_smaller_than_a_batch_is_an_error_that_says_so() {
    let bundle = bundle(WIDTH);
    let too_small = LearnerSettings {
        window: 10,
        ..settings()
    };
    let error = Learner::new(&bundle.deployed().unwrap(), too_small)
        .err()
        .unwrap()
        .to_string();
    assert_eq!(error, "window: is 10, expected at least batch = 50");
    let mut learner = Learner::new(&bundle.deployed().unwrap(), settings()).unwrap();
    let (few, _) = draw(49, 0.5, &mut Generator::new(1));
    learn(&mut learner, inputs(&few)).unwrap();
    let error = learner.step().unwrap_err().to_string();
    assert_eq!(
        error,
        "target window: holds 49 rows, alignment needs at least batch = 50"
    );
}

#[test]
fn a_state_that_does_not_fit_is_refused_with_its_field() {
    let bundle = bundle(WIDTH);
    let mut learner = Learner::new(&bundle.deployed().unwrap(), settings()).unwrap();
    let (stream, _) = draw(200, 0.5, &mut Generator::new(1));
    feed(&mut learner, &stream);
    let saved = learner.save().unwrap();
    let load = |bytes: &[u8], settings: LearnerSettings| {
        Learner::load(&bundle.deployed().unwrap(), settings, bytes)
            .err()
            .unwrap()
            .to_string()
    };
    for end in [0, 7, 100, saved.len() - 1] {
        load(&saved[..end], settings());
    }
    let replaced = |from: &str, to: &str| {
        let at = saved.windows(from.len()).position(|w| w == from.as_bytes());
        let mut bytes = saved.clone();
        bytes[at.unwrap()..][..to.len()].copy_from_slice(to.as_bytes());
        bytes
    };
    let newer = replaced(r#"format_version\":1"#, r#"format_version\":9"#);
    assert_eq!(
        load(&newer, settings()),
        "format_version: of the state is 9, this version reads 1: use the ostard that wrote it"
    );
    let effort = r#"\"effort\":{\"burst\":0},"#;
    let without_a_key = load(&replaced(effort, &" ".repeat(effort.len())), settings());
    assert!(
        without_a_key.starts_with("state: header: missing field `effort`"),
        "{without_a_key}"
    );
    let other = replaced(bundle.digest(), "0123456789abcdef");
    assert!(load(&other, settings()).contains("bundle_digest"));
    let mut deeper = settings();
    deeper.map.blocks += 1;
    let message = load(&saved, deeper);
    assert!(message.contains("phi.blocks.5"), "{message}");
}

#[test]
fn a_block_with_a_nan_changes_nothing() {
    let bundle = bundle(WIDTH);
    let mut learner = Learner::new(&bundle.deployed().unwrap(), settings()).unwrap();
    let (mut rows, _) = draw(200, 0.5, &mut Generator::new(1));
    learn(&mut learner, inputs(&rows)).unwrap();
    let before = learner.save().unwrap();
    rows[5 * WIDTH + 2] = f32::NAN;
    let error = learn(&mut learner, inputs(&rows)).unwrap_err().to_string();
    assert!(error.contains("row 5, column 2"), "{error}");
    assert!(learner.save().unwrap() == before);
}
