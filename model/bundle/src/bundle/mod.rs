//! The model bundle: what a user brings, as `fit` makes it or their own training exports it.
//!
//! Three files: `bundle.json` ([`Description`]), `weights.safetensors` (`g.*` and `f_s.*`, on raw latents;
//! absent for a black box) and `source.safetensors` (the labelled [`SourceBuffer`]). A fourth, `inputs.json`
//! ([`InputProfile`]), says what each input looked like in training; an exporter may leave it out. In the place of g's
//! weights there may be `encoder.onnx` ([`crate::onnx`]). A [`Bundle`] that exists has passed every check.

mod description;
mod files;
mod source;

use std::{collections::BTreeSet, sync::Arc};

pub(crate) use description::check_classes;
pub use description::{Description, FORMAT_VERSION, LatentModel};
pub use files::BundleFiles;
pub use source::SourceBuffer;
pub(crate) use source::proportions_of;

use ostar_engine::{
    Architecture, Error, NamedTensors, Result, Rows,
    architecture::{Network, ParameterSpec, Role},
    evaluate::{
        ClassifierNetwork, EncoderNetwork, ExternalNetwork, Scratch, standardise_classifier,
    },
    parameters::{finite, not_negative},
};
use ostar_method::{
    Deployed,
    deployed::{HeldOut, SourceLatents},
    frozen::{BlackBox, FrozenModel},
    profile::InputProfile,
    proportions::{Probabilities, Temperature},
};

use crate::{input::Input, onnx::OnnxNetwork};

/// A classifier as deployed, with the labelled rows that adaptation needs. Immutable.
#[derive(Debug, Clone)]
pub struct Bundle {
    description: Description,
    weights: NamedTensors,
    source: SourceBuffer,
    inputs: Option<InputProfile>,
    onnx: Option<Onnx>,
    digest: String,
}

/// An ONNX network and the file that it was read from.
#[derive(Debug, Clone)]
struct Onnx {
    file: Arc<[u8]>,
    network: Arc<OnnxNetwork>,
}

/// The digest is that of everything but the profile of the inputs.
impl PartialEq for Bundle {
    fn eq(&self, other: &Self) -> bool {
        let file = |bundle: &Self| bundle.onnx.as_ref().map(|onnx| Arc::clone(&onnx.file));
        self.description == other.description
            && self.weights == other.weights
            && self.source == other.source
            && self.inputs == other.inputs
            && file(self) == file(other)
    }
}

impl Bundle {
    /// Checks the parts and that they fit each other; the first problem is the error.
    pub fn new(
        description: Description,
        weights: NamedTensors,
        source: SourceBuffer,
    ) -> Result<Self> {
        Self::with_onnx(description, weights, source, None)
    }

    /// A black box, calibrated on what it predicts for labelled rows that it was not trained on.
    pub(crate) fn of_predictions(
        mut description: Description,
        probabilities: Vec<f32>,
        labels: &[u32],
        onnx: Option<Vec<u8>>,
    ) -> Result<Self> {
        let classes = description.classes.len();
        let held_out = Rows::new(&probabilities[..], classes)?;
        let held_out = Probabilities::new("probabilities", held_out)?;
        let all = vec![true; labels.len()];
        let source = SourceBuffer::new(probabilities, classes, labels.to_vec(), all)?;
        // Before it is calibrated: a class without rows is to be named as such.
        description.check()?;
        source.check(&description)?;
        let prior = &description.training_proportions;
        description.temperature = Temperature::fit(&held_out, labels, prior)?;
        Self::with_onnx(description, NamedTensors::new(), source, onnx)
    }

    /// The same of a bundle with the contents of an `encoder.onnx`.
    pub fn with_onnx(
        description: Description,
        weights: NamedTensors,
        source: SourceBuffer,
        onnx: Option<Vec<u8>>,
    ) -> Result<Self> {
        description.check()?;
        check_weights(&description, &weights)?;
        source.check(&description)?;
        let onnx = read_onnx(&description, onnx)?;
        let mut bundle = Self {
            description,
            weights,
            source,
            inputs: None,
            onnx,
            digest: String::new(),
        };
        bundle.digest = bundle.to_files()?.digest();
        Ok(bundle)
    }

