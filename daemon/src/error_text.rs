//! An error and its causes as one line.

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
}
