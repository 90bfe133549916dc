//! Scaling, normalising and linear models as products and sums.

use tract_onnx::pb::{NodeProto, tensor_proto::DataType};

use super::{Rewriter, input_of, output_of};
use crate::onnx::graph::{self, integer_attribute, integers, integers_attribute, numbers, text};

impl Rewriter<'_> {
    /// (x - offset) * scale.
    pub(super) fn scaler(&mut self, node: &NodeProto) -> Result<(), String> {
        let (input, output) = (input_of(node)?, output_of(node, 0)?);
        let (offset, scale) = (
            numbers(node, "offset").to_vec(),
            numbers(node, "scale").to_vec(),
        );
        if offset.is_empty() || scale.is_empty() {
            return Err("has no offset or no scale".into());
        }
        // The input may be of whole numbers; the output never is.
        let cast = format!("{output}/ostard/cast");
        self.cast(input, &cast, DataType::Float);
        let offset = self.floats(output, "offset", &[1, offset.len()], offset);
        let scale = self.floats(output, "scale", &[1, scale.len()], scale);
        let centred = self.step("Sub", &[&cast, &offset], output, "centred");
        self.last("Mul", &[&centred, &scale], output);
        Ok(())
    }

    /// Each row by its norm.
    pub(super) fn normalizer(&mut self, node: &NodeProto) -> Result<(), String> {
        let (input, output) = (input_of(node)?, output_of(node, 0)?);
        let reduce = match text(node, "norm").unwrap_or("MAX") {
            "L1" => "ReduceL1",
            "L2" => "ReduceL2",
            "MAX" => "ReduceMax",
            other => return Err(format!("has norm {other}, expected L1, L2 or MAX")),
        };
        let norm = format!("{output}/ostard/norm");
        let mut attributes = vec![integer_attribute("keepdims", 1)];
        let axes;
        let mut inputs = vec![input];
        // With version 18 the axes became an input.
        if self.opset >= 18 {
            axes = self.integers(output, "axes", &[1], vec![1]);
            inputs.push(&axes);
        } else {
            attributes.push(integers_attribute("axes", vec![1]));
        }
        self.push(reduce, &inputs, &norm, attributes);
        self.last("Div", &[input, &norm], output);
        Ok(())
    }

    /// Scores of a linear classifier, as its post transform leaves them.
    pub(super) fn linear_classifier(&mut self, node: &NodeProto) -> Result<(), String> {
        let classes = [
            integers(node, "classlabels_ints").len(),
            graph::texts(node, "classlabels_strings").len(),
        ];
        let classes = classes.into_iter().max().unwrap_or(0);
        let output = output_of(node, 1)?;
        let finish = match text(node, "post_transform").unwrap_or("NONE") {
            "NONE" => "Identity",
            "SOFTMAX" => "Softmax",
            "LOGISTIC" => "Sigmoid",
            other => {
                return Err(format!(
                    "has post_transform {other}, expected NONE, SOFTMAX or LOGISTIC"
                ));
            }
        };
        let scores = format!("{output}/ostard/scores");
        self.linear(node, classes, &scores)?;
        let attributes = match finish {
            "Softmax" => vec![integer_attribute("axis", 1)],
            _ => vec![],
        };
        self.push(finish, &[&scores], output, attributes);
        Ok(())
    }

    pub(super) fn linear_regressor(&mut self, node: &NodeProto) -> Result<(), String> {
        let targets = graph::attribute(node, "targets").map_or(1, |targets| targets.i);
        let transform = text(node, "post_transform").unwrap_or("NONE");
        if transform != "NONE" {
            return Err(format!("has post_transform {transform}, expected NONE"));
        }
        self.linear(
            node,
            usize::try_from(targets).unwrap_or(0),
            output_of(node, 0)?,
        )
    }

    /// x W + b as `scores`, from the attributes of a linear model.
    fn linear(&mut self, node: &NodeProto, outputs: usize, scores: &str) -> Result<(), String> {
        let coefficients = numbers(node, "coefficients");
        let mut intercepts = numbers(node, "intercepts").to_vec();
        if outputs == 0 || coefficients.is_empty() || !coefficients.len().is_multiple_of(outputs) {
            return Err(format!(
                "has {} coefficients for {outputs} outputs",
                coefficients.len()
            ));
        }
        let width = coefficients.len() / outputs;
        if intercepts.is_empty() {
            intercepts = vec![0.0; outputs];
        }
        if intercepts.len() != outputs {
            return Err(format!(
                "has {} intercepts for {outputs} outputs",
                intercepts.len()
            ));
        }
        let places =
            (0..width).flat_map(|column| (0..outputs).map(move |row| row * width + column));
        let weight = places.map(|place| coefficients[place]).collect();
        let weight = self.floats(scores, "weight", &[width, outputs], weight);
        let bias = self.floats(scores, "bias", &[1, outputs], intercepts);
        let product = self.step("MatMul", &[input_of(node)?, &weight], scores, "product");
        self.last("Add", &[&product, &bias], scores);
        Ok(())
    }

    /// 1 where x is above the threshold, else 0.
    pub(super) fn binarizer(&mut self, node: &NodeProto) -> Result<(), String> {
        let (input, output) = (input_of(node)?, output_of(node, 0)?);
        let threshold = graph::attribute(node, "threshold").map_or(0.0, |threshold| threshold.f);
        let threshold = self.floats(output, "threshold", &[1, 1], vec![threshold]);
        let above = self.step("Greater", &[input, &threshold], output, "above");
        self.cast(&above, output, DataType::Float);
        Ok(())
    }

    /// Inputs side by side.
    pub(super) fn feature_vectorizer(&mut self, node: &NodeProto) -> Result<(), String> {
        let output = output_of(node, 0)?;
        let mut casts = Vec::new();
        for (place, input) in node.input.iter().enumerate() {
            let cast = format!("{output}/ostard/{place}");
            self.cast(input, &cast, DataType::Float);
            casts.push(cast);
        }
        let casts: Vec<&str> = casts.iter().map(String::as_str).collect();
        let axis = vec![integer_attribute("axis", 1)];
        self.push("Concat", &casts, output, axis);
        Ok(())
    }

    /// A value in the place of each missing one.
    pub(super) fn imputer(&mut self, node: &NodeProto) -> Result<(), String> {
        let (input, output) = (input_of(node)?, output_of(node, 0)?);
        let values = numbers(node, "imputed_value_floats").to_vec();
        if values.is_empty() {
            return Err("has no imputed_value_floats, expected numbers".into());
        }
        let replaced = graph::attribute(node, "replaced_value_float").map_or(0.0, |value| value.f);
        let values = self.floats(output, "values", &[1, values.len()], values);
        let missing = if replaced.is_nan() {
            self.step("IsNaN", &[input], output, "missing")
        } else {
            let replaced = self.floats(output, "replaced", &[1, 1], vec![replaced]);
            self.step("Equal", &[input, &replaced], output, "missing")
        };
        self.last("Where", &[&missing, &values, input], output);
        Ok(())
    }
}
