//! Extreme and invalid data cause no NaN and no panic, and a refused call leaves the state unchanged.

use ostar_engine::{
    Architecture, Engine, Error, Generator, Inputs, Result,
    architecture::Norm,
    engine::{Batch, Head, RawBatch},
    initial_parameters,
    optimiser::Adam,
};

use crate::common::{
    NORMS, assert_state_is_finite, lively_parameters, rows, small_architecture, state_bytes,
    steps::{Kind, OwnedInputs, Problem, Terms, row_numbers, take},
};
use crate::{TestedEngine, engines};

/// How many steps an engine takes: fewer for candle, which is slow, but enough for five batches of every objective.
fn steps(tested: &TestedEngine) -> usize {
    if tested.name.starts_with("cpu") {
        200
    } else {
        20
    }
}

/// Takes many steps of every kind on batches of `batch_rows` random rows; every fifth batch is the first rows.
/// Everything must stay finite.
fn check_training(problem: &Problem, batch_rows: usize) {
    let architecture = &problem.architecture;
    let parameters = initial_parameters(architecture, &mut Generator::new(3));
    for mut tested in engines(architecture, &parameters) {
        let steps = steps(&tested);
        let engine = tested.engine.as_mut();
        problem.load(engine);
        let mut generator = Generator::new(4);
        for step_number in 0..steps {
            let mut batch = row_numbers(0, batch_rows);
            if step_number % 5 > 0 {
                batch.fill_with(|| generator.below(problem.labels.len()) as u32);
            }
            for kind in [
                Kind::Critic {
                    penalty_weight: 10.0,
                },
                Kind::Map,
                Kind::Classifier(Terms::ALL[step_number % Terms::ALL.len()]),
            ] {
                let adam = Adam::with_rate(1e-2);
                let report = take(kind, engine, problem, &batch, adam, &mut generator).unwrap();
                let finite = report.iter().all(|value| value.is_finite());
                assert!(
                    finite,
                    "{}, {step_number}, {kind:?}: {report:?}",
                    tested.name
                );
            }
        }
        assert_state_is_finite(tested.name, engine);
    }
}

/// Takes many steps that train an encoder, each on all of the problem's inputs.
fn check_encoder_training(problem: &Problem) {
    let architecture = &problem.architecture;
    let parameters = initial_parameters(architecture, &mut Generator::new(3));
    for mut tested in engines(architecture, &parameters) {
        let steps = steps(&tested);
        let engine = tested.engine.as_mut();
        let mut generator = Generator::new(4);
        for step_number in 0..steps {
            for kind in [Kind::Pretrain, Kind::Encoder(Terms::MarginalEntropy)] {
                let adam = Adam::with_rate(1e-2);
                let report = take(kind, engine, problem, &[], adam, &mut generator).unwrap();
                let finite = report.iter().all(|value| value.is_finite());
                assert!(
                    finite,
                    "{}, {step_number}, {kind:?}: {report:?}",
                    tested.name
                );
            }
        }
        assert_state_is_finite(tested.name, engine);
    }
}

fn for_every_norm(check: impl Fn(Architecture)) {
    for norm in NORMS {
        check(small_architecture(norm));
    }
}

#[test]
fn absent_classes_train_without_nan() {
    for_every_norm(|architecture| {
        let mut problem = Problem::random(&architecture, 12, 1);
        problem.labels.fill(1);
        check_training(&problem, 6);
    });
}

#[test]
fn one_positive_in_a_thousand_trains_without_nan() {
    for_every_norm(|mut architecture| {
        architecture.classes = 2;
        let mut problem = Problem::random(&architecture, 1000, 2);
        problem.labels.fill(0);
        problem.labels[0] = 1;
        problem.proportions = vec![0.999, 0.001];
        problem.class_weights = vec![1.0, 1.0];
        check_training(&problem, 16);
    });
}

#[test]
fn batches_of_one_row_train_without_nan() {
    for_every_norm(|architecture| check_training(&Problem::random(&architecture, 12, 3), 1));
}

