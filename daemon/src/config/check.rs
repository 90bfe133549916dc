//! Finds all unknown keys and wrong types, and replaces them by defaults.

use std::collections::BTreeMap;

use ostar_connectors::settings::{KeyPath, Problem};
use serde_json::Value;

use super::{problems::Located, secrets, shape::Shape, suggest::nearest, tree::Tree};

/// Reports everything in the tree that its shape does not allow, and replaces it by the default, so that the rest can
/// still be read and checked.
pub(super) fn check(tree: &mut Tree, defaults: &Tree, shape: &Shape, problems: &mut Vec<Located>) {
    Check { problems }.tree(&KeyPath::default(), tree, Some(defaults), shape);
}

struct Check<'p> {
    problems: &'p mut Vec<Located>,
}

impl Check<'_> {
    /// Returns whether the tree is usable after its repair.
    fn tree(
        &mut self,
        path: &KeyPath,
        tree: &mut Tree,
        default: Option<&Tree>,
        shape: &Shape,
    ) -> bool {
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
                // A choice is one value: a half-repaired one would be neither the user's nor the default.
                let before = self.problems.len();
                self.unknown(path, fields, shape);
                self.fields(path, fields, None, shape);
                let keys: Vec<_> = fields.keys().map(String::as_str).collect();
                if keys.len() > 1 {
                    let hint = format!("holds {}, expected only one of them", keys.join(" and "));
                    self.report(Problem::key(path.clone(), hint), fields.values().next());
                }
                self.problems.len() == before && !fields.is_empty()
            }
            (shape, Tree::Leaf { value, .. }) if shape.accepts(value) => true,
            (shape, tree) => {
                self.report(mismatch(path, tree, shape), Some(tree));
                false
            }
        }
    }

    fn unknown(&mut self, path: &KeyPath, fields: &mut BTreeMap<String, Tree>, shape: &Shape) {
        let unknown = fields.keys().filter(|key| shape.child(key).is_none());
        for key in unknown.cloned().collect::<Vec<_>>() {
            let tree = fields.remove(&key);
            let known = shape.keys();
            let hint = match nearest(&key, known.iter().copied()) {
                Some(name) => format!("is not a key, did you mean {}?", path.below(name)),
                None => format!("is not a key, expected one of {}", known.join(", ")),
            };
            self.report(Problem::key(path.below(&key), hint), tree.as_ref());
        }
    }

    fn fields(
        &mut self,
        path: &KeyPath,
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
            let usable = self.tree(&path.below(key), tree, default, shape);
            if let (false, Some(default)) = (usable, default) {
                *tree = default.clone();
            }
            usable || default.is_some()
        });
    }

    /// Reports keys without a default that are not set. Returns whether there is none.
    fn missing(
        &mut self,
        path: &KeyPath,
        fields: &BTreeMap<String, Tree>,
        required: &[String],
        shape: &Shape,
    ) -> bool {
        let missing = required.iter().filter(|key| !fields.contains_key(*key));
        let mut complete = true;
        for key in missing {
            complete = false;
            let missing = path.below(key);
            // One that was there and wrong has been reported already.
            if self
                .problems
                .iter()
                .all(|known| known.problem.path != missing)
            {
                let expected = shape.child(key).map(Shape::expected).unwrap_or_default();
                let problem = Problem::unset(missing, format!("expected {expected}"));
                self.report(problem, fields.values().next());
            }
        }
        complete
    }

    /// `tree` is the value at fault, or one beside it.
    fn report(&mut self, problem: Problem, tree: Option<&Tree>) {
        let origin = tree.and_then(Tree::origin).cloned();
        self.problems.push(Located { problem, origin });
    }
}

/// A value of the wrong type, or a word that is none of those to choose from.
fn mismatch(path: &KeyPath, tree: &Tree, shape: &Shape) -> Problem {
    let expected = shape.expected();
    let Tree::Leaf { value, .. } = tree else {
        let hint = format!("is a table of keys, expected {expected}");
        return Problem::key(path.clone(), hint);
    };
    let hint = match (shape, value) {
        (Shape::Text, Value::Number(_) | Value::Bool(_)) => "expected a string, in quotes".into(),
        (Shape::Choice { words, tables }, Value::String(word)) => {
            let known = words.iter().chain(tables.keys()).map(String::as_str);
            match nearest(word, known) {
                Some(name) => format!("expected {expected}; did you mean {name:?}?"),
                None => format!("expected {expected}"),
            }
        }
        _ => format!("expected {expected}"),
    };
    Problem::value(path.clone(), secrets::masked(path, value), hint)
}
