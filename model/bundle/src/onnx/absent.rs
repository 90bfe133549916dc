//! Stands in for ONNX in builds without the feature `onnx`.

use std::convert::Infallible;

use ostar_engine::{Error, Inputs, Result, architecture::OnnxShape, evaluate::ExternalNetwork};

use crate::input::Input;

/// Does not exist in this build.
#[derive(Debug)]
pub struct OnnxNetwork(Infallible);

impl OnnxNetwork {
    /// Refuses: this build has no ONNX.
    pub fn load(_file: &[u8], _shape: &OnnxShape, _input: &Input) -> Result<Self> {
        Err(refusal())
    }

    /// Width of what the tensor holds.
    pub fn width(&self) -> usize {
        match self.0 {}
    }
}

impl ExternalNetwork for OnnxNetwork {
    fn run(&self, _inputs: &Inputs<'_>, _out: &mut Vec<f32>) -> Result<()> {
        match self.0 {}
    }
}

pub(crate) fn refusal() -> Error {
    Error::setting("onnx", "this build has no ONNX, build with --features onnx")
}
