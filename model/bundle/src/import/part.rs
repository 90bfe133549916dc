//! The two kinds of bundles: a model that is cut, and a black box.

use ostar_engine::{
    Generator, HostTensor, Inputs, NamedTensors, Result, Rows,
    architecture::{ClassifierShape, EncoderShape, Gives, Norm, OnnxShape},
    evaluate::{ExternalNetwork as _, Scratch, Standardisation},
};
use ostar_method::{
    frozen::FrozenScores,
    proportions::{LabelProportions, Temperature},
};

use super::{
    Model,
    from_onnx::{LARGEST_DIFFERENCE, wrong},
    whole::Whole,
};
use crate::{
    Bundle,
    bundle::{Description, LatentModel, SourceBuffer},
    fit::Split,
    import::ImportSettings,
    input::Input,
    onnx::{
        OnnxNetwork,
        head::{Cut, Linear},
    },
};

/// What both kinds of bundles are made of.
pub(super) struct Part<'a> {
    pub(super) model: &'a Model,
    pub(super) settings: &'a ImportSettings,
    pub(super) input: &'a Input,
    pub(super) inputs: &'a Inputs<'a>,
    pub(super) missing: &'a [Option<f32>],
    pub(super) labels: &'a [u32],
    pub(super) names: &'a [String],
    pub(super) whole: &'a Whole,
    pub(super) training_proportions: &'a LabelProportions,
}

impl Part<'_> {
    /// The cut to take, and why; `None` for a black box.
    pub(super) fn choose<'c>(&self, found: &'c [Cut]) -> Result<Option<(&'c Cut, String)>> {
        if self.settings.black_box {
            return Ok(None);
        }
        let Some(name) = &self.settings.latent else {
            let why = "it is what the last linear layer takes";
            return Ok(found.first().map(|cut| (cut, why.to_owned())));
        };
        match found.iter().find(|cut| cut.latent() == name) {
            Some(cut) => Ok(Some((cut, "--latent names it".into()))),
            None => {
                let names: Vec<&str> = found.iter().map(Cut::latent).collect();
                Err(wrong(format!(
                    "cannot be cut at `{name}`, expected a tensor before linear layers: one of {names:?}"
                )))
            }
        }
    }

    fn description(&self, model: Option<LatentModel>, black_box: Option<OnnxShape>) -> Description {
        let (name, prior) = (&self.settings.name, self.training_proportions.clone());
        Description {
            model,
            black_box,
            ..Description::new(name, self.names, self.input.clone(), prior)
        }
    }

    fn shape(&self, output: &str, gives: Gives, rows: usize) -> OnnxShape {
        OnnxShape {
            output: output.into(),
            gives,
            rows,
            missing: self.missing.to_vec(),
        }
    }

    /// The bundle of a cut model; `None` if what follows the cut is more than a classifier of linear layers.
    pub(super) fn with_latents(&self, cut: &Cut) -> Result<Option<Bundle>> {
        let mut graph = self.model.graph.clone();
        graph.cut(cut.latent());
        let network = OnnxNetwork::new(
            graph.clone(),
            Gives::Latents,
            self.input,
            None,
            self.missing,
        )?;
        if network.width() != cut.width() {
            return Ok(None);
        }
        let mut latents = Vec::new();
        network.run(self.inputs, &mut latents)?;
        let rows = Rows::new(&latents[..], cut.width())?;
        rows.check("latents", cut.width())?;
        let hidden = cut.layers.iter().map(Linear::outputs);
        let model = LatentModel {
            latent: cut.width(),
            encoder: EncoderShape::Onnx(self.shape(cut.latent(), Gives::Latents, network.rows())),
            classifier: ClassifierShape {
                hidden: hidden.take(cut.layers.len() - 1).collect(),
                norm: Norm::None,
                dropout: 0.0,
            },
            standardisation: Standardisation::of(rows)?,
            clip: None,
        };
        let mut generator = Generator::new(self.settings.seed);
        let split = Split::draw(
            self.labels,
            self.names,
            self.settings.held_out_share,
            &mut generator,
        )?;
        let source = SourceBuffer::new(
            latents,
            cut.width(),
            self.labels.to_vec(),
            split.is_held_out(),
        )?;
        let file = graph.write();
        for weights in heads(cut, self.names.len()) {
            let description = self.description(Some(model.clone()), None);
            let bundle = Bundle::with_onnx(
                description,
                weights.clone(),
                source.clone(),
                Some(file.clone()),
            )?;
            if self.difference(&bundle)? > LARGEST_DIFFERENCE {
                continue;
            }
            let mut description = bundle.description().clone();
            let held_out = bundle.held_out()?;
            let prior = &description.training_proportions;
            description.temperature =
                Temperature::fit(&held_out.probabilities, &held_out.labels, prior)?;
            return Bundle::with_onnx(description, weights, source, Some(file)).map(Some);
        }
        Ok(None)
    }

    /// The bundle of a model that is taken as a whole.
    pub(super) fn black_box(&self) -> Result<Bundle> {
        let whole = self.whole;
        let shape = self.shape(&self.model.output, whole.gives, whole.rows);
        let (description, file) = (
            self.description(None, Some(shape)),
            self.model.graph.write(),
        );
        let probabilities = whole.probabilities.clone();
        Bundle::of_predictions(description, probabilities, self.labels, Some(file))
    }

    /// Largest difference between the bundle's predictions and the model's.
    pub(super) fn difference(&self, bundle: &Bundle) -> Result<f32> {
        let frozen = bundle.frozen()?;
        let (mut scratch, mut scores) = (Scratch::default(), FrozenScores::default());
        frozen.score(*self.inputs, &mut scratch, &mut scores)?;
        let pairs = scores.probabilities().iter().zip(&self.whole.probabilities);
        Ok(pairs
            .map(|(ours, theirs)| (ours - theirs).abs())
            .fold(0.0, f32::max))
    }
}

/// What f_S may be, the likely one first. Two classes are often written with one logit, or with one for each and no softmax.
fn heads(cut: &Cut, classes: usize) -> Vec<NamedTensors> {
    let (last, before) = match cut.layers.split_last() {
        Some(split) => split,
        None => return Vec::new(),
    };
    let width = last.inputs();
    let second = |row: usize| {
        let mut weight = vec![0.0; width];
        weight.extend_from_slice(&last.weight[row * width..(row + 1) * width]);
        (weight, vec![0.0, last.bias[row]])
    };
    let ends = match (last.outputs(), classes) {
        (1, 2) => vec![second(0)],
        (2, 2) => vec![(last.weight.clone(), last.bias.clone()), second(1)],
        (outputs, _) if outputs == classes => vec![(last.weight.clone(), last.bias.clone())],
        _ => Vec::new(),
    };
    let tensors = |(weight, bias): (Vec<f32>, Vec<f32>)| {
        let mut tensors = NamedTensors::new();
        let mut push = |number: usize, weight: Vec<f32>, bias: Vec<f32>| {
            let shape = [bias.len(), weight.len() / bias.len().max(1)];
            let name = |what: &str| format!("f_s.fc{number}.{what}");
            tensors.insert(name("bias"), HostTensor::f32([bias.len()], bias));
            tensors.insert(name("weight"), HostTensor::f32(shape, weight));
        };
        for (place, layer) in before.iter().enumerate() {
            push(place + 1, layer.weight.clone(), layer.bias.clone());
        }
        push(cut.layers.len(), weight, bias);
        tensors
    };
    ends.into_iter().map(tensors).collect()
}
