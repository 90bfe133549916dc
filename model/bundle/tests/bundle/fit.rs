//! `fit` reaches good accuracy with its defaults, and names the problem of bad data.

use ostar_bundle::{
    Bundle, Input,
    fields::{Field, FieldBlock, FieldKind, FieldSchema, FieldValue},
    fit::{FitProgress, FitSettings, Labelled, LabelledRows, fit},
};
use ostar_engine::{
    Generator, Inputs, Result,
    architecture::{ClassifierShape, Norm},
    argmax,
    evaluate::Scratch,
};
use ostar_method::proportions::LabelProportions;

use crate::common::rows;

const WIDTH: usize = 6;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|class| format!("class {class}")).collect()
}

/// Unit Gaussians around distant means. Every feature has other units, and one is constant.
struct Gaussians {
    values: Vec<f32>,
    labels: Vec<u32>,
}

fn gaussians(count: usize, classes: usize, seed: u64) -> Gaussians {
    // Fixed seed: all samples are from the same classes.
    let mut generator = Generator::new(77);
    let means: Vec<f64> = (0..classes * WIDTH)
        .map(|_| 4.0 * generator.normal())
        .collect();
    let mut generator = Generator::new(seed);
    let (mut values, mut labels) = (Vec::new(), Vec::new());
    for row in 0..count {
        let class = row % classes;
        labels.push(class as u32);
        for feature in 0..WIDTH {
            let unit = 10f64.powi(feature as i32 - 2);
            let value = means[class * WIDTH + feature] + generator.normal() + 20.0;
            values.push(match feature {
                0 => 5.0,
                _ => (unit * value) as f32,
            });
        }
    }
    Gaussians { values, labels }
}

fn quiet(labelled: Labelled<'_>, settings: &FitSettings) -> Result<Bundle> {
    fit(labelled, settings, &mut |_| ())
}

/// Accuracy of a bundle's g and f_S as they are served.
fn accuracy(bundle: &Bundle, inputs: Inputs<'_>, labels: &[u32]) -> f64 {
    let (mut scratch, mut latents, mut probabilities) =
        (Scratch::default(), Vec::new(), Vec::new());
    let encoder = bundle.encoder().unwrap().unwrap();
    encoder.encode(inputs, &mut scratch, &mut latents).unwrap();
    let classifier = bundle.source_classifier().unwrap().unwrap();
    let latents = rows(&latents, encoder.latent());
    classifier
        .score(latents, &mut scratch, &mut probabilities)
        .unwrap();
    let correct = probabilities
        .chunks_exact(bundle.classes())
        .zip(labels)
        .filter(|(row, label)| argmax(row) == **label as usize);
    correct.count() as f64 / labels.len() as f64
}

#[test]
fn gaussians_are_learned_through_an_encoder_and_on_latents_whatever_their_units() {
    let classes = names(4);
    let (train, test) = (gaussians(600, 4, 1), gaussians(1000, 4, 2));
    let labelled = |rows| Labelled {
        classes: &classes,
        labels: &train.labels,
        rows,
    };
    let settings = FitSettings::default();
    let inputs = Inputs::Dense(rows(&test.values, WIDTH));
    let train_rows = rows(&train.values, WIDTH);

    let dense = quiet(labelled(LabelledRows::Dense(train_rows)), &settings).unwrap();
    assert_eq!(dense.description().input, Input::Dense { width: WIDTH });
    let reached = accuracy(&dense, inputs, &test.labels);
    assert!(reached > 0.95, "dense: {reached}");

    let latents = quiet(labelled(LabelledRows::Latents(train_rows)), &settings).unwrap();
    let reached = accuracy(&latents, inputs, &test.labels);
    assert!(reached > 0.95, "latents: {reached}");
    assert_eq!(latents.source().values(), train.values);
    let held_out = latents.source().held_out().iter().filter(|is| **is).count();
    assert_eq!(held_out, 120);
}

#[test]
fn classifiers_with_hidden_layers_and_every_norm_learn_too() {
    let classes = names(4);
    let (train, test) = (gaussians(600, 4, 3), gaussians(1000, 4, 4));
    for norm in crate::common::NORMS {
        let settings = FitSettings {
            classifier: ClassifierShape {
                hidden: vec![32],
                norm,
                dropout: 0.2,
            },
            ..FitSettings::default()
        };
        let labelled = Labelled {
            classes: &classes,
            labels: &train.labels,
            rows: LabelledRows::Dense(rows(&train.values, WIDTH)),
        };
        let bundle = quiet(labelled, &settings).unwrap();
        let inputs = Inputs::Dense(rows(&test.values, WIDTH));
        let reached = accuracy(&bundle, inputs, &test.labels);
        assert!(reached > 0.95, "{norm:?}: {reached}");
    }
}

/// Mails whose class shows in the words, the sender's country and the length, each with exceptions.
struct Mail {
    text: String,
    country: &'static str,
    length: Option<f64>,
    label: u32,
}

