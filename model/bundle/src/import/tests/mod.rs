mod graphs;

use ostar_engine::{
    Error, Inputs, Rows,
    architecture::{Gives, OnnxShape},
    evaluate::{ExternalNetwork as _, Scratch},
};
use ostar_method::frozen::FrozenScores;
use tract_onnx::pb::{AttributeProto, GraphProto, NodeProto, tensor_proto::DataType};

use self::graphs::{
    columns, model, numbers, perceptron, trees, value, weights, whole, word, words,
};
use super::*;
use crate::{
    fields::{FieldBlock, FieldValue},
    fit::LabelledRows,
    input::Input,
    onnx::{
        OnnxNetwork,
        graph::{integer_attribute, node},
    },
};

const ROWS: usize = 300;

fn features() -> Vec<f32> {
    weights(ROWS * 3, 0.2)
        .iter()
        .map(|value| 3.0 * value)
        .collect()
}

fn settings() -> ImportSettings {
    ImportSettings {
        name: "test".into(),
        held_out_share: 0.2,
        ..ImportSettings::default()
    }
}

fn import_rows(
    file: &[u8],
    settings: &ImportSettings,
    classes: &[&str],
) -> ostar_engine::Result<Imported> {
    let model = Model::read(file, None)?;
    let values = features();
    let labels: Vec<u32> = (0..ROWS as u32).map(|row| row % 2).collect();
    let classes: Vec<String> = classes.iter().map(|class| (*class).to_owned()).collect();
    let labelled = ImportRows {
        classes: &classes,
        labels: &labels,
        rows: LabelledRows::Dense(Rows::new(&values[..], 3)?),
    };
    import(&model, labelled, settings)
}

fn probabilities(imported: &Imported, values: &[f32]) -> Vec<f32> {
    let frozen = imported
        .bundle
        .frozen()
        .expect("an imported bundle is a model");
    let (mut scratch, mut scores) = (Scratch::default(), FrozenScores::default());
    let rows = Inputs::Dense(Rows::new(values, 3).expect("rows of three"));
    frozen
        .score(rows, &mut scratch, &mut scores)
        .expect("the model takes these rows");
    scores.probabilities().to_vec()
}

#[test]
fn a_perceptron_is_cut_before_its_last_layer_and_predicts_as_before() {
    let imported = import_rows(&perceptron(), &settings(), &["b", "a"]).unwrap();
    assert_eq!(imported.latent.as_deref(), Some("hidden"));
    let candidates = [("hidden".to_owned(), 4), ("scaled".to_owned(), 3)];
    assert_eq!(imported.candidates, candidates);
    let difference = imported.difference.unwrap();
    assert!(difference < 1e-6, "{difference}");
    // By hand.
    let values = features();
    let (w1, b1, w2, b2) = (
        weights(12, 0.3),
        weights(4, 0.1),
        weights(8, 0.7),
        weights(2, 0.9),
    );
    let found = probabilities(&imported, &values);
    for (row, found) in values.chunks_exact(3).zip(found.chunks_exact(2)) {
        let scaled = [(row[0] - 1.0) * 0.5, row[1] - 2.0, (row[2] - 3.0) * 2.0];
        let hidden: Vec<f32> = (0..4)
            .map(|h| (b1[h] + (0..3).map(|n| scaled[n] * w1[n * 4 + h]).sum::<f32>()).max(0.0))
            .collect();
        let logits: Vec<f32> = (0..2)
            .map(|k| b2[k] + (0..4).map(|n| hidden[n] * w2[n * 2 + k]).sum::<f32>())
            .collect();
        let expected = 1.0 / (1.0 + (logits[0] - logits[1]).exp());
        assert!(
            (found[1] - expected).abs() < 1e-5,
            "{found:?}, expected {expected}"
        );
    }
    // Another cut leaves a head with a hidden layer, and the same predictions.
    let earlier = ImportSettings {
        latent: Some("scaled".into()),
        ..settings()
    };
    let earlier = import_rows(&perceptron(), &earlier, &["b", "a"]).unwrap();
    let model = earlier.bundle.description().model.clone().unwrap();
    assert_eq!((model.latent, model.classifier.hidden), (3, vec![4]));
    let pairs = probabilities(&earlier, &values)
        .into_iter()
        .zip(probabilities(&imported, &values));
    assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-6));
}

#[test]
fn a_row_has_the_same_bits_whatever_rows_it_is_run_with() {
    for file in [perceptron(), trees()] {
        let imported = import_rows(&file, &settings(), &["0", "1"]).unwrap();
        let values = features();
        let all = probabilities(&imported, &values);
        for count in [1, 2, 7, 129] {
            let some = probabilities(&imported, &values[3 * 5..3 * (5 + count)]);
            assert_eq!(some, all[2 * 5..2 * (5 + count)], "{count} rows");
        }
    }
}

