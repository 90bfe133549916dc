//! Reference rows: what a bundle takes, keeps and refuses.

use std::collections::BTreeMap;

use ostar_bundle::{
    Bundle,
    fit::{FitSettings, Labelled, LabelledRows, fit},
    most_reference_rows,
};
use ostar_engine::{
    Generator, HostTensor, Inputs,
    tensors::{from_safetensors, to_safetensors},
};

use crate::common::rows;

const WIDTH: usize = 4;
const COUNT: usize = 2_000;

/// Unit Gaussians whose means are not far apart, in these shares.
fn gaussians(count: usize, shares: &[f64], seed: u64) -> (Vec<f32>, Vec<u32>) {
    let mut generator = Generator::new(seed);
    let (mut values, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let mut left = generator.uniform();
        let drawn = shares.iter().position(|share| {
            left -= share;
            left < 0.0
        });
        let class = drawn.unwrap_or(shares.len() - 1);
        labels.push(class as u32);
        for feature in 0..WIDTH {
            let mean = if feature % shares.len() == class {
                1.5
            } else {
                0.0
            };
            values.push((mean + generator.normal()) as f32);
        }
    }
    (values, labels)
}

/// Logits of a black box that is sure to this degree.
fn logits(values: &[f32], classes: usize, sure: f32) -> Vec<f32> {
    let row = |row: &[f32]| {
        (0..classes)
            .map(|class| sure * row[class])
            .collect::<Vec<_>>()
    };
    values.chunks_exact(WIDTH).flat_map(row).collect()
}

const TWO: &[f64] = &[0.75, 0.25];
const THREE: &[f64] = &[0.5, 0.3, 0.2];

/// A model with layers, or a black box of logits.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Layers,
    BlackBox,
}

impl Kind {
    fn fit(self, shares: &[f64], seed: u64) -> Bundle {
        let (values, labels) = gaussians(COUNT, shares, seed);
        let classes: Vec<String> = (0..shares.len()).map(|class| format!("c{class}")).collect();
        let scores = logits(&values, shares.len(), 1.5);
        let labelled = Labelled {
            classes: &classes,
            labels: &labels,
            rows: match self {
                Self::Layers => LabelledRows::Dense(rows(&values, WIDTH)),
                Self::BlackBox => LabelledRows::Logits(rows(&scores, shares.len())),
            },
        };
        let settings = FitSettings {
            latent: 8,
            epochs: 20,
            ..FitSettings::default()
        };
        fit(labelled, &settings, &mut |_| ()).unwrap()
    }

    fn add(self, bundle: Bundle, values: &[f32]) -> Result<Bundle, String> {
        let classes = bundle.classes();
        let scores = logits(values, classes, 1.5);
        let inputs = match self {
            Self::Layers => rows(values, WIDTH),
            Self::BlackBox => rows(&scores, classes),
        };
        let added = bundle.with_reference(Inputs::Dense(inputs));
        added.map_err(|error| error.to_string())
    }
}

const KINDS: [Kind; 2] = [Kind::Layers, Kind::BlackBox];

#[test]
fn reference_rows_go_through_the_files_and_the_digest_covers_them() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, shares) in KINDS
        .into_iter()
        .flat_map(|kind| [(kind, TWO), (kind, THREE)])
    {
        let plain = kind.fit(shares, 1);
        assert!(plain.deployed().unwrap().reference.is_none());
        let (values, _) = gaussians(1_500, shares, 2);
        let bundle = kind.add(plain.clone(), &values).unwrap();
        assert_eq!(bundle.reference_rows(), 1_500);
        assert_ne!(bundle.digest(), plain.digest());
        let deployed = bundle.deployed().unwrap();
        let reference = deployed.reference.unwrap();
        assert_eq!(reference.probabilities.count(), 1_500);
        let latent = deployed.latents.map_or(0, |latents| latents.width);
        assert_eq!(reference.latents.len(), 1_500 * latent);

        bundle.save(folder.path()).unwrap();
        let loaded = Bundle::load(folder.path()).unwrap();
        assert_eq!(loaded, bundle);
        assert_eq!(loaded.digest(), bundle.digest());
        // A bundle without them stays what it was.
        std::fs::remove_file(folder.path().join("reference.safetensors")).unwrap();
        let without = Bundle::load(folder.path()).unwrap();
        assert_eq!((&without, without.digest()), (&plain, plain.digest()));
        bundle.save(folder.path()).unwrap();
        plain.save(folder.path()).unwrap();
        assert_eq!(Bundle::load(folder.path()).unwrap().reference_rows(), 0);
        // One more row is another bundle.
        let (more, _) = gaussians(1_501, shares, 2);
        let more = kind.add(plain, &more).unwrap();
        assert_ne!(more.digest(), bundle.digest());
    }
}

