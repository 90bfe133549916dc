//! Parameters and optimiser state of an engine at one moment, kept on its device.

use crate::{
    Architecture, NamedTensors, Result, architecture::Network, parameters::check_import,
    tensors::Scalars,
};

/// Parameters and optimiser state of one engine, for [`Engine::restore`](super::Engine::restore) of an engine on the same
/// kind of device.
#[derive(Debug, Clone)]
pub struct Saved(pub(crate) SavedState);

#[derive(Debug, Clone)]
pub(crate) enum SavedState {
    Host(NamedTensors),
    #[cfg(feature = "candle")]
    Candle(crate::candle::State),
}

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
    pub(crate) fn host(tensors: NamedTensors) -> Self {
        Self(SavedState::Host(tensors))
    }

    pub(crate) fn checked(architecture: &Architecture, tensors: &NamedTensors) -> Result<Self> {
        check_import(architecture, tensors)?;
        Ok(Self::host(tensors.clone()))
    }

    pub(crate) fn on_host(&self) -> Result<&NamedTensors> {
        match &self.0 {
            SavedState::Host(tensors) => Ok(tensors),
            #[cfg(feature = "candle")]
            SavedState::Candle(_) => Err(crate::Error::Unsupported {
                engine: "CPU",
                what: "a state that a candle engine has saved: export it there".into(),
            }),
        }
    }
}

/// Parameters of one network, without optimiser state.
pub(super) fn of_network(tensors: &NamedTensors, network: Network) -> NamedTensors {
    let prefix = format!("{}.", network.prefix());
    let own = tensors.iter().filter(|(name, _)| name.starts_with(&prefix));
    own.map(|(name, tensor)| (name.clone(), tensor.clone()))
        .collect()
}

/// `tensors` with other parameters of one network, and without its optimiser state.
pub(super) fn restarted(
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

pub(super) fn first_non_finite(tensors: &NamedTensors) -> Option<String> {
    let finite = |values: Scalars<'_>| match values {
        Scalars::F32(values) => values.iter().all(|v| v.is_finite()),
        Scalars::F64(values) => values.iter().all(|v| v.is_finite()),
    };
    let mut names = tensors.iter();
    let offending = names.find(|(_, tensor)| !finite(tensor.values.as_scalars()));
    offending.map(|(name, _)| name.clone())
}