#[test]
fn a_bundle_with_a_network_is_written_and_read_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    for file in [perceptron(), trees()] {
        let imported = import_rows(&file, &settings(), &["0", "1"]).unwrap();
        imported.bundle.save(folder.path()).unwrap();
        let read = Bundle::load(folder.path()).unwrap();
        assert_eq!(read, imported.bundle);
        assert_eq!(read.digest(), imported.bundle.digest());
        std::fs::remove_file(folder.path().join("encoder.onnx")).unwrap();
        let missing = Bundle::load(folder.path()).unwrap_err().to_string();
        assert!(missing.contains("encoder.onnx: is missing"), "{missing}");
    }
}

#[test]
fn trees_are_a_black_box_that_takes_features() {
    let imported = import_rows(&trees(), &settings(), &["0", "1"]).unwrap();
    assert_eq!(imported.latent, None);
    assert!(imported.bundle.description().is_black_box());
    let found = probabilities(&imported, &[0.5, 0.0, -1.0, 0.6, 0.0, -1.5]);
    let logistic = |sum: f32| 1.0 / (1.0 + (-sum).exp());
    for (found, sum) in [
        (found[1], -1.0 - 0.25 + 0.125),
        (found[3], 2.0 + 0.5 + 0.125),
    ] {
        assert!((found - logistic(sum)).abs() < 1e-6, "{found}");
    }
}

/// One tree with two leaves, as onnxruntime 1.31 scores it where the standard is vague.
#[test]
fn two_classes_by_one_sum_are_those_of_onnxruntime() {
    let scores = |leaves: [f32; 2], transform: &str, base: &[f32]| {
        let node = NodeProto {
            attribute: vec![
                whole("nodes_treeids", &[0, 0, 0]),
                whole("nodes_nodeids", &[0, 1, 2]),
                whole("nodes_featureids", &[0, 0, 0]),
                numbers("nodes_values", &[0.5, 0.0, 0.0]),
                words("nodes_modes", &["BRANCH_LEQ", "LEAF", "LEAF"]),
                whole("nodes_truenodeids", &[1, 0, 0]),
                whole("nodes_falsenodeids", &[2, 0, 0]),
                whole("class_treeids", &[0, 0]),
                whole("class_nodeids", &[1, 2]),
                whole("class_ids", &[0, 0]),
                numbers("class_weights", &leaves),
                whole("classlabels_int64s", &[0, 1]),
                numbers("base_values", base),
                word("post_transform", transform),
                integer_attribute("is_classifier", 1),
            ],
            ..NodeProto::default()
        };
        let trees = crate::onnx::trees::Trees::read(&node).unwrap();
        let mut out = Vec::new();
        trees.score(&[0.0], &mut out).unwrap();
        trees.score(&[1.0], &mut out).unwrap();
        out
    };
    let (positive, mixed) = ([0.2, 0.7], [-0.2, 0.7]);
    for (leaves, transform, base, expected) in [
        (positive, "NONE", &[][..], [0.8, 0.2, 0.3, 0.7]),
        (positive, "NONE", &[0.1], [0.7, 0.3, 0.2, 0.8]),
        (positive, "NONE", &[0.1, 0.3], [0.3, 0.0, 0.8, 0.0]),
        (positive, "LOGISTIC", &[], [0.4502, 0.5498, 0.3318, 0.6682]),
        (positive, "LOGISTIC", &[0.1, 0.3], [0.5744, 0.5, 0.69, 0.5]),
        (
            positive,
            "SOFTMAX",
            &[0.1, 0.3],
            [0.5744, 0.4256, 0.69, 0.31],
        ),
        (mixed, "NONE", &[], [0.2, -0.2, -0.7, 0.7]),
        (mixed, "LOGISTIC", &[0.1], [0.525, 0.475, 0.31, 0.69]),
        (mixed, "SOFTMAX", &[0.1], [0.1, -0.1, -0.8, 0.8]),
    ] {
        let found = scores(leaves, transform, base);
        let near = found
            .iter()
            .zip(expected)
            .all(|(found, expected)| (found - expected).abs() < 1e-4);
        assert!(
            near,
            "{leaves:?} {transform} {base:?}: {found:?}, expected {expected:?}"
        );
    }
}

