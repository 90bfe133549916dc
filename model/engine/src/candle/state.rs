//! The engine's state between steps: parameters and moments, on the device, and step counts.

use std::collections::BTreeMap;

use candle_core::Tensor;

use super::device::Place;
use crate::{
    Architecture, NamedTensors, Result, architecture::Network, optimiser::AdamCoefficients,
    parameters,
};

/// Changed only at the end of a step: a step computes all new tensors first and stores them together once nothing can
/// fail any more. Tensors are never written to, so that clones share them.
#[derive(Debug, Clone)]
pub(crate) struct State {
    /// All parameters and running statistics by name.
    pub(super) values: BTreeMap<String, Tensor>,
    /// Adam's moments of every parameter that has been trained.
    pub(super) moments: BTreeMap<String, Moments>,
    /// Steps taken by each network's optimiser. Networks that have taken none are not listed.
    pub(super) steps: BTreeMap<Network, u64>,
}

/// Adam's moments of one parameter.
#[derive(Debug, Clone)]
pub(crate) struct Moments {
    first: Tensor,
    second: Tensor,
}

// === impl State ===

impl State {
    pub(super) fn import(
        architecture: &Architecture,
        tensors: &NamedTensors,
        place: &Place,
    ) -> Result<Self> {
        let checked = parameters::check_import(architecture, tensors)?;
        let mut state = Self {
            values: BTreeMap::new(),
            moments: BTreeMap::new(),
            steps: checked.steps,
        };
        for parameter in checked.parameters {
            let (name, shape) = (parameter.spec.name, parameter.spec.shape);
            if let Some((first, second)) = parameter.moments {
                let moments = Moments {
                    first: place.upload(first.values.as_scalars(), &shape)?,
                    second: place.upload(second.values.as_scalars(), &shape)?,
                };
                state.moments.insert(name.clone(), moments);
            }
            let value = place.upload(parameter.value.values.as_scalars(), &shape)?;
            state.values.insert(name, value);
        }
        Ok(state)
    }

    pub(super) fn export(&self, place: &Place) -> Result<NamedTensors> {
        let mut tensors = download_all(&self.values, place)?;
        for (name, moments) in &self.moments {
            let first = place.download(&moments.first)?;
            let second = place.download(&moments.second)?;
            tensors.insert(parameters::first_moment_name(name), first);
            tensors.insert(parameters::second_moment_name(name), second);
        }
        for (network, steps) in &self.steps {
            tensors.insert(
                parameters::steps_name(*network),
                parameters::steps_tensor(*steps),
            );
        }
        Ok(tensors)
    }

    pub(super) fn export_network(&self, network: Network, place: &Place) -> Result<NamedTensors> {
        let prefix = format!("{}.", network.prefix());
        let own = self
            .values
            .iter()
            .filter(|(name, _)| name.starts_with(&prefix))
            .map(|(name, tensor)| (name.clone(), tensor.clone()));
        download_all(&own.collect(), place)
    }

    /// The first tensor that holds NaN or an infinity, by one copy of a scalar a tensor.
    pub(super) fn first_non_finite(&self, place: &Place) -> Result<Option<String>> {
        let mut names: Vec<String> = Vec::new();
        let mut marks = Vec::new();
        let moments = self.moments.iter().flat_map(|(name, moments)| {
            [
                (parameters::first_moment_name(name), &moments.first),
                (parameters::second_moment_name(name), &moments.second),
            ]
        });
        let values = self
            .values
            .iter()
            .map(|(name, value)| (name.clone(), value));
        for (name, tensor) in moments.chain(values) {
            names.push(name);
            // 0 for finite numbers, NaN for all others.
            marks.push(tensor.affine(0.0, 0.0)?.sum_all()?);
        }
        let marks = place.all_scalars(&marks)?;
        let offending = marks.iter().position(|mark| *mark != 0.0);
        Ok(offending.map(|number| names.swap_remove(number)))
    }
}

fn download_all(tensors: &BTreeMap<String, Tensor>, place: &Place) -> Result<NamedTensors> {
    tensors
        .iter()
        .map(|(name, tensor)| Ok((name.clone(), place.download(tensor)?)))
        .collect()
}

// === impl Moments ===

impl Moments {
    pub(super) fn zero(parameter: &Tensor) -> Result<Self> {
        Ok(Self {
            first: parameter.zeros_like()?,
            second: parameter.zeros_like()?,
        })
    }

    /// Moments and value after one step of Adam, as in PyTorch.
    pub(super) fn step(
        &self,
        value: &Tensor,
        gradient: &Tensor,
        adam: &AdamCoefficients,
    ) -> Result<(Self, Tensor)> {
        let decayed =
            |moment: &Tensor, newest: &Tensor, beta: f64| -> candle_core::Result<Tensor> {
                moment.affine(beta, 0.0)? + newest.affine(1.0 - beta, 0.0)?
            };
        let first = decayed(&self.first, gradient, adam.beta1)?;
        let second = decayed(&self.second, &gradient.sqr()?, adam.beta2)?;
        let scale = second.sqrt()?.affine(adam.second_scale, adam.epsilon)?;
        let change = (&first / scale)?.affine(adam.step_size, 0.0)?;
        Ok((Self { first, second }, (value - change)?))
    }
}
