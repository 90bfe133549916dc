//! Unlabelled rows of the training period that a bundle may carry, as the deployed model scores them.

use ostar_engine::{
    Error, HostTensor, Inputs, NamedTensors, Result, Rows, evaluate::Scratch, parameters::finite,
};
use ostar_method::{
    deployed::{HeldOut, ReferenceRows},
    gate::reference_differs,
    proportions::Probabilities,
};

use super::{Bundle, files::REFERENCE};

/// Fewer rows add nothing to the held-out rows.
pub const FEWEST_REFERENCE_ROWS: usize = 500;
/// Beyond that the tiniest misfit of the calibration would look like a shift.
const MOST_ROWS: usize = 20_000;
/// With more classes nothing is proven without labels.
pub const MANY_CLASSES: usize = 12;
const MOST_ROWS_OF_MANY_CLASSES: usize = 3_000;
/// Probabilities of the same latents differ by no more between machines.
const LARGEST_DIFFERENCE: f32 = 1e-4;

/// Rows that the model was not trained on: standardised latents (none for a black box) and probabilities.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceBuffer {
    classes: usize,
    latents: Vec<f32>,
    probabilities: Vec<f32>,
}

/// How many reference rows a bundle with so many classes may have.
pub const fn most_reference_rows(classes: usize) -> usize {
    if classes > MANY_CLASSES {
        MOST_ROWS_OF_MANY_CLASSES
    } else {
        MOST_ROWS
    }
}

// === impl ReferenceBuffer ===

impl ReferenceBuffer {
    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.probabilities.len() / self.classes
    }

    /// What the method takes.
    pub(super) fn rows(&self) -> Result<ReferenceRows> {
        let rows = Rows::new(&self.probabilities[..], self.classes)?;
        Ok(ReferenceRows {
            latents: self.latents.clone(),
            probabilities: Probabilities::new("reference probabilities", rows)?,
        })
    }

    /// As named tensors: `probabilities` and, unless the model is a black box, `latents`.
    pub(super) fn to_tensors(&self) -> NamedTensors {
        let count = self.count();
        let tensor = |values: &Vec<f32>| {
            HostTensor::f32([count, values.len() / count.max(1)], values.clone())
        };
        let mut tensors =
            NamedTensors::from([("probabilities".to_owned(), tensor(&self.probabilities))]);
        if !self.latents.is_empty() {
            tensors.insert("latents".to_owned(), tensor(&self.latents));
        }
        tensors
    }

    /// `latent` is the width of latents; `None` for a black box.
    pub(super) fn from_tensors(
        latent: Option<usize>,
        classes: usize,
        tensors: &NamedTensors,
    ) -> Result<Self> {
        let count = tensors
            .get("probabilities")
            .and_then(|tensor| tensor.shape.first().copied())
            .unwrap_or(0);
        let read = |name: &str, width: usize| {
            let tensor = finite(tensors, name, &[count, width]);
            tensor
                .map(HostTensor::to_f32)
                .map_err(|error| Error::setting(REFERENCE, error.to_string()))
        };
        let known = |name: &str| name == "probabilities" || (name == "latents" && latent.is_some());
        if let Some(name) = tensors.keys().find(|name| !known(name)) {
            let problem = format!("has a tensor `{name}`, expected `probabilities`");
            return Err(Error::setting(
                REFERENCE,
                problem + " and, of a model with layers, `latents`",
            ));
        }
        Ok(Self {
            classes,
            probabilities: read("probabilities", classes)?,
            latents: match latent {
                Some(width) => read("latents", width)?,
                None => Vec::new(),
            },
        })
    }
}

// === impl Bundle ===

impl Bundle {
    /// Unlabelled rows of the training period; `None` if there are none.
    pub fn reference(&self) -> Option<&ReferenceBuffer> {
        self.reference.as_ref()
    }

    /// How many reference rows there are; 0 without.
    pub fn reference_rows(&self) -> usize {
        self.reference.as_ref().map_or(0, ReferenceBuffer::count)
    }

    /// The same bundle with unlabelled rows of the training period, which the model was not trained on: inputs as events have them.
    /// Rows that differ from the held-out rows are refused. The digest changes with them.
    pub fn with_reference(self, rows: Inputs<'_>) -> Result<Self> {
        let scores = self.frozen()?.scores(rows)?;
        let reference = ReferenceBuffer {
            classes: self.classes(),
            latents: scores.latents().to_vec(),
            probabilities: scores.probabilities().to_vec(),
        };
        self.with_reference_buffer(reference)
    }

    pub(super) fn with_reference_buffer(mut self, reference: ReferenceBuffer) -> Result<Self> {
        self.check_reference(&reference)?;
        self.reference = Some(reference);
        self.digest = self.to_files()?.digest();
        Ok(self)
    }

    fn check_reference(&self, reference: &ReferenceBuffer) -> Result<()> {
        let (count, most) = (reference.count(), most_reference_rows(self.classes()));
        if !(FEWEST_REFERENCE_ROWS..=most).contains(&count) {
            return Err(wrong(format!(
                "has {count} rows, expected {FEWEST_REFERENCE_ROWS} to {most}: {}",
                if count < FEWEST_REFERENCE_ROWS {
                    "add more, or leave the reference out"
                } else {
                    "keep an even spread of them"
                }
            )));
        }
        let rows = reference.rows()?;
        self.check_scores(reference)?;
        self.check_same_period(&self.held_out()?, &rows)
    }

    /// Refuses probabilities that the model does not give for these latents.
    fn check_scores(&self, reference: &ReferenceBuffer) -> Result<()> {
        let (Some(model), Some(classifier)) = (&self.description.model, self.source_classifier()?)
        else {
            return Ok(());
        };
        let latents = Rows::new(&reference.latents[..], model.latent)?;
        let mut own = Vec::new();
        classifier.score(latents, &mut Scratch::default(), &mut own)?;
        let differs = |(own, found): (&f32, &f32)| (own - found).abs() > LARGEST_DIFFERENCE;
        match own.iter().zip(&reference.probabilities).position(differs) {
            None => Ok(()),
            Some(place) => Err(wrong(format!(
                "row {} has other probabilities than the model gives for its latents, expected both of this model: score the rows \
                 again",
                place / self.classes()
            ))),
        }
    }

    /// Refuses rows that do not look like the held-out rows.
    fn check_same_period(&self, held_out: &HeldOut, rows: &ReferenceRows) -> Result<()> {
        let training = &self.description.training_proportions;
        let Some(found) = reference_differs(held_out, training, rows) else {
            return Ok(());
        };
        Err(wrong(format!(
            "differs from the held-out rows beyond chance: chi squared of the scores is off by {:.1} deviations, the model's mean \
             probability of {} is {:.3} in it and {:.3} on held-out rows; another month, another model, rows that the model \
             was trained on or out-of-fold scores look like that: give rows of the training period that this model was not \
             trained on, or leave the reference out",
            found.deviations,
            self.description.classes[found.class],
            found.reference,
            found.held_out,
        )))
    }
}

fn wrong(problem: String) -> Error {
    Error::setting("reference", problem)
}
