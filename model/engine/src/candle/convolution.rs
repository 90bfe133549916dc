//! The forward pass of the convolution encoder.

use candle_core::Tensor;
use candle_nn::{Conv2d, Conv2dConfig, Module};

use super::pass::{Mode, Pass, relu};
use crate::{
    Result,
    architecture::{IMAGE_SIDE, LayerSpec, Network},
};

impl Pass<'_> {
    /// g on rows of pixels.
    pub(super) fn encode_images(&mut self, pixels: &Tensor, mode: Mode) -> Result<Tensor> {
        let mut images = pixels.reshape(((), 1, IMAGE_SIDE, IMAGE_SIDE))?;
        for layer in self.architecture.layers(Network::Encoder) {
            images = self.convolution(&layer, &images, mode)?;
        }
        Ok(images.flatten_from(1)?)
    }

    /// Convolution, normalisation and, if the layer has a ReLU, pooling before it.
    fn convolution(&mut self, layer: &LayerSpec, images: &Tensor, mode: Mode) -> Result<Tensor> {
        let weight = self.parameter(&layer.linear, "weight").clone();
        let bias = self.parameter(&layer.linear, "bias").clone();
        let convolution = Conv2d::new(weight, Some(bias), Conv2dConfig::default());
        let images = convolution.forward(images)?;
        // Batch normalisation takes every place of every image as a row.
        let (count, channels, height, width) = images.dims4()?;
        let places = images.permute((0, 2, 3, 1))?.contiguous()?;
        let places = self.normalise(layer, &places.reshape(((), channels))?, mode)?;
        let places = places.reshape((count, height, width, channels))?;
        let images = places.permute((0, 3, 1, 2))?.contiguous()?;
        if layer.relu {
            Ok(relu(&pooled(&images)?)?.0)
        } else {
            Ok(images)
        }
    }
}

/// Largest value of every 2x2 square. Not candle's `max_pool2d`: its gradient is a quarter of the right one.
fn pooled(images: &Tensor) -> Result<Tensor> {
    let (count, channels, height, width) = images.dims4()?;
    let squares = images.reshape((count * channels * height / 2, 2, width / 2, 2))?;
    let largest = squares.max(3)?.max(1)?;
    Ok(largest.reshape((count, channels, height / 2, width / 2))?)
}
