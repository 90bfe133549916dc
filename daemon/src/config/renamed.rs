//! Keys and values that had another name in an earlier version, so that an old configuration is refused with the new
//! name instead of a guess.

/// Keys: the old path and the new one.
const KEYS: [(&str, &str); 7] = [
    ("grpc.max_rows", "requests.max_rows"),
    ("grpc.max_message_bytes", "requests.max_bytes"),
    ("grpc.queue_rows", "requests.queue_rows"),
    ("grpc.queue_bytes", "requests.queue_bytes"),
    ("grpc.max_wait", "requests.max_wait"),
    ("grpc.max_batch_rows", "requests.max_batch_rows"),
    ("grpc.threads", "requests.threads"),
];

/// Keys that nothing replaces, and why.
const REMOVED: [(&str, &str); 1] = [(
    "learner.method.guard.refuted_at",
    "the gate decides now whether label shift explains the stream, see learner.method.gate",
)];

/// Words: the key, the old word and the new one.
const VALUES: [(&str, &str, &str); 1] = [("serving.mode", "source", "frozen")];

/// The present path of a key that has moved.
pub(super) fn key(old: &str) -> Option<&'static str> {
    let entry = KEYS.iter().find(|(from, _)| *from == old);
    entry.map(|(_, to)| *to)
}

/// Why a key is no more.
pub(super) fn removed(old: &str) -> Option<&'static str> {
    let entry = REMOVED.iter().find(|(key, _)| *key == old);
    entry.map(|(_, reason)| *reason)
}

/// The present word for a value that has another name now.
pub(crate) fn value(key: &str, old: &str) -> Option<&'static str> {
    let entry = VALUES
        .iter()
        .find(|(at, from, _)| *at == key && *from == old);
    entry.map(|(_, _, to)| *to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, shape::Shape, tests::Trial};

    fn find<'s>(shape: &'s Shape, path: &str) -> Option<&'s Shape> {
        path.split('.')
            .try_fold(shape, |shape, key| shape.child(key))
    }

    #[test]
    fn old_keys_are_gone_and_new_ones_exist() {
        let shape = Shape::of(&Config::schema());
        for (old, new) in KEYS {
            assert!(find(&shape, old).is_none(), "{old} is still a key");
            assert!(find(&shape, new).is_some(), "{new} is not a key");
        }
        for (old, _) in REMOVED {
            assert!(find(&shape, old).is_none(), "{old} is still a key");
        }
    }

    #[test]
    fn old_values_are_refused_and_new_ones_accepted() {
        let shape = Shape::of(&Config::schema());
        for (key, old, new) in VALUES {
            let shape = find(&shape, key).unwrap();
            assert!(!shape.accepts(&old.into()), "{key} still takes {old:?}");
            assert!(shape.accepts(&new.into()), "{key} does not take {new:?}");
        }
    }

    #[test]
    fn an_old_name_of_a_key_or_a_value() {
        let mut trial = Trial::new();
        trial
            .file("ostard.toml", "[grpc]\nmax_wait = \"1s\"")
            .variable("OSTAR__GRPC__THREADS", "2")
            .set("grpc.max_message_bytes", "4000")
            .set("learner.method.guard.refuted_at", "2.0")
            .set("serving.mode", "source");
        assert_eq!(
            trial.told(),
            [
                "grpc.max_message_bytes is called requests.max_bytes now (--set)",
                "grpc.max_wait is called requests.max_wait now (file ostard.toml)",
                "grpc.threads is called requests.threads now (OSTAR__GRPC__THREADS)",
                "learner.method.guard.refuted_at is removed: the gate decides now whether label shift explains the stream, see learner.method.gate (--set)",
                "serving.mode is \"source\", which is called \"frozen\" now (--set)",
            ]
        );
    }
}
