//! Pages from results files: tables with the paper's numbers beside ours, and plots.

mod ablations;
mod alarms;
mod batch;
mod comparison;
mod digits_stream;
pub(crate) mod families;
mod features;
mod gate;
mod gate_labels;
mod paper;
mod plot;
mod shares;
mod streams;
mod traces;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap::Args;

use crate::results::{self, Record};

/// Flags of the `report` command.
#[derive(Debug, Args)]
pub struct Options {
    /// Folder of the results files.
    #[arg(long, value_name = "DIR", default_value = "experiments/results")]
    results: PathBuf,
    /// File that the page is written to.
    #[arg(long, value_name = "FILE", default_value = "experiments/RESULTS.md")]
    out: PathBuf,
    /// Folder of the plots, next to the page.
    #[arg(long, value_name = "DIR", default_value = "experiments/images")]
    images: PathBuf,
}

const HEAD: &str = "# Results

Every number on this page comes from a results file in [results/](results), which real runs of
`ostar-experiments` appended to; `ostar-experiments report` wrote the page. *Paper* is the number of OSTAR's
tables (ICLR 2022). Score: balanced accuracy (mean recall over classes) in percent on the whole target, mean and
deviation over seeds, the number of seeds in brackets where it is not 3. [README.md](README.md) says
what is run, and how to run it.
";

/// Writes the page and its plots.
pub fn run(options: &Options) -> Result<()> {
    let folder = &options.results;
    let images = Images {
        folder: &options.images,
        link: link(&options.out, &options.images),
    };
    let digits = lines(folder, "digits")?;
    let ablation = lines(folder, "ablation")?;
    let reasons: Vec<comparison::Reason> = lines(folder, "reasons")?;
    let mut page = HEAD.to_owned();
    page += &comparison::section(&digits, &ablation, &reasons);
    page += &notes(folder, "notes-paper.md")?;
    page += "\n## Streams\n";
    page += &notes(folder, "notes.md")?;
    page += &gate::section(&lines(folder, "gate")?);
    page += &gate_labels::section(
        &lines(folder, "gate-labels")?,
        &lines(folder, "gate-labels-held-out")?,
        &lines(folder, "gate-labels-late")?,
    );
    page += &shares::section(&lines(folder, "shares")?);
    page += &alarms::section(&lines(folder, "alarms")?);
    page += &digits_stream::section(&lines(folder, "digits_stream")?, &digits);
    page += &streams::section(&lines(folder, "stream")?, &images)?;
    page += "\n## The paper's tables in full\n";
    page += &batch::digits(&digits, &images)?;
    page += &features::section(&lines(folder, "features")?);
    page += &ablations::section(&ablation, &images)?;
    page += &traces::section(&lines(folder, "trace")?);
    fs::write(&options.out, page).with_context(|| format!("cannot write {}", options.out.display()))
}

/// Folder of the plots, and the page's link to it.
pub(crate) struct Images<'o> {
    folder: &'o Path,
    link: String,
}

impl Images<'_> {
    /// Writes a plot and returns the Markdown that shows it.
    fn add(&self, name: &str, what: &str, svg: &str) -> Result<String> {
        fs::create_dir_all(self.folder)
            .with_context(|| format!("cannot create folder {}", self.folder.display()))?;
        let path = self.folder.join(format!("{name}.svg"));
        fs::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(format!("\n![{what}]({}/{name}.svg)\n", self.link))
    }
}

/// The images' folder relative to the page's.
fn link(page: &Path, images: &Path) -> String {
    let parent = page.parent().unwrap_or(Path::new(""));
    let relative = images.strip_prefix(parent).unwrap_or(images);
    relative.display().to_string()
}

fn lines<R: Record>(folder: &Path, name: &str) -> Result<Vec<R>> {
    let path = folder.join(format!("{name}.csv"));
    if path.exists() {
        results::read(&path)
    } else {
        Ok(Vec::new())
    }
}

/// What was written by hand about the results, if anything.
fn notes(folder: &Path, name: &str) -> Result<String> {
    let path = folder.join(name);
    if path.exists() {
        Ok(format!("\n{}", read_text(&path)?))
    } else {
        Ok(String::new())
    }
}

fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Mean, deviation and number of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    mean: f64,
    deviation: f64,
    count: usize,
}

impl Summary {
    /// `None` if there are no values. The deviation is that of the population.
    fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self {
            mean,
            deviation: (squares / count as f64).sqrt(),
            count,
        })
    }

    fn text(summary: Option<Self>) -> String {
        match summary {
            None => String::new(),
            Some(Self { mean, count: 1, .. }) => format!("{mean:.2} (1)"),
            Some(Self {
                mean,
                deviation,
                count: 3,
            }) => format!("{mean:.2} ± {deviation:.1}"),
            Some(Self {
                mean,
                deviation,
                count,
            }) => format!("{mean:.2} ± {deviation:.1} ({count})"),
        }
    }
}

/// A Markdown table; every row has as many cells as `head`.
pub(crate) fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(head);
    text += &format!("|{}\n", "---|".repeat(head.len()));
    rows.iter().for_each(|row| text += &line(row));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_say_how_many_values_they_have() {
        assert_eq!(Summary::text(Summary::of(&[])), "");
        assert_eq!(Summary::text(Summary::of(&[90.5])), "90.50 (1)");
        assert_eq!(
            Summary::text(Summary::of(&[90.0, 92.0, 91.0])),
            "91.00 ± 0.8"
        );
    }
}
