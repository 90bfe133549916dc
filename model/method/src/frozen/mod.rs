//! The part of a model that learning does not change. It scores an event once, for all candidates.

mod black_box;

use std::{ops::Range, sync::Arc};

use ostar_engine::{
    Error, Inputs, Result, Rows, checks,
    evaluate::{ClassifierNetwork, EncoderNetwork, Scratch},
};

pub use black_box::BlackBox;

/// Encoder and source classifier, or how the events of a black box are read. Cheap to clone.
#[derive(Debug, Clone)]
pub struct FrozenModel {
    classes: usize,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    BlackBox(BlackBox),
    Networks {
        encoder: Arc<EncoderNetwork>,
        classifier: Arc<ClassifierNetwork>,
    },
}

/// What the frozen model makes of rows. Each row's numbers are the same, to the last bit, whatever rows it was
/// scored with.
#[derive(Debug, Clone, Default)]
pub struct FrozenScores {
    classes: usize,
    width: usize,
    /// Standardised latents, row after row; empty for a black box.
    latents: Vec<f32>,
    /// Class probabilities of f_S, row after row.
    probabilities: Vec<f32>,
    clipped: usize,
}

/// A view of consecutive rows of [`FrozenScores`].
#[derive(Debug, Clone, Copy)]
pub struct FrozenRows<'a> {
    classes: usize,
    width: usize,
    latents: &'a [f32],
    probabilities: &'a [f32],
}

/// How far the probabilities of a row may be from a sum of 1: rounding over thousands of classes, no more.
const LARGEST_SUM_ERROR: f32 = 1e-3;

// === impl FrozenModel ===

impl FrozenModel {
    /// An encoder (g) and the classifier of its latents (f_S).
    pub fn networks(encoder: EncoderNetwork, classifier: ClassifierNetwork) -> Self {
        Self {
            classes: classifier.classes(),
            kind: Kind::Networks {
                encoder: Arc::new(encoder),
                classifier: Arc::new(classifier),
            },
        }
    }

    /// A model of which only predictions are known: a number for each of so many classes.
    pub fn black_box(classes: usize, predictions: BlackBox) -> Self {
        Self {
            classes,
            kind: Kind::BlackBox(predictions),
        }
    }

    /// How many classes there are.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Replaces `scores` by those of encoder inputs or, for a black box, of rows of its probabilities.
    pub fn score(
        &self,
        inputs: Inputs<'_>,
        scratch: &mut Scratch,
        scores: &mut FrozenScores,
    ) -> Result<()> {
        scores.classes = self.classes;
        match &self.kind {
            Kind::BlackBox(black_box) => {
                scores.width = 0;
                scores.latents.clear();
                scores.clipped = 0;
                black_box.read(self.classes, &inputs, &mut scores.probabilities)
            }
            Kind::Networks {
                encoder,
                classifier,
            } => {
                scores.width = encoder.latent();
                scores.clipped = encoder.encode(inputs, scratch, &mut scores.latents)?;
                let latents = Rows::new(&scores.latents[..], scores.width)?;
                classifier.score_finite(latents, scratch, &mut scores.probabilities);
                Ok(())
            }
        }
    }

    /// [`FrozenModel::score`] with memory of its own.
    pub fn scores(&self, inputs: Inputs<'_>) -> Result<FrozenScores> {
        let mut scores = FrozenScores::default();
        self.score(inputs, &mut Scratch::default(), &mut scores)?;
        Ok(scores)
    }

    /// Appends a row that the same frozen model has scored elsewhere. Refuses numbers that it cannot have given.
    pub fn append_scored(
        &self,
        latents: &[f32],
        probabilities: &[f32],
        scores: &mut FrozenScores,
    ) -> Result<()> {
        checks::length("latents of a scored row", latents.len(), self.latent())?;
        checks::length(
            "probabilities of a scored row",
            probabilities.len(),
            self.classes,
        )?;
        let is_share = |value: &f32| (0.0..=1.0).contains(value);
        let sum: f32 = probabilities.iter().sum();
        if !latents.iter().all(|value| value.is_finite())
            || !probabilities.iter().all(is_share)
            || (sum - 1.0).abs() > LARGEST_SUM_ERROR
        {
            return Err(Error::setting(
                "scored row",
                "has numbers that are not finite, or probabilities that do not sum to 1",
            ));
        }
        scores.classes = self.classes;
        scores.width = self.latent();
        scores.latents.extend_from_slice(latents);
        scores.probabilities.extend_from_slice(probabilities);
        Ok(())
    }

    /// Width of the latents; 0 for a black box.
    pub(crate) fn latent(&self) -> usize {
        match &self.kind {
            Kind::BlackBox(_) => 0,
            Kind::Networks { encoder, .. } => encoder.latent(),
        }
    }
}

// === impl FrozenScores ===

impl FrozenScores {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.probabilities.len() / self.classes.max(1)
    }

    /// How many classes there are; 0 before the first row.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.probabilities.is_empty()
    }

    /// Class probabilities of f_S, row after row.
    pub fn probabilities(&self) -> &[f32] {
        &self.probabilities
    }

    /// Standardised latents, row after row; empty for a black box.
    pub fn latents(&self) -> &[f32] {
        &self.latents
    }

    /// How many numbers [`FrozenModel::score`] clipped in these rows; see [`Clip`](ostar_engine::evaluate::Clip). 0 for rows that
    /// were appended.
    pub fn clipped(&self) -> usize {
        self.clipped
    }

    /// All rows.
    pub fn all(&self) -> FrozenRows<'_> {
        self.rows(0..self.len())
    }

    /// Some rows of them.
    pub fn rows(&self, rows: Range<usize>) -> FrozenRows<'_> {
        let of = |width: usize| rows.start * width..rows.end * width;
        FrozenRows {
            classes: self.classes,
            width: self.width,
            latents: &self.latents[of(self.width)],
            probabilities: &self.probabilities[of(self.classes)],
        }
    }

    /// Appends rows of the same model.
    pub fn append(&mut self, rows: FrozenRows<'_>) {
        (self.classes, self.width) = rows.widths();
        self.probabilities.extend_from_slice(rows.probabilities);
        self.latents.extend_from_slice(rows.latents);
    }

    /// Forgets the rows and keeps the memory.
    pub fn clear(&mut self) {
        self.probabilities.clear();
        self.latents.clear();
        self.clipped = 0;
    }
}

// === impl FrozenRows ===

impl<'a> FrozenRows<'a> {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.probabilities.len() / self.classes.max(1)
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.probabilities.is_empty()
    }

    /// Class probabilities of f_S, row after row.
    pub fn probabilities(&self) -> &'a [f32] {
        self.probabilities
    }

    /// Standardised latents, row after row; empty for a black box.
    pub fn latents(&self) -> &'a [f32] {
        self.latents
    }

    /// A view of some of these rows, numbered from this view's first.
    pub fn slice(&self, rows: Range<usize>) -> Self {
        let of = |width: usize| rows.start * width..rows.end * width;
        Self {
            latents: &self.latents[of(self.width)],
            probabilities: &self.probabilities[of(self.classes)],
            ..*self
        }
    }

    /// How many classes and how wide a latent there is.
    pub(crate) fn widths(&self) -> (usize, usize) {
        (self.classes, self.width)
    }
}
