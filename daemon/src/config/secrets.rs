//! Which values must not be shown.

use serde_json::Value;

/// Options of librdkafka that are themselves secret. Paths and names of variables are not: they are
/// under other keys.
const SECRET: [&str; 5] = ["password", "secret", "token", ".pem", "oauthbearer.config"];

const MASK: &str = "\"***\"";

/// A value as it may be shown, in a form that TOML and JSON share.
pub(super) fn shown(key: &str, value: &Value) -> String {
    let option = key.strip_prefix("kafka.options.");
    let secret = option.is_some_and(|option| SECRET.iter().any(|word| option.contains(word)));
    match secret {
        true => MASK.to_owned(),
        false => value.to_string(),
    }
}
