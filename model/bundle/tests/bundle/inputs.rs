//! What training has not seen in a column does not decide predictions: constant columns have no influence, others
//! are clipped at five deviations.

use ostar_bundle::{
    Bundle,
    fields::{Field, FieldBlock, FieldKind, FieldSchema, FieldValue},
    fit::{FitSettings, Labelled, LabelledRows, fit},
};
use ostar_engine::{
    Generator, Inputs,
    evaluate::{Clip, Scratch, Standardisation},
};
use ostar_method::{
    frozen::FrozenScores,
    learner::{Learner, LearnerSettings},
};
use proptest::prelude::*;

use crate::common::rows;

const WIDTH: usize = 4;
/// Has the same value in every training row.
const CONSTANT: usize = 1;
/// Varies.
const MOVING: usize = 2;
const COUNT: usize = 300;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Latents,
    Dense,
    Fields,
}

const KINDS: [Kind; 3] = [Kind::Latents, Kind::Dense, Kind::Fields];

/// Rows of two classes in several units, and their labels.
fn table(count: usize, seed: u64) -> (Vec<f32>, Vec<u32>) {
    let mut generator = Generator::new(seed);
    let labels: Vec<u32> = (0..count as u32).map(|row| row % 2).collect();
    let values = labels
        .iter()
        .flat_map(|label| {
            let mut row = [0.0, 1.0, 2.0, 3.0].map(|column| {
                let value = 2.0 * f64::from(*label) + generator.normal() + column;
                (value * 10f64.powf(column - 1.0)) as f32
            });
            row[CONSTANT] = 7.0;
            row
        })
        .collect();
    (values, labels)
}

struct Model {
    kind: Kind,
    schema: FieldSchema,
    bundle: Bundle,
}

/// What the frozen model says of some rows.
#[derive(Debug, PartialEq)]
struct Said {
    latents: Vec<f32>,
    probabilities: Vec<f32>,
    clipped: usize,
}

fn value<'v>(row: &[f32], name: &str) -> FieldValue<'v> {
    match name.parse::<usize>() {
        Ok(column) => FieldValue::Number(row[column].into()),
        Err(_) => FieldValue::Text("always the same"),
    }
}

fn schema(values: &[f32]) -> FieldSchema {
    let number = |column: usize| Field {
        name: column.to_string(),
        kind: FieldKind::Number {
            mean: 0.0,
            deviation: 1.0,
        },
    };
    let mut fields: Vec<Field> = (0..WIDTH).map(number).collect();
    let (name, kind) = ("category".into(), FieldKind::Category);
    fields.insert(1, Field { name, kind });
    let mut schema = FieldSchema {
        fields,
        buckets: 16,
    };
    let rows = values.chunks_exact(WIDTH);
    schema
        .measure(rows.map(|row| move |_: usize, name: &str| value(row, name)))
        .unwrap();
    schema
}

fn block(schema: &FieldSchema, values: &[f32]) -> FieldBlock {
    let mut block = FieldBlock::default();
    for row in values.chunks_exact(WIDTH) {
        schema.push(|_, name| value(row, name), &mut block).unwrap();
    }
    block
}

impl Model {
    fn fit(kind: Kind, values: &[f32], labels: &[u32]) -> Self {
        let schema = schema(values);
        let block = block(&schema, values);
        let classes = ["no", "yes"].map(str::to_owned);
        let labelled = Labelled {
            classes: &classes,
            labels,
            rows: match kind {
                Kind::Latents => LabelledRows::Latents(rows(values, WIDTH)),
                Kind::Dense => LabelledRows::Dense(rows(values, WIDTH)),
                Kind::Fields => LabelledRows::Fields {
                    schema: &schema,
                    block: &block,
                },
            },
        };
        let settings = FitSettings {
            epochs: 5,
            ..FitSettings::default()
        };
        let bundle = fit(labelled, &settings, &mut |_| ()).unwrap();
        Self {
            kind,
            schema,
            bundle,
        }
    }

    fn clip(&self) -> &Clip {
        let model = self.bundle.description().model.as_ref().unwrap();
        model.clip.as_ref().unwrap()
    }

