//! The labelled source rows that a bundle carries, and which of them are held out.

use ostar_engine::{
    Error, HostTensor, NamedTensors, Result, Rows, checks, parameters::finite,
    weights::class_counts,
};
use ostar_method::proportions::{LabelProportions, Probabilities};

use super::Description;

/// Labelled rows of raw latents or, for a black box, of its probabilities.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceBuffer {
    width: usize,
    values: Vec<f32>,
    labels: Vec<u32>,
    held_out: Vec<bool>,
}

impl SourceBuffer {
    /// Rows of `width` numbers. `held_out` marks those that f_S was not trained on (a fifth, usually), and that
    /// f_N never will be.
    pub fn new(
        values: Vec<f32>,
        width: usize,
        labels: Vec<u32>,
        held_out: Vec<bool>,
    ) -> Result<Self> {
        let rows = Rows::new(&values[..], width)?;
        rows.check("source", width)?;
        checks::length("source labels", labels.len(), rows.count())?;
        checks::length("source held_out", held_out.len(), rows.count())?;
        if rows.count() < 2 {
            return Err(Error::shape("source", "at least 2 rows", rows.count()));
        }
        Ok(Self {
            width,
            values,
            labels,
            held_out,
        })
    }

    /// The rows with their width: raw latents, or a black box's probabilities.
    pub fn rows(&self) -> Rows<'_> {
        Rows::new_unchecked(self.values.as_slice().into(), self.width)
    }

    /// All numbers, row after row.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The class of each row.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Which rows are held out from all training.
    pub fn held_out(&self) -> &[bool] {
        &self.held_out
    }

    /// Class shares of all rows (buffer_proportions).
    pub fn proportions(&self, classes: usize) -> Result<LabelProportions> {
        checks::labels(&self.labels, classes)?;
        proportions_of(&self.labels, classes)
    }

    /// Refuses rows that do not belong to the model, and a class without the rows that are needed of it: one
    /// held out and, if a classifier is to be trained on latents, one other.
    pub(crate) fn check(&self, description: &Description) -> Result<()> {
        let classes = &description.classes;
        let (name, width) = match &description.model {
            Some(model) => ("latents", model.latent),
            None => ("probabilities", classes.len()),
        };
        if self.width != width {
            return Err(Error::shape(
                format!("source {name}"),
                format!("rows of {width} numbers"),
                format!("rows of {}", self.width),
            ));
        }
        checks::labels(&self.labels, classes.len())?;
        if description.model.is_none() {
            Probabilities::new("source probabilities", self.rows())?;
        }
        for (class, class_name) in classes.iter().enumerate() {
            let has = |held_out: bool| {
                let mut rows = self.labels.iter().zip(&self.held_out);
                rows.any(|(label, is)| *label as usize == class && *is == held_out)
            };
            let missing = match (has(true), has(false)) {
                (false, false) => "rows",
                (false, true) => "held-out rows",
                (true, false) if description.model.is_some() => "rows but held-out ones",
                (true, _) => continue,
            };
            return Err(Error::setting(
                "source",
                format!("class {class} ({class_name:?}) has no {missing}, expected at least one"),
            ));
        }
        Ok(())
    }

    /// As named tensors: `latents` or `probabilities`, `labels`, `held_out`.
    pub(crate) fn to_tensors(&self, name: &str) -> NamedTensors {
        let count = self.labels.len();
        let labels = self.labels.iter().map(|label| *label as f32).collect();
        let held_out = self.held_out.iter().map(|is| f32::from(*is)).collect();
        let values = HostTensor::f32([count, self.width], self.values.clone());
        NamedTensors::from([
            (name.to_owned(), values),
            ("labels".to_owned(), HostTensor::f32([count], labels)),
            ("held_out".to_owned(), HostTensor::f32([count], held_out)),
        ])
    }

    pub(crate) fn from_tensors(name: &str, width: usize, tensors: &NamedTensors) -> Result<Self> {
        let counted = tensors.get(name).or_else(|| tensors.get("labels"));
        let count = counted
            .and_then(|tensor| tensor.shape.first().copied())
            .unwrap_or(0);
        let values = finite(tensors, name, &[count, width])?.to_f32();
        let whole = |name: &str, below: f64, expected: &str| -> Result<Vec<f64>> {
            let values = finite(tensors, name, &[count])?.to_f64();
            let is_valid = |value: &f64| value.fract() == 0.0 && (0.0..below).contains(value);
            match values.iter().position(|value| !is_valid(value)) {
                None => Ok(values),
                Some(row) => Err(Error::setting(
                    format!("tensor `{name}`"),
                    format!("row {row} is {}, expected {expected}", values[row]),
                )),
            }
        };
        let labels = whole("labels", f64::from(u32::MAX), "a class number")?;
        let held_out = whole("held_out", 2.0, "0 or 1")?;
        let known = [name, "labels", "held_out"];
        if let Some(name) = tensors.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(Error::UnexpectedTensor { name: name.clone() });
        }
        let labels = labels.iter().map(|label| *label as u32).collect();
        let held_out = held_out.iter().map(|is| *is == 1.0).collect();
        Self::new(values, width, labels, held_out)
    }
}

/// Class shares of some labels.
pub(crate) fn proportions_of(labels: &[u32], classes: usize) -> Result<LabelProportions> {
    let mut counts = vec![0.0; classes];
    class_counts(labels.iter().copied(), &mut counts);
    LabelProportions::from_counts(&counts)
}
