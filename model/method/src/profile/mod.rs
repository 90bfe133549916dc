//! What each input of the model looked like in training, and how far a stream has left that, field by field.
//!
//! Every input is a histogram whose cells are: missing, values that training did not have (below or above its range, or
//! unknown tokens), and what training had (bins of equal share, or its most common tokens). So a field that was renamed,
//! whose unit changed or that is half missing moves rows into the first cells, whatever it measures. There is one
//! histogram for each class: a stream in which only the shares of the classes moved is a mixture of them, and no field
//! departs from training.

mod compare;
mod measure;
mod tally;

use serde::{Deserialize, Serialize};

pub use self::{
    compare::{FieldReport, Trouble},
    tally::Tally,
};
use ostar_engine::{Error, Result, inputs::is_missing};

/// Most inputs that are watched: the first of the model. Bounds metrics, checkpoints and work.
pub const MOST_FIELDS: usize = 100;
/// Most classes with histograms of their own. With more there is one histogram of all rows.
const MOST_CLASSES: usize = 16;
/// Most bins of a number, and most tokens with a cell of their own.
const BINS: usize = 16;
/// Most tokens of a field that are listed. A field with more has no unknown ones.
const MOST_TOKENS: usize = 20_000;

/// Cell of rows without a value.
const MISSING: usize = 0;
/// Cell of numbers below training's range, or of unknown tokens.
const BELOW: usize = 1;
const UNKNOWN: usize = 1;
/// Cell of numbers above training's range.
const ABOVE: usize = 2;

/// What the inputs looked like in training; the bundle's `inputs.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputProfile {
    /// Rows that were measured.
    pub rows: usize,
    /// Rows of each class; of all in one entry if there are very many classes.
    pub class_rows: Vec<usize>,
    /// The first inputs of the model, in its order.
    pub fields: Vec<FieldProfile>,
}

/// One input of a model, as its events carry it.
#[derive(Debug, Clone, PartialEq)]
pub struct InputColumn {
    /// Name in the events; `dense[3]` for the fourth dense feature.
    pub name: String,
    /// Mean and deviation with which a number was standardised; `None` for tokens.
    pub scale: Option<(f64, f64)>,
}

/// What one input looked like in training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldProfile {
    /// Name in the events; `dense[3]` for the fourth dense feature.
    pub name: String,
    /// Its range or its tokens.
    pub values: FieldValues,
    /// Shares of the cells among the rows of each class, in the order of [`InputProfile::class_rows`].
    pub shares: Vec<Vec<f32>>,
}

/// What values training had.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FieldValues {
    /// Numbers; `lowest`, `highest` and `edges` are as the encoder gets them.
    Numbers {
        /// What the encoder's number is multiplied with to get the event's.
        deviation: f64,
        /// What is then added.
        mean: f64,
        /// The smallest value.
        lowest: f32,
        /// The largest value.
        highest: f32,
        /// Where bins end that hold about the same share each, below `highest`.
        edges: Vec<f32>,
        /// Mean and deviation of the logarithms of magnitudes, 0 left out: a unit moves the mean alone.
        logarithm: Option<(f64, f64)>,
    },
    /// Tokens: rows of the embedding table.
    Tokens {
        /// The most common ones, each with a cell.
        common: Vec<u32>,
        /// All that occurred, ascending; `None` if there were too many to list.
        known: Option<Vec<u32>>,
    },
}

// === impl InputProfile ===

impl InputProfile {
    /// Refuses a profile of another model than one of so many classes with these inputs.
    pub fn check(&self, columns: &[InputColumn], classes: usize) -> Result<()> {
        let refuse = |problem: String| Err(Error::setting("inputs.json", problem));
        let known = [1, classes];
        if !known.contains(&self.class_rows.len()) {
            return refuse(format!(
                "has {} classes, expected {classes}",
                self.class_rows.len()
            ));
        }
        if self.fields.len() > columns.len().min(MOST_FIELDS) {
            return refuse(format!(
                "has {} fields, expected at most {}",
                self.fields.len(),
                columns.len().min(MOST_FIELDS)
            ));
        }
        for (field, InputColumn { name, scale }) in self.fields.iter().zip(columns) {
            if &field.name != name {
                return refuse(format!("has field `{}`, expected `{name}`", field.name));
            }
            if matches!(field.values, FieldValues::Numbers { .. }) != scale.is_some() {
                return refuse(format!("has another kind of field `{name}` than the model"));
            }
            field.check(self.class_rows.len())?;
        }
        Ok(())
    }

