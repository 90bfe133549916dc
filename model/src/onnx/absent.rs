//! Stands in for ONNX in builds without the feature `onnx`.

use std::convert::Infallible;

use super::{ImportRows, ImportSettings, Imported, OnnxShape, Takes};
use crate::{Error, Inputs, Result, bundle::Input};

fn refused<T>() -> Result<T> {
    Err(Error::setting(
        "onnx",
        "this build has no ONNX, build with --features onnx",
    ))
}

/// Does not exist in this build.
#[derive(Debug)]
pub struct OnnxNetwork(Infallible);

impl OnnxNetwork {
    /// Refuses: this build has no ONNX.
    pub fn load(_file: &[u8], _shape: &OnnxShape, _input: &Input) -> Result<Self> {
        refused()
    }

    /// Width of what the tensor holds.
    pub fn width(&self) -> usize {
        match self.0 {}
    }

    /// Appends what the network makes of the rows.
    pub fn run(&self, _inputs: &Inputs<'_>, _out: &mut Vec<f32>) -> Result<()> {
        match self.0 {}
    }
}

/// Does not exist in this build.
#[derive(Debug)]
pub struct Model(Infallible);

impl Model {
    /// Refuses: this build has no ONNX.
    pub fn read(_file: &[u8], _output: Option<&str>) -> Result<Self> {
        refused()
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
