//! Compares every objective with vectors from an independent PyTorch implementation (tests/golden/README.md).

use std::collections::BTreeMap;

use ostar_engine::{
    Generator, Inputs, Rows,
    architecture::{Network, Norm},
    engine::{
        Batch, ClassifierObjective, ClassifierStep, CriticStep, Diversity, EncoderStep, MapStep,
        RawBatch,
    },
    optimiser::Adam,
    weights,
};

use crate::{
    common::{assert_close, largest, moves_by_rounding_only, steps::row_numbers},
    vectors::{Case, check_output, single_step_tolerance},
};

/// Adam with a rate of 0, which leaves the parameters unchanged.
fn still() -> Adam {
    Adam::with_rate(0.0)
}

fn check_critic(name: &str) {
    let case = Case::read(name);
    let (proportions, positions) = (case.values("p_n"), case.values("alpha"));
    let all = row_numbers(0, positions.len());
    for mut tested in case.engines_on("z_n", "z_t", proportions.len()) {
        let step = CriticStep {
            proportions: &proportions,
            positions: &positions,
            penalty_weight: case.scalars["gamma"],
            map_follows: false,
            adam: still(),
        };
        let batch = Batch {
            source: &all,
            target: &all,
        };
        let report = tested.engine.critic_step(batch, &step).unwrap();
        case.check_scalar(&tested, "loss", report.loss);
        case.check_scalar(&tested, "wd", report.distance);
        case.check_scalar(&tested, "gp", report.penalty);
        case.check_gradients(&tested);
    }
}

#[test]
fn golden_critic_step_agrees() {
    check_critic("critic");
}

#[test]
fn golden_critic_step_with_an_absent_class_agrees() {
    check_critic("critic_missing_class");
}

#[test]
fn golden_source_weights_agree() {
    for name in ["critic", "critic_missing_class"] {
        let case = Case::read(name);
        let (labels, proportions) = (case.labels(), case.values("p_n"));
        let mut counts = vec![0.0; proportions.len()];
        weights::class_counts(labels.iter().copied(), &mut counts);
        let mut per_class = vec![0.0; proportions.len()];
        weights::source_weights(&proportions, &counts, &mut per_class).unwrap();
        let omega: Vec<f64> = labels.iter().map(|l| per_class[*l as usize]).collect();
        assert_close(name, &omega, &case.values("omega"), 1.0, 1e-12);
    }
}

#[test]
fn golden_map_step_agrees() {
    let case = Case::read("phi");
    let proportions = case.values("p_n");
    let (source, width) = case.rows("z_s");
    let all = row_numbers(0, case.labels().len());
    for mut tested in case.engines_on("z_s", "z_t", proportions.len()) {
        let step = MapStep {
            proportions: &proportions,
            transport_weight: case.scalars["lambda_ot"],
            adam: still(),
        };
        let batch = Batch {
            source: &all,
            target: &all,
        };
        let report = tested.engine.map_step(batch, &step).unwrap();
        case.check_scalar(&tested, "loss", report.loss);
        case.check_scalar(&tested, "wd", report.distance);
        case.check_scalar(&tested, "ot", report.transport_cost);
        case.check_gradients(&tested);

        let after = tested.engine.export().unwrap();
        for (name, expected) in &case.tensors {
            let Some(name) = name.strip_prefix("after.") else {
                continue;
            };
            let (found, expected) = (after[name].to_f64(), expected.to_f64());
            let what = format!("{}: {name} after the step", tested.name);
            let tolerance = single_step_tolerance(&tested);
            assert_close(&what, &found, &expected, largest(&expected), tolerance);
        }
        let mut mapped = Vec::new();
        let source = Rows::new(source.as_slice(), width).unwrap();
        tested.engine.transport(source, &mut mapped).unwrap();
        check_output("mapped", &tested, &mapped, &case.values("z_n_eval"));
    }
}

