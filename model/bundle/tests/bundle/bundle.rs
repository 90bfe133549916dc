//! Bundles survive a round trip through their files, and errors name what is wrong with a bundle.

use std::collections::BTreeMap;

use ostar_bundle::{
    Bundle, BundleFiles, Description, FORMAT_VERSION, Input, LatentModel, SourceBuffer,
    fields::{Field, FieldKind, FieldSchema},
};
use ostar_engine::{
    Generator, HostTensor, Inputs, NamedTensors, Rows,
    architecture::{CriticShape, EncoderShape, MapShape, Network, Norm},
    evaluate::{ClassifierNetwork, Scratch, Standardisation},
    tensors::{from_safetensors, to_safetensors},
};
use ostar_method::proportions::{LabelProportions, Temperature};
use serde_json::{Value, json};

use crate::common::{NORMS, lively_parameters, normals, rows, small_architecture};

const COUNT: usize = 30;

/// A bundle with an MLP encoder (4 -> 5) and a classifier of three classes.
fn bundle() -> Bundle {
    let architecture = small_architecture(Norm::Batch);
    let mut weights = lively_parameters(&architecture, 1);
    weights.retain(|name, _| name.starts_with("g.") || name.starts_with("f_s."));
    let latents = normals(COUNT * 5, 1.0, 2.0, &mut Generator::new(2));
    let labels: Vec<u32> = (0..COUNT as u32).map(|row| row % 3).collect();
    let held_out = (0..COUNT).map(|row| row % 5 == 0).collect();
    let standardisation = Standardisation::of(rows(&latents, 5)).unwrap();
    let source = SourceBuffer::new(latents, 5, labels, held_out).unwrap();
    let description = Description {
        format_version: FORMAT_VERSION,
        name: "small".into(),
        classes: ["a", "b", "c"].map(str::to_owned).into(),
        input: Input::Dense { width: 4 },
        model: Some(LatentModel {
            latent: 5,
            encoder: architecture.encoder,
            classifier: architecture.classifier,
            standardisation,
            clip: None,
        }),
        black_box: None,
        training_proportions: LabelProportions::from_counts(&[1.0, 3.0, 7.0]).unwrap(),
        temperature: Temperature::ONE,
    };
    Bundle::new(description, weights, source).unwrap()
}

/// A bundle of a model that exposes only probabilities.
fn black_box() -> Bundle {
    let description = Description {
        model: None,
        black_box: None,
        input: Input::Probabilities,
        ..bundle().description().clone()
    };
    let row = |class: usize| (0..3).map(move |k| if k == class { 0.8 } else { 0.1 });
    let values = (0..COUNT).flat_map(|number| row(number % 3)).collect();
    let labels = (0..COUNT as u32).map(|row| row % 3).collect();
    let source = SourceBuffer::new(values, 3, labels, vec![true; COUNT]).unwrap();
    Bundle::new(description, NamedTensors::new(), source).unwrap()
}

