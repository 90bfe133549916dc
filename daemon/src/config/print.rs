//! The effective configuration as TOML, with where each value came from.

use std::{collections::BTreeMap, fmt::Write};

use super::{secrets, tree::Tree};

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
