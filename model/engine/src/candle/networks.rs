//! Forward passes of the five networks.

use candle_core::Tensor;
use candle_nn::{Embedding, Module, ops::log_softmax};

use super::pass::{Mode, Pass, relu};
use crate::{
    Generator, Inputs, Result,
    architecture::{EncoderShape, Network},
    inputs::FieldRows,
};

/// Mapped latents, and the residual of every block.
pub(super) struct Mapped {
    pub(super) latents: Tensor,
    pub(super) residuals: Vec<Tensor>,
}

/// The critic's values at some points, and the ReLU masks of its hidden layers.
pub(super) struct CriticValues {
    /// One value for each point, `[points, 1]`.
    pub(super) values: Tensor,
    masks: Vec<Tensor>,
    layers: Vec<candle_nn::Linear>,
}

impl Pass<'_> {
    /// Inputs of the encoder's first layer: dense rows unchanged, or numbers and mean embeddings concatenated.
    pub(super) fn features(&self, inputs: &Inputs<'_>) -> Result<Tensor> {
        match inputs {
            Inputs::Dense(rows) => {
                let shape = [rows.count(), rows.width()];
                self.place.upload(rows.values(), &shape)
            }
            Inputs::Fields(fields) => {
                let rows = inputs.count(self.architecture);
                let mut parts = Vec::new();
                if !fields.numbers.is_empty() {
                    let shape = [rows, fields.numbers.len() / rows];
                    parts.push(self.place.upload(fields.numbers, &shape)?);
                }
                if let Some([_, bags, embedding]) = self.architecture.fields()
                    && bags > 0
                {
                    let means = self.bag_means(fields, rows * bags, embedding)?;
                    parts.push(means.reshape((rows, bags * embedding))?);
                }
                Ok(Tensor::cat(&parts, 1)?)
            }
        }
    }

    /// Mean embedding of each bag's tokens, zero for an empty bag: `[bags, embedding]`.
    fn bag_means(&self, fields: &FieldRows<'_>, bags: usize, embedding: usize) -> Result<Tensor> {
        let zeros = self.place.zeros(&[bags, embedding])?;
        if fields.tokens.is_empty() {
            return Ok(zeros);
        }
        let mut bag_of_token = Vec::with_capacity(fields.tokens.len());
        let mut weights = Vec::with_capacity(fields.tokens.len());
        for (bag, ends) in fields.offsets.windows(2).enumerate() {
            let size = (ends[1] - ends[0]) as usize;
            bag_of_token.extend(std::iter::repeat_n(bag as u32, size));
            weights.extend(std::iter::repeat_n(1.0 / size as f64, size));
        }
        let table = self.parameter("g.embedding", "weight").clone();
        let table = Embedding::new(table, embedding);
        let embeddings = table.forward(&self.place.indices(fields.tokens)?)?;
        let weighted = embeddings.broadcast_mul(&self.place.column(&weights)?)?;
        Ok(zeros.index_add(&self.place.indices(&bag_of_token)?, &weighted, 0)?)
    }

    /// g of what [`Self::features`] returned.
    pub(super) fn encode(&mut self, features: Tensor, mode: Mode) -> Result<Tensor> {
        if let EncoderShape::Convolution { .. } = self.architecture.encoder {
            return self.encode_images(&features, mode);
        }
        let mut latents = features;
        for layer in self.architecture.layers(Network::Encoder) {
            latents = self.layer(&layer, &latents, mode)?;
        }
        Ok(latents)
    }

    /// phi of latents.
    pub(super) fn map(&mut self, latents: &Tensor, mode: Mode) -> Result<Mapped> {
        let mut mapped = latents.clone();
        let mut residuals = Vec::with_capacity(self.architecture.map.blocks);
        for block in self.architecture.layers(Network::Map).chunks(2) {
            let mut residual = mapped.clone();
            for layer in block {
                residual = self.layer(layer, &residual, mode)?;
            }
            mapped = (mapped + &residual)?;
            residuals.push(residual);
        }
        Ok(Mapped {
            latents: mapped,
            residuals,
        })
    }

    /// v of points.
    pub(super) fn critic(&self, points: &Tensor) -> Result<CriticValues> {
        let mut values = points.clone();
        let (mut masks, mut layers) = (Vec::new(), Vec::new());
        for spec in self.architecture.layers(Network::Critic) {
            let layer = self.linear(&spec);
            values = layer.forward(&values)?;
            layers.push(layer);
            if spec.relu {
                let (passed, mask) = relu(&values)?;
                values = passed;
                masks.push(mask);
            }
        }
        Ok(CriticValues {
            values,
            masks,
            layers,
        })
    }

    /// The critic's gradient at each point, `[points, latent]`, as a product of its weights and constant masks. Not by
    /// autograd: candle detaches the gradients inside `backward`, so that the penalty could not be differentiated.
    pub(super) fn critic_gradients(critic: &CriticValues) -> Result<Tensor> {
        let mut slopes = critic.values.ones_like()?.detach();
        for (depth, layer) in critic.layers.iter().enumerate().rev() {
            slopes = slopes.matmul(layer.weight())?;
            if depth > 0 {
                slopes = (slopes * &critic.masks[depth - 1])?;
            }
        }
        Ok(slopes)
    }

    /// Log-probabilities of f_S or f_N in training mode. `generator` draws the dropout masks.
    pub(super) fn train_classifier(
        &mut self,
        head: Network,
        latents: &Tensor,
        generator: &mut Generator,
    ) -> Result<Tensor> {
        self.classify(head, latents, Mode::Training, Some(generator))
    }

    /// Log-probabilities of f_S or f_N in evaluation mode.
    pub(super) fn evaluate_classifier(
        &mut self,
        head: Network,
        latents: &Tensor,
    ) -> Result<Tensor> {
        self.classify(head, latents, Mode::Evaluation, None)
    }

    fn classify(
        &mut self,
        head: Network,
        latents: &Tensor,
        mode: Mode,
        mut generator: Option<&mut Generator>,
    ) -> Result<Tensor> {
        let mut logits = latents.clone();
        for layer in self.architecture.layers(head) {
            logits = self.layer(&layer, &logits, mode)?;
            if layer.dropout
                && let Some(generator) = &mut generator
            {
                logits = (&logits * self.dropout_mask(logits.dims(), generator)?)?;
            }
        }
        Ok(log_softmax(&logits, 1)?)
    }

    /// A dropout mask: 0 for a dropped unit, 1 / (1 - dropout) for a kept one, so that the expected value stays.
    fn dropout_mask(&self, shape: &[usize], generator: &mut Generator) -> Result<Tensor> {
        let dropout = self.architecture.classifier.dropout;
        let mut factor = || {
            if generator.uniform() >= dropout {
                1.0 / (1.0 - dropout)
            } else {
                0.0
            }
        };
        let factors: Vec<f64> = (0..shape.iter().product()).map(|_| factor()).collect();
        self.place.upload(factors.as_slice().into(), shape)
    }
}
