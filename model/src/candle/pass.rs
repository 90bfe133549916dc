//! One pass through the networks: forward on a fixed state, then the changes of a step.

use std::collections::BTreeMap;

use candle_core::{Tensor, Var};

use super::{
    device::Place,
    state::{Moments, State},
};
use crate::{
    Architecture, Result,
    architecture::{LayerSpec, Network, Norm},
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

/// New values of what a step changes in the state, and its gradients.
pub(super) struct Update {
    pub(super) values: BTreeMap<String, Tensor>,
    pub(super) moments: BTreeMap<String, Moments>,
    pub(super) steps: BTreeMap<Network, u64>,
    pub(super) gradients: BTreeMap<String, Tensor>,
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

    /// Linear layer, then normalisation and ReLU if the layer has them.
    pub(super) fn layer(
        &mut self,
        layer: &LayerSpec,
        input: &Tensor,
        mode: Mode,
    ) -> Result<Tensor> {
        let linear = self.linear(layer, input)?;
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

    pub(super) fn linear(&self, layer: &LayerSpec, input: &Tensor) -> Result<Tensor> {
        let weight = self.parameter(&layer.linear, "weight");
        let bias = self.parameter(&layer.linear, "bias");
        Ok(input.matmul(&weight.t()?)?.broadcast_add(bias)?)
    }

    fn layer_norm(&self, layer: &LayerSpec, input: &Tensor) -> Result<Tensor> {
        let centred = input.broadcast_sub(&input.mean_keepdim(1)?)?;
        let variance = centred.sqr()?.mean_keepdim(1)?;
        self.scale(layer, &centred, &variance)
    }

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
        self.scale(layer, &centred, &variance)
    }

    fn running_norm(&self, layer: &LayerSpec, input: &Tensor) -> Result<Tensor> {
        let mean = self.parameter(&layer.normalisation, "running_mean");
        let variance = self.parameter(&layer.normalisation, "running_var");
        self.scale(layer, &input.broadcast_sub(mean)?, variance)
    }

    fn scale(&self, layer: &LayerSpec, centred: &Tensor, variance: &Tensor) -> Result<Tensor> {
        let deviation = variance.affine(1.0, NORM_EPSILON)?.sqrt()?;
        let scale = self.parameter(&layer.normalisation, "weight");
        let shift = self.parameter(&layer.normalisation, "bias");
        Ok(centred
            .broadcast_div(&deviation)?
            .broadcast_mul(scale)?
            .broadcast_add(shift)?)
    }

    fn move_statistic(&mut self, layer: &LayerSpec, name: &str, batch: &Tensor) -> Result<()> {
        let running = self.parameter(&layer.normalisation, name);
        let newest = batch.detach().reshape(running.dims())?;
        let moved = (running.affine(1.0 - MOMENTUM, 0.0)? + newest.affine(MOMENTUM, 0.0)?)?;
        let name = format!("{}.{name}", layer.normalisation);
        self.statistics.insert(name, moved);
        Ok(())
    }

    /// One step of Adam for each network, by the gradient of `loss`. Networks without parameters take no step.
    pub(super) fn update(self, loss: &Tensor, optimisers: &[(Network, Adam)]) -> Result<Update> {
        let slopes = loss.backward()?;
        let mut update = Update {
            values: self.statistics,
            moments: BTreeMap::new(),
            steps: BTreeMap::new(),
            gradients: BTreeMap::new(),
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
                None => variable.zeros_like()?,
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
            update.moments.insert(spec.name.clone(), moments);
            update.gradients.insert(spec.name, gradient);
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
