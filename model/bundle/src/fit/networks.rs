//! Training of g and f_S, and what is measured on them afterwards.

use ostar_engine::{
    Architecture, FieldRows, Generator, Inputs, NamedTensors, Result, Rows,
    architecture::{EncoderShape, Network},
    checks,
    evaluate::{ClassifierNetwork, Clip, EncoderNetwork, Scratch, Standardisation},
    tensors::Scalars,
    weights::class_ratios,
};
use ostar_method::{
    profile::InputProfile,
    proportions::{LabelProportions, Probabilities, Temperature},
};

use super::{
    FitProgress, FitSettings, Labelled,
    columns::Columns,
    pretrain::{TrainingSet, pretrain},
    split::Split,
};
use crate::{
    Bundle,
    bundle::{Description, LatentModel, SourceBuffer, proportions_of},
    input::Input,
};

/// What is to be trained, and on what.
pub(super) struct Plan<'a> {
    pub(super) input: Input,
    pub(super) inputs: Inputs<'a>,
    pub(super) latent: usize,
    pub(super) encoder: EncoderShape,
}

pub(super) fn fit_networks(
    labelled: &Labelled<'_>,
    plan: Plan<'_>,
    settings: &FitSettings,
    progress: &mut dyn FnMut(FitProgress),
) -> Result<Bundle> {
    let inputs = plan.inputs;
    let mut model = LatentModel {
        latent: plan.latent,
        encoder: plan.encoder,
        classifier: settings.classifier.clone(),
        // Measured once g is trained.
        standardisation: Standardisation::identity(plan.latent),
        clip: None,
    };
    let (labels, classes) = (labelled.labels, labelled.classes.len());
    let architecture = model.architecture(classes);
    architecture.validate()?;
    checks::labelled(&inputs, labels, &architecture)?;

    let mut generator = Generator::new(settings.seed);
    let split = Split::draw(
        labels,
        labelled.classes,
        settings.held_out_share,
        &mut generator,
    )?;
    let training_labels: Vec<u32> = split.training.iter().map(|r| labels[*r as usize]).collect();
    let training_proportions = proportions_of(&training_labels, classes)?;
    let prior = match &settings.training_proportions {
        Some(given) => given.clone(),
        None => training_proportions.clone(),
    };
    let class_weights = class_ratios(prior.as_ref(), training_proportions.as_ref(), f64::INFINITY);
    let columns = Columns::measure(&inputs, &architecture, &split.training)?;
    let values = columns.training_values(&inputs)?;
    let set = TrainingSet {
        inputs: match inputs {
            Inputs::Dense(rows) => Inputs::Dense(Rows::new(&values[..], rows.width())?),
            Inputs::Fields(rows) => Inputs::Fields(FieldRows {
                numbers: Scalars::F32(&values),
                ..rows
            }),
        },
        labels,
        split: &split,
        class_weights: &class_weights,
    };
    let mut weights = pretrain(&architecture, &set, settings, &mut generator, progress)?;
    columns.finish(&mut weights, first_layer(&model))?;
    model.clip = columns.clip();

    let latents = encode(&architecture, &weights, model.clip.clone(), inputs)?;
    model.standardisation = Standardisation::of(Rows::new(&latents[..], model.latent)?)?;
    let temperature = calibrate(&architecture, &weights, &latents, labels, &split, &prior)?;
    let source = SourceBuffer::new(latents, model.latent, labels.to_vec(), split.is_held_out())?;
    let description = Description {
        model: Some(model),
        temperature,
        ..Description::new(&settings.name, labelled.classes, plan.input, prior)
    };
    let profile = InputProfile::measure(description.input.columns(), &inputs, labels, classes);
    Bundle::new(description, weights, source)?.with_inputs(profile)
}

/// The linear layer that sees the inputs.
fn first_layer(model: &LatentModel) -> &'static str {
    match model.encoder {
        EncoderShape::Identity | EncoderShape::Onnx(_) => "f_s.fc1",
        _ => "g.fc1",
    }
}

/// Latents before standardisation, whose moments are not known yet.
fn encode(
    architecture: &Architecture,
    weights: &NamedTensors,
    clip: Option<Clip>,
    inputs: Inputs<'_>,
) -> Result<Vec<f32>> {
    let raw = Standardisation::identity(architecture.latent);
    let encoder = EncoderNetwork::new(architecture, weights, &raw)?.with_clip(clip)?;
    let mut latents = Vec::new();
    encoder.encode(inputs, &mut Scratch::default(), &mut latents)?;
    Ok(latents)
}

/// f_S's temperature on the held-out rows.
fn calibrate(
    architecture: &Architecture,
    weights: &NamedTensors,
    latents: &[f32],
    labels: &[u32],
    split: &Split,
    prior: &LabelProportions,
) -> Result<Temperature> {
    let width = architecture.latent;
    let (mut rows, mut row_labels) = (Vec::new(), Vec::new());
    for row in split.held_out.iter().map(|row| *row as usize) {
        rows.extend_from_slice(&latents[row * width..(row + 1) * width]);
        row_labels.push(labels[row]);
    }
    let classifier = ClassifierNetwork::new(architecture, Network::SourceClassifier, weights)?;
    let mut probabilities = Vec::new();
    classifier.score(
        Rows::new(&rows[..], width)?,
        &mut Scratch::default(),
        &mut probabilities,
    )?;
    let probabilities = Rows::new(&probabilities[..], architecture.classes)?;
    let held_out = Probabilities::new("held-out probabilities", probabilities)?;
    Temperature::fit(&held_out, &row_labels, prior)
}
