//! The effective configuration as TOML, with the origin of each value.

use std::{collections::BTreeMap, fmt::Write};

use ostar_connectors::settings::KeyPath;
use serde_json::Value;

use super::{
    Config, secrets,
    tree::{Origin, Tree},
};

impl Config {
    /// The effective configuration for the live page: TOML, secrets masked, each value marked as default or changed.
    pub(crate) fn in_effect(&self) -> String {
        let values = |config| serde_json::to_value(config).unwrap_or_default();
        print(&compared(values(self), Some(&values(&Self::default()))))
    }
}

/// A tree whose origins say which values differ from the defaults.
fn compared(value: Value, default: Option<&Value>) -> Tree {
    match value {
        Value::Object(fields) => {
            let below = |(key, value): (String, Value)| {
                let tree = compared(value, default.and_then(|default| default.get(&key)));
                (key, tree)
            };
            Tree::Table(fields.into_iter().map(below).collect())
        }
        value => Tree::Leaf {
            origin: if Some(&value) == default {
                Origin::Default
            } else {
                Origin::Changed
            },
            value,
        },
    }
}

/// TOML with secrets masked.
pub(super) fn print(tree: &Tree) -> String {
    let mut text = String::new();
    if let Tree::Table(fields) = tree {
        table(&mut text, &KeyPath::default(), fields);
    }
    text
}

fn table(text: &mut String, path: &KeyPath, fields: &BTreeMap<String, Tree>) {
    let values = fields.iter().filter_map(|(name, tree)| match tree {
        Tree::Leaf { value, .. } if value.is_null() => None,
        Tree::Leaf { value, origin } => {
            // JSON and TOML write numbers, texts and lists the same.
            let value = secrets::masked(&path.below(name), value);
            Some(format!("{} = {value} # {origin}\n", quoted(name)))
        }
        Tree::Table(_) => None,
    });
    let values: String = values.collect();
    if !values.is_empty() {
        let space = if text.is_empty() { "" } else { "\n" };
        let keys: Vec<_> = path.keys().iter().map(|key| quoted(key)).collect();
        // Keys before the first section have no heading.
        let heading = if keys.is_empty() {
            String::new()
        } else {
            format!("[{}]\n", keys.join("."))
        };
        let _ = write!(text, "{space}{heading}{values}");
    }
    for (name, tree) in fields {
        if let Tree::Table(fields) = tree {
            table(text, &path.below(name), fields);
        }
    }
}

/// The key, in quotes if TOML requires them.
fn quoted(name: &str) -> String {
    let bare = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    if name.chars().all(bare) {
        name.to_owned()
    } else {
        format!("{name:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_effect_tells_defaults_from_changes_and_keeps_secrets() {
        let mut config = Config::default();
        config.learner.block = 123;
        let options = &mut config.kafka.options.0;
        options.insert("sasl.password".into(), "hunter2".into());
        let text = config.in_effect();
        for line in [
            "[learner]",
            "block = 123 # changed",
            "steps_per_block = 5 # default",
            "\"sasl.password\" = \"***\" # changed",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} in {text}");
        }
        assert!(!text.contains("hunter2"), "{text}");
    }
}