fn check_classifier(name: &str) {
    let case = Case::read(name);
    let class_weights = case.values("ratios");
    let all = row_numbers(0, case.labels().len());
    let scalar = |name: &str| case.scalars.get(name).copied();
    let objective = ClassifierObjective {
        class_weights: &class_weights,
        cross_entropy_weight: 1.0,
        entropy_weight: scalar("ent_weight").unwrap_or(0.0),
        diversity: match scalar("div_weight") {
            Some(weight) => Diversity::MarginalEntropy { weight },
            None => Diversity::None,
        },
    };
    for mut tested in case.engines_on("z_n", "z_t", class_weights.len()) {
        let step = ClassifierStep {
            objective,
            adam: still(),
        };
        let batch = Batch {
            source: &all,
            target: &all,
        };
        let mut generator = Generator::new(1);
        let report = tested
            .engine
            .classifier_step(batch, &step, &mut generator)
            .unwrap();
        case.check_scalar(&tested, "loss", report.loss);
        case.check_scalar(&tested, "ce", report.cross_entropy);
        if scalar("entropy").is_some() {
            case.check_scalar(&tested, "entropy", report.entropy);
            case.check_scalar(&tested, "marginal_entropy", report.diversity);
        } else {
            assert_eq!((report.entropy, report.diversity), (0.0, 0.0));
        }
        case.check_gradients(&tested);
    }
}

#[test]
fn golden_classifier_step_agrees() {
    check_classifier("classifier");
}

#[test]
fn golden_classifier_step_with_information_maximisation_agrees() {
    check_classifier("classifier_im");
}

#[test]
fn golden_encoder_step_agrees() {
    check_encoder("encoder_mlp", false);
}

#[test]
fn golden_encoder_step_through_the_map_agrees() {
    check_encoder("encoder_mlp_through_map", true);
}

#[test]
fn golden_convolution_encoder_step_agrees() {
    check_encoder("encoder_conv", false);
}

#[test]
fn golden_convolution_encoder_step_through_the_map_agrees() {
    check_encoder("encoder_conv_through_map", true);
}

fn check_encoder(name: &str, through_map: bool) {
    let case = Case::read(name);
    let labels = case.labels();
    let class_weights = case.values("ratios");
    let (source, width) = case.rows("x_s");
    let (target, _) = case.rows("x_t");
    let source = Inputs::Dense(Rows::new(source.as_slice(), width).unwrap());
    let target = Inputs::Dense(Rows::new(target.as_slice(), width).unwrap());
    let (latents, latent) = case.rows("z");
    let architecture = case.architecture(latent, class_weights.len());
    for mut tested in case.engines(&architecture) {
        // The file's latents are from training mode. A normalised encoder's differ in evaluation mode.
        let normalised = architecture.layers(Network::Encoder);
        let normalised = normalised.iter().any(|layer| layer.norm != Norm::None);
        let (expected_source, expected_target) = latents.split_at(labels.len() * latent);
        for (what, inputs, expected) in [
            ("source latents", source, expected_source),
            ("target latents", target, expected_target),
        ] {
            if normalised {
                continue;
            }
            let mut encoded = Vec::new();
            tested.engine.encode(inputs, &mut encoded).unwrap();
            check_output(what, &tested, &encoded, expected);
        }
        let batch = RawBatch {
            source,
            labels: &labels,
            target,
        };
        let step = EncoderStep {
            objective: ClassifierObjective {
                class_weights: &class_weights,
                cross_entropy_weight: case.scalars["clf_weight"],
                entropy_weight: case.scalars["ent_weight"],
                diversity: Diversity::MarginalEntropy {
                    weight: case.scalars["div_weight"],
                },
            },
            through_map,
            encoder_adam: still(),
            classifier_adam: still(),
        };
        let mut generator = Generator::new(1);
        let report = tested
            .engine
            .encoder_step(batch, &step, &mut generator)
            .unwrap();
        case.check_scalar(&tested, "loss", report.loss);
        case.check_scalar(&tested, "ce_n", report.classifier.cross_entropy);
        case.check_scalar(&tested, "entropy", report.classifier.entropy);
        case.check_scalar(&tested, "marginal_entropy", report.classifier.diversity);
        case.check_scalar(&tested, "ce_s", report.source_cross_entropy);
        case.check_gradients(&tested);
    }
}

