//! The body's reader, for the fuzz target.

use axum::http::HeaderMap;
use tonic::Status;

use super::{super::InferRequest, body};

pub(in crate::open_inference) fn read(
    headers: &HeaderMap,
    bytes: &[u8],
    model: String,
    version: String,
) -> Result<InferRequest, Status> {
    body::read(headers, bytes, model, version).map(|(request, _)| request)
}
