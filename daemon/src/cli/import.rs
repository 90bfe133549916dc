//! `ostard import`.

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use ostar_connectors::files::LabelledFile;
use ostar_model::{
    bundle::InputKind,
    fit::FitSettings,
    onnx::{ImportSettings, Imported, Model, Takes, import},
    proportions::LabelProportions,
};

use super::{files::FileArgs, fit::name_classes};

/// Make a bundle from an ONNX classifier and labelled data that it was not trained on.
///
/// The model is cut before its last linear layer: what comes out there is the latent, the layer is the classifier that is
/// adapted. A model without such a layer, like trees, is taken as a black box, which `ostard` runs itself. The bundle's
/// predictions are compared with the model's own before it is written.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Import {
    /// The model, in one file.
    #[arg(long, value_name = "FILE")]
    onnx: PathBuf,
    /// Labelled data that the model was not trained on: CSV, JSON lines, Parquet or safetensors, by its extension.
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// Folder for the bundle. It must not contain one yet.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Tensor to take as latent [default: what the last linear layer takes].
    #[arg(long, value_name = "TENSOR", conflicts_with = "black_box")]
    latent: Option<String>,
    /// Tensor with the probabilities or logits, if the model has several outputs.
    #[arg(long, value_name = "TENSOR")]
    output: Option<String>,
    /// Take the predictions alone, although the model has layers.
    #[arg(long)]
    black_box: bool,
    /// The classes in the order of the model's outputs [default: the model's own names, or the labels in order].
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    classes: Vec<String>,
    /// Shares of the classes in the data that the model was trained on, in their order [default: those of --data].
    #[arg(long, value_name = "SHARE,...", value_delimiter = ',')]
    training_shares: Vec<f64>,
    /// Name of the model in metrics, logs and the Open Inference Protocol.
    #[arg(long, default_value_t = FitSettings::default().name)]
    name: String,
    /// Share of each class's rows that is held out from adaptation: the model's errors are measured on them.
    #[arg(long, value_name = "SHARE", default_value_t = HELD_OUT)]
    held_out: f64,
    /// Seed of the random draw of held-out rows.
    #[arg(long, default_value_t = FitSettings::default().seed)]
    seed: u64,
    #[command(flatten)]
    files: FileArgs,
}

/// The model was trained on none of the rows, so that more of them than after `fit` can be held out.
const HELD_OUT: f64 = 0.5;

/// Held-out rows of a class without which nothing is told of it; the default of `learner.method.gate.held_out_rows`.
const FEWEST: usize = 30;

const EXAMPLES: &str = "\
Examples:
  ostard import --onnx model.onnx --data labelled.jsonl --out models/own
  ostard import --onnx model.onnx --data labelled.csv --label bought --latent relu_2 --out models/own";

impl Import {
    pub(super) fn execute(self) -> Result<()> {
        let told = self.import()?;
        writeln!(io::stdout(), "{told}")?;
        Ok(())
    }

    /// Writes the bundle and returns what was done, in words.
    fn import(self) -> Result<String> {
        if self.out.join("bundle.json").exists() {
            bail!(
                "--out is {:?}, expected a folder without a bundle: choose another one, or delete this one",
                self.out
            );
        }
        let shown = self.onnx.display();
        let file = fs::read(&self.onnx).with_context(|| format!("cannot read --onnx {shown}"))?;
        let model = Model::read(&file, self.output.as_deref())
            .with_context(|| format!("cannot import {shown}"))?;
        let mut settings = self.files.settings();
        let schema = match model.takes() {
            Takes::Fields(schema) => Some(schema),
            Takes::Vector(_) => {
                settings.input = Some(InputKind::Dense);
                None
            }
        };
        let classes = match &self.classes[..] {
            [] => model.classes(),
            given => Some(given),
        };
        let data = LabelledFile::read_for(&self.data, &settings, schema, classes)?;
        let training_proportions = match &self.training_shares[..] {
            [] => None,
            shares => Some(LabelProportions::new(shares.to_vec()).context("--training-shares")?),
        };
        let settings = ImportSettings {
            name: self.name,
            latent: self.latent,
            black_box: self.black_box,
            held_out_share: self.held_out,
            seed: self.seed,
            training_proportions,
        };
        let imported = import(&model, data.labelled(), &settings)
            .with_context(|| format!("cannot import {shown}"))?;
        imported.bundle.save(&self.out)?;
        let rows = data.labels().len();
        Ok(format!(
            "{}\n{}: {rows} rows, {}, accuracy {:.4}; probabilities equal the model's to {:.0e}",
            describe_cut(&imported),
            self.out.display(),
            name_classes(data.classes()),
            imported.accuracy,
            imported.difference
        ) + &describe_few(&imported))
    }
}

/// The classes with too few rows, if there are any.
fn describe_few(imported: &Imported) -> String {
    let source = imported.bundle.source();
    let mut counts = vec![0; imported.bundle.classes()];
    for (label, held_out) in source.labels().iter().zip(source.held_out()) {
        counts[*label as usize] += usize::from(*held_out);
    }
    let names = imported.bundle.description().classes.iter();
    let few: Vec<String> = names
        .zip(&counts)
        .filter(|(_, count)| **count < FEWEST)
        .map(|(name, count)| format!("{name} ({count})"))
        .collect();
    if few.is_empty() {
        return String::new();
    }
    format!(
        "\nfew rows: with fewer than {FEWEST} held-out rows of each class no shares are told and nothing is adapted: {}",
        few.join(", ")
    )
}

/// Which tensor was taken, which could have been, and why.
fn describe_cut(imported: &Imported) -> String {
    let candidates: Vec<String> = imported
        .candidates
        .iter()
        .map(|(name, width)| format!("`{name}` ({width} wide)"))
        .collect();
    let found = if candidates.is_empty() {
        String::new()
    } else {
        format!("it can be cut at {}\n", candidates.join(", "))
    };
    match &imported.latent {
        Some(latent) => format!("{found}latent: `{latent}`, because {}", imported.reason),
        None => format!("{found}black box: {}", imported.reason),
    }
}
