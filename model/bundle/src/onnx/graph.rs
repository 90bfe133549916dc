//! An ONNX graph: what was read, checked, and cut to the tensor that is wanted.

use std::collections::{BTreeSet, HashMap, HashSet};

use prost_onnx::Message;
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto,
    attribute_proto::AttributeType,
    tensor_proto::DataType,
    tensor_shape_proto::dimension,
    type_proto::{self, Value},
};

use super::constants::{self, Constant};

/// Most bytes of a model.
const MAX_BYTES: usize = 1 << 30;
/// Most nodes of a graph, and most levels of graphs within graphs.
const MOST_NODES: usize = 100_000;
const DEEPEST: usize = 8;

/// A checked model: every constant has its data, every input a type, every name a producer.
#[derive(Debug, Clone)]
pub(crate) struct Graph {
    pub(crate) model: ModelProto,
    pub(crate) graph: GraphProto,
}

/// An input of the graph.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GraphInput {
    pub(crate) name: String,
    pub(crate) kind: DataType,
    /// Sizes after the first, which is that of the batch; `None` is open.
    pub(crate) sizes: Vec<Option<usize>>,
    /// Whether the batch has a dimension at all.
    pub(crate) batched: bool,
}

impl Graph {
    /// Reads a file's contents.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MAX_BYTES {
            return Err(format!(
                "has {} bytes, expected at most {MAX_BYTES}",
                bytes.len()
            ));
        }
        let mut model =
            ModelProto::decode(bytes).map_err(|error| format!("is not an ONNX model: {error}"))?;
        let graph = model
            .graph
            .take()
            .ok_or("has no graph, expected an ONNX model")?;
        let read = Self { model, graph };
        read.check()?;
        Ok(read)
    }

    /// The file's contents.
    pub(crate) fn write(&self) -> Vec<u8> {
        self.proto().encode_to_vec()
    }

    /// The model as tract reads it.
    pub(crate) fn proto(&self) -> ModelProto {
        let mut model = self.model.clone();
        model.graph = Some(self.graph.clone());
        model
    }

    /// Version of the standard operators.
    pub(crate) fn opset(&self) -> i64 {
        let standard = |domain: &str| domain.is_empty() || domain == "ai.onnx";
        let mut imports = self.model.opset_import.iter();
        imports
            .find(|import| standard(&import.domain))
            .map_or(0, |import| import.version)
    }

    fn check(&self) -> Result<(), String> {
        let names = check_graph(&self.graph, &HashSet::new(), 0)?;
        if let Some(output) = self
            .graph
            .output
            .iter()
            .find(|output| !names.contains(&output.name))
        {
            return Err(format!("output `{}` is made by no node", output.name));
        }
        if self.graph.output.is_empty() {
            return Err("has no output, expected a classifier's".into());
        }
        Ok(())
    }

    /// Whether a tensor of this name is an input or made by a node.
    pub(crate) fn has(&self, tensor: &str) -> bool {
        self.producer(tensor).is_some() || self.inputs().iter().any(|input| input.name == tensor)
    }

    /// The node that makes a tensor.
    pub(crate) fn producer(&self, tensor: &str) -> Option<&NodeProto> {
        if tensor.is_empty() {
            return None;
        }
        let mut nodes = self.graph.node.iter();
        nodes.find(|node| node.output.iter().any(|output| output == tensor))
    }

    /// Inputs that events fill, in order. Initialisers may be listed as inputs, too, and are none.
    pub(crate) fn inputs(&self) -> Vec<GraphInput> {
        let initialised: HashSet<&str> = self
            .graph
            .initializer
            .iter()
            .map(|tensor| tensor.name.as_str())
            .collect();
        let inputs = self.graph.input.iter();
        inputs
            .filter(|input| !initialised.contains(input.name.as_str()))
            .filter_map(GraphInput::of)
            .collect()
    }

    /// A constant, also one that is passed on or transposed.
    pub(crate) fn constant(&self, tensor: &str) -> Option<Constant> {
        let mut initialisers = self.graph.initializer.iter();
        if let Some(initialiser) = initialisers.find(|initialiser| initialiser.name == tensor) {
            return Constant::of(initialiser);
        }
        let node = self.producer(tensor)?;
        match node.op_type.as_str() {
            "Constant" => {
                let value = attribute(node, "value")?;
                Constant::of(value.t.as_ref()?)
            }
            "Identity" => self.constant(node.input.first()?),
            "Transpose" => {
                let is_plain = |order: &AttributeProto| order.ints == [1, 0];
                let plain = attribute(node, "perm").is_none_or(is_plain);
                self.constant(node.input.first()?)
                    .filter(|_| plain)?
                    .transposed()
            }
            _ => None,
        }
    }

    /// Leaves only what `output` is made of, as the only output.
    pub(crate) fn cut(&mut self, output: &str) {
        let mut wanted = HashSet::from([output.to_owned()]);
        let mut kept = Vec::new();
        for node in std::mem::take(&mut self.graph.node).into_iter().rev() {
            if node.output.iter().any(|name| wanted.contains(name)) {
                wanted.extend(inputs_of(&node));
                kept.push(node);
            }
        }
        kept.reverse();
        self.graph.node = kept;
        self.graph
            .initializer
            .retain(|tensor| wanted.contains(&tensor.name));
        self.graph
            .input
            .retain(|input| wanted.contains(&input.name));
        self.graph.output = vec![ValueInfoProto {
            name: output.into(),
            r#type: Some(tensor_type(DataType::Float)),
            ..ValueInfoProto::default()
        }];
        // Shapes that the exporter saw, often with another batch.
        self.graph.value_info.clear();
        self.graph.quantization_annotation.clear();
        self.graph.sparse_initializer.clear();
    }

    /// Kinds of operators, each once.
    pub(crate) fn operators(&self) -> BTreeSet<String> {
        self.graph
            .node
            .iter()
            .map(|node| node.op_type.clone())
            .collect()
    }
}