#[test]
fn constant_features_train_without_nan() {
    for_every_norm(|architecture| {
        let mut problem = Problem::random(&architecture, 12, 4);
        problem.source.fill(0.0);
        problem.target.fill(2.0);
        check_training(&problem, 6);
    });
}

#[test]
fn duplicate_points_train_without_nan() {
    for_every_norm(|architecture| {
        let mut problem = Problem::random(&architecture, 12, 5);
        let first = problem.source[..architecture.latent].to_vec();
        for buffer in [&mut problem.source, &mut problem.target] {
            for row in buffer.chunks_mut(architecture.latent) {
                row.copy_from_slice(&first);
            }
        }
        check_training(&problem, 6);
    });
}

#[test]
fn an_encoder_trains_without_nan_on_one_row_and_on_constant_features() {
    for_every_norm(|architecture| {
        check_encoder_training(&Problem::random(&architecture, 1, 6));
        let mut constant = Problem::random(&architecture, 8, 6);
        let width = architecture.encoder_inputs();
        constant.source_inputs = OwnedInputs::dense(vec![1.0; 8 * width], width);
        constant.target_inputs = OwnedInputs::dense(vec![1.0; 8 * width], width);
        check_encoder_training(&constant);
    });
}

/// Engines that have taken a step, so that they have optimiser state.
fn warm_engines(problem: &Problem) -> Vec<TestedEngine> {
    let parameters = lively_parameters(&problem.architecture, 8);
    let mut tested = engines(&problem.architecture, &parameters);
    for tested in &mut tested {
        let engine = tested.engine.as_mut();
        problem.load(engine);
        let batch = row_numbers(0, 6);
        for kind in [Kind::Map, Kind::Pretrain] {
            let adam = Adam::with_rate(1e-3);
            let mut generator = Generator::new(9);
            take(kind, engine, problem, &batch, adam, &mut generator).unwrap();
        }
    }
    tested
}

#[test]
fn non_finite_input_is_refused_with_its_row_and_changes_nothing() {
    let architecture = small_architecture(Norm::Batch);
    let problem = Problem::random(&architecture, 6, 7);
    let latent = architecture.latent;
    let features = architecture.encoder_inputs();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut bad_latents = problem.source.clone();
        bad_latents[4 * latent + 1] = bad;
        let mut bad_features = vec![0.5; 6 * features];
        bad_features[4 * features + 1] = bad;
        let good_features = vec![0.5; 6 * features];
        let bad_rows = rows(&bad_latents, latent);
        let bad_inputs = Inputs::Dense(rows(&bad_features, features));
        let good_inputs = Inputs::Dense(rows(&good_features, features));
        let raw = |source, target| RawBatch {
            source,
            labels: &problem.labels,
            target,
        };
        for mut tested in warm_engines(&problem) {
            let engine = tested.engine.as_mut();
            let before = state_bytes(engine);
            let out = &mut Vec::new();
            let generator = &mut Generator::new(1);
            let adam = Adam::with_rate(1e-3);
            let pretrain = problem.pretrain_step(adam);
            let encoder = problem.encoder_step(Terms::Entropy, false, adam);
            let refusals = [
                engine.set_source(bad_rows, &problem.labels),
                engine.set_target(0, bad_rows),
                engine.encode(bad_inputs, out),
                engine.transport(bad_rows, out),
                engine.score(Head::Source, bad_rows, out),
                engine.score(Head::Target, bad_rows, out),
                engine
                    .pretrain_step(bad_inputs, &problem.labels, &pretrain, generator)
                    .map(drop),
                engine
                    .encoder_step(raw(bad_inputs, good_inputs), &encoder, generator)
                    .map(drop),
                engine
                    .encoder_step(raw(good_inputs, bad_inputs), &encoder, generator)
                    .map(drop),
            ];
            for (call, refusal) in refusals.into_iter().enumerate() {
                let place = match refusal {
                    Err(Error::NonFinite { row, column, .. }) => (row, column),
                    other => panic!("{}, call {call}: {other:?}", tested.name),
                };
                assert_eq!(place, (4, 1), "{}, call {call}", tested.name);
            }
            assert!(before == state_bytes(engine), "{}", tested.name);
            // The buffers are unchanged too: the next step equals that of an engine without refusals.
            let step = |engine: &mut dyn Engine| {
                let batch = row_numbers(0, 6);
                let mut generator = Generator::new(2);
                take(Kind::Map, engine, &problem, &batch, adam, &mut generator).unwrap()
            };
            let mut untouched = warm_engines(&problem)
                .into_iter()
                .find(|other| other.name == tested.name)
                .unwrap();
            assert_eq!(step(engine), step(untouched.engine.as_mut()));
        }
    }
}

