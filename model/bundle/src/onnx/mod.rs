//! ONNX networks that are run in process, as an encoder (g) or as a black box.
//!
//! Others see [`OnnxNetwork`]: rows of inputs go in, rows of numbers come out. What is behind it (the graph, the rewriting
//! of operators, tract) is in this module and [`import`](crate::import), and only in builds with the feature `onnx`.

#[cfg(not(feature = "onnx"))]
mod absent;
#[cfg(feature = "onnx")]
pub(crate) mod constants;
#[cfg(feature = "onnx")]
pub(crate) mod graph;
#[cfg(feature = "onnx")]
pub(crate) mod head;
#[cfg(feature = "onnx")]
pub(crate) mod network;
#[cfg(feature = "onnx")]
pub(crate) mod plan;
#[cfg(feature = "onnx")]
pub(crate) mod rewrite;
#[cfg(feature = "onnx")]
mod tree_operator;
#[cfg(feature = "onnx")]
pub(crate) mod trees;

#[cfg(not(feature = "onnx"))]
pub use absent::OnnxNetwork;
#[cfg(not(feature = "onnx"))]
pub(crate) use absent::refusal;
#[cfg(feature = "onnx")]
pub use network::OnnxNetwork;
