//! Export and import of an engine's state, and that a refused call leaves it unchanged.

use ostar_engine::{
    Architecture, Engine, Error, Generator, HostTensor, Inputs, NamedTensors, Result, Rows,
    architecture::Norm, engine::Head, optimiser::Adam,
};

use crate::common::{
    NORMS, assert_close, lively_parameters, rows, small_architecture, state_bytes,
    steps::{Kind, Problem, Terms, row_numbers, take},
};
use crate::engines;

const ROWS: usize = 12;

/// Every kind of step once.
fn iterate(engine: &mut dyn Engine, problem: &Problem, generator: &mut Generator) -> Vec<f64> {
    let mut reports = Vec::new();
    for kind in [
        Kind::Critic {
            penalty_weight: 10.0,
        },
        Kind::Map,
        Kind::Classifier(Terms::MarginalEntropy),
        Kind::Encoder(Terms::Divergence),
        Kind::EncoderThroughMap(Terms::Divergence),
        Kind::Pretrain,
    ] {
        let batch: Vec<u32> = (0..8).map(|_| generator.below(ROWS) as u32).collect();
        let adam = Adam::with_rate(1e-3);
        reports.extend(take(kind, engine, problem, &batch, adam, generator).unwrap());
    }
    reports
}

fn architecture(norm: Norm) -> Architecture {
    let mut architecture = small_architecture(norm);
    architecture.classifier.dropout = 0.2;
    architecture
}

#[test]
fn an_imported_state_continues_as_the_exported_one() {
    for norm in NORMS {
        let architecture = architecture(norm);
        let problem = Problem::random(&architecture, ROWS, 1);
        let fresh = lively_parameters(&architecture, 2);
        let other = lively_parameters(&architecture, 3);
        let pairs = engines(&architecture, &fresh)
            .into_iter()
            .zip(engines(&architecture, &other));
        for (mut first, mut second) in pairs {
            problem.load(first.engine.as_mut());
            problem.load(second.engine.as_mut());
            let mut generator = Generator::new(4);
            for _ in 0..5 {
                iterate(first.engine.as_mut(), &problem, &mut generator);
            }
            second
                .engine
                .import(&first.engine.export().unwrap())
                .unwrap();
            let mut same_generator = generator.clone();
            for _ in 0..5 {
                let going_on = iterate(first.engine.as_mut(), &problem, &mut generator);
                let resumed = iterate(second.engine.as_mut(), &problem, &mut same_generator);
                assert_eq!(going_on, resumed, "{norm:?}, {}", first.name);
            }
            let (first_bytes, second_bytes) = (
                state_bytes(first.engine.as_ref()),
                state_bytes(second.engine.as_ref()),
            );
            assert!(first_bytes == second_bytes, "{norm:?}, {}", first.name);
        }
    }
}

#[test]
fn only_trained_networks_export_optimiser_state() {
    let architecture = architecture(Norm::Batch);
    let problem = Problem::random(&architecture, ROWS, 1);
    let parameters = lively_parameters(&architecture, 2);
    for mut tested in engines(&architecture, &parameters) {
        let engine = tested.engine.as_mut();
        problem.load(engine);
        assert!(engine.export().unwrap().keys().eq(parameters.keys()));
        for taken in 1..=3 {
            let batch = row_numbers(0, ROWS);
            let adam = Adam::with_rate(1e-3);
            take(
                Kind::Map,
                engine,
                &problem,
                &batch,
                adam,
                &mut Generator::new(1),
            )
            .unwrap();
            let exported = engine.export().unwrap();
            assert_eq!(
                exported["adam.steps.phi"],
                HostTensor::f64([1], vec![f64::from(taken)])
            );
            let of_others = exported
                .keys()
                .find(|name| name.starts_with("adam.") && !name.contains("phi"));
            assert_eq!(of_others, None, "{}", tested.name);
            assert!(!exported.contains_key("adam.first.phi.blocks.0.bn.running_mean"));
            assert!(exported.contains_key("adam.second.phi.blocks.1.fc2.weight"));
        }
    }
}

#[test]
fn a_refused_import_names_the_tensor_and_changes_nothing() {
    let architecture = architecture(Norm::Batch);
    let problem = Problem::random(&architecture, ROWS, 1);
    let parameters = lively_parameters(&architecture, 2);
    for mut tested in engines(&architecture, &parameters) {
        let engine = tested.engine.as_mut();
        problem.load(engine);
        iterate(engine, &problem, &mut Generator::new(4));
        let (exported, before) = (engine.export().unwrap(), state_bytes(engine));
        let mut refuse = |name: &str, change: &dyn Fn(&mut NamedTensors)| {
            let mut tensors = exported.clone();
            // Changes before the fault must not be applied either.
            tensors.insert("critic.fc1.bias".into(), HostTensor::f32([7], vec![9.0; 7]));
            change(&mut tensors);
            let message = engine.import(&tensors).unwrap_err().to_string();
            assert!(message.contains(name), "{}: {message}", tested.name);
        };
        refuse("`phi.blocks.1.fc2.bias`", &|tensors| {
            tensors.remove("phi.blocks.1.fc2.bias");
        });
        refuse("`phi.blocks.1.fc2.bias`", &|tensors| {
            tensors.insert(
                "phi.blocks.1.fc2.bias".into(),
                HostTensor::f32([1], vec![0.0]),
            );
        });
        refuse("`phi.blocks.1.fc2.bias`", &|tensors| {
            let infinite = HostTensor::f32([5], vec![f32::INFINITY; 5]);
            tensors.insert("phi.blocks.1.fc2.bias".into(), infinite);
        });
        refuse("`zeta`", &|tensors| {
            tensors.insert("zeta".into(), HostTensor::f32([1], vec![0.0]));
        });
        refuse("`adam.steps.phi`", &|tensors| {
            tensors.remove("adam.steps.phi");
        });
        refuse("`adam.second.f_n.fc1.weight`", &|tensors| {
            tensors.remove("adam.second.f_n.fc1.weight");
        });
        assert!(before == state_bytes(engine), "{}", tested.name);
    }
}