    /// The same bundle with what its inputs looked like in training. The digest stays: nothing that is learned depends on
    /// it.
    pub fn with_inputs(mut self, inputs: Option<InputProfile>) -> Result<Self> {
        if let Some(inputs) = &inputs {
            inputs.check(&self.description.input.columns(), self.classes())?;
        }
        self.inputs = inputs;
        Ok(self)
    }

    /// What the inputs looked like in training; `None` if that is not known.
    pub fn inputs(&self) -> Option<&InputProfile> {
        self.inputs.as_ref()
    }

    /// What `bundle.json` says, checked against the weights and the source rows.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Parameters of g and f_S, on raw latents; none for a black box.
    pub fn weights(&self) -> &NamedTensors {
        &self.weights
    }

    /// The labelled source rows: raw latents, or a black box's probabilities.
    pub fn source(&self) -> &SourceBuffer {
        &self.source
    }

    /// XXH64 of everything in it but the inputs' profile, in 16 hexadecimal digits: tells whether a state belongs to this bundle. It
    /// guards against mistakes, not against an adversary.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// How many classes there are.
    pub fn classes(&self) -> usize {
        self.description.classes.len()
    }

    /// g, from events to standardised latents. `None` for a black box.
    pub fn encoder(&self) -> Result<Option<EncoderNetwork>> {
        let Some(model) = &self.description.model else {
            return Ok(None);
        };
        let architecture = model.architecture(self.classes());
        let encoder = EncoderNetwork::new(&architecture, &self.weights, &model.standardisation)?;
        let encoder = encoder.with_external(self.network());
        encoder.with_clip(model.clip.clone()).map(Some)
    }

    /// The network of `encoder.onnx`.
    fn network(&self) -> Option<Arc<dyn ExternalNetwork>> {
        let network = &self.onnx.as_ref()?.network;
        Some(Arc::clone(network) as Arc<dyn ExternalNetwork>)
    }

    /// f_S's parameters on standardised latents: what f_S and f_N start from in a training engine. Empty for a
    /// black box.
    pub fn standardised_classifier(&self) -> Result<NamedTensors> {
        let Some(model) = &self.description.model else {
            return Ok(NamedTensors::new());
        };
        let prefix = Network::SourceClassifier.prefix();
        let mut tensors = self.weights.clone();
        tensors.retain(|name, _| !name.starts_with("g."));
        let standardisation = &model.standardisation;
        standardise_classifier(
            &mut tensors,
            prefix,
            &standardisation.mean,
            &standardisation.deviation,
        )?;
        Ok(tensors)
    }

    /// f_S, from standardised latents to probabilities. `None` for a black box.
    pub fn source_classifier(&self) -> Result<Option<ClassifierNetwork>> {
        let Some(model) = &self.description.model else {
            return Ok(None);
        };
        let architecture = model.architecture(self.classes());
        let tensors = self.standardised_classifier()?;
        ClassifierNetwork::new(&architecture, Network::SourceClassifier, &tensors).map(Some)
    }

    /// The part of the model that learning does not change.
    pub fn frozen(&self) -> Result<FrozenModel> {
        if let (Some(encoder), Some(classifier)) = (self.encoder()?, self.source_classifier()?) {
            return Ok(FrozenModel::networks(encoder, classifier));
        }
        let predictions = match (self.network(), &self.description.input) {
            (Some(network), _) => BlackBox::Network(network),
            (None, Input::Logits) => BlackBox::Logits,
            (None, _) => BlackBox::Probabilities,
        };
        Ok(FrozenModel::black_box(self.classes(), predictions))
    }

