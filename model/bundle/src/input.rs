//! What an event carries.

use std::fmt;

use ostar_method::profile::InputColumn;
use serde::{Deserialize, Serialize};

use crate::fields::{FieldKind, FieldSchema};

/// The kind of input that an event carries, as `bundle.json` spells it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Input {
    /// A black box's probabilities, one a class.
    Probabilities,
    /// A black box's logits, one a class. (The source buffer holds probabilities all the same.)
    Logits,
    /// A latent vector, made outside: the encoder is the identity.
    Latent {
        /// Numbers in a latent (d), before it is standardised.
        width: usize,
    },
    /// Dense features in the units of the training data.
    Dense {
        /// Features of an event, in a fixed order.
        width: usize,
    },
    /// Named fields: numbers, categories and texts, hashed by the schema.
    Fields(FieldSchema),
}

/// Kind of an [`Input`]. Its name is the key of JSON events, the value of `--input` and the default column of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// A black box's probabilities, one per class.
    Probabilities,
    /// A black box's logits, one per class.
    Logits,
    /// Latent vectors, of the width that f_S takes.
    Latent,
    /// Dense features, of the width that g takes.
    Dense,
    /// Named fields, as the bundle's schema lists them.
    Fields,
}

// === impl InputKind ===

impl InputKind {
    /// Kinds whose rows are vectors of numbers.
    pub const VECTORS: [Self; 4] = [Self::Probabilities, Self::Logits, Self::Latent, Self::Dense];

    /// The name in `bundle.json`, events, files and flags.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Probabilities => "probabilities",
            Self::Logits => "logits",
            Self::Latent => "latent",
            Self::Dense => "dense",
            Self::Fields => "fields",
        }
    }

    /// Whether events carry only the deployed model's output, so that there are no latents to adapt.
    pub const fn is_black_box(self) -> bool {
        matches!(self, Self::Probabilities | Self::Logits)
    }
}

impl fmt::Display for InputKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

// === impl Input ===

impl Input {
    /// What the input is, without its width or schema.
    pub const fn kind(&self) -> InputKind {
        match self {
            Self::Probabilities => InputKind::Probabilities,
            Self::Logits => InputKind::Logits,
            Self::Latent { .. } => InputKind::Latent,
            Self::Dense { .. } => InputKind::Dense,
            Self::Fields(_) => InputKind::Fields,
        }
    }

    /// The inputs that a profile of training describes. None of latents, and of what only a black box gives.
    pub(crate) fn columns(&self) -> Vec<InputColumn> {
        match self {
            Self::Fields(FieldSchema { fields, .. }) => {
                let column = |field: &crate::fields::Field| InputColumn {
                    name: field.name.clone(),
                    scale: match field.kind {
                        FieldKind::Number { mean, deviation } => Some((mean, deviation)),
                        FieldKind::Category | FieldKind::Text => None,
                    },
                };
                fields.iter().map(column).collect()
            }
            Self::Dense { width } => {
                let column = |place: usize| InputColumn {
                    name: format!("dense[{place}]"),
                    scale: Some((0.0, 1.0)),
                };
                (0..*width).map(column).collect()
            }
            Self::Latent { .. } | Self::Probabilities | Self::Logits => Vec::new(),
        }
    }

    /// Numbers per row of a bundle with so many classes; `None` for named fields.
    pub const fn vector_width(&self, classes: usize) -> Option<usize> {
        match self {
            Self::Probabilities | Self::Logits => Some(classes),
            Self::Latent { width } | Self::Dense { width } => Some(*width),
            Self::Fields(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_bundle_file() {
        let inputs = [
            Input::Probabilities,
            Input::Logits,
            Input::Latent { width: 2 },
            Input::Dense { width: 2 },
        ];
        assert_eq!(inputs.each_ref().map(Input::kind), InputKind::VECTORS);
        for input in inputs {
            let kind = input.kind();
            let written = serde_json::to_value(&input).unwrap();
            let name = written
                .as_object()
                .and_then(|object| object.keys().next().cloned())
                .or_else(|| written.as_str().map(str::to_owned));
            assert_eq!(name.as_deref(), Some(kind.as_str()));
            let read: InputKind = serde_json::from_value(kind.as_str().into()).unwrap();
            assert_eq!(read, kind);
        }
    }
}