#[test]
fn golden_trajectory_agrees() {
    let case = Case::read("trajectory");
    let scalar = |name: &str| case.scalars[name];
    let (steps, critic_steps) = (
        scalar("iterations") as usize,
        scalar("critic_steps") as usize,
    );
    let (proportions, source_proportions) = (case.values("p_n"), case.values("p_s"));
    let class_weights: Vec<f64> = proportions
        .iter()
        .zip(&source_proportions)
        .map(|(p, s)| p / s)
        .collect();
    let rows_of_a_batch = case.tensors["y"].shape[1];
    let positions = case.values("alpha");
    let adam = Adam::with_rate(scalar("lr"));
    for mut tested in case.engines_on("z_s", "z_t", proportions.len()) {
        let engine = &mut tested.engine;
        let architecture = engine.architecture().clone();
        let mut trace: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut record = |name, value| trace.entry(name).or_default().push(value);
        for step_number in 0..steps {
            let mut rows = Vec::new();
            for critic_step in 0..critic_steps {
                let first = (step_number * critic_steps + critic_step) * rows_of_a_batch;
                rows = row_numbers(first, rows_of_a_batch);
                let step = CriticStep {
                    proportions: &proportions,
                    positions: &positions[first..first + rows_of_a_batch],
                    penalty_weight: scalar("gamma"),
                    map_follows: critic_step + 1 == critic_steps,
                    adam,
                };
                let batch = Batch {
                    source: &rows,
                    target: &rows,
                };
                let report = engine.critic_step(batch, &step).unwrap();
                record("critic_loss", report.loss);
                record("wd", report.distance);
                record("gp", report.penalty);
            }
            let last_batch = Batch {
                source: &rows,
                target: &rows,
            };
            let map_step = MapStep {
                proportions: &proportions,
                transport_weight: scalar("lambda_ot"),
                adam,
            };
            let report = engine.map_step(last_batch, &map_step).unwrap();
            record("phi_loss", report.loss);
            record("ot", report.transport_cost);
            let classifier_step = ClassifierStep {
                objective: ClassifierObjective {
                    class_weights: &class_weights,
                    cross_entropy_weight: 1.0,
                    entropy_weight: 0.0,
                    diversity: Diversity::None,
                },
                adam,
            };
            let report = engine
                .classifier_step(last_batch, &classifier_step, &mut Generator::new(1))
                .unwrap();
            record("ce", report.cross_entropy);
        }
        let (distance_tolerance, tolerance) = if tested.is_double {
            (1e-8, 1e-8)
        } else {
            (1e-3, 1e-2)
        };
        for (name, found) in trace {
            let expected = case.values(&format!("trace.{name}"));
            // W has an absolute tolerance. The others jump where rounding turns a hidden unit on or off, and have the
            // weights' tolerance.
            let (scale, tolerance) = match name {
                "wd" => (1.0, distance_tolerance),
                _ => (largest(&expected), tolerance),
            };
            let what = format!("{}: trace of {name}", tested.name);
            assert_close(&what, &found, &expected, scale, tolerance);
        }
        let end = tested.engine.export().unwrap();
        for (name, expected) in &case.tensors {
            let Some(name) = name.strip_prefix("end.") else {
                continue;
            };
            if moves_by_rounding_only(&architecture, name) {
                continue;
            }
            let (found, expected) = (end[name].to_f64(), expected.to_f64());
            let what = format!("{}: {name} at the end", tested.name);
            assert_close(&what, &found, &expected, largest(&expected), tolerance);
        }
    }
}
