//! Pairs of domains from feature files: arrays of an npz file, or a CSV file a domain.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use ostar_engine::Generator;

use super::arrays::{Array, Arrays};
use crate::task::{Domain, Task};

/// Named domains with the same classes and features.
#[derive(Debug)]
pub struct FeatureFile {
    domains: Vec<(String, Domain)>,
    classes: usize,
}

impl FeatureFile {
    /// Reads `x_NAME` and `y_NAME` arrays, or sparse counts as `NAME_train_indptr`, `_indices`, `_counts` and
    /// `_y` of an npz file; or every `NAME.csv` of a folder, the label in its column `label`.
    pub fn read(path: &Path) -> Result<Self> {
        let mut domains = if path.is_dir() {
            read_folder(path)?
        } else {
            read_npz(path)?
        };
        ensure!(
            domains.len() >= 2,
            "{} holds {} domains, expected at least two",
            path.display(),
            domains.len()
        );
        domains.sort_by(|left, right| left.0.cmp(&right.0));
        let largest = domains.iter().flat_map(|(_, d)| d.labels.iter()).max();
        let classes = largest.map_or(0, |label| *label as usize + 1);
        ensure!(
            classes >= 2,
            "{} holds one class, expected at least two",
            path.display()
        );
        Ok(Self { domains, classes })
    }

    /// Names of the domains, sorted.
    pub fn names(&self) -> Vec<&str> {
        self.domains.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// One more than the largest label of any domain.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// How many features a row has.
    pub fn width(&self) -> usize {
        self.domains.first().map_or(0, |(_, domain)| domain.width)
    }

    /// One domain against another. Of the first half of its classes the source keeps the fraction `kept` of the rows,
    /// which makes the label shift.
    pub fn task(&self, source: &str, target: &str, kept: f64, seed: u64) -> Result<Task> {
        let find = |name: &str| {
            let found = self.domains.iter().find(|(known, _)| known == name);
            found
                .map(|(_, domain)| domain)
                .with_context(|| format!("no domain {name:?}, only {}", self.names().join(", ")))
        };
        let (source, target) = (find(source)?, find(target)?);
        let mut generator = Generator::new(seed ^ 0xfea7);
        let mut numbers = Vec::new();
        for class in 0..self.classes {
            let of_class = source.labels.iter().enumerate();
            let mut rows: Vec<usize> = of_class
                .filter(|(_, label)| **label as usize == class)
                .map(|(number, _)| number)
                .collect();
            generator.shuffle(&mut rows);
            if class < self.classes / 2 {
                rows.truncate(((rows.len() as f64 * kept).round() as usize).max(1));
            }
            numbers.extend(rows);
        }
        generator.shuffle(&mut numbers);
        Ok(Task {
            classes: self.classes,
            source: source.select(&numbers),
            target: target.clone(),
        })
    }
}

fn read_npz(path: &Path) -> Result<Vec<(String, Domain)>> {
    let mut arrays = Arrays::open(path)?;
    let mut domains = Vec::new();
    for name in arrays.names() {
        if let Some(domain) = name.strip_prefix("x_") {
            let Array { shape, values } = arrays.read(&name)?;
            let [_, width] = shape[..] else {
                bail!(
                    "{name} of {} has shape {shape:?}, expected rows",
                    path.display()
                );
            };
            let labels = arrays.labels(&format!("y_{domain}"))?;
            domains.push((
                domain.to_owned(),
                checked(path, domain, width, values, labels)?,
            ));
        }
        if let Some(domain) = name.strip_suffix("_train_indptr") {
            let read = read_counts(&mut arrays, domain)?;
            domains.push((domain.to_owned(), read));
        }
    }
    Ok(domains)
}

/// Reads train and test parts of a domain of sparse counts, as log(1 + count).
fn read_counts(arrays: &mut Arrays, domain: &str) -> Result<Domain> {
    /// Columns of `amazon_reviews`, the only sparse file so far.
    const WIDTH: usize = 5_000;
    let mut whole = Domain {
        width: WIDTH,
        rows: Vec::new(),
        labels: Vec::new(),
    };
    for part in ["train", "test"] {
        let mut read = |name: &str| arrays.read(&format!("{domain}_{part}_{name}"));
        let (starts, columns, counts) = (read("indptr")?, read("indices")?, read("counts")?);
        let rows = sparse_rows(&starts.values, &columns.values, &counts.values, WIDTH)?;
        whole.rows.extend(rows);
        whole
            .labels
            .extend(arrays.labels(&format!("{domain}_{part}_y"))?);
    }
    ensure!(
        whole.rows.len() == whole.labels.len() * WIDTH,
        "{domain} has {} labels for {} rows",
        whole.labels.len(),
        whole.rows.len() / WIDTH
    );
    Ok(whole)
}

/// Dense rows of log(1 + count) from compressed sparse rows; columns are folded modulo `width`.
pub(super) fn sparse_rows(
    starts: &[f32],
    columns: &[f32],
    counts: &[f32],
    width: usize,
) -> Result<Vec<f32>> {
    ensure!(
        columns.len() == counts.len()
            && starts.last().map(|end| *end as usize) == Some(columns.len())
            && starts.is_sorted(),
        "row starts, columns and counts do not fit together"
    );
    let count = starts.len() - 1;
    let mut rows = vec![0.0f32; count * width];
    for (row, ends) in rows.chunks_exact_mut(width).zip(starts.windows(2)) {
        for entry in ends[0] as usize..ends[1] as usize {
            row[columns[entry] as usize % width] += counts[entry];
        }
        row.iter_mut().for_each(|value| *value = value.ln_1p());
    }
    Ok(rows)
}

fn read_folder(folder: &Path) -> Result<Vec<(String, Domain)>> {
    let mut domains = Vec::new();
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read folder {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "csv") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            domains.push((name.into_owned(), read_csv(&path)?));
        }
    }
    Ok(domains)
}

fn read_csv(path: &Path) -> Result<Domain> {
    let place = || format!("cannot read {}", path.display());
    let mut reader = csv::Reader::from_path(path).with_context(place)?;
    let headers = reader.headers().with_context(place)?.clone();
    let Some(label_column) = headers.iter().position(|name| name == "label") else {
        bail!("{} has no column label", path.display());
    };
    let (mut rows, mut labels) = (Vec::new(), Vec::new());
    for (number, record) in reader.records().enumerate() {
        let record = record.with_context(place)?;
        for (column, text) in record.iter().enumerate() {
            let bad = || format!("{:?} in row {} of {}", text, number + 1, path.display());
            if column == label_column {
                labels.push(text.parse().with_context(bad)?);
            } else {
                rows.push(text.parse().with_context(bad)?);
            }
        }
    }
    checked(path, "rows", headers.len() - 1, rows, labels)
}

fn checked(
    path: &Path,
    domain: &str,
    width: usize,
    rows: Vec<f32>,
    labels: Vec<u32>,
) -> Result<Domain> {
    ensure!(
        rows.len() == labels.len() * width && width > 0,
        "{domain} of {} has {} numbers for {} labels of {width} each",
        path.display(),
        rows.len(),
        labels.len()
    );
    Ok(Domain {
        width,
        rows,
        labels,
    })
}