impl GraphInput {
    fn of(input: &ValueInfoProto) -> Option<Self> {
        let Some(Value::TensorType(tensor)) = input.r#type.as_ref()?.value.as_ref() else {
            return None;
        };
        let sizes: Vec<Option<usize>> = match &tensor.shape {
            None => vec![None, None],
            Some(shape) => shape
                .dim
                .iter()
                .map(|size| match size.value {
                    Some(dimension::Value::DimValue(size)) => usize::try_from(size).ok(),
                    _ => None,
                })
                .collect(),
        };
        Some(Self {
            name: input.name.clone(),
            kind: DataType::from_i32(tensor.elem_type)?,
            batched: !sizes.is_empty(),
            sizes: sizes.into_iter().skip(1).collect(),
        })
    }

    /// Numbers of a row; `None` if a size is open.
    pub(crate) fn width(&self) -> Option<usize> {
        self.sizes
            .iter()
            .try_fold(1_usize, |width, size| width.checked_mul((*size)?))
    }
}

/// Checks a graph within those that have made `outer`. Returns the names that it has.
fn check_graph<'g>(
    graph: &'g GraphProto,
    outer: &HashSet<&'g str>,
    depth: usize,
) -> Result<HashSet<String>, String> {
    if graph.node.len() > MOST_NODES || depth > DEEPEST {
        return Err(format!(
            "has {} nodes at depth {depth}, expected at most {MOST_NODES} and {DEEPEST}",
            graph.node.len()
        ));
    }
    let mut known: HashSet<&str> = outer.clone();
    for tensor in &graph.initializer {
        constants::check(tensor)?;
        known.insert(&tensor.name);
    }
    for input in &graph.input {
        if GraphInput::of(input).is_none() && depth == 0 && !known.contains(input.name.as_str()) {
            return Err(format!("input `{}` is no tensor", input.name));
        }
        known.insert(&input.name);
    }
    for node in &graph.node {
        for input in node.input.iter().filter(|input| !input.is_empty()) {
            if !known.contains(input.as_str()) {
                return Err(format!(
                    "`{input}`, an input of the node {} `{}`, is made by no node before it",
                    node.op_type, node.name
                ));
            }
        }
        for attribute in &node.attribute {
            for tensor in attribute.t.iter().chain(&attribute.tensors) {
                constants::check(tensor)?;
            }
            for inner in attribute.g.iter().chain(&attribute.graphs) {
                check_graph(inner, &known, depth + 1)?;
            }
        }
        for output in node.output.iter().filter(|output| !output.is_empty()) {
            if !known.insert(output) {
                return Err(format!("`{output}` is made twice"));
            }
        }
    }
    Ok(known.into_iter().map(str::to_owned).collect())
}

/// Names that a node takes, those that graphs within it take included.
fn inputs_of(node: &NodeProto) -> Vec<String> {
    let mut names = node.input.clone();
    for attribute in &node.attribute {
        for inner in attribute.g.iter().chain(&attribute.graphs) {
            names.extend(inner.node.iter().flat_map(inputs_of));
            names.extend(inner.output.iter().map(|output| output.name.clone()));
        }
    }
    names
}

fn tensor_type(kind: DataType) -> TypeProto {
    TypeProto {
        value: Some(Value::TensorType(type_proto::Tensor {
            elem_type: kind as i32,
            shape: None,
        })),
        ..TypeProto::default()
    }
}

/// An attribute of a node.
pub(crate) fn attribute<'n>(node: &'n NodeProto, name: &str) -> Option<&'n AttributeProto> {
    node.attribute
        .iter()
        .find(|attribute| attribute.name == name)
}

pub(crate) fn text<'n>(node: &'n NodeProto, name: &str) -> Option<&'n str> {
    attribute(node, name).and_then(|attribute| std::str::from_utf8(&attribute.s).ok())
}

pub(crate) fn texts(node: &NodeProto, name: &str) -> Vec<String> {
    let listed = attribute(node, name).map(|attribute| attribute.strings.as_slice());
    let texts = listed.unwrap_or_default().iter();
    texts
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .collect()
}

pub(crate) fn numbers<'n>(node: &'n NodeProto, name: &str) -> &'n [f32] {
    attribute(node, name).map_or(&[], |attribute| &attribute.floats)
}

/// A list of whole numbers.
pub(crate) fn integers<'n>(node: &'n NodeProto, name: &str) -> &'n [i64] {
    attribute(node, name).map_or(&[], |attribute| &attribute.ints)
}

/// A node of the standard operators.
pub(crate) fn node(
    operator: &str,
    inputs: &[&str],
    output: &str,
    attributes: Vec<AttributeProto>,
) -> NodeProto {
    NodeProto {
        name: output.into(),
        op_type: operator.into(),
        input: inputs.iter().map(|input| (*input).to_owned()).collect(),
        output: vec![output.into()],
        attribute: attributes,
        ..NodeProto::default()
    }
}

/// An attribute that is a whole number.
pub(crate) fn integer_attribute(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: AttributeType::Int as i32,
        i: value,
        ..AttributeProto::default()
    }
}

/// An attribute that is a list of whole numbers.
pub(crate) fn integers_attribute(name: &str, values: Vec<i64>) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: AttributeType::Ints as i32,
        ints: values,
        ..AttributeProto::default()
    }
}

/// Positions of texts in a list.
pub(crate) fn positions(texts: &[String]) -> HashMap<&str, usize> {
    texts
        .iter()
        .enumerate()
        .map(|(place, text)| (text.as_str(), place))
        .collect()
}