#[test]
fn wrong_sizes_labels_and_rows_are_refused_and_change_nothing() {
    let architecture = small_architecture(Norm::Batch);
    let problem = Problem::random(&architecture, 6, 7);
    let narrow = vec![0.0f32; 12];
    let narrow = rows(&narrow, 2);
    let good = rows(&problem.source, architecture.latent);
    let all = row_numbers(0, 6);
    for mut tested in warm_engines(&problem) {
        let engine = tested.engine.as_mut();
        let before = state_bytes(engine);
        let out = &mut Vec::new();
        let generator = &mut Generator::new(1);
        let adam = Adam::with_rate(1e-3);
        let expect = |refusal: Result<()>, text: &str| {
            let message = refusal.unwrap_err().to_string();
            assert!(message.contains(text), "{}: {message}", tested.name);
        };
        expect(
            engine.set_source(narrow, &problem.labels),
            "rows of 5 numbers",
        );
        expect(engine.set_source(good, &[0, 1]), "labels");
        expect(
            engine.set_source(good, &[0, 1, 2, 0, 3, 0]),
            "label of row 4 is 3",
        );
        expect(engine.set_target(0, narrow), "rows of 5 numbers");
        expect(
            engine.encode(Inputs::Dense(narrow), out),
            "rows of 4 numbers",
        );
        expect(engine.transport(narrow, out), "rows of 5 numbers");
        expect(engine.score(Head::Target, narrow, out), "rows of 5 numbers");

        let map = problem.map_step(adam);
        let mut expect_batch = |source: &[u32], target: &[u32], text: &str| {
            let refusal = engine.map_step(Batch { source, target }, &map).map(drop);
            expect(refusal, text);
        };
        expect_batch(&[], &[], "at least one row");
        expect_batch(&all, &all[1..], "batch.target");
        expect_batch(&[0, 6], &[0, 1], "source row 6 does not exist");
        expect_batch(&[0, 1], &[0, 6], "target row 6 does not exist");

        let mut expect_step = |kind, problem: &Problem, adam, text: &str| {
            let refusal = take(kind, engine, problem, &all, adam, generator).map(drop);
            expect(refusal, text);
        };
        let critic = Kind::Critic {
            penalty_weight: -1.0,
        };
        let negative_rate = Adam::with_rate(-1.0);
        let mut wrong = Problem::random(&architecture, 6, 7);
        wrong.labels[2] = 9;
        wrong.proportions = vec![0.5; 2];
        wrong.class_weights = vec![1.0, f64::NAN, 1.0];
        expect_step(critic, &problem, adam, "penalty_weight");
        expect_step(Kind::Map, &problem, negative_rate, "adam.rate");
        expect_step(Kind::Map, &wrong, adam, "proportion");
        let classifier = Kind::Classifier(Terms::CrossEntropy);
        expect_step(classifier, &wrong, adam, "of class 1 is NaN");
        wrong.class_weights[1] = 1.0;
        expect_step(Kind::Pretrain, &wrong, adam, "label of row 2 is 9");
        assert!(before == state_bytes(engine), "{}", tested.name);
    }
}
