//! What `bundle.json` says: classes, inputs, shapes, and the numbers that go with the weights.

use std::collections::BTreeSet;

use ostar_engine::{
    Architecture, Error, Result,
    architecture::{ClassifierShape, CriticShape, EncoderShape, Gives, MapShape, Norm, OnnxShape},
    checks,
    evaluate::{Clip, Standardisation},
};
use ostar_method::proportions::{LabelProportions, Temperature};
use serde::{Deserialize, Serialize};

use crate::{fields::FieldSchema, input::Input};

/// The format that this version reads and writes.
pub const FORMAT_VERSION: u32 = 1;

/// The contents of `bundle.json`: what a bundle's model takes, predicts and was trained on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Version of the format, [`FORMAT_VERSION`] in every bundle that this version writes.
    pub format_version: u32,
    /// What the model is called in logs and metrics.
    pub name: String,
    /// Names of the classes, in the order of their labels.
    pub classes: Vec<String>,
    /// What an event carries. Events of another width are refused.
    pub input: Input,
    /// Shapes of g and f_S; `None` for a black box, of which only predictions are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<LatentModel>,
    /// A black box whose `encoder.onnx` is run here: events carry what it takes, not what it predicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub black_box: Option<OnnxShape>,
    /// The prior inside f_S: class shares of what it was trained on, downsampling and weights included.
    pub training_proportions: LabelProportions,
    /// Makes f_S's (or the black box's) probabilities calibrated on the held-out source rows; 1 if an exporter leaves it out.
    #[serde(default = "not_calibrated")]
    pub temperature: Temperature,
}

/// Shapes of g and f_S, and the scale of what lies between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatentModel {
    /// Width of the latents (d).
    pub latent: usize,
    /// From inputs to raw latents (g).
    pub encoder: EncoderShape,
    /// From raw latents to classes (f_S).
    pub classifier: ClassifierShape,
    /// Mean and deviation of the source buffer's raw latents.
    pub standardisation: Standardisation,
    /// Bounds of the numbers that enter g; an exporter may leave them out: nothing is clipped then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip: Option<Clip>,
}

fn not_calibrated() -> Temperature {
    Temperature::ONE
}

// === impl Description ===

impl Description {
    /// Of a black box that is not calibrated yet, and whose predictions events carry.
    pub(crate) fn new(
        name: &str,
        classes: &[String],
        input: Input,
        training_proportions: LabelProportions,
    ) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            name: name.to_owned(),
            classes: classes.to_vec(),
            input,
            model: None,
            black_box: None,
            training_proportions,
            temperature: Temperature::ONE,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        check_version(self.format_version.into())?;
        check_classes(&self.classes)?;
        self.check_training_proportions()?;
        checks::above("temperature", self.temperature.value(), 0.0)?;
        self.check_black_box()?;
        match &self.model {
            Some(model) => {
                self.input.check_model(model)?;
                let architecture = model.architecture(self.classes.len());
                architecture.validate()?;
                if let Some(clip) = &model.clip {
                    clip.check(architecture.numeric_inputs())?;
                }
                model.standardisation.check(model.latent)
            }
            None if self.is_black_box() => Ok(()),
            None => Err(Error::setting(
                "model",
                format!(
                    "is missing, expected the shapes of g and f_S for input {}",
                    self.input.kind()
                ),
            )),
        }
    }

    /// Whether only predictions are known, so that there are no latents to adapt.
    pub fn is_black_box(&self) -> bool {
        self.input.kind().is_black_box() || self.black_box.is_some()
    }

    /// How `encoder.onnx` is run, if the bundle has one.
    pub(crate) fn onnx(&self) -> Option<&OnnxShape> {
        match &self.model {
            Some(LatentModel {
                encoder: EncoderShape::Onnx(shape),
                ..
            }) => Some(shape),
            _ => self.black_box.as_ref(),
        }
    }

    /// Refuses a black box beside layers, and an encoder that predicts.
    fn check_black_box(&self) -> Result<()> {
        let takes_features = matches!(self.input, Input::Dense { .. } | Input::Fields(_));
        match (&self.black_box, self.onnx()) {
            (Some(_), _) if self.model.is_some() || !takes_features => Err(Error::setting(
                "black_box",
                "is given, expected none beside `model` or for events without features",
            )),
            (Some(shape), _) if shape.gives == Gives::Latents => Err(Error::setting(
                "black_box.gives",
                "is latents, expected probabilities, logits, probability or logit",
            )),
            (None, Some(shape)) if shape.gives != Gives::Latents => Err(Error::setting(
                "model.encoder.onnx.gives",
                format!("is {:?}, expected latents", shape.gives),
            )),
            _ => Ok(()),
        }
    }

    fn check_training_proportions(&self) -> Result<()> {
        let proportions = &self.training_proportions;
        checks::length(
            "training_proportions",
            proportions.classes(),
            self.classes.len(),
        )?;
        match proportions
            .as_ref()
            .iter()
            .position(|proportion| *proportion <= 0.0)
        {
            None => Ok(()),
            Some(class) => Err(Error::setting(
                "training_proportions",
                format!(
                    "of class {class} ({:?}) is 0, a model cannot know a class that it was not trained on",
                    self.classes[class]
                ),
            )),
        }
    }
}