#[test]
fn a_loss_that_is_not_finite_is_refused_and_changes_nothing() {
    let mut architecture = small_architecture(Norm::Batch);
    // Deep and large enough to overflow double precision as well.
    architecture.critic.hidden = vec![2; 9];
    architecture.classifier.hidden = vec![2; 9];
    architecture.classifier.norm = Norm::None;
    let problem = Problem::random(&architecture, ROWS, 1);
    let mut parameters = lively_parameters(&architecture, 2);
    for (name, tensor) in parameters.iter_mut() {
        let overflows = ["critic", "f_n", "f_s"].iter().any(|p| name.starts_with(p));
        if overflows && name.ends_with("weight") {
            let count = tensor.values.as_scalars().len();
            *tensor = HostTensor::f32(tensor.shape.clone(), vec![1e38; count]);
        }
    }
    for mut tested in engines(&architecture, &parameters) {
        let engine = tested.engine.as_mut();
        problem.load(engine);
        let before = state_bytes(engine);
        for kind in [
            Kind::Critic {
                penalty_weight: 10.0,
            },
            Kind::Map,
            Kind::Classifier(Terms::Entropy),
            Kind::Encoder(Terms::Entropy),
            Kind::Pretrain,
        ] {
            let batch = row_numbers(0, ROWS);
            let adam = Adam::with_rate(1e-3);
            let refusal = take(kind, engine, &problem, &batch, adam, &mut Generator::new(1));
            let refused = matches!(refusal, Err(Error::NonFiniteLoss { .. }));
            assert!(refused, "{}, {kind:?}: {refusal:?}", tested.name);
            // Neither parameters nor running statistics have changed.
            assert!(before == state_bytes(engine), "{}, {kind:?}", tested.name);
        }
    }
}

#[test]
fn outputs_replace_what_was_there_and_nothing_gives_nothing() {
    let architecture = architecture(Norm::Batch);
    let problem = Problem::random(&architecture, ROWS, 1);
    let parameters = lively_parameters(&architecture, 2);
    for mut tested in engines(&architecture, &parameters) {
        let engine = tested.engine.as_mut();
        let inputs = problem.source_inputs.borrow(&architecture);
        let latents = rows(&problem.source, architecture.latent);
        let mut out = vec![7.0; 1000];
        engine.encode(inputs, &mut out).unwrap();
        assert_eq!(out.len(), ROWS * architecture.latent);
        engine.transport(latents, &mut out).unwrap();
        assert_eq!(out.len(), ROWS * architecture.latent);
        engine.score(Head::Target, latents, &mut out).unwrap();
        assert_eq!(out.len(), ROWS * architecture.classes);
        let sums: Vec<f64> = out
            .chunks(architecture.classes)
            .map(|row| row.iter().map(|p| f64::from(*p)).sum())
            .collect();
        assert_close(tested.name, &sums, &[1.0; ROWS], 1.0, 1e-6);

        let nothing = Rows::new(&[0.0f32; 0][..], architecture.latent).unwrap();
        let no_inputs = Inputs::Dense(Rows::new(&[0.0f32; 0][..], 4).unwrap());
        let check = |result: Result<()>, out: &[f32]| {
            result.unwrap();
            assert!(out.is_empty(), "{}", tested.name);
        };
        let mut out = vec![7.0];
        let result = engine.encode(no_inputs, &mut out);
        check(result, &out);
        let mut out = vec![7.0];
        let result = engine.transport(nothing, &mut out);
        check(result, &out);
        let mut out = vec![7.0];
        let result = engine.score(Head::Source, nothing, &mut out);
        check(result, &out);
    }
}

#[test]
fn target_rows_are_written_where_they_belong() {
    let architecture = architecture(Norm::Layer);
    let problem = Problem::random(&architecture, ROWS, 1);
    let parameters = lively_parameters(&architecture, 2);
    let width = architecture.latent;
    let whole = engines(&architecture, &parameters);
    let in_pieces = engines(&architecture, &parameters);
    for (mut whole, mut in_pieces) in whole.into_iter().zip(in_pieces) {
        problem.load(whole.engine.as_mut());
        let engine = in_pieces.engine.as_mut();
        let source = rows(&problem.source, width);
        engine.set_source(source, &problem.labels).unwrap();
        let gap = engine.set_target(1, rows(&problem.target[..width], width));
        assert_eq!(
            gap.unwrap_err().to_string(),
            "target row 1 does not exist, the buffer holds 0 rows"
        );
        // The buffer grows, then rows overlap and replace others.
        for (first, last) in [(0, 5), (3, 9), (9, 12), (8, 12), (4, 4)] {
            let piece = rows(&problem.target[first * width..last * width], width);
            engine.set_target(first, piece).unwrap();
        }
        let report = |engine: &mut dyn Engine| {
            let batch = row_numbers(0, ROWS);
            let kind = Kind::Critic {
                penalty_weight: 10.0,
            };
            let adam = Adam::with_rate(1e-3);
            take(kind, engine, &problem, &batch, adam, &mut Generator::new(1)).unwrap()
        };
        let (expected, found) = (report(whole.engine.as_mut()), report(engine));
        assert_eq!(found, expected, "{}", whole.name);
    }
}
