//! Addresses may carry a user and a password, which must not be shown.

use std::borrow::Cow;

/// What stands for a secret.
pub const MASK: &str = "***";

/// The text with the passwords of its addresses masked: `http://user:***@host`. What stands before the `@` alone may be a token,
/// and is masked as a whole.
pub fn without_credentials(text: &str) -> Cow<'_, str> {
    const BEGIN: &str = "://";
    let mut shown = String::new();
    let mut rest = text;
    while let Some(begin) = rest.find(BEGIN) {
        let (before, after) = rest.split_at(begin + BEGIN.len());
        shown += before;
        rest = after;
        if let Some(end) = credentials(after) {
            if let Some((user, _)) = after[..end].split_once(':') {
                shown += user;
                shown.push(':');
            }
            shown += MASK;
            rest = &after[end..];
        }
    }
    if shown.is_empty() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(shown + rest)
}

/// Where the `@` is that ends the credentials of an address, if it has some.
fn credentials(address: &str) -> Option<usize> {
    let is_end = |letter: char| letter.is_whitespace() || "\"'`<>".contains(letter);
    let address = &address[..address.find(is_end).unwrap_or(address.len())];
    let host = &address[..address.find(['/', '?', '#']).unwrap_or(address.len())];
    host.rfind('@').or_else(|| {
        // A password may have a slash that nobody has escaped: then what looks like the port is none.
        let (_, port) = host.rsplit_once(':')?;
        let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
        if is_port { None } else { address.rfind('@') }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_addresses_are_masked_wherever_they_stand() {
        for (text, shown) in [
            (
                "http://ann:hunter2@registry:8081/x",
                "http://ann:***@registry:8081/x",
            ),
            ("https://token@registry", "https://***@registry"),
            ("http://ann:@registry", "http://ann:***@registry"),
            ("http://ann:a@b:c@registry", "http://ann:***@registry"),
            ("http://ann:hun/ter@registry/x", "http://ann:***@registry/x"),
            (
                "SASL_SSL://a:b@one:1,SASL_SSL://c:d@two:2",
                "SASL_SSL://a:***@one:1,SASL_SSL://c:***@two:2",
            ),
            (
                "cannot reach \"http://a:b@one/x\": http://a:b@one/x is down",
                "cannot reach \"http://a:***@one/x\": http://a:***@one/x is down",
            ),
            ("http://a:b@", "http://a:***@"),
        ] {
            assert_eq!(without_credentials(text), shown);
        }
        for text in [
            "",
            "nobody@example.com",
            "one:9092,two:9092",
            "http://registry:8081",
            "http://registry:8081/subjects/a@b",
            "http://registry/?mail=a@b",
            "http://registry by ann@example.com",
            "://",
        ] {
            assert_eq!(without_credentials(text), text);
        }
    }
}
