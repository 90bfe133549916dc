//! What is wrong with a configuration, all of it at once.

use std::fmt;

use ostar_connectors::settings::{Found, Problem};
use serde_json::Value;

use super::tree::{Origin, Tree};

/// A problem, with where the value came from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Located {
    pub(super) problem: Problem,
    /// `None` if the setting holds nothing.
    pub(super) origin: Option<Origin>,
}

/// Everything that is wrong, in the order of its discovery.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Problems(pub(super) Vec<Located>);

// === impl Located ===

impl Located {
    /// Finds in the tree where the value came from.
    pub(super) fn in_tree(problem: Problem, tree: &Tree) -> Self {
        let path: Vec<_> = problem.path.keys().iter().map(String::as_str).collect();
        let origin = match (tree.get(&path), &problem.found) {
            (_, Found::Unset) => None,
            (_, Found::Value(Value::String(text))) if text.is_empty() => None,
            (Some(Tree::Leaf { origin, .. }), _) => Some(origin.clone()),
            _ => None,
        };
        Self { problem, origin }
    }
}

impl fmt::Display for Located {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.problem)?;
        match &self.origin {
            Some(origin) => write!(formatter, " ({origin})"),
            None => Ok(()),
        }
    }
}

// === impl Problems ===

impl Problems {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// One that was found beside the configuration's own values.
impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        let origin = None;
        Self(vec![Located { problem, origin }])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => write!(formatter, "a problem in the configuration:")?,
            count => write!(formatter, "{count} problems in the configuration:")?,
        }
        for problem in &self.0 {
            write!(formatter, "\n  {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
