//! Stands in for the import in builds without the feature `onnx`.

use std::convert::Infallible;

use ostar_engine::Result;

use super::{ImportRows, ImportSettings, Imported, Takes};
use crate::onnx::refusal;

/// Does not exist in this build.
#[derive(Debug)]
pub struct Model(Infallible);

impl Model {
    /// Refuses: this build has no ONNX.
    pub fn read(_file: &[u8], _output: Option<&str>) -> Result<Self> {
        Err(refusal())
    }

    /// What the model takes.
    pub fn takes(&self) -> &Takes {
        match self.0 {}
    }

    /// The names that the model has for its classes.
    pub fn classes(&self) -> Option<&[String]> {
        match self.0 {}
    }
}

/// Does not happen in this build.
pub fn import(
    model: &Model,
    _labelled: ImportRows<'_>,
    _settings: &ImportSettings,
) -> Result<Imported> {
    match model.0 {}
}