    /// The same model as exported without bounds.
    fn without_clip(&self) -> Self {
        let mut description = self.bundle.description().clone();
        description.model.as_mut().unwrap().clip = None;
        let (weights, source) = (self.bundle.weights().clone(), self.bundle.source().clone());
        Self {
            kind: self.kind,
            schema: self.schema.clone(),
            bundle: Bundle::new(description, weights, source).unwrap(),
        }
    }

    fn says(&self, values: &[f32]) -> Said {
        let learner =
            Learner::new(&self.bundle.deployed().unwrap(), LearnerSettings::default()).unwrap();
        let block = block(&self.schema, values);
        let inputs = match self.kind {
            Kind::Latents | Kind::Dense => Inputs::Dense(rows(values, WIDTH)),
            Kind::Fields => block.inputs(),
        };
        let mut scores = FrozenScores::default();
        let mut scratch = Scratch::default();
        let model = learner.model();
        model.score(inputs, &mut scratch, &mut scores).unwrap();
        Said {
            latents: scores.latents().to_vec(),
            probabilities: scores.probabilities().to_vec(),
            clipped: scores.clipped(),
        }
    }

    /// The weights on a column of the layer that takes the inputs.
    fn weights_on(&self, column: usize) -> Vec<f32> {
        let layer = match self.kind {
            Kind::Latents => "f_s.fc1.weight",
            Kind::Dense | Kind::Fields => "g.fc1.weight",
        };
        let weight = &self.bundle.weights()[layer];
        let rows = weight.to_f32();
        rows.chunks_exact(weight.shape[1])
            .map(|row| row[column])
            .collect()
    }
}

fn with_column(values: &[f32], column: usize, change: impl Fn(f32) -> f32) -> Vec<f32> {
    let mut values = values.to_vec();
    for row in values.chunks_exact_mut(WIDTH) {
        row[column] = change(row[column]);
    }
    values
}

#[test]
fn a_column_that_was_constant_in_training_changes_no_prediction() {
    let (values, labels) = table(COUNT, 1);
    let (stream, _) = table(50, 2);
    let moved = with_column(&stream, CONSTANT, |value| value + 1000.0);
    for kind in KINDS {
        let model = Model::fit(kind, &values, &labels);
        let (before, after) = (model.says(&stream), model.says(&moved));
        assert_eq!(before.clipped, 0, "{kind:?}");
        assert_eq!(after.clipped, 50, "{kind:?}");
        assert_eq!(before.latents, after.latents, "{kind:?}");
        assert_eq!(before.probabilities, after.probabilities, "{kind:?}");
        // The weights alone see to it, also where nothing is clipped.
        let unclipped = model.without_clip();
        let (before, after) = (unclipped.says(&stream), unclipped.says(&moved));
        assert_eq!(before.probabilities, after.probabilities, "{kind:?}");
    }
}

#[test]
fn a_column_that_moves_a_million_deviations_counts_as_five() {
    let (values, labels) = table(COUNT, 1);
    let (stream, _) = table(50, 2);
    let scale = Standardisation::of(rows(&values, WIDTH)).unwrap();
    let at = |deviations: f64| {
        let value = scale.mean[MOVING] + deviations * scale.deviation[MOVING];
        with_column(&stream, MOVING, |_| value as f32)
    };
    for kind in KINDS {
        let model = Model::fit(kind, &values, &labels);
        for sign in [-1.0, 1.0] {
            // A hair beyond the bound, so that rounding does not matter.
            let five = model.says(&at(sign * 5.00001));
            let million = model.says(&at(sign * 1e6));
            assert_eq!(million, five, "{kind:?}");
            assert_eq!(million.clipped, 50, "{kind:?}");
            let within = model.says(&at(sign * 4.99999));
            assert_eq!(within.clipped, 0, "{kind:?}");
            let near = within.probabilities.iter().zip(&five.probabilities);
            assert!(near.clone().all(|(a, b)| (a - b).abs() < 1e-3), "{kind:?}");
        }
        let unclipped = model.without_clip();
        let (five, million) = (unclipped.says(&at(5.0)), unclipped.says(&at(1e6)));
        assert_ne!(five.probabilities, million.probabilities, "{kind:?}");
        assert_eq!(million.clipped, 0, "{kind:?}");
    }
}

