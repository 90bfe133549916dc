//! Networks made by hand, through the types of the file format: no exporter, no Python.

use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto,
    TypeProto, ValueInfoProto,
    attribute_proto::AttributeType,
    tensor_proto::DataType,
    tensor_shape_proto::{Dimension, dimension},
    type_proto::{self, Value},
};

use crate::onnx::{
    constants::{floats, integers},
    graph::{self, Graph, integer_attribute, node},
};

/// An input or output. The first size is the batch's.
pub(super) fn value(name: &str, kind: DataType, sizes: &[i64]) -> ValueInfoProto {
    let batch = Dimension {
        value: Some(dimension::Value::DimParam("N".into())),
        ..Dimension::default()
    };
    let sizes = sizes.iter().map(|size| Dimension {
        value: Some(dimension::Value::DimValue(*size)),
        ..Dimension::default()
    });
    let shape = TensorShapeProto {
        dim: std::iter::once(batch).chain(sizes).collect(),
    };
    ValueInfoProto {
        name: name.into(),
        r#type: Some(TypeProto {
            value: Some(Value::TensorType(type_proto::Tensor {
                elem_type: kind as i32,
                shape: Some(shape),
            })),
            ..TypeProto::default()
        }),
        ..ValueInfoProto::default()
    }
}

pub(super) fn numbers(name: &str, values: &[f32]) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: AttributeType::Floats as i32,
        floats: values.to_vec(),
        ..AttributeProto::default()
    }
}

pub(super) fn whole(name: &str, values: &[i64]) -> AttributeProto {
    graph::integers_attribute(name, values.to_vec())
}

pub(super) fn word(name: &str, value: &str) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: AttributeType::String as i32,
        s: value.into(),
        ..AttributeProto::default()
    }
}

pub(super) fn words(name: &str, values: &[&str]) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: AttributeType::Strings as i32,
        strings: values
            .iter()
            .map(|value| value.as_bytes().to_vec())
            .collect(),
        ..AttributeProto::default()
    }
}

pub(super) fn model(graph: GraphProto) -> Vec<u8> {
    let opset = |domain: &str, version: i64| OperatorSetIdProto {
        domain: domain.into(),
        version,
    };
    let model = ModelProto {
        ir_version: 8,
        opset_import: vec![opset("", 15), opset("ai.onnx.ml", 1)],
        ..ModelProto::default()
    };
    Graph { model, graph }.write()
}

/// Weights that are neither equal nor round.
pub(super) fn weights(count: usize, seed: f32) -> Vec<f32> {
    (0..count)
        .map(|n| ((n as f32 + seed) * 1.7).sin())
        .collect()
}

/// Scaler, one hidden layer, softmax, dictionary: what scikit-learn's MLP becomes.
pub(super) fn perceptron() -> Vec<u8> {
    let scaler = NodeProto {
        domain: "ai.onnx.ml".into(),
        attribute: vec![
            numbers("offset", &[1.0, 2.0, 3.0]),
            numbers("scale", &[0.5, 1.0, 2.0]),
        ],
        ..node("Scaler", &["X"], "scaled", vec![])
    };
    let dictionary = NodeProto {
        attribute: vec![words("classlabels_strings", &["b", "a"])],
        ..node("ZipMap", &["probabilities"], "output_probability", vec![])
    };
    model(GraphProto {
        node: vec![
            scaler,
            node("MatMul", &["scaled", "w1"], "p1", vec![]),
            node("Add", &["p1", "b1"], "a1", vec![]),
            node("Relu", &["a1"], "hidden", vec![]),
            node("MatMul", &["hidden", "w2"], "p2", vec![]),
            node("Add", &["p2", "b2"], "a2", vec![]),
            node(
                "Softmax",
                &["a2"],
                "probabilities",
                vec![integer_attribute("axis", 1)],
            ),
            node("ArgMax", &["probabilities"], "label", vec![]),
            dictionary,
        ],
        input: vec![value("X", DataType::Float, &[3])],
        output: vec![
            value("label", DataType::Int64, &[1]),
            ValueInfoProto {
                name: "output_probability".into(),
                ..ValueInfoProto::default()
            },
        ],
        initializer: vec![
            floats("w1", &[3, 4], weights(12, 0.3)),
            floats("b1", &[1, 4], weights(4, 0.1)),
            floats("w2", &[4, 2], weights(8, 0.7)),
            floats("b2", &[1, 2], weights(2, 0.9)),
        ],
        ..GraphProto::default()
    })
}

/// Two classes by one sum, and by the logistic function of it.
pub(super) fn trees() -> Vec<u8> {
    let ensemble = NodeProto {
        output: vec!["label".into(), "scores".into()],
        attribute: vec![
            whole("nodes_treeids", &[0, 0, 0, 1, 1, 1]),
            whole("nodes_nodeids", &[0, 1, 2, 0, 1, 2]),
            whole("nodes_featureids", &[0, 0, 0, 2, 0, 0]),
            numbers("nodes_values", &[0.5, 0.0, 0.0, -1.0, 0.0, 0.0]),
            words(
                "nodes_modes",
                &["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"],
            ),
            whole("nodes_truenodeids", &[1, 0, 0, 1, 0, 0]),
            whole("nodes_falsenodeids", &[2, 0, 0, 2, 0, 0]),
            whole("class_treeids", &[0, 0, 1, 1]),
            whole("class_nodeids", &[1, 2, 1, 2]),
            whole("class_ids", &[0, 0, 0, 0]),
            numbers("class_weights", &[-1.0, 2.0, 0.5, -0.25]),
            whole("classlabels_int64s", &[0, 1]),
            numbers("base_values", &[0.125]),
            word("post_transform", "LOGISTIC"),
        ],
        ..node("TreeEnsembleClassifier", &["X"], "label", vec![])
    };
    model(GraphProto {
        node: vec![ensemble],
        input: vec![value("X", DataType::Float, &[3])],
        output: vec![
            value("label", DataType::Int64, &[]),
            value("scores", DataType::Float, &[2]),
        ],
        ..GraphProto::default()
    })
}

/// A number and a text, side by side, and a linear classifier of them.
pub(super) fn columns() -> Vec<u8> {
    let one_hot = node(
        "OneHotEncoder",
        &["country"],
        "hot",
        vec![words("cats_strings", &["DE", "FR"])],
    );
    let classifier = NodeProto {
        output: vec!["label".into(), "scores".into()],
        attribute: vec![
            words("classlabels_strings", &["no", "yes"]),
            numbers("coefficients", &[-0.5, -2.0, 1.0, 0.5, 2.0, -1.0]),
            numbers("intercepts", &[0.25, -0.25]),
            word("post_transform", "LOGISTIC"),
        ],
        ..node("LinearClassifier", &["all"], "label", vec![])
    };
    model(GraphProto {
        node: vec![
            one_hot,
            node("Reshape", &["hot", "shape"], "flat", vec![]),
            node(
                "Concat",
                &["age", "flat"],
                "all",
                vec![integer_attribute("axis", 1)],
            ),
            classifier,
        ],
        input: vec![
            value("age", DataType::Float, &[1]),
            value("country", DataType::String, &[1]),
        ],
        output: vec![value("scores", DataType::Float, &[2])],
        initializer: vec![integers("shape", &[2], vec![-1, 2])],
        ..GraphProto::default()
    })
}
