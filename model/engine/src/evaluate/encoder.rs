//! The frozen encoder, from events to standardised latents.

use std::{borrow::Cow, sync::Arc};

use super::{
    Clip, Scratch, Standardisation,
    layer::{BLOCK_ROWS, LayerStack},
};
use crate::{
    Architecture, Error, FieldRows, Inputs, NamedTensors, Result, Rows,
    architecture::{EncoderShape, Network},
    inputs::add_mean_embedding,
    parameters::finite,
};

/// Latents are clipped to this many deviations from the source's mean, so that the networks after the encoder stay
/// finite.
const FARTHEST: f32 = 1e6;

/// A network that another runtime runs, such as one in ONNX.
pub trait ExternalNetwork: std::fmt::Debug + Send + Sync {
    /// Appends what the network makes of the rows: latents, or probabilities. Refuses inputs that it does not take.
    fn run(&self, inputs: &Inputs<'_>, out: &mut Vec<f32>) -> Result<()>;
}

/// g in evaluation mode, and the standardisation of what it gives.
#[derive(Debug)]
pub struct EncoderNetwork {
    /// What inputs are checked against.
    architecture: Architecture,
    clip: Option<Clip>,
    /// Of named fields; empty for other encoders.
    embedding: Vec<f32>,
    layers: LayerStack,
    /// Runs in the place of the layers.
    external: Option<Arc<dyn ExternalNetwork>>,
    /// Subtracted from raw latents, before `scale` multiplies them.
    mean: Vec<f32>,
    scale: Vec<f32>,
}

impl EncoderNetwork {
    /// The encoder of `tensors`, which may hold other networks too.
    pub fn new(
        architecture: &Architecture,
        tensors: &NamedTensors,
        standardisation: &Standardisation,
    ) -> Result<Self> {
        architecture.validate()?;
        standardisation.check(architecture.latent)?;
        let embedding = match architecture.encoder {
            EncoderShape::Identity | EncoderShape::Mlp { .. } | EncoderShape::Onnx(_) => Vec::new(),
            // An engine encodes with it. What is deployed has linear layers or is an ONNX network.
            EncoderShape::Convolution { .. } => {
                return Err(Error::setting(
                    "encoder",
                    "is a convolution, which is not served",
                ));
            }
            EncoderShape::Fields {
                buckets, embedding, ..
            } => finite(tensors, "g.embedding.weight", &[buckets, embedding])?.to_f32(),
        };
        let narrow = |values: &[f64]| values.iter().map(|value| *value as f32).collect();
        Ok(Self {
            architecture: architecture.clone(),
            clip: None,
            embedding,
            layers: LayerStack::new(architecture, Network::Encoder, tensors)?,
            external: None,
            mean: narrow(&standardisation.mean),
            scale: standardisation
                .deviation
                .iter()
                .map(|deviation| (1.0 / deviation) as f32)
                .collect(),
        })
    }

    /// Clips numeric inputs before the first layer.
    pub fn with_clip(mut self, clip: Option<Clip>) -> Result<Self> {
        if let Some(clip) = &clip {
            clip.check(self.architecture.numeric_inputs())?;
        }
        self.clip = clip;
        Ok(self)
    }

    /// Encodes by this network, whose shape is the architecture's encoder.
    pub fn with_external(mut self, external: Option<Arc<dyn ExternalNetwork>>) -> Self {
        self.external = external;
        self
    }

    /// Width of the latents.
    pub fn latent(&self) -> usize {
        self.architecture.latent
    }

    /// Replaces `latents` by the standardised latents of every row, row after row. They are finite. Returns how many
    /// numbers of the inputs were clipped.
    pub fn encode(
        &self,
        inputs: Inputs<'_>,
        scratch: &mut Scratch,
        latents: &mut Vec<f32>,
    ) -> Result<usize> {
        latents.clear();
        if let Some(external) = &self.external {
            return self.run(external.as_ref(), inputs, scratch, latents);
        }
        inputs.check(&self.architecture)?;
        let rows = inputs.count(&self.architecture);
        latents.reserve(rows * self.latent());
        let mut clipped = 0;
        let mut input = std::mem::take(&mut scratch.input);
        for first in (0..rows).step_by(BLOCK_ROWS) {
            match &inputs {
                Inputs::Dense(dense) => {
                    let mut block = dense.block(first, BLOCK_ROWS);
                    if let Some(clip) = &self.clip {
                        clipped += clip.copy(&block, &mut input);
                        block = Cow::Borrowed(&input);
                    }
                    if self.layers.is_empty() {
                        self.standardise(&block, latents);
                    } else {
                        self.standardise(self.layers.forward(&block, scratch), latents);
                    }
                }
                Inputs::Fields(fields) => {
                    let end = rows.min(first + BLOCK_ROWS);
                    clipped += self.embed(fields, first..end, &mut input);
                    self.standardise(self.layers.forward(&input, scratch), latents);
                }
            }
        }
        scratch.input = input;
        // Without layers what is finite stays so.
        if !self.layers.is_empty() {
            Rows::new(&latents[..], self.latent())?.check("latents", self.latent())?;
        }
        Ok(clipped)
    }

