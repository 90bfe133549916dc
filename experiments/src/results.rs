//! Results files: one CSV line for each finished run, synced at once, so that a stopped job can resume.

use std::{
    collections::HashSet,
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// One finished run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// `digits`, `features`, `stream` or an ablation's name.
    pub experiment: String,
    /// [`Scale::name`](crate::protocol::Scale::name).
    pub scale: String,
    /// Domains and shift, such as `m2u-high`.
    pub setting: String,
    /// What else was set, such as `pad` or `lambda=0.1`; may be empty.
    pub variant: String,
    /// [`Method::name`](crate::method::Method::name).
    pub method: String,
    /// Seed of data, pretraining and method.
    pub seed: u64,
    /// Mean recall over classes, in percent.
    pub balanced_accuracy: f64,
    /// Share of right predictions, in percent.
    pub accuracy: f64,
    /// l1 error of the estimated proportions; `None` for a method without an estimate.
    pub proportion_error: Option<f64>,
    /// Another measure, which the experiment's page explains.
    pub extra: Option<f64>,
    /// Of the method alone, without pretraining.
    pub seconds: f64,
}

/// One epoch of OSTAR's alignment: [`EpochTrace`](crate::train::EpochTrace) with the run that it belongs to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "the columns of Line and the fields of EpochTrace"
)]
pub struct TraceLine {
    pub scale: String,
    pub setting: String,
    pub variant: String,
    pub method: String,
    pub seed: u64,
    pub epoch: usize,
    pub distance: f64,
    pub transport_cost: f64,
    pub displacement: f64,
    pub source_spread: f64,
    pub target_spread: f64,
    pub class_gap: f64,
    pub mapped_class_gap: f64,
    pub class_distance: f64,
    pub balanced_accuracy: f64,
    pub proportion_error: f64,
}

/// A line of a results file.
pub trait Record: Serialize + DeserializeOwned {
    /// Equal for two lines of the same run.
    fn key(&self) -> String;
}

/// A results file that runs are appended to.
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    done: HashSet<String>,
}

impl Record for Line {
    fn key(&self) -> String {
        let Self {
            experiment,
            scale,
            setting,
            variant,
            method,
            seed,
            ..
        } = self;
        format!("{experiment}|{scale}|{setting}|{variant}|{method}|{seed}")
    }
}

impl Record for TraceLine {
    fn key(&self) -> String {
        let Self {
            scale,
            setting,
            variant,
            method,
            seed,
            epoch,
            ..
        } = self;
        format!("{scale}|{setting}|{variant}|{method}|{seed}|{epoch}")
    }
}

impl Results {
    /// Opens a file for appending. One that has lines already is refused without `resume`.
    pub fn open<R: Record>(path: &Path, resume: bool) -> Result<Self> {
        let known: Vec<R> = if path.exists() {
            read(path)?
        } else {
            Vec::new()
        };
        if !known.is_empty() && !resume {
            bail!(
                "{} has {} results already: add --resume to continue it, or name another file with --results",
                path.display(),
                known.len()
            );
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot create folder {}", folder.display()))?;
        }
        Ok(Self {
            path: path.to_owned(),
            done: known.iter().map(R::key).collect(),
        })
    }

    /// Whether the file holds a run with this key.
    pub fn has(&self, key: &str) -> bool {
        self.done.contains(key)
    }

    /// Appends a run. It is on disk when this returns.
    pub fn append(&mut self, line: &impl Record) -> Result<()> {
        let place = || format!("cannot write to {}", self.path.display());
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.path)
            .with_context(place)?;
        let empty = file.metadata().with_context(place)?.len() == 0;
        let mut writer = csv::WriterBuilder::new()
            .has_headers(empty)
            .from_writer(Vec::new());
        writer.serialize(line)?;
        let bytes = writer.into_inner().map_err(|error| error.into_error())?;
        write_all(file, &bytes).with_context(place)?;
        self.done.insert(line.key());
        Ok(())
    }
}

impl Results {
    /// Appends a line unless the file holds one with its key: a resumed run repeats the epochs after its checkpoint.
    pub fn append_new(&mut self, line: &impl Record) -> Result<()> {
        if self.has(&line.key()) {
            return Ok(());
        }
        self.append(line)
    }
}

fn write_all(mut file: File, bytes: &[u8]) -> std::io::Result<()> {
    file.write_all(bytes)?;
    file.sync_data()
}

/// All lines of a file. A damaged line, such as a last one that was cut off, is an error with its number.
pub fn read<R: Record>(path: &Path) -> Result<Vec<R>> {
    let mut reader =
        csv::Reader::from_path(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut lines = Vec::new();
    for (number, line) in reader.deserialize().enumerate() {
        let line = line.with_context(|| {
            format!(
                "line {} of {} is not a result; remove it to continue without it",
                number + 2,
                path.display()
            )
        })?;
        lines.push(line);
    }
    Ok(lines)
}
