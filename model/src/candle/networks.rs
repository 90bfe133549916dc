//! The forwards of the five networks.

use candle_core::Tensor;

use super::pass::{Mode, Pass, relu};
use crate::{
    Generator, Inputs, Result,
    architecture::{EncoderShape, IMAGE_SIDE, LayerSpec, Network},
    inputs::FieldRows,
};

/// Mapped latents and every block's residual.
pub(super) struct Mapped {
    pub(super) latents: Tensor,
    pub(super) residuals: Vec<Tensor>,
}

/// The critic's values on some points, and where its hidden layers let them through.
pub(super) struct Criticism {
    /// `[points, 1]`
    pub(super) values: Tensor,
    masks: Vec<Tensor>,
}

impl Pass<'_> {
    /// What enters the encoder's first layer: dense rows as they are; numbers and mean embeddings side by
    /// side.
    pub(super) fn features(&self, inputs: &Inputs<'_>) -> Result<Tensor> {
        match (inputs, &self.architecture.encoder) {
            (Inputs::Dense(rows), _) => {
                let shape = [rows.count(), rows.width()];
                self.place.upload(rows.values(), &shape)
            }
            (Inputs::Fields(fields), encoder) => {
                let rows = inputs.count(self.architecture);
                let mut parts = Vec::new();
                if !fields.numbers.is_empty() {
                    let shape = [rows, fields.numbers.len() / rows];
                    parts.push(self.place.upload(fields.numbers, &shape)?);
                }
                if let EncoderShape::Fields {
                    bags, embedding, ..
                } = encoder
                    && *bags > 0
                {
                    let means = self.bag_means(fields, rows * bags, *embedding)?;
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
        let mut shares = Vec::with_capacity(fields.tokens.len());
        for (bag, ends) in fields.offsets.windows(2).enumerate() {
            let size = (ends[1] - ends[0]) as usize;
            bag_of_token.extend(std::iter::repeat_n(bag as u32, size));
            shares.extend(std::iter::repeat_n(1.0 / size as f64, size));
        }
        let table = self.parameter("g.embedding", "weight");
        let embeddings = table.index_select(&self.place.indices(fields.tokens)?, 0)?;
        let weighted = embeddings.broadcast_mul(&self.place.column(&shares)?)?;
        Ok(zeros.index_add(&self.place.indices(&bag_of_token)?, &weighted, 0)?)
    }

    /// g on what [`Self::features`] gave.
    pub(super) fn encode(&mut self, features: Tensor, mode: Mode) -> Result<Tensor> {
        let mut latents = features;
        if let EncoderShape::Convolution { .. } = self.architecture.encoder {
            latents = latents.reshape(((), 1, IMAGE_SIDE, IMAGE_SIDE))?;
        }
        for layer in self.architecture.layers(Network::Encoder) {
            latents = match layer.channels {
                None => self.layer(&layer, &latents, mode)?,
                Some(_) => self.convolution(&layer, &latents, mode)?,
            };
        }
        Ok(latents.flatten_from(1)?)
    }

    /// Convolution, normalisation and, if the layer has a ReLU, pooling before it.
    fn convolution(&mut self, layer: &LayerSpec, images: &Tensor, mode: Mode) -> Result<Tensor> {
        let weight = self.parameter(&layer.linear, "weight");
        let bias = self.parameter(&layer.linear, "bias");
        let bias = bias.reshape((1, layer.outputs, 1, 1))?;
        let images = images.conv2d(weight, 0, 1, 1, 1)?.broadcast_add(&bias)?;
        // Rows of a normalisation are the places of all images.
        let (count, channels, height, width) = images.dims4()?;
        let places = images.permute((0, 2, 3, 1))?.contiguous()?;
        let places = self.normalise(layer, &places.reshape(((), channels))?, mode)?;
        let places = places.reshape((count, height, width, channels))?;
        let images = places.permute((0, 3, 1, 2))?.contiguous()?;
        match layer.relu {
            true => Ok(relu(&pooled(&images)?)?.0),
            false => Ok(images),
        }
    }

    /// phi.
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

    /// v.
    pub(super) fn critic(&self, points: &Tensor) -> Result<Criticism> {
        let mut values = points.clone();
        let mut masks = Vec::new();
        for layer in self.architecture.layers(Network::Critic) {
            values = self.linear(&layer, &values)?;
            if layer.relu {
                let (passed, mask) = relu(&values)?;
                values = passed;
                masks.push(mask);
            }
        }
        Ok(Criticism { values, masks })
    }

    /// The critic's gradient at each point, `[points, latent]`, as a product of its weights and constant
    /// masks. Autograd would give the same numbers but cut most weights off from what is made of them:
    /// candle detaches the gradients inside `backward`.
    pub(super) fn critic_gradients(&self, criticism: &Criticism) -> Result<Tensor> {
        let layers = self.architecture.layers(Network::Critic);
        let mut slopes = criticism.values.ones_like()?.detach();
        for (depth, layer) in layers.iter().enumerate().rev() {
            slopes = slopes.matmul(self.parameter(&layer.linear, "weight"))?;
            if depth > 0 {
                slopes = (slopes * &criticism.masks[depth - 1])?;
            }
        }
        Ok(slopes)
    }

    /// Log-probabilities of f_S or f_N in training mode, `generator` drawing the dropped units.
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
                logits = (&logits * self.kept_units(logits.dims(), generator)?)?;
            }
        }
        log_softmax(&logits)
    }

    /// 0 for a dropped unit; a kept one is scaled up so that the expected sum stays.
    fn kept_units(&self, shape: &[usize], generator: &mut Generator) -> Result<Tensor> {
        let dropout = self.architecture.classifier.dropout;
        let factors: Vec<f64> = (0..shape.iter().product())
            .map(|_| match generator.uniform() >= dropout {
                true => 1.0 / (1.0 - dropout),
                false => 0.0,
            })
            .collect();
        self.place.upload(factors.as_slice().into(), shape)
    }
}

/// Largest value of every 2x2 square. (The gradient of candle's own `max_pool2d` is a quarter of what it should be.)
fn pooled(images: &Tensor) -> Result<Tensor> {
    let (count, channels, height, width) = images.dims4()?;
    let squares = images.reshape((count * channels * height / 2, 2, width / 2, 2))?;
    let largest = squares.max(3)?.max(1)?;
    Ok(largest.reshape((count, channels, height / 2, width / 2))?)
}

fn log_softmax(logits: &Tensor) -> Result<Tensor> {
    let shifted = logits.broadcast_sub(&logits.detach().max_keepdim(1)?)?;
    let total = shifted.exp()?.sum_keepdim(1)?.log()?;
    Ok(shifted.broadcast_sub(&total)?)
}
