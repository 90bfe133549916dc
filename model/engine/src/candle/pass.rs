//! One pass through the networks: forward on a fixed state, then the changes of a step.

use std::collections::BTreeMap;

use candle_core::{Tensor, Var};
use candle_nn::{BatchNorm, Linear, Module, ModuleT};

use super::{
    device::Place,
    state::{Moments, State},
};
use crate::{
    Architecture, Error, Result,
    architecture::{LayerSpec, Network, Norm, Role},
    optimiser::Adam,
};

/// Added to a variance before its root, as PyTorch's default.
const NORM_EPSILON: f64 = 1e-5;

/// Weight of the newest batch in running statistics, as PyTorch's default.
const MOMENTUM: f64 = 0.1;

/// Whether batch normalisation uses the batch's statistics (and updates the running ones) or the running ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Training,
    Evaluation,
}

/// Parameters of the networks in training are variables. Those of the others are constants, so that autograd does no
/// work for them. All changes are kept in the pass: dropping it leaves the state unchanged.
pub(super) struct Pass<'e> {
    pub(super) architecture: &'e Architecture,
    pub(super) place: &'e Place,
    state: &'e State,
    variables: BTreeMap<String, Var>,
    statistics: BTreeMap<String, Tensor>,
}

// === impl Pass ===

impl<'e> Pass<'e> {
    pub(super) fn new(
        architecture: &'e Architecture,
        place: &'e Place,
        state: &'e State,
        trained: &[Network],
    ) -> Result<Self> {
        let mut variables = BTreeMap::new();
        for spec in architecture.parameters() {
            if spec.is_trained() && trained.contains(&spec.network) {
                let variable = Var::from_tensor(&state.values[&spec.name])?;
                variables.insert(spec.name, variable);
            }
        }
        Ok(Self {
            architecture,
            place,
            state,
            variables,
            statistics: BTreeMap::new(),
        })
    }

    /// A parameter, or a running statistic as this pass has updated it so far.
    pub(super) fn parameter(&self, prefix: &str, name: &str) -> &Tensor {
        let name = format!("{prefix}.{name}");
        match (self.variables.get(&name), self.statistics.get(&name)) {
            (Some(variable), _) => variable,
            (None, Some(statistic)) => statistic,
            (None, None) => &self.state.values[&name],
        }
    }

    pub(super) fn linear(&self, layer: &LayerSpec) -> Linear {
        let parameter = |name: &str| self.parameter(&layer.linear, name).clone();
        Linear::new(parameter("weight"), Some(parameter("bias")))
    }

    /// Linear layer, then normalisation and ReLU if the layer has them.
    pub(super) fn layer(
        &mut self,
        layer: &LayerSpec,
        input: &Tensor,
        mode: Mode,
    ) -> Result<Tensor> {
        let linear = self.linear(layer).forward(input)?;
        let normalised = self.normalise(layer, &linear, mode)?;
        if layer.relu {
            Ok(relu(&normalised)?.0)
        } else {
            Ok(normalised)
        }
    }

    /// The layer's normalisation of rows.
    pub(super) fn normalise(
        &mut self,
        layer: &LayerSpec,
        rows: &Tensor,
        mode: Mode,
    ) -> Result<Tensor> {
        match (layer.norm, mode) {
            (Norm::None, _) => Ok(rows.clone()),
            (Norm::Layer, _) => self.layer_norm(layer, rows),
            (Norm::Batch, Mode::Training) => self.batch_norm(layer, rows),
            (Norm::Batch, Mode::Evaluation) => self.running_norm(layer, rows),
        }
    }

    /// Not [`candle_nn::LayerNorm`], whose fused operation has no gradient.
    fn layer_norm(&self, layer: &LayerSpec, input: &Tensor) -> Result<Tensor> {
        let scale = self.parameter(&layer.normalisation, "weight");
        let shift = self.parameter(&layer.normalisation, "bias");
        let epsilon = NORM_EPSILON as f32;
        Ok(candle_nn::ops::layer_norm_slow(
            input, scale, shift, epsilon,
        )?)
    }

    /// Not [`BatchNorm::forward_train`]: it writes the running statistics before the step has succeeded, makes them NaN
    /// by a batch of one row, and transposes the batch twice.
    fn batch_norm(&mut self, layer: &LayerSpec, input: &Tensor) -> Result<Tensor> {
        let mean = input.mean_keepdim(0)?;
        let centred = input.broadcast_sub(&mean)?;
        let variance = centred.sqr()?.mean_keepdim(0)?;
        let rows = input.dim(0)? as f64;
        self.move_statistic(layer, "running_mean", &mean)?;
        // One row has no unbiased variance and does not change the running one.
        if rows > 1.0 {
            let unbiased = variance.affine(rows / (rows - 1.0), 0.0)?;
            self.move_statistic(layer, "running_var", &unbiased)?;
        }
        let deviation = variance.affine(1.0, NORM_EPSILON)?.sqrt()?;
        let scale = self.parameter(&layer.normalisation, "weight");
        let shift = self.parameter(&layer.normalisation, "bias");
        Ok(centred
            .broadcast_div(&deviation)?
            .broadcast_mul(scale)?
            .broadcast_add(shift)?)
    }

