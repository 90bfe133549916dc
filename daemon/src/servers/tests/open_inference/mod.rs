//! The Open Inference Protocol.

mod grpc;
mod refusals;
mod rest;