    /// [`EncoderNetwork::encode`] by another runtime's network, which clips nothing.
    fn run(
        &self,
        external: &dyn ExternalNetwork,
        inputs: Inputs<'_>,
        scratch: &mut Scratch,
        latents: &mut Vec<f32>,
    ) -> Result<usize> {
        scratch.input.clear();
        external.run(&inputs, &mut scratch.input)?;
        self.standardise(&scratch.input, latents);
        Rows::new(&latents[..], self.latent())?.check("latents", self.latent())?;
        Ok(0)
    }

    /// Clipped numbers and mean embeddings of some rows, side by side. Returns how many numbers were clipped.
    fn embed(
        &self,
        fields: &FieldRows<'_>,
        rows: std::ops::Range<usize>,
        out: &mut Vec<f32>,
    ) -> usize {
        let [numbers, bags, width] =
            (self.architecture.fields()).expect("the check refuses fields for other encoders");
        let mut clipped = 0;
        out.clear();
        for row in rows {
            let start = out.len();
            out.resize(start + numbers + bags * width, 0.0);
            let (dense, embedded) = out[start..].split_at_mut(numbers);
            fields.numbers.copy_f32(row * numbers, dense);
            clipped += self.clip.as_ref().map_or(0, |clip| clip.apply(dense));
            for (bag, sums) in embedded.chunks_exact_mut(width).enumerate() {
                add_mean_embedding(&self.embedding, fields.bag(row * bags + bag), sums);
            }
        }
        clipped
    }

    /// Appends to `latents` what the layers gave, standardised.
    fn standardise(&self, encoded: &[f32], latents: &mut Vec<f32>) {
        for row in encoded.chunks_exact(self.mean.len()) {
            let columns = row.iter().zip(&self.mean).zip(&self.scale);
            latents.extend(
                columns.map(|((value, mean), scale)| {
                    ((value - mean) * scale).clamp(-FARTHEST, FARTHEST)
                }),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        architecture::{ClassifierShape, CriticShape, MapShape, Norm},
        evaluate::ClassifierNetwork,
        initial_parameters,
    };

    #[test]
    fn the_largest_numbers_of_events_give_finite_latents_and_probabilities() {
        let architecture = Architecture {
            classes: 3,
            latent: 2,
            encoder: EncoderShape::Identity,
            map: MapShape {
                blocks: 1,
                norm: Norm::None,
            },
            critic: CriticShape { hidden: vec![4] },
            classifier: ClassifierShape {
                hidden: vec![8, 8],
                norm: Norm::None,
                dropout: 0.0,
            },
        };
        let tensors = initial_parameters(&architecture, &mut crate::Generator::new(1));
        let narrow = Standardisation {
            mean: vec![0.5, -3.0],
            deviation: vec![1e-18, 2.0],
        };
        let encoder = EncoderNetwork::new(&architecture, &tensors, &narrow).unwrap();
        let values = [1e15f32, -1e15, -1e15, 1e15, 0.5, -3.0];
        let rows = Rows::new(&values[..], 2).unwrap();
        let (mut scratch, mut latents, mut probabilities) = Default::default();
        let inputs = Inputs::Dense(rows);
        encoder.encode(inputs, &mut scratch, &mut latents).unwrap();
        assert_eq!(latents, [1e6, -1e6, -1e6, 1e6, 0.0, 0.0]);
        let network = Network::SourceClassifier;
        let classifier = ClassifierNetwork::new(&architecture, network, &tensors).unwrap();
        let latents = Rows::new(&latents[..], 2).unwrap();
        classifier
            .score(latents, &mut scratch, &mut probabilities)
            .unwrap();
        for row in probabilities.chunks_exact(3) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{row:?}");
        }
    }
}
