//! The five networks, shared by the members of the team.

use parking_lot::RwLock;

use super::{
    layer::{RunningStatistics, SharedLayer},
    parameter::Parameter,
};
use crate::{
    Architecture, NamedTensors,
    architecture::{EncoderShape, Network},
    parameters::ImportedParameter,
};

#[derive(Debug)]
pub(crate) struct Networks {
    /// The encoder's embedding table; `None` unless its inputs are named fields.
    pub(crate) embedding: Option<RwLock<Parameter>>,
    layers: [Vec<SharedLayer>; 5],
}

impl Networks {
    /// Networks with all parameters 0.
    pub(crate) fn new(architecture: &Architecture) -> Self {
        let mut specs = architecture.parameters().into_iter();
        let embedding = match architecture.encoder {
            EncoderShape::Fields { .. } => specs.next().map(Parameter::new).map(RwLock::new),
            _ => None,
        };
        let layers = Network::ALL.map(|network| {
            let layers = architecture.layers(network).into_iter();
            layers
                .map(|layer| SharedLayer::new(layer, &mut specs))
                .collect()
        });
        Self { embedding, layers }
    }

    pub(crate) fn layers(&self, network: Network) -> &[SharedLayer] {
        &self.layers[network as usize]
    }

    /// Saves running statistics, so that a failed step can restore them.
    pub(crate) fn save_running_statistics(&self) {
        self.each_running(RunningStatistics::save);
    }

    /// Restores the running statistics that were saved last.
    pub(crate) fn restore_running_statistics(&self) {
        self.each_running(RunningStatistics::restore);
    }

    fn each_running(&self, each: fn(&mut RunningStatistics)) {
        let layers = self.layers.iter().flatten();
        layers.for_each(|layer| layer.running.write().iter_mut().for_each(each));
    }

    pub(crate) fn export(&self, network: Network, with_moments: bool, tensors: &mut NamedTensors) {
        if let (Network::Encoder, Some(embedding)) = (network, &self.embedding) {
            embedding.read().export(with_moments, tensors);
        }
        for layer in self.layers(network) {
            layer.export(with_moments, tensors);
        }
    }

    /// Imports all parameters, which are in the order of [`Architecture::parameters`].
    pub(crate) fn import(&self, parameters: &[ImportedParameter<'_>]) {
        let mut parameters = parameters.iter();
        if let Some(embedding) = &self.embedding {
            let imported = parameters.next();
            let imported = imported.expect("a checked import has every parameter");
            embedding.write().import(imported);
        }
        for layer in self.layers.iter().flatten() {
            layer.import(&mut parameters);
        }
    }
}
