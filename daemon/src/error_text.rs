//! An error and its causes as one line, of a length that fits where it goes.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

/// The error, followed by the causes that it does not quote itself: many errors do, and nobody wants to read "no space
/// left on device" twice.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !line.contains(&cause) {
            line.push_str(": ");
            line.push_str(&cause);
        }
    }
    line
}

/// Longest text of an error that a client gets, in bytes. Over gRPC it is a header, which clients take up to some kilobytes
/// and which may take three bytes for one.
const LONGEST: usize = 1_000;
/// What is kept of a longer one: its beginning says what is wrong, its end what was expected.
const HEAD: usize = 600;
const TAIL: usize = 300;

/// The text of an error for a client. It may quote what the client sent, which can be megabytes: of a long one the middle is left
/// out.
pub(crate) fn bounded(text: String) -> String {
    if text.len() <= LONGEST {
        return text;
    }
    let boundary = |mut places: std::ops::Range<usize>| {
        let place = places.find(|place| text.is_char_boundary(*place));
        place.unwrap_or(text.len())
    };
    // A character has at most four bytes.
    let (head, tail) = (
        boundary(HEAD - 3..HEAD + 1),
        boundary(text.len() - TAIL..text.len()),
    );
    let left_out = tail - head;
    format!(
        "{}... {left_out} bytes left out ...{}",
        &text[..head],
        &text[tail..]
    )
}

/// The answer to a refused HTTP request. The Open Inference Protocol wants errors in this form; other paths prescribe none.
pub(crate) fn refusal(code: StatusCode, problem: &str) -> Response {
    (code, Json(json!({ "error": problem }))).into_response()
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::Context;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot write state: {0}")]
    struct Quoting(#[source] io::Error);

    #[test]
    fn a_cause_that_its_error_quotes_is_not_told_twice() {
        let full = || io::Error::other("no space left on device");
        let error = Err::<(), _>(Quoting(full())).context("cannot write a checkpoint");
        let expected = "cannot write a checkpoint: cannot write state: no space left on device";
        assert_eq!(one_line(&error.unwrap_err()), expected);
        let plain = Err::<(), _>(full()).context("cannot write a checkpoint");
        let expected = "cannot write a checkpoint: no space left on device";
        assert_eq!(one_line(&plain.unwrap_err()), expected);
    }

    #[test]
    fn of_a_long_text_the_beginning_and_the_end_are_kept() {
        let fits = "x".repeat(LONGEST);
        assert_eq!(bounded(fits.clone()), fits);
        let text = bounded(format!("input {:?}: expected FP32", "ä".repeat(100_000)));
        assert!(text.len() <= LONGEST, "{}", text.len());
        assert!(text.starts_with("input \"ä"), "{text}");
        assert!(text.ends_with("ä\": expected FP32"), "{text}");
        assert!(text.contains(" bytes left out ..."), "{text}");
    }
}
