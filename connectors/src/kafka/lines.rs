//! The JSON lines of dead letters and of parked messages.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Serialize;

use super::message::Message;
use crate::event::Rejected;

#[derive(Serialize)]
struct DeadLetterLine<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    reason: &'a str,
    detail: &'a str,
    /// Bytes of the whole payload; the line may have only its beginning.
    size: usize,
    /// In Base64, cut to `dead_letters.max_bytes`.
    key: Option<String>,
    /// Bytes of the whole key.
    key_size: usize,
    /// In Base64, cut to `dead_letters.max_bytes`.
    payload: String,
}

#[derive(Serialize)]
struct ParkedLine<'a> {
    /// `predictions` or `dead_letters`.
    output: &'a str,
    /// Topic of the event.
    topic: &'a str,
    partition: i32,
    offset: i64,
    /// Why the output was not delivered.
    reason: &'a str,
    /// Headers that the message would have had.
    headers: serde_json::Map<String, serde_json::Value>,
    /// In Base64.
    key: Option<String>,
    key_size: usize,
    /// In Base64.
    payload: String,
    size: usize,
}

/// Most bytes kept of a parked message's key and of its payload: in Base64 both fit into a record of a megabyte.
const PARKED_BYTES: usize = 300_000;

pub(super) fn dead_letter(
    topic: &str,
    rejected: &Rejected,
    key: Option<Vec<u8>>,
    payload: &[u8],
) -> Vec<u8> {
    to_bytes(&DeadLetterLine {
        topic,
        partition: rejected.partition,
        offset: rejected.offset,
        reason: rejected.reject.reason.as_str(),
        detail: &rejected.reject.detail,
        size: rejected.size,
        key: key.map(|key| STANDARD.encode(key)),
        key_size: rejected.key_size,
        payload: STANDARD.encode(payload),
    })
}

pub(super) fn parked(topic: &str, message: &Message, reason: &str) -> Vec<u8> {
    let headers = message.extra.iter();
    let encode = |bytes: &[u8]| STANDARD.encode(&bytes[..bytes.len().min(PARKED_BYTES)]);
    to_bytes(&ParkedLine {
        output: message.output.as_str(),
        topic,
        partition: message.partition,
        offset: message.offset,
        reason,
        headers: headers
            .map(|(key, value)| ((*key).to_owned(), value.clone().into()))
            .collect(),
        key: message.key.as_deref().map(encode),
        key_size: message.key.as_ref().map_or(0, Vec::len),
        payload: encode(&message.payload),
        size: message.payload.len(),
    })
}

fn to_bytes(line: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(line).expect("numbers and texts have a JSON form")
}
