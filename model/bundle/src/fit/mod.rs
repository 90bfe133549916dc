//! From labelled rows to a [`Bundle`]: split, pretraining, calibration.

mod columns;
mod networks;
mod pretrain;
mod rows;
mod settings;
mod split;

use networks::{Plan, fit_networks};
pub use settings::FitSettings;
#[cfg(feature = "onnx")]
pub(crate) use settings::check_share;
#[cfg(feature = "onnx")]
pub(crate) use split::Split;

use ostar_engine::{
    Inputs, Result, Rows, architecture::EncoderShape, checks, linear::softmax_rows,
};
use ostar_method::proportions::LabelProportions;

use crate::{
    Bundle,
    bundle::{Description, check_classes, proportions_of},
    fields::{FieldBlock, FieldSchema},
    input::Input,
};

/// Labelled rows of the source.
#[derive(Debug, Clone, Copy)]
pub struct Labelled<'a> {
    /// Names of the classes, in the order of their labels.
    pub classes: &'a [String],
    /// The class of each row.
    pub labels: &'a [u32],
    /// The rows, as many as labels.
    pub rows: LabelledRows<'a>,
}

/// What the rows are; it becomes the bundle's [`Input`].
#[derive(Debug, Clone, Copy)]
pub enum LabelledRows<'a> {
    /// Latents: f_S is trained, the encoder is the identity.
    Latents(Rows<'a>),
    /// Dense features, in any units: g and f_S are trained.
    Dense(Rows<'a>),
    /// Named fields, hashed by `schema` (see [`FieldSchema::measure`] for its numbers): g and f_S are trained.
    Fields {
        /// Names, kinds and scales of the fields; stored in the bundle.
        schema: &'a FieldSchema,
        /// The rows, already hashed by `schema`.
        block: &'a FieldBlock,
    },
    /// What a black box predicts for rows that it was not trained on: nothing is trained, all rows are held out.
    Probabilities(Rows<'a>),
    /// The same, before the softmax.
    Logits(Rows<'a>),
}

/// Progress of training, reported once an epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FitProgress {
    /// Epochs done, this one included.
    pub epoch: usize,
    /// Most epochs that there will be; patience may end training sooner.
    pub of: usize,
    /// Mean cross-entropy of the epoch's batches.
    pub loss: f64,
    /// Cross-entropy on the held-out rows.
    pub held_out_loss: f64,
    /// Accuracy on the held-out rows.
    pub held_out_accuracy: f64,
}

/// Trains g and f_S on four fifths of the rows, calibrates on the rest and puts the bundle together, with the
/// raw latents of all rows as source buffer. The weights are those of the epoch with the lowest held-out loss.
pub fn fit(
    labelled: Labelled<'_>,
    settings: &FitSettings,
    progress: &mut dyn FnMut(FitProgress),
) -> Result<Bundle> {
    settings.validate()?;
    check_classes(labelled.classes)?;
    if let Some(proportions) = &settings.training_proportions {
        let classes = labelled.classes.len();
        checks::length("training_proportions", proportions.classes(), classes)?;
    }
    let plan = match labelled.rows {
        LabelledRows::Latents(rows) => Plan {
            input: Input::Latent {
                width: rows.width(),
            },
            inputs: Inputs::Dense(rows),
            latent: rows.width(),
            encoder: EncoderShape::Identity,
        },
        LabelledRows::Dense(rows) => Plan {
            input: Input::Dense {
                width: rows.width(),
            },
            inputs: Inputs::Dense(rows),
            latent: settings.latent,
            encoder: EncoderShape::Mlp {
                inputs: rows.width(),
                hidden: settings.encoder_hidden.clone(),
                final_relu: settings.final_relu,
            },
        },
        LabelledRows::Fields { schema, block } => {
            schema.validate()?;
            Plan {
                input: Input::Fields(schema.clone()),
                inputs: block.inputs(),
                latent: settings.latent,
                encoder: EncoderShape::Fields {
                    numbers: schema.numbers(),
                    bags: schema.bags(),
                    buckets: schema.buckets,
                    embedding: settings.embedding,
                    hidden: settings.encoder_hidden.clone(),
                    final_relu: settings.final_relu,
                },
            }
        }
        LabelledRows::Probabilities(rows) => {
            return black_box(&labelled, Input::Probabilities, rows, settings);
        }
        LabelledRows::Logits(rows) => return black_box(&labelled, Input::Logits, rows, settings),
    };
    fit_networks(&labelled, plan, settings, progress)
}

/// The bundle of a model that gives nothing but probabilities, or logits.
fn black_box(
    labelled: &Labelled<'_>,
    input: Input,
    rows: Rows<'_>,
    settings: &FitSettings,
) -> Result<Bundle> {
    let (labels, classes) = (labelled.labels, labelled.classes.len());
    rows.check(input.kind().as_str(), classes)?;
    checks::length("labels", labels.len(), rows.count())?;
    checks::labels(labels, classes)?;
    let mut probabilities = vec![0.0; rows.values().len()];
    rows.values().copy_f32(0, &mut probabilities);
    if input == Input::Logits {
        softmax_rows(&mut probabilities, classes);
    }
    let given = settings.training_proportions.as_ref();
    let training_proportions = given_or_of(given, labels, classes)?;
    let (name, names) = (&settings.name, labelled.classes);
    let description = Description::new(name, names, input, training_proportions);
    Bundle::of_predictions(description, probabilities, labels, None)
}

/// The class shares that were given, or else those of the labels.
pub(crate) fn given_or_of(
    given: Option<&LabelProportions>,
    labels: &[u32],
    classes: usize,
) -> Result<LabelProportions> {
    given.map_or_else(
        || proportions_of(labels, classes),
        |given| Ok(given.clone()),
    )
}
