//! What can be told of a model before any row has been seen: its predictions, classes and inputs.

use ostar_engine::Result;
use tract_onnx::pb::{ValueInfoProto, tensor_proto::DataType, type_proto::Value};

use super::from_onnx::wrong;
use crate::{
    fields::{Field, FieldKind, FieldSchema},
    import::Takes,
    onnx::{
        graph::{Graph, GraphInput, attribute, integers, texts},
        network::INSTEAD,
        rewrite::rewrite,
    },
};

/// Fewest rows of the hash table of categories; it is not held in memory.
const BUCKETS: usize = 1 << 24;

/// An ONNX classifier that was read and understood, before any row has been seen.
#[derive(Debug)]
pub struct Model {
    /// Cut to what predicts.
    pub(super) graph: Graph,
    /// The tensor that predicts.
    pub(super) output: String,
    classes: Option<Vec<String>>,
    pub(super) takes: Takes,
}

impl Model {
    /// Reads a file's contents. `output` names the tensor that predicts, where the model has several.
    pub fn read(file: &[u8], output: Option<&str>) -> Result<Self> {
        let mut graph = Graph::read(file).map_err(wrong)?;
        let (output, classes) = predictions(&graph, output)?;
        graph.cut(&output);
        let classes = classes.or_else(|| class_labels(&graph));
        let takes = takes(&graph)?;
        Ok(Self {
            graph,
            output,
            classes,
            takes,
        })
    }

    /// What the model takes.
    pub fn takes(&self) -> &Takes {
        &self.takes
    }

    /// The names that the model has for its classes.
    pub fn classes(&self) -> Option<&[String]> {
        self.classes.as_deref()
    }
}

/// The tensor with the predictions, and the classes' names if they stand beside it.
fn predictions(graph: &Graph, wanted: Option<&str>) -> Result<(String, Option<Vec<String>>)> {
    let outputs = &graph.graph.output;
    let listed: Vec<&str> = outputs.iter().map(|output| output.name.as_str()).collect();
    let name = match wanted {
        Some(name) if graph.has(name) => name,
        Some(name) => {
            return Err(wrong(format!(
                "has no tensor `{name}`; its outputs are {listed:?}"
            )));
        }
        // Labels are whole numbers or texts; predictions are numbers, or dictionaries of them.
        None => {
            let numbers: Vec<&str> = outputs
                .iter()
                .filter(|output| !is_label(output))
                .map(|output| output.name.as_str())
                .collect();
            match numbers[..] {
                [only] => only,
                [] => {
                    return Err(wrong(format!(
                        "gives no probabilities: its outputs are {listed:?}"
                    )));
                }
                _ => {
                    return Err(wrong(format!(
                        "has outputs {numbers:?}, expected one: name that of the probabilities or logits with --output"
                    )));
                }
            }
        }
    };
    let mut tensor = name.to_owned();
    while let Some(node) = graph.producer(&tensor)
        && node.op_type == "ZipMap"
    {
        let strings = texts(node, "classlabels_strings");
        let numbers = integers(node, "classlabels_int64s");
        let classes = if strings.is_empty() {
            numbers.iter().map(i64::to_string).collect()
        } else {
            strings
        };
        let input = node
            .input
            .first()
            .ok_or_else(|| wrong("has a ZipMap without input"))?;
        tensor = input.clone();
        if !classes.is_empty() {
            return Ok((tensor, Some(classes)));
        }
    }
    Ok((tensor, None))
}

fn is_label(output: &ValueInfoProto) -> bool {
    let value = output.r#type.as_ref().and_then(|kind| kind.value.as_ref());
    let Some(Value::TensorType(tensor)) = value else {
        return false;
    };
    !matches!(
        DataType::from_i32(tensor.elem_type),
        Some(DataType::Float | DataType::Double | DataType::Float16)
    )
}

/// Names of the classes in a classifier's own attributes.
fn class_labels(graph: &Graph) -> Option<Vec<String>> {
    let nodes = graph.graph.node.iter().rev();
    let classifiers = nodes.filter(|node| node.op_type.ends_with("Classifier"));
    for node in classifiers {
        let names = texts(node, "classlabels_strings");
        if !names.is_empty() {
            return Some(names);
        }
        for list in ["classlabels_int64s", "classlabels_ints"] {
            if attribute(node, list).is_some() {
                return Some(integers(node, list).iter().map(i64::to_string).collect());
            }
        }
    }
    None
}

/// Vectors, unless an input is a text or each input is a column.
fn takes(graph: &Graph) -> Result<Takes> {
    let inputs = graph.inputs();
    if inputs.is_empty() {
        return Err(wrong("takes no inputs"));
    }
    let is_text = |input: &GraphInput| input.kind == DataType::String;
    let is_column = |input: &GraphInput| input.width() == Some(1);
    let columns = inputs.len() > 1 && inputs.iter().all(is_column);
    if !columns && !inputs.iter().any(is_text) {
        let widths: Option<Vec<usize>> = inputs.iter().map(GraphInput::width).collect();
        return Ok(Takes::Vector(widths.map(|widths| widths.iter().sum())));
    }
    if let Some(wide) = inputs.iter().find(|input| !is_column(input)) {
        return Err(wrong(format!(
            "input `{}` has sizes {:?} beside inputs that are texts, expected one column for each input",
            wide.name, wide.sizes
        )));
    }
    let fields = inputs.iter().map(|input| Field {
        name: input.name.clone(),
        kind: if is_text(input) {
            FieldKind::Category
        } else {
            // The graph takes numbers as events carry them.
            FieldKind::Number {
                mean: 0.0,
                deviation: 1.0,
            }
        },
    });
    let mut schema = FieldSchema {
        fields: fields.collect(),
        buckets: BUCKETS,
    };
    let rewritten =
        rewrite(graph.clone()).map_err(|problem| wrong(format!("{problem}; or {}", INSTEAD)))?;
    let categories = rewritten.categories;
    let collides = |schema: &FieldSchema| {
        let mut names = schema.fields.iter();
        names.any(|field| schema.tokens(&field.name, &categories).is_err())
    };
    while collides(&schema) {
        schema.buckets *= 2;
        if schema.buckets > u32::MAX as usize {
            return Err(wrong("has categories that cannot be told apart"));
        }
    }
    Ok(Takes::Fields(schema))
}
