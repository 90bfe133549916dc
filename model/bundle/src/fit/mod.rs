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
pub(crate) use split::Split;

use ostar_engine::{
    Error, NamedTensors, Result, Rows, checks, linear::softmax_rows, weights::class_counts,
};
use ostar_method::proportions::{LabelProportions, Probabilities, Temperature};

use crate::{
    Bundle,
    bundle::{Description, FORMAT_VERSION, SourceBuffer},
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
    if labelled.classes.len() < 2 {
        return Err(Error::shape(
            "classes",
            "at least 2 names",
            labelled.classes.len(),
        ));
    }
    if let Some(proportions) = &settings.training_proportions {
        let classes = labelled.classes.len();
        checks::length("training_proportions", proportions.classes(), classes)?;
    }
    let values = |rows: Rows<'_>| -> Vec<f32> {
        let mut values = vec![0.0; rows.values().len()];
        rows.values().copy_f32(0, &mut values);
        values
    };
    let classes = labelled.classes.len();
    match labelled.rows {
        LabelledRows::Latents(rows) => {
            fit_networks(&labelled, Plan::latents(rows), settings, progress)
        }
        LabelledRows::Dense(rows) => {
            let plan = Plan::dense(rows, settings);
            fit_networks(&labelled, plan, settings, progress)
        }
        LabelledRows::Fields { schema, block } => {
            schema.validate()?;
            let plan = Plan::fields(schema, block, settings);
            fit_networks(&labelled, plan, settings, progress)
        }
        LabelledRows::Probabilities(rows) => {
            rows.check("probabilities", classes)?;
            black_box(&labelled, Input::Probabilities, values(rows), settings)
        }
        LabelledRows::Logits(rows) => {
            rows.check("logits", classes)?;
            let mut values = values(rows);
            softmax_rows(&mut values, classes);
            black_box(&labelled, Input::Logits, values, settings)
        }
    }
}

/// The bundle of a model that gives nothing but probabilities.
fn black_box(
    labelled: &Labelled<'_>,
    input: Input,
    probabilities: Vec<f32>,
    settings: &FitSettings,
) -> Result<Bundle> {
    let (labels, classes) = (labelled.labels, labelled.classes.len());
    let held_out = Rows::new(&probabilities[..], classes)?;
    let held_out = Probabilities::new("probabilities", held_out)?;
    checks::length("labels", labels.len(), held_out.count())?;
    checks::labels(labels, classes)?;
    let training_proportions = match &settings.training_proportions {
        Some(given) => given.clone(),
        None => proportions_of(labels, classes)?,
    };
    let source = SourceBuffer::new(
        probabilities,
        classes,
        labels.to_vec(),
        vec![true; labels.len()],
    )?;
    let mut description = Description {
        format_version: FORMAT_VERSION,
        name: settings.name.clone(),
        classes: labelled.classes.to_vec(),
        input,
        model: None,
        black_box: None,
        temperature: Temperature::ONE,
        training_proportions,
    };
    // Before it is calibrated: a class without rows is to be named as such.
    description.check()?;
    source.check(&description)?;
    let prior = &description.training_proportions;
    description.temperature = Temperature::fit(&held_out, labels, prior)?;
    Bundle::new(description, NamedTensors::new(), source)
}

/// Class shares of some labels.
pub(crate) fn proportions_of(labels: &[u32], classes: usize) -> Result<LabelProportions> {
    let mut counts = vec![0.0; classes];
    class_counts(labels.iter().copied(), &mut counts);
    LabelProportions::from_counts(&counts)
}
