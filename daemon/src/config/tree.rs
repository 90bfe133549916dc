//! Values of the configuration before they have types, each with its origin.

use std::{collections::BTreeMap, fmt};

use serde_json::Value;

use super::shape::Shape;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    Default,
    /// The file's path.
    File(String),
    /// The environment variable's name.
    Variable(String),
    /// The flag's name.
    Flag(&'static str),
    /// Any but the default: which one is not known any more.
    Changed,
}

/// A table of keys, or one value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree {
    Table(BTreeMap<String, Tree>),
    Leaf { value: Value, origin: Origin },
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File(path) => write!(formatter, "file {path}"),
            Self::Variable(name) => formatter.write_str(name),
            Self::Flag(name) => formatter.write_str(name),
            Self::Changed => formatter.write_str("changed"),
        }
    }
}

// === impl Tree ===

impl Tree {
    pub(super) fn empty() -> Self {
        Self::Table(BTreeMap::new())
    }

    /// Objects become tables, everything else becomes a value.
    pub(super) fn from_json(value: Value, origin: &Origin) -> Self {
        match value {
            Value::Object(fields) => Self::Table(
                fields
                    .into_iter()
                    .map(|(key, value)| (key, Self::from_json(value, origin)))
                    .collect(),
            ),
            value => Self::Leaf {
                value,
                origin: origin.clone(),
            },
        }
    }

    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Table(fields) => fields
                .iter()
                .map(|(key, tree)| (key.clone(), tree.to_json()))
                .collect(),
            Self::Leaf { value, .. } => value.clone(),
        }
    }

    /// Wraps the tree in tables, one per key of the path.
    pub(super) fn under(self, path: &[String]) -> Self {
        path.iter()
            .rev()
            .fold(self, |tree, key| Self::Table([(key.clone(), tree)].into()))
    }

    /// Merges another layer into this one. Its values win, key by key; another variant of a choice replaces the whole
    /// choice.
    pub(super) fn overlay(&mut self, over: Self, shape: Option<&Shape>) {
        match (self, over) {
            (Self::Table(fields), Self::Table(others)) => {
                let same = |key| shape.is_none_or(|shape| shape.merges(fields, key));
                if !others.keys().all(|key| same(key)) {
                    fields.clear();
                }
                for (key, other) in others {
                    let shape = shape.and_then(|shape| shape.child(&key));
                    let slot = fields.entry(key).or_insert_with(Self::empty);
                    slot.overlay(other, shape);
                }
            }
            (slot, over) => *slot = over,
        }
    }

    /// Joins nested tables in maps: TOML reads an unquoted `sasl.username` as a table in a table, but it is one option.
    pub(super) fn join_map_keys(&mut self, shape: &Shape) {
        let Self::Table(fields) = self else { return };
        match shape {
            Shape::Map(_) => *fields = joined(std::mem::take(fields)),
            shape => {
                for (key, tree) in fields {
                    if let Some(shape) = shape.child(key) {
                        tree.join_map_keys(shape);
                    }
                }
            }
        }
    }

    /// What is at a path.
    pub(super) fn get(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |tree, key| match tree {
            Self::Table(fields) => fields.get(*key),
            Self::Leaf { .. } => None,
        })
    }

    /// How many keys of a path exist.
    pub(super) fn depth_of(&self, path: &[&str]) -> usize {
        let exists = |depth: &usize| self.get(&path[..*depth]).is_some();
        // The empty path is the tree itself.
        (0..=path.len()).rev().find(exists).unwrap_or(0)
    }

    /// Replaces what is at a path, or removes it.
    pub(super) fn replace(&mut self, path: &[&str], with: Option<Self>) {
        let Self::Table(fields) = self else { return };
        match (path, with) {
            ([], _) => {}
            ([key], Some(tree)) => drop(fields.insert((*key).to_owned(), tree)),
            ([key], None) => drop(fields.remove(*key)),
            ([key, rest @ ..], with) => {
                if let Some(tree) = fields.get_mut(*key) {
                    tree.replace(rest, with);
                }
            }
        }
    }

    /// The origin of the value, or of a table's first value.
    pub(super) fn origin(&self) -> Option<&Origin> {
        match self {
            Self::Table(fields) => fields.values().find_map(Self::origin),
            Self::Leaf { origin, .. } => Some(origin),
        }
    }
}

fn joined(fields: BTreeMap<String, Tree>) -> BTreeMap<String, Tree> {
    let mut flat = BTreeMap::new();
    for (key, tree) in fields {
        match tree {
            Tree::Table(inner) => {
                let inner = joined(inner).into_iter();
                flat.extend(inner.map(|(rest, tree)| (format!("{key}.{rest}"), tree)));
            }
            leaf => drop(flat.insert(key, leaf)),
        }
    }
    flat
}
