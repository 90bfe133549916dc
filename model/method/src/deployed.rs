//! What is deployed, as far as the method needs it: the frozen model and the labelled rows that it is compared with.

use std::sync::Arc;

use ostar_engine::{
    Architecture, NamedTensors, Result, Rows,
    architecture::{ClassifierShape, CriticShape, EncoderShape, MapShape},
};

use crate::{
    frozen::{BlackBox, FrozenModel},
    profile::InputProfile,
    proportions::{LabelProportions, Probabilities, Temperature},
};

/// A classifier as deployed, in memory. Bundles make it of files; whoever has rows makes it of them.
#[derive(Debug, Clone)]
pub struct Deployed {
    /// Tells whether a saved state was learned with this model.
    pub digest: String,
    /// What scores events.
    pub model: FrozenModel,
    /// The prior inside the model: class shares of what it was trained on.
    pub training_proportions: LabelProportions,
    /// Makes the model's probabilities calibrated on the held-out rows.
    pub temperature: Temperature,
    /// Labelled rows that the model was not trained on.
    pub held_out: HeldOut,
    /// What alignment needs beyond; `None` for a black box, of which only predictions are known.
    pub latents: Option<SourceLatents>,
    /// What the inputs looked like in training; `None` if that is not known.
    pub inputs: Option<Arc<InputProfile>>,
}

/// Labelled source rows that nothing is trained on, and what the frozen model makes of them.
#[derive(Debug, Clone)]
pub struct HeldOut {
    /// Standardised latents, row after row; empty for a black box.
    pub latents: Vec<f32>,
    /// The frozen model's predictions (f_S).
    pub probabilities: Probabilities,
    /// The class of each row.
    pub labels: Vec<u32>,
}

/// The labelled source rows as alignment works on them, and the classifier that it starts from.
#[derive(Debug, Clone)]
pub struct SourceLatents {
    /// Numbers in a latent (d).
    pub width: usize,
    /// Standardised latents of all rows, row after row.
    pub rows: Vec<f32>,
    /// The class of each row.
    pub labels: Vec<u32>,
    /// Which rows are held out from all training.
    pub held_out: Vec<bool>,
    /// Shape of f_S and f_N.
    pub classifier_shape: ClassifierShape,
    /// Parameters of f_S on standardised latents.
    pub classifier: NamedTensors,
}

// === impl Deployed ===

impl Deployed {
    /// A model that gives nothing but probabilities. `held_out` are its predictions for rows that it was not trained on,
    /// one number for each class, and `labels` their classes.
    pub fn black_box(
        held_out: &[f32],
        labels: Vec<u32>,
        training_proportions: LabelProportions,
    ) -> Result<Self> {
        let classes = training_proportions.classes();
        let rows = Rows::new(held_out, classes)?;
        let probabilities = Probabilities::new("held-out probabilities", rows)?;
        let temperature = Temperature::fit(&probabilities, &labels, &training_proportions)?;
        Ok(Self {
            digest: String::new(),
            model: FrozenModel::black_box(classes, BlackBox::Probabilities),
            training_proportions,
            temperature,
            held_out: HeldOut {
                latents: Vec::new(),
                probabilities,
                labels,
            },
            latents: None,
            inputs: None,
        })
    }

    /// The same without most of the labelled rows: all that whoever only reads snapshots needs.
    pub fn without_rows(mut self) -> Self {
        self.held_out.latents = Vec::new();
        if let Some(latents) = &mut self.latents {
            latents.rows = Vec::new();
            latents.labels = Vec::new();
            latents.held_out = Vec::new();
        }
        self
    }

    /// How many classes there are.
    pub fn classes(&self) -> usize {
        self.training_proportions.classes()
    }

    /// The networks that a training engine holds, on standardised latents (so without an encoder). `None` for a black
    /// box.
    pub fn training_architecture(
        &self,
        map: MapShape,
        critic: CriticShape,
    ) -> Option<Architecture> {
        let latents = self.latents.as_ref()?;
        Some(Architecture {
            classes: self.classes(),
            latent: latents.width,
            encoder: EncoderShape::Identity,
            map,
            critic,
            classifier: latents.classifier_shape.clone(),
        })
    }
}
