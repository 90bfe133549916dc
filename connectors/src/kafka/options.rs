//! Options for librdkafka: secrets are masked, and options that would break a guarantee are refused.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::settings::{MASK, without_credentials};

/// Options of librdkafka by name. Dots may be written as underscores, so that names fit environment variables.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Options(pub BTreeMap<String, String>);

/// Options that may not be set, and why or what to set instead.
const RESERVED: [(&[&str], &str); 5] = [
    (
        &["bootstrap.servers", "metadata.broker.list"],
        "set kafka.brokers instead",
    ),
    (&["group.id"], "set kafka.group instead"),
    (
        &["auto.offset.reset"],
        "set kafka.start and kafka.on_lost_offsets instead",
    ),
    (
        &[
            "enable.auto.commit",
            "enable.auto.offset.store",
            "enable.partition.eof",
            "group.instance.id",
            "group.protocol",
        ],
        "offsets are committed after outputs are flushed, and this would change that",
    ),
    (
        &[
            "acks",
            "request.required.acks",
            "delivery.timeout.ms",
            "message.timeout.ms",
            "enable.idempotence",
            "transactional.id",
        ],
        "outputs are delivered at least once, and this would change that",
    ),
];

/// The option's name with dots, as librdkafka knows it.
pub(super) fn canonical(name: &str) -> String {
    name.replace('_', ".")
}

/// Whether the option's value must not appear in logs, errors and `config show`.
pub fn is_secret(option: &str) -> bool {
    let name = canonical(&option.to_ascii_lowercase());
    ["password", "secret", "key.pem", "oauthbearer.config"]
        .iter()
        .any(|part| name.contains(part))
}

/// Why an option may not be set, or what to set instead; `None` if it may.
pub(super) fn reason_reserved(option: &str) -> Option<&'static str> {
    let name = canonical(option);
    let entry = RESERVED
        .iter()
        .find(|(names, _)| names.contains(&name.as_str()));
    entry.map(|(_, reason)| *reason)
}

// === impl Options ===

impl Options {
    fn masked(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        self.0.iter().map(|(name, value)| {
            let shown = if is_secret(name) {
                Cow::Borrowed(MASK)
            } else {
                without_credentials(value)
            };
            (name.as_str(), shown)
        })
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.masked()).finish()
    }
}

impl Serialize for Options {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.masked())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_shown_neither_by_debug_nor_by_serialisation() {
        let options = Options(BTreeMap::from([
            ("sasl_password".to_owned(), "hunter2".to_owned()),
            ("ssl.key.pem".to_owned(), "hunter2".to_owned()),
            ("fetch.min.bytes".to_owned(), "7".to_owned()),
        ]));
        for shown in [
            format!("{options:?}"),
            serde_json::to_string(&options).unwrap(),
        ] {
            assert!(!shown.contains("hunter2"), "{shown}");
            assert!(shown.contains("fetch.min.bytes"), "{shown}");
        }
    }

    #[test]
    fn options_that_would_break_a_promise_are_refused_in_both_spellings() {
        assert!(reason_reserved("enable.auto.commit").is_some());
        assert!(reason_reserved("enable_auto_commit").is_some());
        assert!(reason_reserved("group.id").is_some());
        assert!(reason_reserved("fetch.min.bytes").is_none());
    }
}
