//! The effective configuration as TOML, with where each value came from.

use std::{collections::BTreeMap, fmt::Write};

use serde_json::Value;

use super::{
    Config, secrets,
    tree::{Origin, Tree},
};

impl Config {
    /// All values, section by section, secrets masked, with whether each is the default.
    pub(crate) fn in_effect(&self) -> String {
        let values = |config| serde_json::to_value(config).unwrap_or_default();
        print(&compared(values(self), Some(&values(&Self::default()))))
    }
}

/// The values as a tree that knows which of them differ from the defaults.
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
            origin: match Some(&value) == default {
                true => Origin::Default,
                false => Origin::Changed,
            },
            value,
        },
    }
}

/// All values, section by section, secrets masked.
pub(super) fn print(tree: &Tree) -> String {
    let mut text = String::new();
    if let Tree::Table(fields) = tree {
        table(&mut text, "", "", fields);
    }
    text
}

/// `key` is how people write the path, `header` how TOML does.
fn table(text: &mut String, key: &str, header: &str, fields: &BTreeMap<String, Tree>) {
    let below = |name: &str| match key {
        "" => name.to_owned(),
        _ => format!("{key}.{name}"),
    };
    let values = fields.iter().filter_map(|(name, tree)| match tree {
        Tree::Leaf { value, .. } if value.is_null() => None,
        Tree::Leaf { value, origin } => {
            let value = secrets::shown(&below(name), value);
            Some(format!("{} = {value} # {origin}\n", quoted(name)))
        }
        Tree::Table(_) => None,
    });
    let values: String = values.collect();
    if !values.is_empty() {
        let space = if text.is_empty() { "" } else { "\n" };
        let _ = write!(text, "{space}[{header}]\n{values}");
    }
    for (name, tree) in fields {
        if let Tree::Table(fields) = tree {
            let header = match header {
                "" => quoted(name),
                _ => format!("{header}.{}", quoted(name)),
            };
            table(text, &below(name), &header, fields);
        }
    }
}

/// A key as TOML wants it.
fn quoted(name: &str) -> String {
    let bare = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    match name.chars().all(bare) {
        true => name.to_owned(),
        false => format!("{name:?}"),
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