#[test]
fn texts_are_categories_by_name_and_missing_numbers_are_the_mean() {
    let model = Model::read(&columns(), None).unwrap();
    assert_eq!(model.classes().unwrap(), ["no", "yes"]);
    let Takes::Fields(schema) = model.takes().clone() else {
        panic!("texts are fields");
    };
    let mut block = FieldBlock::default();
    let rows: Vec<(Option<f64>, &str)> = (0..40)
        .map(|n| (Some(f64::from(n)), ["DE", "FR", "ES"][n as usize % 3]))
        .chain([(None, "DE")])
        .collect();
    for (age, country) in &rows {
        let value = |_: usize, name: &str| match (name, age) {
            ("age", Some(age)) => FieldValue::Number(*age),
            ("age", None) => FieldValue::Missing,
            _ => FieldValue::Text(country),
        };
        schema.push(value, &mut block).unwrap();
    }
    let labels: Vec<u32> = (0..41).map(|row| row % 2).collect();
    let classes = ["no".to_owned(), "yes".to_owned()];
    let labelled = ImportRows {
        classes: &classes,
        labels: &labels,
        rows: LabelledRows::Fields {
            schema: &schema,
            block: &block,
        },
    };
    let imported = import(&model, labelled, &settings()).unwrap();
    assert_eq!(imported.latent.as_deref(), Some("all"), "{imported:?}");
    let frozen = imported
        .bundle
        .frozen()
        .expect("an imported bundle is a model");
    let (mut scratch, mut scores) = (Scratch::default(), FrozenScores::default());
    frozen
        .score(block.inputs(), &mut scratch, &mut scores)
        .unwrap();
    for ((age, country), found) in rows.iter().zip(scores.probabilities().chunks_exact(2)) {
        let age = age.unwrap_or(19.5) as f32;
        let category = match *country {
            "DE" => 2.0,
            "FR" => -1.0,
            _ => 0.0,
        };
        let expected = 1.0 / (1.0 + (-(0.5 * age + category - 0.25)).exp());
        assert!(
            (found[1] - expected).abs() < 1e-5,
            "{age} {country}: {found:?}"
        );
    }
}

#[test]
fn what_cannot_be_imported_is_named_with_what_to_do_instead() {
    let graph = |operator: &str, attribute: Vec<AttributeProto>| {
        model(GraphProto {
            node: vec![node(operator, &["X"], "scores", attribute)],
            input: vec![value("X", DataType::Float, &[3])],
            output: vec![value("scores", DataType::Float, &[2])],
            ..GraphProto::default()
        })
    };
    let told = |error: Error| error.to_string();
    let refused = |file: &[u8]| told(import_rows(file, &settings(), &["a", "b"]).unwrap_err());
    let unknown = refused(&graph("SVMClassifier", vec![]));
    assert!(
        unknown.contains("SVMClassifier") && unknown.contains("`latent` or its `probabilities`"),
        "{unknown}"
    );
    let norm = refused(&graph("Normalizer", vec![word("norm", "L7")]));
    assert!(norm.contains("Normalizer") && norm.contains("L7"), "{norm}");
    let text = refused(b"not a model");
    assert!(
        text.starts_with("the model: is not an ONNX model"),
        "{text}"
    );
    let classes = told(import_rows(&perceptron(), &settings(), &["a", "b", "c"]).unwrap_err());
    assert!(
        classes.contains("predicts 2 classes, expected 3: a, b, c"),
        "{classes}"
    );
    let elsewhere = ImportSettings {
        latent: Some("label".into()),
        ..settings()
    };
    let elsewhere = told(import_rows(&perceptron(), &elsewhere, &["a", "b"]).unwrap_err());
    assert!(
        elsewhere.contains("one of [\"hidden\", \"scaled\"]"),
        "{elsewhere}"
    );
    let output = told(Model::read(&perceptron(), Some("nothing")).unwrap_err());
    assert!(output.contains("has no tensor `nothing`"), "{output}");
}

/// A file that is refused or run: it must not panic and not take all memory.
#[test]
fn fuzz_onnx_files() {
    let seeds = [perceptron(), trees(), columns()];
    let shape = |output: &str, gives: Gives| OnnxShape {
        output: output.into(),
        gives,
        rows: 4,
        missing: vec![],
    };
    let input = Input::Dense { width: 3 };
    let values = features();
    ostar_fuzzing::fuzz!("onnx_files", seeds, |bytes: &[u8]| {
        for shape in [
            shape("hidden", Gives::Latents),
            shape("scores", Gives::Logits),
        ] {
            if let Ok(network) = OnnxNetwork::load(bytes, &shape, &input) {
                let rows = Rows::new(&values[..15], 3).unwrap();
                let _ = network.run(&Inputs::Dense(rows), &mut Vec::new());
            }
        }
        let _ = Model::read(bytes, None);
    });
}