fn mails(count: usize, seed: u64) -> Vec<Mail> {
    let words = [
        ["meeting", "report", "lunch", "budget", "draft", "agenda"],
        ["offer", "winner", "cheap", "pills", "click", "prize"],
    ];
    let common = ["the", "a", "and", "to", "you", "we"];
    let mut generator = Generator::new(seed);
    (0..count)
        .map(|row| {
            let label = row % 2;
            let text: Vec<&str> = (0..6)
                .map(|_| match generator.uniform() {
                    u if u < 0.3 => common[generator.below(6)],
                    u if u < 0.95 => words[label][generator.below(6)],
                    _ => words[1 - label][generator.below(6)],
                })
                .collect();
            let usual = generator.uniform() < 0.8;
            Mail {
                text: text.join(" "),
                country: ["DE", "XX"][if usual { label } else { 1 - label }],
                length: (generator.uniform() < 0.9)
                    .then(|| 300.0 + 100.0 * label as f64 + 80.0 * generator.normal()),
                label: label as u32,
            }
        })
        .collect()
}

fn value<'m>(mail: &'m Mail, field: &str) -> FieldValue<'m> {
    match field {
        "country" => FieldValue::Text(mail.country),
        "subject" => FieldValue::Text(&mail.text),
        _ => mail.length.map_or(FieldValue::Missing, FieldValue::Number),
    }
}

fn mail_schema(mails: &[Mail]) -> FieldSchema {
    let number = FieldKind::Number {
        mean: 0.0,
        deviation: 1.0,
    };
    let kinds = [
        ("length", number),
        ("country", FieldKind::Category),
        ("subject", FieldKind::Text),
    ];
    let mut schema = FieldSchema {
        fields: kinds
            .map(|(name, kind)| Field {
                name: name.into(),
                kind,
            })
            .into(),
        buckets: 256,
    };
    schema
        .measure(
            mails
                .iter()
                .map(|mail| |_: usize, field: &str| value(mail, field)),
        )
        .unwrap();
    schema
}

fn block(schema: &FieldSchema, mails: &[Mail]) -> FieldBlock {
    let mut block = FieldBlock::default();
    for mail in mails {
        schema
            .push(|_, field| value(mail, field), &mut block)
            .unwrap();
    }
    block
}