#[test]
fn bytes_and_folders_give_the_same_bundle_and_digest() {
    let folder = std::env::temp_dir().join(format!("ostar-bundle-{}", std::process::id()));
    for bundle in [bundle(), black_box()] {
        let files = bundle.to_files().unwrap();
        let read = Bundle::from_files(&files).unwrap();
        assert_eq!(read, bundle);
        assert_eq!(read.to_files().unwrap(), files);
        // The second bundle replaces the first. The first one's weights file must be gone.
        bundle.save(&folder).unwrap();
        let loaded = Bundle::load(&folder).unwrap();
        assert_eq!(loaded, bundle);
        assert_eq!(loaded.digest(), bundle.digest());
        assert_eq!(bundle.digest().len(), 16);
    }
    assert_ne!(bundle().digest(), black_box().digest());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_missing_folder_or_file_is_named() {
    let folder = std::env::temp_dir().join(format!("ostar-missing-{}", std::process::id()));
    let load = || Bundle::load(&folder).unwrap_err().to_string();
    assert!(load().contains("bundle.json"), "{}", load());
    for name in ["source.safetensors", "weights.safetensors", "bundle.json"] {
        bundle().save(&folder).unwrap();
        std::fs::remove_file(folder.join(name)).unwrap();
        assert!(load().contains(name), "{}", load());
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn truncated_files_are_named() {
    let files = bundle().to_files().unwrap();
    let refusal = |files: &BundleFiles| Bundle::from_files(files).unwrap_err().to_string();
    for quarters in [0, 1, 2, 3] {
        let cut = |bytes: &[u8]| bytes[..bytes.len() * quarters / 4].to_vec();
        let mut broken = files.clone();
        broken.description = cut(&files.description);
        assert!(refusal(&broken).starts_with("bundle.json"), "{broken:?}");
        let mut broken = files.clone();
        broken.weights = files.weights.as_deref().map(cut);
        assert!(refusal(&broken).starts_with("weights.safetensors"));
        let mut broken = files.clone();
        broken.source = cut(&files.source);
        assert!(refusal(&broken).starts_with("source.safetensors"));
    }
}

/// The error message for a bundle with a changed `bundle.json`.
fn refused_description(bundle: &Bundle, change: impl Fn(&mut Value)) -> String {
    let mut files = bundle.to_files().unwrap();
    let mut description: Value = serde_json::from_slice(&files.description).unwrap();
    change(&mut description);
    files.description = serde_json::to_vec(&description).unwrap();
    Bundle::from_files(&files).unwrap_err().to_string()
}

#[test]
fn whatever_is_wrong_with_the_description_is_named() {
    let cases: [(&str, Value, &[&str]); 18] = [
        (
            "/format_version",
            json!(0),
            &["format_version", "is 0, this version reads 1"],
        ),
        ("/format_version", json!("x"), &["bundle.json", "x"]),
        (
            "/colour",
            json!(1),
            &["bundle.json", "unknown field `colour`"],
        ),
        ("/model/depth", json!(1), &["bundle.json, model", "`depth`"]),
        ("/classes", json!(["a"]), &["classes", "at least 2"]),
        (
            "/classes",
            json!(["a", "b", "a"]),
            &["classes", "\"a\" twice"],
        ),
        (
            "/classes",
            json!(["a", "b"]),
            &["training_proportions", "expected 2"],
        ),
        (
            "/classes/1",
            json!(7),
            &["bundle.json, classes[1]", "string"],
        ),
        (
            "/training_proportions",
            json!([0.5, 0.4, 0.0]),
            &["training_proportions", "sum to 0.9"],
        ),
        (
            "/training_proportions",
            json!([0.5, 0.5, 0.0]),
            &["training_proportions", "class 2 (\"c\")"],
        ),
        ("/temperature", json!(0.0), &["temperature", "above 0"]),
        (
            "/input",
            json!({"dense": {"width": 9}}),
            &["input.width", "expected 4, found 9"],
        ),
        (
            "/input",
            json!({"latent": {"width": 5}}),
            &["model.encoder", "identity"],
        ),
        ("/input", json!("logits"), &["model", "expected none"]),
        (
            "/model/encoder",
            json!({"convolution": {"filters": [3, u64::MAX]}}),
            &["model.encoder", "is a convolution, which is not served"],
        ),
        (
            "/model/latent",
            json!(6),
            &["standardisation.mean", "expected 6"],
        ),
        (
            "/model/standardisation/deviation/3",
            json!(-1.0),
            &["standardisation.deviation", "feature 3 is -1"],
        ),
        (
            "/model/classifier/hidden",
            json!([6, 8]),
            &["f_s.fc2.weight", "expected shape [8, 6]"],
        ),
    ];
    for (path, value, expected) in cases {
        let message = refused_description(&bundle(), |description| {
            let (parent, key) = path.rsplit_once('/').unwrap();
            match description.pointer_mut(parent).unwrap() {
                Value::Array(values) => values[key.parse::<usize>().unwrap()] = value.clone(),
                object => object[key] = value.clone(),
            }
        });
        for part in expected {
            assert!(message.contains(part), "{path} {value}: {message}");
        }
    }
    let message = refused_description(&bundle(), |d| {
        d.as_object_mut().unwrap().remove("name");
    });
    assert!(message.contains("missing field `name`"), "{message}");
    let message = refused_description(&black_box(), |d| {
        d["input"] = json!({"dense": {"width": 4}})
    });
    assert!(message.starts_with("model: is missing"), "{message}");
}

#[test]
fn another_format_version_is_told_before_keys_that_are_unknown_here() {
    let message = refused_description(&bundle(), |description| {
        description["format_version"] = json!(7);
        description["colour"] = json!(1);
    });
    assert_eq!(message, "format_version: is 7, this version reads 1");
}

#[test]
fn whatever_is_wrong_with_the_tensors_is_named() {
    let numbers = |values: Vec<f32>| Some(HostTensor::f32([values.len()], values));
    let ones = vec![1.0; COUNT];
    let mut seven = vec![0.0; COUNT];
    seven[4] = 7.0;
    let mut fraction = vec![0.0; COUNT];
    fraction[4] = 0.5;
    let mut infinite = vec![0.0; COUNT * 5];
    infinite[8] = f32::INFINITY;
    let in_class_one = |row: usize| f32::from(row % 3 == 1);
    let cases: [(&str, Option<HostTensor>, &[&str]); 16] = [
        ("g.fc1.bias", None, &["`g.fc1.bias` is missing"]),
        (
            "g.fc1.bias",
            numbers(vec![0.0; 7]),
            &["`g.fc1.bias`", "shape [6]"],
        ),
        (
            "f_s.fc1.bias",
            numbers(vec![f32::NAN; 6]),
            &["`f_s.fc1.bias`", "NaN"],
        ),
        (
            "f_s.bn1.running_var",
            numbers(vec![-1.0; 6]),
            &["running_var", "-1"],
        ),
        (
            "phi.extra",
            numbers(vec![0.0]),
            &["`phi.extra` does not belong"],
        ),
        ("latents", None, &["`latents` is missing"]),
        (
            "latents",
            Some(HostTensor::f32([COUNT, 4], vec![0.0; COUNT * 4])),
            &["shape [30, 5]"],
        ),
        (
            "latents",
            Some(HostTensor::f32([COUNT, 5], infinite)),
            &["`latents`", "inf"],
        ),
        ("labels", None, &["`labels` is missing"]),
        ("labels", numbers(seven), &["label of row 4 is 7", "0 to 2"]),
        ("labels", numbers(fraction), &["`labels`", "row 4 is 0.5"]),
        ("labels", numbers(vec![0.0; 4]), &["`labels`", "shape [30]"]),
        (
            "labels",
            numbers(vec![0.0; COUNT]),
            &["class 1 (\"b\") has no rows"],
        ),
        (
            "held_out",
            numbers(vec![0.0; COUNT]),
            &["class 0 (\"a\") has no held-out rows"],
        ),
        (
            "held_out",
            numbers(ones),
            &["class 0 (\"a\") has no rows but held-out ones"],
        ),
        (
            "held_out",
            numbers((0..COUNT).map(|row| 2.0 * in_class_one(row)).collect()),
            &["`held_out`", "row 1 is 2", "0 or 1"],
        ),
    ];
    for (name, tensor, expected) in cases {
        let mut files = bundle().to_files().unwrap();
        let in_source = ["latents", "labels", "held_out"].contains(&name);
        let bytes = if in_source {
            &mut files.source
        } else {
            files.weights.as_mut().unwrap()
        };
        let mut tensors = from_safetensors(bytes).unwrap();
        match tensor {
            Some(tensor) => tensors.insert(name.into(), tensor),
            None => tensors.remove(name),
        };
        *bytes = to_safetensors(&tensors, BTreeMap::new()).unwrap();
        let message = Bundle::from_files(&files).unwrap_err().to_string();
        for part in expected {
            assert!(message.contains(part), "{name}: {message}");
        }
    }
}

#[test]
fn a_buffer_of_one_row_or_of_no_probabilities_is_refused() {
    let one = SourceBuffer::new(vec![0.0; 5], 5, vec![0], vec![true]);
    let message = one.unwrap_err().to_string();
    assert!(message.contains("at least 2 rows, found 1"), "{message}");
    let values = vec![0.7; COUNT * 3];
    let labels = (0..COUNT as u32).map(|row| row % 3).collect();
    let source = SourceBuffer::new(values, 3, labels, vec![true; COUNT]).unwrap();
    let description = black_box().description().clone();
    let message = Bundle::new(description, NamedTensors::new(), source)
        .unwrap_err()
        .to_string();
    assert!(message.contains("source probabilities: row 0"), "{message}");
}

#[test]
fn fields_that_do_not_fit_the_encoder_are_refused() {
    let field = |name: &str| Field {
        name: name.into(),
        kind: FieldKind::Category,
    };
    let mut description = bundle().description().clone();
    description.input = Input::Fields(FieldSchema {
        fields: vec![field("a"), field("b")],
        buckets: 10,
    });
    description.model.as_mut().unwrap().encoder = EncoderShape::Fields {
        numbers: 0,
        bags: 1,
        buckets: 10,
        embedding: 3,
        hidden: vec![],
        final_relu: false,
    };
    let source = bundle().source().clone();
    let message = Bundle::new(description, NamedTensors::new(), source)
        .unwrap_err()
        .to_string();
    assert!(message.starts_with("input.fields"), "{message}");
}

#[test]
fn labels_and_marks_may_be_integers_and_booleans() {
    let bundle = bundle();
    let mut files = bundle.to_files().unwrap();
    let labels: Vec<u8> = (bundle.source().labels().iter())
        .flat_map(|label| i64::from(*label).to_le_bytes())
        .collect();
    let held_out: Vec<u8> = (bundle.source().held_out().iter())
        .map(|is| u8::from(*is))
        .collect();
    let latents: Vec<u8> = (bundle.source().values().iter())
        .flat_map(|value| value.to_le_bytes())
        .collect();
    use safetensors::{Dtype, tensor::TensorView};
    let views = [
        (
            "latents",
            TensorView::new(Dtype::F32, vec![COUNT, 5], &latents).unwrap(),
        ),
        (
            "labels",
            TensorView::new(Dtype::I64, vec![COUNT], &labels).unwrap(),
        ),
        (
            "held_out",
            TensorView::new(Dtype::BOOL, vec![COUNT], &held_out).unwrap(),
        ),
    ];
    files.source = safetensors::serialize(views, None).unwrap();
    assert_eq!(Bundle::from_files(&files).unwrap(), bundle);
}

#[test]
fn what_adaptation_starts_from_scores_raw_inputs_as_the_bundle_s_own_networks_do() {
    for norm in NORMS {
        let mut architecture = small_architecture(norm);
        let mut weights = lively_parameters(&architecture, 3);
        weights.retain(|name, _| name.starts_with("g.") || name.starts_with("f_s."));
        let mut description = bundle().description().clone();
        description.model.as_mut().unwrap().classifier = architecture.classifier.clone();
        let bundle = Bundle::new(description, weights, bundle().source().clone()).unwrap();

        let values = normals(40 * 4, 0.0, 1.0, &mut Generator::new(4));
        let inputs = Inputs::Dense(rows(&values, 4));
        let mut scratch = Scratch::default();
        let (mut latents, mut found) = (Vec::new(), Vec::new());
        let encoder = bundle.encoder().unwrap().unwrap();
        encoder.encode(inputs, &mut scratch, &mut latents).unwrap();
        let classifier = bundle.source_classifier().unwrap().unwrap();
        classifier
            .score(rows(&latents, 5), &mut scratch, &mut found)
            .unwrap();

        let standardisation = &bundle.description().model.as_ref().unwrap().standardisation;
        let raw: Vec<f32> = latents
            .iter()
            .enumerate()
            .map(|(i, value)| {
                let (mean, deviation) = (
                    standardisation.mean[i % 5] as f32,
                    standardisation.deviation[i % 5] as f32,
                );
                mean + deviation * value
            })
            .collect();
        let network = Network::SourceClassifier;
        let on_raw = ClassifierNetwork::new(&architecture, network, bundle.weights()).unwrap();
        let mut expected = Vec::new();
        on_raw
            .score(rows(&raw, 5), &mut scratch, &mut expected)
            .unwrap();
        for (a, b) in found.iter().zip(&expected) {
            assert!((a - b).abs() < 1e-5, "{norm:?}: {a} {b}");
        }

        architecture.encoder = EncoderShape::Identity;
        let map = MapShape { blocks: 2, norm };
        let critic = CriticShape { hidden: vec![7, 6] };
        let training = bundle
            .deployed()
            .unwrap()
            .training_architecture(map, critic);
        assert_eq!(training, Some(architecture));
        let source = bundle.standardised_source().unwrap();
        let again = Standardisation::of(Rows::new(&source[..], 5).unwrap()).unwrap();
        assert!(again.mean.iter().all(|mean| mean.abs() < 1e-5));
        assert!(again.deviation.iter().all(|d| (d - 1.0).abs() < 1e-5));
    }
}

proptest::proptest! {
    #[test]
    fn damaged_files_give_an_error_or_a_bundle_that_passed_every_check(
        file in 0..3usize,
        place in 0.0..1.0f64,
        byte: u8,
    ) {
        let mut files = bundle().to_files().unwrap();
        let bytes = match file {
            0 => &mut files.description,
            1 => files.weights.as_mut().unwrap(),
            _ => &mut files.source,
        };
        let index = (place * bytes.len() as f64) as usize;
        bytes[index] = byte;
        if let Ok(read) = Bundle::from_files(&files) {
            proptest::prop_assert!(Bundle::from_files(&read.to_files().unwrap()).is_ok());
        }
    }
}
