//! Parameters and optimiser state of an engine at one moment, kept on its device.

use std::{any::Any, sync::Arc};

use crate::{Error, NamedTensors, Result, architecture::Network, tensors::Scalars};

/// Parameters and optimiser state of one engine, for [`Engine::restore`](super::Engine::restore) of an engine on the same
/// kind of device. What is inside is the engine's own.
#[derive(Debug, Clone)]
pub struct Saved(Arc<dyn Any + Send + Sync>);

/// How often something was copied from the device to the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostCopies {
    /// Copies of a few scalars at once: one for each step.
    pub scalars: u64,
    /// Copies of a tensor: none in a step.
    pub tensors: u64,
}

// === impl Saved ===

impl Saved {
    pub(crate) fn new(state: impl Any + Send + Sync) -> Self {
        Self(Arc::new(state))
    }

    /// The state, if an engine of this kind has saved it.
    pub(crate) fn state<T: Any>(&self, engine: &'static str) -> Result<&T> {
        self.0.downcast_ref().ok_or_else(|| Error::Unsupported {
            engine,
            what: "a state that another engine has saved: export it there".into(),
        })
    }
}

/// Parameters of one network, without optimiser state.
pub(crate) fn of_network(tensors: &NamedTensors, network: Network) -> NamedTensors {
    let prefix = format!("{}.", network.prefix());
    let own = tensors.iter().filter(|(name, _)| name.starts_with(&prefix));
    own.map(|(name, tensor)| (name.clone(), tensor.clone()))
        .collect()
}

/// What an engine has exported, with other parameters of one network, whose optimiser starts anew.
pub fn restarted(
    mut tensors: NamedTensors,
    network: Network,
    parameters: &NamedTensors,
) -> NamedTensors {
    let prefix = network.prefix();
    let moments = format!(".{prefix}.");
    let steps = format!(".{prefix}");
    tensors.retain(|name, _| {
        !(name.starts_with("adam.") && (name.contains(&moments) || name.ends_with(&steps)))
    });
    tensors.extend(parameters.clone());
    tensors
}

/// The first tensor that holds NaN or an infinity.
pub(crate) fn first_non_finite(tensors: &NamedTensors) -> Option<String> {
    let finite = |values: Scalars<'_>| match values {
        Scalars::F32(values) => values.iter().all(|v| v.is_finite()),
        Scalars::F64(values) => values.iter().all(|v| v.is_finite()),
    };
    let mut names = tensors.iter();
    let offending = names.find(|(_, tensor)| !finite(tensor.values.as_scalars()));
    offending.map(|(name, _)| name.clone())
}