    /// What the method needs of it, in memory.
    pub fn deployed(&self) -> Result<Deployed> {
        let latents = match &self.description.model {
            None => None,
            Some(model) => Some(SourceLatents {
                width: model.latent,
                rows: self.standardised_source()?,
                labels: self.source.labels().to_vec(),
                held_out: self.source.held_out().to_vec(),
                classifier_shape: model.classifier.clone(),
                classifier: self.standardised_classifier()?,
            }),
        };
        Ok(Deployed {
            digest: self.digest.clone(),
            model: self.frozen()?,
            training_proportions: self.description.training_proportions.clone(),
            temperature: self.description.temperature,
            held_out: self.held_out()?,
            latents,
            inputs: self.inputs.clone().map(Arc::new),
        })
    }

    /// The held-out rows with the frozen model's predictions on them.
    pub fn held_out(&self) -> Result<HeldOut> {
        let values = self.standardised_source()?;
        let width = self.source.rows().width();
        let (mut kept, mut labels) = (Vec::new(), Vec::new());
        let rows = values.chunks_exact(width).zip(self.source.labels());
        for ((row, label), held_out) in rows.zip(self.source.held_out()) {
            if *held_out {
                kept.extend_from_slice(row);
                labels.push(*label);
            }
        }
        let (latents, probabilities) = match self.source_classifier()? {
            None => (Vec::new(), kept),
            Some(classifier) => {
                let mut probabilities = Vec::new();
                let rows = Rows::new(&kept[..], width)?;
                classifier.score(rows, &mut Scratch::default(), &mut probabilities)?;
                (kept, probabilities)
            }
        };
        let rows = Rows::new(&probabilities[..], self.classes())?;
        Ok(HeldOut {
            latents,
            probabilities: Probabilities::new("held-out probabilities", rows)?,
            labels,
        })
    }

    /// The source buffer as adaptation works on it: standardised latents, or a black box's probabilities.
    pub fn standardised_source(&self) -> Result<Vec<f32>> {
        match &self.description.model {
            Some(model) => model.standardisation.apply(self.source.rows()),
            None => Ok(self.source.values().to_vec()),
        }
    }
}

/// Reads `encoder.onnx`, which is there if the description says how it is run.
fn read_onnx(description: &Description, file: Option<Vec<u8>>) -> Result<Option<Onnx>> {
    let wrong = |problem: &str| Err(Error::setting("encoder.onnx", problem));
    let (shape, file) = match (description.onnx(), file) {
        (None, None) => return Ok(None),
        (Some(shape), Some(file)) => (shape, file),
        (Some(_), None) => return wrong("is missing, expected the network that bundle.json names"),
        (None, Some(_)) => return wrong("is there, expected none: bundle.json does not name it"),
    };
    let network = OnnxNetwork::load(&file, shape, &description.input)?;
    let (what, expected) = match &description.model {
        Some(model) => ("the width of latents", model.latent),
        None => ("the number of classes", description.classes.len()),
    };
    if network.width() != expected {
        return Err(Error::shape(
            format!("encoder.onnx, tensor `{}`", shape.output),
            format!("{what}, {expected}"),
            network.width(),
        ));
    }
    Ok(Some(Onnx {
        file: file.into(),
        network: Arc::new(network),
    }))
}

/// All of g and f_S, and nothing else.
fn check_weights(description: &Description, weights: &NamedTensors) -> Result<()> {
    let classes = description.classes.len();
    let architecture = description.model.as_ref().map(|m| m.architecture(classes));
    let specs: Vec<ParameterSpec> = architecture
        .iter()
        .flat_map(Architecture::parameters)
        .filter(|spec| matches!(spec.network, Network::Encoder | Network::SourceClassifier))
        .collect();
    for spec in &specs {
        let tensor = finite(weights, &spec.name, &spec.shape)?;
        if spec.role == Role::RunningVariance {
            not_negative(&spec.name, tensor)?;
        }
    }
    let known: BTreeSet<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    match weights.keys().find(|name| !known.contains(name.as_str())) {
        None => Ok(()),
        Some(name) => Err(Error::UnexpectedTensor { name: name.clone() }),
    }
}
