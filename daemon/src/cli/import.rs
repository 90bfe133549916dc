//! `ostard import`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use ostar_bundle::{
    InputKind, TENSOR_FILE,
    fit::FitSettings,
    import::{ImportSettings, Imported, Model, Takes, import},
    read_file,
};
use ostar_connectors::files::LabelledFile;
use ostar_engine::Rows;
use ostar_method::proportions::LabelProportions;

use super::{
    files::FileArgs,
    fit::{check_out, name_classes},
    print,
    quality::{check_order, describe_quality},
};

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
    /// The classes in the order of the model's outputs. Needed if the model has no names for them [default: the model's own
    /// names].
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
  ostard import --onnx model.onnx --data labelled.jsonl --classes no_click,click --out models/own
  ostard import --onnx model.onnx --data labelled.csv --label bought --latent relu_2 --out models/own";

impl Import {
    pub(super) fn execute(self) -> Result<()> {
        print(&(self.import()? + "\n"))
    }

    /// Writes the bundle and returns what was done, in words.
    fn import(self) -> Result<String> {
        check_out(&self.out)?;
        let shown = self.onnx.display();
        let file = read_file(&self.onnx, TENSOR_FILE)
            .with_context(|| format!("cannot read --onnx {shown}"))?;
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
        let (classes, renamed) = class_order(model.classes(), &self.classes)?;
        let data = LabelledFile::read(&self.data, &settings, schema, Some(classes))?;
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
        let rows = Rows::new(&imported.probabilities[..], data.classes().len())?;
        let order = check_order(rows, data.labels(), data.classes(), |better| {
            if self.classes.is_empty() {
                return "these are the model's own names: check --label, or export the model again"
                    .to_owned();
            }
            format!(
                "give --classes {better}, or, if the order is right, check --label: the model predicts the opposite of these \
                 labels"
            )
        })?;
        imported.bundle.save(&self.out)?;
        let difference = imported.difference.map_or_else(String::new, |difference| {
            format!("; probabilities equal the model's to {difference:.0e}")
        });
        Ok(format!(
            "{}\n{}: {} rows, {}{renamed}{difference}\n{}\n{order}",
            describe_cut(&imported),
            self.out.display(),
            data.labels().len(),
            name_classes(data.classes()),
            describe_quality(&imported.bundle)?,
        ) + &describe_few(&imported))
    }
}

/// The classes in the order of the outputs, and which were given other names than the model's, in words.
fn class_order<'a>(
    own: Option<&'a [String]>,
    given: &'a [String],
) -> Result<(&'a [String], String)> {
    let own = match own {
        Some(own) => own,
        None if given.is_empty() => bail!(
            "the model has no names for its outputs, expected to know which class each of them is of: name the classes in \
             the order of the outputs with --classes NAME,NAME"
        ),
        None => return Ok((given, String::new())),
    };
    if given.is_empty() {
        return Ok((own, String::new()));
    }
    let (ours, theirs) = (given.join(", "), own.join(", "));
    if given.len() != own.len() {
        bail!("--classes is {ours}, expected a name for each of the model's classes: {theirs}");
    }
    let renamed: Vec<_> = own
        .iter()
        .zip(given)
        .filter(|(own, given)| own != given)
        .collect();
    // A name of the model's in another place is no new name: one of the two orders is wrong.
    if renamed.iter().any(|(_, given)| own.contains(given)) {
        bail!(
            "--classes is {ours}, but the model itself says that its outputs are {theirs}: leave --classes out, or give new \
             names in this order"
        );
    }
    let renamed: Vec<String> = renamed
        .iter()
        .map(|(own, given)| format!("{own} as {given}"))
        .collect();
    let renames = if renamed.is_empty() {
        String::new()
    } else {
        format!(" (the model's {})", renamed.join(", "))
    };
    Ok((given, renames))
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
        "\nfew rows: with fewer than {FEWEST} held-out rows of each class shares are not estimated and nothing is adapted: {}",
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The order and what is said of it, or the error.
    fn order(own: Option<&[&str]>, given: &[&str]) -> Result<(Vec<String>, String), String> {
        let own = own.map(names);
        let found =
            class_order(own.as_deref(), &names(given)).map(|(o, renames)| (o.to_vec(), renames));
        found.map_err(|error| error.to_string())
    }

    #[test]
    fn the_order_of_a_model_without_names_must_be_given() {
        let refused = order(None, &[]).unwrap_err();
        assert!(
            refused.contains("in the order of the outputs with --classes"),
            "{refused}"
        );
        assert_eq!(order(None, &["b", "a"]).unwrap().0, ["b", "a"]);
    }

    #[test]
    fn the_order_is_the_models_own_and_a_contradiction_is_an_error() {
        let own = Some(&["no", "yes"][..]);
        assert_eq!(
            order(own, &[]).unwrap(),
            (names(&["no", "yes"]), String::new())
        );
        assert_eq!(
            order(own, &["no", "yes"]).unwrap(),
            (names(&["no", "yes"]), String::new())
        );
        for contradicting in [&["yes", "no"][..], &["yes", "perhaps"], &["maybe", "no"]] {
            let refused = order(own, contradicting).unwrap_err();
            assert!(
                refused.contains("the model itself says that its outputs are no, yes"),
                "{refused}"
            );
        }
        let refused = order(own, &["no", "yes", "perhaps"]).unwrap_err();
        assert!(refused.contains("expected a name for each"), "{refused}");
    }

    #[test]
    fn new_names_are_taken_in_the_models_order_and_said() {
        let (found, renames) = order(Some(&["0", "1"]), &["ham", "spam"]).unwrap();
        assert_eq!(
            (found, &renames[..]),
            (
                names(&["ham", "spam"]),
                " (the model's 0 as ham, 1 as spam)"
            )
        );
    }
}