    fn running_norm(&self, layer: &LayerSpec, input: &Tensor) -> Result<Tensor> {
        let parameter = |name: &str| self.parameter(&layer.normalisation, name).clone();
        let norm = BatchNorm::new(
            layer.outputs,
            parameter("running_mean"),
            parameter("running_var"),
            parameter("weight"),
            parameter("bias"),
            NORM_EPSILON,
        )?;
        Ok(norm.forward_t(input, false)?)
    }

    fn move_statistic(&mut self, layer: &LayerSpec, name: &str, batch: &Tensor) -> Result<()> {
        let running = self.parameter(&layer.normalisation, name);
        let newest = batch.detach().reshape(running.dims())?;
        let moved = (running.affine(1.0 - MOMENTUM, 0.0)? + newest.affine(MOMENTUM, 0.0)?)?;
        let name = format!("{}.{name}", layer.normalisation);
        self.statistics.insert(name, moved);
        Ok(())
    }

    /// One step of Adam for each network, by the gradient of `loss`: what it changes in the state. Networks without
    /// parameters take no step.
    pub(super) fn update(self, loss: &Tensor, optimisers: &[(Network, Adam)]) -> Result<State> {
        let slopes = loss.backward()?;
        let mut update = State {
            values: self.statistics,
            moments: BTreeMap::new(),
            steps: BTreeMap::new(),
        };
        for spec in self.architecture.parameters() {
            let network = spec.network;
            let optimiser = optimisers.iter().find(|(trained, _)| *trained == network);
            let (Some((_, adam)), Some(variable)) = (optimiser, self.variables.get(&spec.name))
            else {
                continue;
            };
            let gradient = match slopes.get(variable) {
                // Detached, or it would keep the whole pass in memory.
                Some(slope) => slope.detach(),
                // Rows without tokens do not use the table.
                None if spec.role == Role::Embedding => variable.zeros_like()?,
                None => return Err(Error::NoGradient { name: spec.name }),
            };
            let value = &self.state.values[&spec.name];
            let moments = match self.state.moments.get(&spec.name) {
                Some(moments) => moments.clone(),
                None => Moments::zero(value)?,
            };
            let steps_before = self.state.steps.get(&network).copied().unwrap_or(0);
            let coefficients = adam.coefficients(steps_before);
            let (moments, value) = moments.step(value, &gradient, &coefficients)?;
            update.values.insert(spec.name.clone(), value);
            update.moments.insert(spec.name, moments);
            update.steps.insert(network, steps_before + 1);
        }
        Ok(update)
    }
}

/// ReLU and its mask. A product with a constant mask, because the gradient of candle's own ReLU at exactly 0 is 1,
/// where ours (and PyTorch's) is 0.
pub(super) fn relu(input: &Tensor) -> Result<(Tensor, Tensor)> {
    let mask = input.detach().gt(0.0)?.to_dtype(input.dtype())?;
    Ok(((input * &mask)?, mask))
}

#[cfg(test)]
mod tests {
    use candle_nn::LayerNorm;

    use super::*;
    use crate::{
        Generator,
        architecture::{ClassifierShape, CriticShape, EncoderShape, MapShape},
        candle::{Precision, device},
        initial_parameters,
    };

    /// candle-nn's fused layer norm has no gradient and says nothing. Training through it must not pass for training.
    #[test]
    fn an_operation_that_cuts_gradients_off_is_an_error() {
        let architecture = Architecture {
            classes: 2,
            latent: 3,
            encoder: EncoderShape::Identity,
            map: MapShape {
                blocks: 1,
                norm: Norm::Layer,
            },
            critic: CriticShape { hidden: vec![4] },
            classifier: ClassifierShape {
                hidden: vec![],
                norm: Norm::None,
                dropout: 0.0,
            },
        };
        let place = Place::new(device(None).unwrap(), Precision::F32);
        let parameters = initial_parameters(&architecture, &mut Generator::new(1));
        let state = State::import(&architecture, &parameters, &place).unwrap();
        let values: Vec<f64> = (0..12).map(|number| f64::from(number).sin()).collect();
        let rows = place.upload(values.as_slice().into(), &[4, 3]).unwrap();
        let optimisers = [(Network::Map, Adam::with_rate(1e-3))];

        let mut pass = Pass::new(&architecture, &place, &state, &[Network::Map]).unwrap();
        let mapped = pass.map(&rows, Mode::Training).unwrap().latents;
        let loss = mapped.sqr().unwrap().sum_all().unwrap();
        assert!(pass.update(&loss, &optimisers).is_ok());

        let mut pass = Pass::new(&architecture, &place, &state, &[Network::Map]).unwrap();
        let mapped = pass.map(&rows, Mode::Training).unwrap().latents;
        let ones = place.zeros(&[3]).unwrap().affine(0.0, 1.0).unwrap();
        let fused = LayerNorm::new(ones.clone(), ones, 1e-5);
        let cut = fused.forward(&mapped.contiguous().unwrap()).unwrap();
        let loss = cut.sqr().unwrap().sum_all().unwrap();
        let error = pass.update(&loss, &optimisers).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::NoGradient { .. }), "{error}");
    }
}
