//! Finds unknown keys and wrong types, all of them, and puts defaults in their place.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{problems::Problem, renamed, secrets, shape::Shape, suggest::nearest, tree::Tree};

/// Reports what a tree holds that its shape does not allow, and repairs it from the defaults, so that
/// the rest can still be read and checked.
pub(super) fn check(tree: &mut Tree, defaults: &Tree, shape: &Shape, problems: &mut Vec<Problem>) {
    Check { problems }.tree("", tree, Some(defaults), shape);
}

struct Check<'p> {
    problems: &'p mut Vec<Problem>,
}

impl Check<'_> {
    /// Whether the tree can be used, with what was repaired in it.
    fn tree(&mut self, path: &str, tree: &mut Tree, default: Option<&Tree>, shape: &Shape) -> bool {
        match (shape, tree) {
            (Shape::Optional(_), Tree::Leaf { value, .. }) if value.is_null() => true,
            (Shape::Optional(inner), tree) => self.tree(path, tree, default, inner),
            (Shape::Table { required, .. }, Tree::Table(fields)) => {
                self.unknown(path, fields, shape);
                self.fields(path, fields, default, shape);
                self.missing(path, fields, required, shape)
            }
            (Shape::Map(_), Tree::Table(fields)) => {
                self.fields(path, fields, default, shape);
                true
            }
            (Shape::Choice { .. }, Tree::Table(fields)) => {
                // A choice is one value: half of it repaired would be neither the user's nor the default.
                let before = self.problems.len();
                self.unknown(path, fields, shape);
                self.fields(path, fields, None, shape);
                let keys: Vec<_> = fields.keys().map(String::as_str).collect();
                if keys.len() > 1 {
                    let text = format!("holds {}, expected only one of them", keys.join(" and "));
                    self.report(path, text, fields.values().next());
                }
                self.problems.len() == before && !fields.is_empty()
            }
            (shape, Tree::Leaf { value, .. }) if shape.accepts(value) => true,
            (shape, tree) => {
                let text = mismatch(path, tree, shape);
                self.report(path, text, Some(tree));
                false
            }
        }
    }

    fn unknown(&mut self, path: &str, fields: &mut BTreeMap<String, Tree>, shape: &Shape) {
        let unknown = fields.keys().filter(|key| shape.child(key).is_none());
        for key in unknown.cloned().collect::<Vec<_>>() {
            let tree = fields.remove(&key);
            let old = join(path, &key);
            let known = shape.keys();
            let text = match (renamed::key(&old), nearest(&key, known.iter().copied())) {
                (Some(new), _) => format!("is called {new} now"),
                (None, Some(name)) => {
                    format!("is not a key, did you mean {}?", join(path, name))
                }
                (None, None) => format!("is not a key, expected one of {}", known.join(", ")),
            };
            self.report(&old, text, tree.as_ref());
        }
    }

    fn fields(
        &mut self,
        path: &str,
        fields: &mut BTreeMap<String, Tree>,
        defaults: Option<&Tree>,
        shape: &Shape,
    ) {
        fields.retain(|key, tree| {
            let Some(shape) = shape.child(key) else {
                return false;
            };
            let default = match defaults {
                Some(Tree::Table(defaults)) => defaults.get(key),
                _ => None,
            };
            let usable = self.tree(&join(path, key), tree, default, shape);
            if let (false, Some(default)) = (usable, default) {
                *tree = default.clone();
            }
            usable || default.is_some()
        });
    }

    /// Whether every key is there that has no default.
    fn missing(
        &mut self,
        path: &str,
        fields: &BTreeMap<String, Tree>,
        required: &[String],
        shape: &Shape,
    ) -> bool {
        let missing = required.iter().filter(|key| !fields.contains_key(*key));
        let mut complete = true;
        for key in missing {
            complete = false;
            let key_path = join(path, key);
            // One that was there and wrong has been reported already.
            if self.problems.iter().all(|problem| problem.key != key_path) {
                let expected = shape.child(key).map(Shape::expected).unwrap_or_default();
                let text = format!("is not set, expected {expected}");
                self.report(&key_path, text, fields.values().next());
            }
        }
        complete
    }

    fn report(&mut self, path: &str, text: String, tree: Option<&Tree>) {
        self.problems.push(Problem {
            key: path.to_owned(),
            text,
            origin: tree.and_then(Tree::origin).cloned(),
        });
    }
}

/// What a value is, and what it should be.
fn mismatch(path: &str, tree: &Tree, shape: &Shape) -> String {
    let expected = shape.expected();
    let Tree::Leaf { value, .. } = tree else {
        return format!("is a table of keys, expected {expected}");
    };
    let shown = secrets::shown(path, value);
    match (shape, value) {
        (Shape::Text, Value::Number(_) | Value::Bool(_)) => {
            format!("is {shown}, expected a text, in quotes")
        }
        (Shape::Choice { words, tables }, Value::String(word)) => {
            let known = words.iter().chain(tables.keys()).map(String::as_str);
            match (renamed::value(path, word), nearest(word, known)) {
                (Some(new), _) => format!("is {shown}, which is called {new:?} now"),
                (None, Some(name)) => {
                    format!("is {shown}, expected {expected}; did you mean {name:?}?")
                }
                (None, None) => format!("is {shown}, expected {expected}"),
            }
        }
        _ => format!("is {shown}, expected {expected}"),
    }
}

fn join(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        _ => format!("{path}.{key}"),
    }
}
