//! `ostard fit`.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use ostar_bundle::{
    Bundle,
    fit::{FitProgress, FitSettings, fit},
};
use ostar_connectors::files::LabelledFile;

use super::{
    files::FileArgs,
    print,
    quality::{check_order, describe_quality},
};

/// Train a classifier on labelled data and write it as a bundle for `ostard run`.
///
/// A file of a black box's probabilities or logits becomes a bundle without training. `--classes` says which class each of
/// the numbers is of.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Fit {
    /// Labelled data: CSV, JSON lines, Parquet or safetensors, by its extension.
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// Folder for the bundle. It must not contain one yet.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// The classes in the order of the model's outputs. Needed for probabilities and logits, unless the data has them as a
    /// map of classes [default: the labels, sorted].
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    classes: Vec<String>,
    /// Name of the model in metrics, logs and the Open Inference Protocol.
    #[arg(long, default_value_t = FitSettings::default().name)]
    name: String,
    /// Width of the latent vectors.
    #[arg(long, value_name = "NUMBERS", default_value_t = FitSettings::default().latent)]
    latent: usize,
    /// Maximum number of passes over the data.
    #[arg(long, default_value_t = FitSettings::default().epochs)]
    epochs: usize,
    /// Share of each class's rows that is held out from training.
    #[arg(long, value_name = "SHARE", default_value_t = FitSettings::default().held_out_share)]
    held_out: f64,
    /// Threads used for training.
    #[arg(long, default_value_t = FitSettings::default().threads)]
    threads: usize,
    /// Seed of the random numbers. The same seed, data and threads give the same bytes.
    #[arg(long, default_value_t = FitSettings::default().seed)]
    seed: u64,
    #[command(flatten)]
    files: FileArgs,
}

const EXAMPLES: &str = "\
Examples:
  ostard fit --data mails.csv --label spam --out models/spam
  ostard fit --data scores.csv --label clicked --classes no_click,click --out models/clicks
  ostard fit --data clicks.parquet --label clicked --ignore id,time --out models/clicks --latent 64 --threads 4";

impl Fit {
    pub(super) fn execute(self) -> Result<()> {
        print(&(self.fit()? + "\n"))
    }

    /// Writes the bundle and returns a line that describes it.
    fn fit(self) -> Result<String> {
        check_out(&self.out)?;
        let settings = FitSettings {
            name: self.name,
            seed: self.seed,
            threads: self.threads,
            held_out_share: self.held_out,
            latent: self.latent,
            epochs: self.epochs,
            ..FitSettings::default()
        };
        let classes = (!self.classes.is_empty()).then_some(&self.classes[..]);
        let file = LabelledFile::read(&self.data, &self.files.settings(), None, classes)?;
        let bar = bar(settings.epochs);
        let mut best: Option<FitProgress> = None;
        let bundle = fit(file.labelled(), &settings, &mut |progress| {
            bar.set_position(progress.epoch as u64);
            bar.set_message(format!(
                "held-out accuracy {:.4}",
                progress.held_out_accuracy
            ));
            // `fit` keeps the weights with the lowest held-out loss.
            if best.is_none_or(|best| progress.held_out_loss < best.held_out_loss) {
                best = Some(progress);
            }
        })?;
        bar.finish_and_clear();
        let order = describe_order(&bundle)?;
        bundle.save(&self.out)?;
        let accuracy = match best {
            Some(best) => format!(
                ", held-out accuracy {:.4} at epoch {}",
                best.held_out_accuracy, best.epoch
            ),
            // Predictions of a black box: nothing was trained.
            None => String::new(),
        };
        Ok(format!(
            "{}: {} rows, {}{accuracy}\n{}{order}",
            self.out.display(),
            file.labels().len(),
            name_classes(file.classes()),
            describe_quality(&bundle)?
        ))
    }
}

/// A bundle is never written over.
pub(super) fn check_out(out: &Path) -> Result<()> {
    ensure!(
        !out.join("bundle.json").exists(),
        "--out is {out:?}, expected a folder without a bundle: choose another one, or delete this one"
    );
    Ok(())
}

/// What the labels say about the order of a black box's outputs. Networks learned theirs from the labels.
fn describe_order(bundle: &Bundle) -> Result<String> {
    let description = bundle.description();
    if !description.input.kind().is_black_box() {
        return Ok(String::new());
    }
    let source = bundle.source();
    let order = check_order(
        source.rows(),
        source.labels(),
        &description.classes,
        |better| {
            format!(
                "give --classes {better}, or, if the order is right, check --label: the model predicts the opposite of these labels"
            )
        },
    )?;
    Ok(format!("\n{order}"))
}

/// Most classes that are all named.
const MOST_NAMED: usize = 10;

/// The classes, or how many there are and the first of them.
pub(super) fn name_classes(classes: &[String]) -> String {
    if classes.len() <= MOST_NAMED {
        return format!("classes {}", classes.join(", "));
    }
    let first = classes[..MOST_NAMED].join(", ");
    format!("{} classes ({first}, ...)", classes.len())
}

/// A progress bar on the standard error; hidden if that is no terminal.
fn bar(epochs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} epoch {pos} of {len}, {msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(epochs as u64).with_style(style)
}

#[cfg(test)]
mod tests {
    use std::{fmt::Write, fs};

    use clap::Parser;
    use ostar_bundle::Bundle;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        fit: Fit,
    }

    #[test]
    fn a_thousand_classes_are_counted_and_not_all_named() {
        let classes: Vec<_> = (0..1_000).map(|class| format!("c{class}")).collect();
        let told = name_classes(&classes);
        assert_eq!(
            told,
            "1000 classes (c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, ...)"
        );
        assert_eq!(name_classes(&classes[..2]), "classes c0, c1");
    }

    #[test]
    fn a_file_becomes_a_bundle_and_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let (data, out) = (
            folder.path().join("mails.csv"),
            folder.path().join("bundle"),
        );
        let mut rows = "id,length,sender,kind\n".to_owned();
        for id in 0..100 {
            let (length, sender, kind) = match id % 2 {
                0 => (10 + id, "friend", "ham"),
                _ => (500 + id, "stranger", "spam"),
            };
            writeln!(rows, "{id},{length},{sender},{kind}").unwrap();
        }
        fs::write(&data, rows).unwrap();
        let (data, target) = (data.to_str().unwrap(), out.to_str().unwrap());
        let line = [
            "fit", "--data", data, "--out", target, "--label", "kind", "--name", "mails",
        ];
        let parsed = || Line::try_parse_from(line).unwrap().fit;
        let summary = parsed().fit().unwrap();
        let start = format!("{target}: 100 rows, classes ham, spam, held-out accuracy 1.0000");
        assert!(summary.starts_with(&start), "{summary}");
        let bundle = Bundle::load(&out).unwrap();
        assert_eq!(bundle.description().name, "mails");
        let refused = parsed().fit().unwrap_err().to_string();
        assert!(
            refused.contains("expected a folder without a bundle"),
            "{refused}"
        );
    }
}
