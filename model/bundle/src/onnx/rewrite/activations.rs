//! Activations that tract does not have.

use tract_onnx::pb::NodeProto;

use super::{Rewriter, input_of, output_of};
use crate::onnx::graph::text;

impl Rewriter<'_> {
    /// x / 2 (1 + erf(x / sqrt 2)), or its approximation by tanh.
    pub(super) fn gelu(&mut self, node: &NodeProto) -> Result<(), String> {
        let (input, output) = (input_of(node)?, output_of(node, 0)?);
        let half = self.floats(output, "half", &[], vec![0.5]);
        let one = self.floats(output, "one", &[], vec![1.0]);
        let bend = match text(node, "approximate").unwrap_or("none") {
            "tanh" => {
                let cubic = self.floats(output, "cubic", &[], vec![0.044_715]);
                let scale = (2.0 / std::f32::consts::PI).sqrt();
                let scale = self.floats(output, "scale", &[], vec![scale]);
                let square = self.step("Mul", &[input, input], output, "square");
                let part = self.step("Mul", &[&square, &cubic], output, "part");
                let factor = self.step("Add", &[&part, &one], output, "factor");
                let bent = self.step("Mul", &[input, &factor], output, "bent");
                let scaled = self.step("Mul", &[&bent, &scale], output, "scaled");
                self.step("Tanh", &[&scaled], output, "bend")
            }
            "none" => {
                let scale =
                    self.floats(output, "scale", &[], vec![std::f32::consts::FRAC_1_SQRT_2]);
                let scaled = self.step("Mul", &[input, &scale], output, "scaled");
                self.step("Erf", &[&scaled], output, "bend")
            }
            other => return Err(format!("has approximate {other}, expected none or tanh")),
        };
        let gate = self.step("Add", &[&bend, &one], output, "gate");
        let halved = self.step("Mul", &[input, &half], output, "halved");
        self.last("Mul", &[&halved, &gate], output);
        Ok(())
    }
}