#[test]
fn training_sees_clipped_values_and_the_source_buffer_holds_what_serving_makes_of_them() {
    let (mut values, labels) = table(COUNT, 1);
    values[MOVING] = 1e6;
    for kind in KINDS {
        let model = Model::fit(kind, &values, &labels);
        let said = model.says(&values);
        assert_eq!(said.clipped, 1, "{kind:?}");
        let source = model.bundle.standardised_source().unwrap();
        for (found, expected) in said.latents.iter().zip(&source) {
            assert!(
                (found - expected).abs() < 1e-4,
                "{kind:?}: {found} {expected}"
            );
        }
    }
}

#[test]
fn a_column_that_varies_only_in_held_out_rows_gets_no_weight() {
    let (values, labels) = table(COUNT, 1);
    for kind in KINDS {
        let first = Model::fit(kind, &values, &labels);
        assert!(first.weights_on(MOVING).iter().any(|weight| *weight != 0.0));
        // The split depends on labels and seed alone, so the next fit holds out the same rows.
        let mut changed = values.clone();
        let held_out = first.bundle.source().held_out();
        for (row, held_out) in changed.chunks_exact_mut(WIDTH).zip(held_out) {
            row[CONSTANT] += if *held_out { 1.0 } else { 0.0 };
        }
        let model = Model::fit(kind, &changed, &labels);
        assert_eq!(model.bundle.source().held_out(), held_out);
        let weights = model.weights_on(CONSTANT);
        assert!(weights.iter().all(|weight| *weight == 0.0), "{kind:?}");
        let moved = with_column(&changed, CONSTANT, |value| value - 300.0);
        let (before, after) = (model.says(&changed), model.says(&moved));
        assert_eq!(before.probabilities, after.probabilities, "{kind:?}");
    }
}

#[test]
fn bounds_go_through_the_files_and_bundles_without_them_have_no_such_key() {
    let (values, labels) = table(COUNT, 1);
    for kind in KINDS {
        let model = Model::fit(kind, &values, &labels);
        let files = model.bundle.to_files().unwrap();
        let read = Bundle::from_files(&files).unwrap();
        assert_eq!(read, model.bundle);
        assert_eq!(read.digest(), model.bundle.digest());
        let unclipped = model.without_clip().bundle.to_files().unwrap();
        let text = String::from_utf8(unclipped.description).unwrap();
        assert!(!text.contains("clip"), "{text}");

        let mut description = model.bundle.description().clone();
        let clip = description.model.as_mut().unwrap().clip.as_mut().unwrap();
        clip.upper.pop();
        let (weights, source) = (model.bundle.weights(), model.bundle.source());
        let refused = Bundle::new(description, weights.clone(), source.clone());
        let message = refused.unwrap_err().to_string();
        assert!(message.starts_with("clip.upper"), "{message}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn rows_within_five_deviations_give_the_same_bytes_as_without_clipping(
        deviations in prop::collection::vec(-5f32..5.0, WIDTH..100 * WIDTH),
        kind in prop::sample::select(KINDS.to_vec()),
    ) {
        let (values, labels) = table(COUNT, 1);
        let scale = Standardisation::of(rows(&values, WIDTH)).unwrap();
        let model = Model::fit(kind, &values, &labels);
        let mut stream = deviations[..deviations.len() / WIDTH * WIDTH].to_vec();
        for (number, value) in stream.iter_mut().enumerate() {
            let column = number % WIDTH;
            *value = match column {
                CONSTANT => 7.0,
                // The rounding of the largest could cross the bound.
                _ => (scale.mean[column] + 0.999_999 * f64::from(*value) * scale.deviation[column]) as f32,
            };
        }
        let (clipped, unclipped) = (model.says(&stream), model.without_clip().says(&stream));
        prop_assert_eq!(clipped.clipped, 0);
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&clipped.latents), bits(&unclipped.latents));
        prop_assert_eq!(bits(&clipped.probabilities), bits(&unclipped.probabilities));
        prop_assert_eq!(model.clip().lower.len(), WIDTH);
    }
}