#[test]
fn named_fields_are_learned() {
    let (train, test) = (mails(1000, 1), mails(1000, 2));
    let schema = mail_schema(&train);
    let labels: Vec<u32> = train.iter().map(|mail| mail.label).collect();
    let labelled = Labelled {
        classes: &names(2),
        labels: &labels,
        rows: LabelledRows::Fields {
            schema: &schema,
            block: &block(&schema, &train),
        },
    };
    let bundle = quiet(labelled, &FitSettings::default()).unwrap();
    let labels: Vec<u32> = test.iter().map(|mail| mail.label).collect();
    let reached = accuracy(&bundle, block(&schema, &test).inputs(), &labels);
    assert!(reached > 0.95, "{reached}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let classes = names(2);
    let train = gaussians(200, 2, 5);
    let bytes = |seed| {
        let settings = FitSettings {
            seed,
            epochs: 5,
            ..FitSettings::default()
        };
        let labelled = Labelled {
            classes: &classes,
            labels: &train.labels,
            rows: LabelledRows::Dense(rows(&train.values, WIDTH)),
        };
        quiet(labelled, &settings).unwrap().to_files().unwrap()
    };
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
}

#[test]
fn progress_is_told_every_epoch_and_training_ends_early() {
    let train = gaussians(300, 3, 6);
    let settings = FitSettings {
        epochs: 1000,
        patience: 2,
        adam: ostar_engine::optimiser::Adam::with_rate(0.05),
        ..FitSettings::default()
    };
    let mut told: Vec<FitProgress> = Vec::new();
    let labelled = Labelled {
        classes: &names(3),
        labels: &train.labels,
        rows: LabelledRows::Dense(rows(&train.values, WIDTH)),
    };
    fit(labelled, &settings, &mut |progress| told.push(progress)).unwrap();
    for (number, progress) in told.iter().enumerate() {
        assert_eq!((progress.epoch, progress.of), (number + 1, 1000));
        assert!(progress.loss.is_finite() && progress.held_out_loss.is_finite());
    }
    assert!(told.len() < 1000, "{}", told.len());
    let last = told[told.len() - 1];
    let best = told[told.len() - 3];
    assert!(last.held_out_loss > best.held_out_loss - 1e-3, "{told:?}");
}

#[test]
fn given_training_proportions_are_those_that_the_classifier_gets() {
    // Overlapping classes, so that the prior affects the predictions.
    let mut generator = Generator::new(7);
    let labels: Vec<u32> = (0..4000).map(|row| row % 2).collect();
    let values: Vec<f32> = labels
        .iter()
        .map(|label| (f64::from(*label) + generator.normal()) as f32)
        .collect();
    let wanted = LabelProportions::new(vec![0.9, 0.1]).unwrap();
    let settings = FitSettings {
        training_proportions: Some(wanted.clone()),
        ..FitSettings::default()
    };
    let labelled = Labelled {
        classes: &names(2),
        labels: &labels,
        rows: LabelledRows::Latents(rows(&values, 1)),
    };
    let bundle = quiet(labelled, &settings).unwrap();
    assert_eq!(bundle.description().training_proportions, wanted);
    let mut scratch = Scratch::default();
    let mut probabilities = Vec::new();
    let source = bundle.standardised_source().unwrap();
    let classifier = bundle.source_classifier().unwrap().unwrap();
    classifier
        .score(rows(&source, 1), &mut scratch, &mut probabilities)
        .unwrap();
    // Over a population with the prior's proportions, the mean prediction equals them.
    let mut mean = [0.0; 2];
    for (row, label) in probabilities.chunks_exact(2).zip(&labels) {
        mean[*label as usize] += f64::from(row[1]) / 2000.0;
    }
    let proportion = 0.9 * mean[0] + 0.1 * mean[1];
    assert!((proportion - 0.1).abs() < 0.02, "{proportion}");
    let temperature = bundle.description().temperature.value();
    assert!((temperature - 1.0).abs() < 0.2, "{temperature}");
}

#[test]
fn a_black_box_is_calibrated_and_nothing_else() {
    let mut generator = Generator::new(8);
    let (mut logits, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..4000 {
        let odds = generator.normal();
        let positive = 1.0 / (1.0 + (-odds).exp());
        labels.push(u32::from(generator.uniform() < positive));
        logits.extend([0.0, (3.0 * odds) as f32]);
    }
    let labelled = Labelled {
        classes: &names(2),
        labels: &labels,
        rows: LabelledRows::Logits(rows(&logits, 2)),
    };
    let bundle = quiet(labelled, &FitSettings::default()).unwrap();
    assert_eq!(bundle.description().input, Input::Logits);
    assert!(bundle.encoder().unwrap().is_none() && bundle.weights().is_empty());
    let temperature = bundle.description().temperature.value();
    assert!((temperature - 3.0).abs() < 0.3, "{temperature}");
    assert!(bundle.source().held_out().iter().all(|is| *is));
}

#[test]
fn what_is_wrong_with_the_data_or_the_settings_is_named() {
    let good = gaussians(40, 2, 9);
    let refusal = |classes: usize, labels: &[u32], values: &[f32], settings: &FitSettings| {
        let labelled = Labelled {
            classes: &names(classes),
            labels,
            rows: LabelledRows::Dense(rows(values, WIDTH)),
        };
        quiet(labelled, settings).unwrap_err().to_string()
    };
    let settings = FitSettings::default();
    let refused =
        |classes, labels: &[u32], values: &[f32]| refusal(classes, labels, values, &settings);
    let expect = |message: String, part: &str| assert!(message.contains(part), "{message}");

    expect(
        refused(1, &[0; 40], &good.values),
        "classes: expected at least 2",
    );
    expect(
        refused(3, &good.labels, &good.values),
        "class 2 (\"class 2\") has 0 rows",
    );
    expect(refused(2, &[], &[]), "at least one row");
    expect(
        refused(2, &good.labels[..39], &good.values),
        "labels: expected 40",
    );
    let few = &good.values[..8 * WIDTH];
    expect(
        refused(2, &good.labels[..8], few),
        "has 4 rows, expected at least 5",
    );
    let mut labels = good.labels.clone();
    labels[3] = 9;
    expect(refused(2, &labels, &good.values), "label of row 3 is 9");
    let mut values = good.values.clone();
    values[7 * WIDTH + 2] = f32::NAN;
    expect(
        refused(2, &good.labels, &values),
        "features: row 7, column 2 is NaN",
    );

    let with = |change: fn(&mut FitSettings)| {
        let mut settings = FitSettings::default();
        change(&mut settings);
        refusal(2, &good.labels, &good.values, &settings)
    };
    expect(with(|s| s.held_out_share = 1.0), "held_out_share");
    expect(with(|s| s.batch = 0), "batch");
    expect(with(|s| s.adam.rate = f64::NAN), "adam.rate");
    expect(with(|s| s.latent = 0), "g.fc2.weight");
    expect(with(|s| s.threads = 0), "threads");
    expect(
        with(|s| s.training_proportions = Some(LabelProportions::uniform(3))),
        "training_proportions",
    );
}

#[test]
fn settings_are_read_with_defaults_and_unknown_keys_are_refused() {
    let read = |text: &str| serde_json::from_str::<FitSettings>(text);
    let settings =
        read(r#"{"latent": 8, "classifier": {"hidden": [], "norm": "none", "dropout": 0}}"#);
    assert_eq!(settings.unwrap().latent, 8);
    assert!(read(r#"{"latents": 8}"#).is_err());
    assert_eq!(FitSettings::default().classifier.norm, Norm::None);
}
