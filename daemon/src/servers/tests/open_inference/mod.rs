//! The Open Inference Protocol.

mod grpc;
mod refusals;
pub(super) mod rest;
