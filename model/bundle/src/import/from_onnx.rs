//! From an ONNX model and labelled rows to a bundle.

use ostar_engine::{Error, Inputs, Result, checks, inputs::is_missing};
use ostar_method::profile::InputProfile;

use super::{ImportRows, ImportSettings, Imported, Model, Takes, part::Part, whole::Whole};
use crate::{
    fields::FieldSchema,
    fit::{LabelledRows, check_share, given_or_of},
    input::Input,
    onnx::{head::cuts, rewrite::rewrite},
};

/// Most that predictions of the bundle may differ from the whole model's.
pub(super) const LARGEST_DIFFERENCE: f32 = 1e-5;

pub(super) fn wrong(problem: impl Into<String>) -> Error {
    Error::setting("the model", problem)
}

/// Cuts the model where adaptation can work, runs the labelled rows and puts the bundle together. The labels are numbers
/// of the model's classes, in its order.
pub fn import(
    model: &Model,
    labelled: ImportRows<'_>,
    settings: &ImportSettings,
) -> Result<Imported> {
    check_share(settings.held_out_share)?;
    let (input, inputs, missing) = inputs_of(model, labelled.rows)?;
    let (labels, names) = (labelled.labels, labelled.classes);
    checks::labels(labels, names.len())?;
    let whole = Whole::run(model, &input, &inputs, &missing, names)?;
    checks::length(
        "labels",
        labels.len(),
        whole.probabilities.len() / names.len(),
    )?;
    let given = settings.training_proportions.as_ref();
    let training_proportions = given_or_of(given, labels, names.len())?;
    let part = Part {
        model,
        settings,
        input: &input,
        inputs: &inputs,
        missing: &missing,
        labels,
        names,
        whole: &whole,
        training_proportions: &training_proportions,
    };
    let rewritten = rewrite(model.graph.clone()).map_err(wrong)?;
    let found = cuts(&rewritten.graph, &model.output);
    let candidates: Vec<(String, usize)> = found
        .iter()
        .map(|cut| (cut.latent().to_owned(), cut.width()))
        .collect();
    let (bundle, latent, reason) = match part.choose(&found)? {
        Some((cut, reason)) => match part.with_latents(cut)? {
            Some(bundle) => (bundle, Some(cut.latent().to_owned()), reason),
            None if settings.latent.is_some() => {
                return Err(wrong(format!(
                    "does more after `{}` than linear layers, ReLUs and a softmax: choose another tensor, or import it \
                     with --black-box",
                    cut.latent()
                )));
            }
            None => (
                part.black_box()?,
                None,
                "after its last linear layer the model does more than a softmax, so only its predictions are taken".into(),
            ),
        },
        None => {
            let reason = if settings.black_box {
                "as --black-box asks, only its predictions are taken"
            } else {
                "it has no linear layer before its output, so only its predictions are taken"
            };
            (part.black_box()?, None, reason.into())
        }
    };
    let profile = InputProfile::measure(input.columns(), &inputs, labels, names.len());
    let bundle = bundle.with_inputs(profile)?;
    let difference = match latent {
        Some(_) => Some(part.difference(&bundle)?),
        None => None,
    };
    if let Some(difference) = difference
        && (difference > LARGEST_DIFFERENCE || difference.is_nan())
    {
        return Err(wrong(format!(
            "predicts otherwise than the bundle by up to {difference:e}, expected at most {LARGEST_DIFFERENCE:e}"
        )));
    }
    Ok(Imported {
        bundle,
        candidates,
        latent,
        reason,
        difference,
        probabilities: whole.probabilities,
    })
}

/// What events carry, the rows as the network takes them, and what stands for missing numbers.
fn inputs_of<'a>(
    model: &Model,
    rows: LabelledRows<'a>,
) -> Result<(Input, Inputs<'a>, Vec<Option<f32>>)> {
    match (&model.takes, rows) {
        (Takes::Vector(_), LabelledRows::Dense(rows)) => {
            let width = rows.width();
            Ok((Input::Dense { width }, Inputs::Dense(rows), Vec::new()))
        }
        (
            Takes::Fields(schema),
            LabelledRows::Fields {
                schema: found,
                block,
            },
        ) if schema == found => {
            let rewritten = rewrite(model.graph.clone()).map_err(wrong)?;
            let inputs = block.inputs();
            let missing = if rewritten.takes_nan {
                vec![None; schema.numbers()]
            } else {
                means(&inputs, schema)
            };
            Ok((Input::Fields(schema.clone()), inputs, missing))
        }
        (Takes::Vector(_), _) => Err(Error::shape("labelled rows", "dense features", "others")),
        (Takes::Fields(_), _) => Err(Error::shape(
            "labelled rows",
            "the model's fields",
            "others",
        )),
    }
}

/// Means of the numbers, missing ones left out.
fn means(inputs: &Inputs<'_>, schema: &FieldSchema) -> Vec<Option<f32>> {
    let Inputs::Fields(rows) = inputs else {
        return Vec::new();
    };
    let width = schema.numbers();
    let mut sums = vec![(0.0_f64, 0.0_f64); width];
    for place in 0..rows.numbers.len() {
        let value = rows.numbers.get(place);
        if !is_missing(value as f32) {
            let (sum, count) = &mut sums[place % width];
            *sum += value;
            *count += 1.0;
        }
    }
    let means = sums
        .iter()
        .map(|(sum, count)| Some((sum / count.max(1.0)) as f32));
    means.collect()
}