    /// Share of training rows in each cell of a field, all classes together as training had them.
    pub(crate) fn training_shares(&self, field: &FieldProfile) -> Vec<f64> {
        field.mixture(&self.training_weights())
    }

    /// Class weights for histograms that are kept for all classes together, too.
    fn weights(&self, proportions: &[f64]) -> Vec<f64> {
        match self.class_rows.len() {
            1 => vec![1.0],
            _ => proportions.to_vec(),
        }
    }
}

// === impl FieldProfile ===

impl FieldProfile {
    fn cells(&self) -> usize {
        self.values.cells()
    }

    /// Shares of the cells if the classes have these shares.
    fn mixture(&self, weights: &[f64]) -> Vec<f64> {
        let mut mixture = vec![0.0; self.cells()];
        for (shares, weight) in self.shares.iter().zip(weights) {
            for (sum, share) in mixture.iter_mut().zip(shares) {
                *sum += weight * f64::from(*share);
            }
        }
        mixture
    }

    fn check(&self, classes: usize) -> Result<()> {
        let refuse = |problem: &str| {
            let field = format!("inputs.json, field `{}`", self.name);
            Err(Error::setting(field, problem))
        };
        let is_share = |share: &f32| (0.0..=1.0).contains(share);
        let whole = |shares: &Vec<f32>| shares.len() == self.cells() && shares.iter().all(is_share);
        if self.shares.len() != classes || !self.shares.iter().all(whole) {
            return refuse("has shares that do not fit its cells");
        }
        match &self.values {
            FieldValues::Numbers {
                deviation,
                mean,
                lowest,
                highest,
                edges,
                logarithm,
            } => {
                let finite = [*deviation, *mean, (*lowest).into(), (*highest).into()];
                let logarithm = logarithm
                    .is_none_or(|(mean, deviation)| mean.is_finite() && deviation.is_finite());
                let ascending = edges.windows(2).all(|pair| pair[0] < pair[1]);
                if !(finite.iter().all(|number| number.is_finite()) && logarithm && ascending) {
                    return refuse("has a range that is not finite and ascending");
                }
                Ok(())
            }
            FieldValues::Tokens { known, .. } => {
                let ascending = |known: &Vec<u32>| known.windows(2).all(|pair| pair[0] < pair[1]);
                if known.as_ref().is_none_or(ascending) {
                    Ok(())
                } else {
                    refuse("has known tokens that are not ascending")
                }
            }
        }
    }
}

// === impl FieldValues ===

impl FieldValues {
    /// How many cells the histograms have.
    fn cells(&self) -> usize {
        match self {
            // Missing, below, above, and one more bin than edges.
            Self::Numbers { edges, .. } => 4 + edges.len(),
            // Missing, unknown, each common one, and all others.
            Self::Tokens { common, .. } => 3 + common.len(),
        }
    }

    fn cell_of_number(lowest: f32, highest: f32, edges: &[f32], value: f32) -> usize {
        if is_missing(value) {
            MISSING
        } else if value < lowest {
            BELOW
        } else if value > highest {
            ABOVE
        } else {
            3 + edges.partition_point(|edge| *edge < value)
        }
    }

    fn cell_of_token(common: &[u32], known: Option<&[u32]>, token: u32) -> usize {
        if let Some(place) = common.iter().position(|common| *common == token) {
            return 2 + place;
        }
        match known {
            Some(known) if known.binary_search(&token).is_err() => UNKNOWN,
            _ => 2 + common.len(),
        }
    }
}
