//! Puts plain operators in the place of those of `ai.onnx.ml`, which tract does not have, and numbers in the place of texts.

mod activations;
mod categories;
mod linear;

use tract_onnx::pb::{
    AttributeProto, NodeProto, TensorProto, tensor_proto::DataType, type_proto::Value,
};

use super::{
    constants,
    graph::{self, Graph},
};

/// Operator of [`trees`](super::trees), which is ours.
pub(crate) const TREES: &str = "OstardTrees";

/// A graph of operators that can be run.
#[derive(Debug)]
pub(crate) struct Rewritten {
    pub(crate) graph: Graph,
    /// Texts that the graph knows. The first is 1 in the graph; 0 is any other text.
    pub(crate) categories: Vec<String>,
    /// Whether missing numbers may be NaN: the graph says what becomes of them.
    pub(crate) takes_nan: bool,
}

/// What rewriting needs to know of a graph.
struct Rewriter<'g> {
    graph: &'g mut Graph,
    opset: i64,
    categories: &'g [String],
    nodes: Vec<NodeProto>,
}

/// Rewrites a graph that has been cut to its output. `Err` names the operator that cannot be had.
pub(crate) fn rewrite(mut graph: Graph) -> Result<Rewritten, String> {
    let categories: Vec<String> = categories::of(&graph).into_iter().collect();
    let takes_nan = graph.operators().iter().any(|operator| {
        operator == "Imputer" || operator.starts_with("TreeEnsemble") || operator == "IsNaN"
    });

    for input in &mut graph.graph.input {
        let Some(Value::TensorType(tensor)) =
            input.r#type.as_mut().and_then(|kind| kind.value.as_mut())
        else {
            continue;
        };
        if tensor.elem_type == DataType::String as i32 {
            tensor.elem_type = DataType::Int64 as i32;
        }
    }
    let before = std::mem::take(&mut graph.graph.node);
    let mut rewriter = Rewriter {
        opset: graph.opset(),
        graph: &mut graph,
        categories: &categories,
        nodes: Vec::with_capacity(before.len()),
    };
    for node in before {
        rewriter.take(node)?;
    }
    graph.graph.node = rewriter.nodes;
    Ok(Rewritten {
        graph,
        categories,
        takes_nan,
    })
}

impl Rewriter<'_> {
    fn take(&mut self, node: NodeProto) -> Result<(), String> {
        let told = |problem: String| {
            format!(
                "operator {} (node `{}`): {problem}",
                node.op_type, node.name
            )
        };
        let taken = match node.op_type.as_str() {
            "Scaler" => self.scaler(&node),
            "Normalizer" => self.normalizer(&node),
            "LinearClassifier" => self.linear_classifier(&node),
            "LinearRegressor" => self.linear_regressor(&node),
            "Binarizer" => self.binarizer(&node),
            "Gelu" => self.gelu(&node),
            "FeatureVectorizer" => self.feature_vectorizer(&node),
            "Imputer" => self.imputer(&node),
            "OneHotEncoder" => self.one_hot_encoder(&node),
            "LabelEncoder" | "CategoryMapper" => self.lookup(&node),
            "TreeEnsembleClassifier" => self.trees(&node, 1),
            "TreeEnsembleRegressor" => self.trees(&node, 0),
            _ => {
                self.nodes.push(node.clone());
                Ok(())
            }
        };
        taken.map_err(told)
    }

    /// The evaluator reads the same attributes; `output` is the place of the scores.
    fn trees(&mut self, node: &NodeProto, output: usize) -> Result<(), String> {
        let mut trees = node.clone();
        trees.output = vec![output_of(node, output)?.to_owned()];
        trees
            .attribute
            .push(graph::integer_attribute("is_classifier", output as i64));
        trees.op_type = TREES.into();
        super::trees::Trees::read(&trees)?;
        self.nodes.push(trees);
        Ok(())
    }

    /// Adds a node; its output is named after `output`, the rewritten node's, and a word for the step.
    fn step(&mut self, operator: &str, inputs: &[&str], output: &str, step: &str) -> String {
        let name = format!("{output}/ostard/{step}");
        self.last(operator, inputs, &name);
        name
    }

    /// Adds the last node of a rewritten one.
    fn last(&mut self, operator: &str, inputs: &[&str], output: &str) {
        self.push(operator, inputs, output, vec![]);
    }

    fn push(&mut self, operator: &str, inputs: &[&str], output: &str, with: Vec<AttributeProto>) {
        self.nodes.push(graph::node(operator, inputs, output, with));
    }

    /// Adds a constant of numbers.
    fn floats(&mut self, output: &str, word: &str, shape: &[usize], values: Vec<f32>) -> String {
        let name = format!("{output}/ostard/{word}");
        self.constant(constants::floats(&name, shape, values))
    }

    /// Adds a constant of whole numbers.
    fn integers(&mut self, output: &str, word: &str, shape: &[usize], values: Vec<i64>) -> String {
        let name = format!("{output}/ostard/{word}");
        self.constant(constants::integers(&name, shape, values))
    }

    fn constant(&mut self, tensor: TensorProto) -> String {
        let name = tensor.name.clone();
        self.graph.graph.initializer.push(tensor);
        name
    }

    /// A cast, as the last node or as a step.
    fn cast(&mut self, input: &str, output: &str, kind: DataType) {
        let to = vec![graph::integer_attribute("to", kind as i64)];
        self.push("Cast", &[input], output, to);
    }
}

fn input_of(node: &NodeProto) -> Result<&str, String> {
    node.input
        .first()
        .map(String::as_str)
        .ok_or_else(|| "has no input".into())
}

fn output_of(node: &NodeProto, place: usize) -> Result<&str, String> {
    let output = node.output.get(place).filter(|name| !name.is_empty());
    output
        .map(String::as_str)
        .ok_or_else(|| format!("has no output {place}"))
}
