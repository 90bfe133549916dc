//! Where a classifier can be cut: the linear layers before its output, found by walking back from it.

use super::graph::{Graph, attribute};

/// y = x W^T + b.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Linear {
    /// Tensor x.
    pub(crate) input: String,
    /// Tensor y.
    output: String,
    /// Row by row, one for each output.
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Vec<f32>,
}

/// A place to cut: the tensor before some linear layers with ReLUs between them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cut {
    /// From the latent on.
    pub(crate) layers: Vec<Linear>,
}

impl Linear {
    pub(crate) fn outputs(&self) -> usize {
        self.bias.len()
    }

    pub(crate) fn inputs(&self) -> usize {
        self.weight.len() / self.bias.len().max(1)
    }
}

impl Cut {
    /// Tensor that is taken as latent.
    pub(crate) fn latent(&self) -> &str {
        &self.layers[0].input
    }

    pub(crate) fn width(&self) -> usize {
        self.layers[0].inputs()
    }
}

/// Cuts of a rewritten graph, the one before its last linear layer first. None if the output does not depend on one
/// linear layer alone.
pub(crate) fn cuts(graph: &Graph, output: &str) -> Vec<Cut> {
    let Some(last) = last_linear(graph, output) else {
        return Vec::new();
    };
    let mut cuts = vec![Cut { layers: vec![last] }];
    while let Some(before) = cuts.last().and_then(|cut| layer_before(graph, cut)) {
        let mut layers = vec![before];
        layers.extend(cuts[cuts.len() - 1].layers.iter().cloned());
        cuts.push(Cut { layers });
    }
    cuts
}

/// The linear layer whose ReLU is a cut's latent.
fn layer_before(graph: &Graph, cut: &Cut) -> Option<Linear> {
    let activation = graph.producer(passed_on(graph, cut.latent()))?;
    let before = activation
        .input
        .first()
        .filter(|_| activation.op_type == "Relu")?;
    linear(graph, before)
}

/// The only linear layer from which `output` is made without another one after it.
fn last_linear(graph: &Graph, output: &str) -> Option<Linear> {
    let mut waiting = vec![output.to_owned()];
    let mut seen = std::collections::HashSet::new();
    let mut found: Option<Linear> = None;
    while let Some(tensor) = waiting.pop() {
        if !seen.insert(tensor.clone()) || is_constant(graph, &tensor) {
            continue;
        }
        if let Some(layer) = linear(graph, &tensor) {
            if found
                .as_ref()
                .is_some_and(|found| found.output != layer.output)
            {
                return None;
            }
            found = Some(layer);
            continue;
        }
        // What comes to an input of the graph has passed no linear layer.
        let node = graph.producer(&tensor)?;
        waiting.extend(node.input.iter().filter(|input| !input.is_empty()).cloned());
    }
    found
}

/// Whether a tensor depends on no input of the graph.
fn is_constant(graph: &Graph, tensor: &str) -> bool {
    if graph
        .graph
        .initializer
        .iter()
        .any(|initialiser| initialiser.name == tensor)
    {
        return true;
    }
    graph
        .producer(tensor)
        .is_some_and(|node| node.op_type == "Constant" || node.op_type == "ConstantOfShape")
}

/// The tensor that others pass on as it is.
fn passed_on<'g>(graph: &'g Graph, mut tensor: &'g str) -> &'g str {
    while let Some(node) = graph.producer(tensor)
        && matches!(node.op_type.as_str(), "Identity" | "Dropout" | "Cast")
        && let Some(input) = node.input.first()
    {
        tensor = input;
    }
    tensor
}

/// The linear layer that makes a tensor.
fn linear(graph: &Graph, tensor: &str) -> Option<Linear> {
    let node = graph.producer(tensor)?;
    let input = |place: usize| node.input.get(place).map(String::as_str);
    match node.op_type.as_str() {
        "Gemm" => {
            let number = |name: &str| attribute(node, name).map_or(1.0, |value| value.f);
            let flag = |name: &str| attribute(node, name).is_some_and(|value| value.i != 0);
            let weight = graph.constant(input(1)?)?;
            let weight = if flag("transB") {
                weight
            } else {
                weight.transposed()?
            };
            if flag("transA") {
                return None;
            }
            let outputs = *weight.shape.first()?;
            let bias = match input(2).filter(|name| !name.is_empty()) {
                None => vec![0.0; outputs],
                Some(bias) => spread(graph.constant(bias)?.values, outputs)?,
            };
            let (alpha, beta) = (number("alpha"), number("beta"));
            Some(Linear {
                input: input(0)?.to_owned(),
                output: tensor.into(),
                weight: weight.values.iter().map(|value| alpha * value).collect(),
                bias: bias.iter().map(|value| beta * value).collect(),
            })
        }
        "MatMul" => {
            let weight = graph.constant(input(1)?)?.transposed()?;
            Some(Linear {
                input: input(0)?.to_owned(),
                output: tensor.into(),
                bias: vec![0.0; weight.shape[0]],
                weight: weight.values,
            })
        }
        "Add" => {
            let (left, right) = (input(0)?, input(1)?);
            let (product, bias) = match graph.constant(right) {
                Some(bias) => (left, bias),
                None => (right, graph.constant(left)?),
            };
            if graph.producer(product)?.op_type != "MatMul" {
                return None;
            }
            let mut layer = linear(graph, product)?;
            layer.bias = spread(bias.values, layer.outputs())?;
            layer.output = tensor.into();
            Some(layer)
        }
        _ => None,
    }
}

/// A bias for each output, of which there may be one for all.
fn spread(bias: Vec<f32>, outputs: usize) -> Option<Vec<f32>> {
    match bias.len() {
        length if length == outputs => Some(bias),
        1 => Some(vec![bias[0]; outputs]),
        _ => None,
    }
}