#[test]
fn rows_of_another_month_are_refused_with_the_reason() {
    for (kind, shares) in KINDS
        .into_iter()
        .flat_map(|kind| [(kind, TWO), (kind, THREE)])
    {
        let mut moved = shares.to_vec();
        (moved[0], moved[1]) = (moved[0] - 0.2, moved[1] + 0.2);
        let (values, _) = gaussians(3_000, &moved, 3);
        let refused = kind.add(kind.fit(shares, 1), &values).unwrap_err();
        assert!(
            refused.starts_with("reference: differs from the held-out rows"),
            "{refused}"
        );
        for told in [
            "another month",
            "out-of-fold",
            "not trained on",
            "leave the reference out",
        ] {
            assert!(refused.contains(told), "{told}: {refused}");
        }
    }
}

#[test]
fn another_models_scores_are_refused() {
    for shares in [TWO, THREE] {
        let (values, _) = gaussians(3_000, shares, 4);
        // Of a black box only the scores can tell: one that was trained on the rows is too sure of them.
        let bundle = Kind::BlackBox.fit(shares, 1);
        let surer = logits(&values, shares.len(), 2.4);
        let refused = bundle.with_reference(Inputs::Dense(rows(&surer, shares.len())));
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("differs from the held-out rows"),
            "{refused}"
        );
        // Of a model with layers its latents tell, too.
        let own = Kind::Layers
            .add(Kind::Layers.fit(shares, 1), &values)
            .unwrap();
        let other = Kind::Layers
            .add(Kind::Layers.fit(shares, 9), &values)
            .unwrap();
        let mut files = own.to_files().unwrap();
        let scores = |bundle: &Bundle| {
            from_safetensors(&bundle.to_files().unwrap().reference.unwrap()).unwrap()
        };
        let mut tensors = scores(&own);
        tensors.insert(
            "probabilities".into(),
            scores(&other)["probabilities"].clone(),
        );
        files.reference = Some(to_safetensors(&tensors, BTreeMap::new()).unwrap());
        let refused = Bundle::from_files(&files).unwrap_err().to_string();
        assert!(
            refused.contains("has other probabilities than the model gives"),
            "{refused}"
        );
    }
}

#[test]
fn too_few_rows_too_many_and_wrong_widths_are_refused() {
    let bundle = Kind::BlackBox.fit(TWO, 1);
    for (count, told) in [
        (499, "has 499 rows, expected 500 to 20000: add more"),
        (
            20_001,
            "has 20001 rows, expected 500 to 20000: keep an even spread",
        ),
    ] {
        let (values, _) = gaussians(count, TWO, 5);
        let refused = Kind::BlackBox.add(bundle.clone(), &values).unwrap_err();
        assert!(refused.contains(told), "{refused}");
    }
    assert_eq!(most_reference_rows(12), 20_000);
    assert_eq!(most_reference_rows(13), 3_000);
    let (values, _) = gaussians(600, TWO, 5);
    for bundle in [bundle, Kind::Layers.fit(TWO, 1)] {
        let refused = bundle.with_reference(Inputs::Dense(rows(&values, 3)));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("rows of 3"), "{refused}");
    }
}

#[test]
fn a_file_that_is_wrong_is_named() {
    let (values, _) = gaussians(600, TWO, 6);
    let bundle = Kind::Layers.add(Kind::Layers.fit(TWO, 1), &values).unwrap();
    let files = bundle.to_files().unwrap();
    let bytes = files.reference.clone().unwrap();
    let refused = |reference: Vec<u8>| {
        let mut files = files.clone();
        files.reference = Some(reference);
        Bundle::from_files(&files).unwrap_err().to_string()
    };
    let cut = refused(bytes[..bytes.len() / 2].to_vec());
    assert!(cut.starts_with("reference.safetensors"), "{cut}");
    let changed = |name: &str, tensor: HostTensor| {
        let mut tensors = from_safetensors(&bytes).unwrap();
        tensors.insert(name.into(), tensor);
        refused(to_safetensors(&tensors, BTreeMap::new()).unwrap())
    };
    let narrow = changed("latents", HostTensor::f32([600, 7], vec![0.0; 4_200]));
    assert!(
        narrow.starts_with("reference.safetensors") && narrow.contains("latents"),
        "{narrow}"
    );
    let labelled = changed("labels", HostTensor::f32([600], vec![0.0; 600]));
    assert!(
        labelled.contains("has a tensor `labels`, expected"),
        "{labelled}"
    );
    let no_number = changed(
        "probabilities",
        HostTensor::f32([600, 2], vec![f32::NAN; 1_200]),
    );
    assert!(no_number.contains("probabilities"), "{no_number}");
}
