//! Errors as callers get them, for the services of every listener, health and reflection included.

use axum::response::Response;
use prost::bytes::Bytes;
use tonic::{Code, Status};

use crate::error_text::bounded;

/// How the texts begin that prost and tonic give to a request that they cannot read. Its status is INTERNAL, as for a defect
/// of ours. A test compares them with what the libraries say.
const UNREADABLE: [&str; 4] = [
    "failed to decode Protobuf message: ",
    "protocol error: received message with ",
    "Unexpected EOF decoding stream",
    "Missing request message",
];

/// Corrects the error of an answer, if it has one.
pub(super) async fn correct_answer(answer: Response) -> Response {
    let status = answer.extensions().get::<Status>();
    match status.and_then(correction) {
        Some(status) => status.into_http(),
        None => answer,
    }
}

/// Corrects an error that ends a stream.
pub(super) fn correct(status: Status) -> Status {
    correction(&status).unwrap_or(status)
}

/// INVALID_ARGUMENT for a request that cannot be read, and no longer text than a header has room for; `None` if nothing has to
/// change. The compressed flag without an encoding is among them, although gRPC wants INTERNAL: here that means a defect of
/// the daemon, and who sees it is asked to report it.
fn correction(status: &Status) -> Option<Status> {
    let said = status.message();
    let is_unreadable =
        status.code() == Code::Internal && UNREADABLE.iter().any(|begin| said.starts_with(begin));
    let (code, text) = if is_unreadable {
        let text = format!("the request cannot be read: {said}");
        (Code::InvalidArgument, bounded(text))
    } else {
        (status.code(), bounded(said.to_owned()))
    };
    if (code, text.as_str()) == (status.code(), said) {
        return None;
    }
    let details = Bytes::copy_from_slice(status.details());
    let metadata = status.metadata().clone();
    Some(Status::with_details_and_metadata(
        code, text, details, metadata,
    ))
}