/// Refuses fewer than two classes, and names that come twice.
pub(crate) fn check_classes(classes: &[String]) -> Result<()> {
    if classes.len() < 2 {
        return Err(Error::shape("classes", "at least 2 names", classes.len()));
    }
    let mut names = BTreeSet::new();
    match classes.iter().find(|name| !names.insert(*name)) {
        None => Ok(()),
        Some(name) => Err(Error::setting(
            "classes",
            format!("contain {name:?} twice, expected every name once"),
        )),
    }
}

/// Refuses another format version than this one's.
pub(crate) fn check_version(version: u64) -> Result<()> {
    let known = u64::from(FORMAT_VERSION);
    if version == known {
        return Ok(());
    }
    Err(Error::setting(
        "format_version",
        format!("is {version}, this version reads {known}"),
    ))
}

// === impl Input ===

impl Input {
    /// Refuses an encoder that does not take these inputs.
    fn check_model(&self, model: &LatentModel) -> Result<()> {
        let width = |expected: usize, found: usize| {
            if expected == found {
                Ok(())
            } else {
                Err(Error::shape("input.width", expected, found))
            }
        };
        match (self, &model.encoder) {
            (Self::Latent { width: found }, EncoderShape::Identity) => width(model.latent, *found),
            (Self::Dense { width: found }, EncoderShape::Mlp { inputs, .. }) => {
                width(*inputs, *found)
            }
            (
                Self::Fields(schema),
                EncoderShape::Fields {
                    numbers,
                    bags,
                    buckets,
                    ..
                },
            ) => check_fields(schema, (*numbers, *bags, *buckets)),
            // `OnnxNetwork` compares its inputs with the events'.
            (Self::Dense { .. }, EncoderShape::Onnx(_)) if model.clip.is_none() => Ok(()),
            (Self::Fields(schema), EncoderShape::Onnx(_)) if model.clip.is_none() => {
                schema.validate()
            }
            (_, EncoderShape::Onnx(_)) if model.clip.is_some() => Err(Error::setting(
                "model.clip",
                "is given, expected none with an ONNX encoder",
            )),
            (Self::Probabilities | Self::Logits, _) => Err(Error::setting(
                "model",
                "is given, expected none for a model that gives only probabilities or logits",
            )),
            (_, EncoderShape::Convolution { .. }) => Err(Error::setting(
                "model.encoder",
                "is a convolution, which is not served: export it as encoder.onnx",
            )),
            (_, encoder) => Err(Error::shape(
                "model.encoder",
                match self {
                    Self::Latent { .. } => "identity, for latents",
                    Self::Dense { .. } => "mlp or onnx, for dense features",
                    _ => "fields or onnx, for named fields",
                },
                format!("{encoder:?}"),
            )),
        }
    }
}

fn check_fields(schema: &FieldSchema, expected: (usize, usize, usize)) -> Result<()> {
    schema.validate()?;
    let found = (schema.numbers(), schema.bags(), schema.buckets);
    if expected == found {
        return Ok(());
    }
    Err(Error::shape(
        "input.fields",
        describe_fields(expected),
        describe_fields(found),
    ))
}

fn describe_fields((numbers, bags, buckets): (usize, usize, usize)) -> String {
    format!("{numbers} numbers, {bags} categories and texts in {buckets} buckets")
}

// === impl LatentModel ===

impl LatentModel {
    /// g and f_S as an architecture, whose other networks are as small as they can be.
    pub(crate) fn architecture(&self, classes: usize) -> Architecture {
        Architecture {
            classes,
            latent: self.latent,
            encoder: self.encoder.clone(),
            map: MapShape {
                blocks: 0,
                norm: Norm::None,
            },
            critic: CriticShape { hidden: vec![] },
            classifier: self.classifier.clone(),
        }
    }
}
