//! From layers to a configuration, or to everything that is wrong with them.

use ostar_connectors::settings::{KeyPath, Problem};
use serde_path_to_error::Segment;

use super::{
    Config,
    check::check,
    defaults,
    layers::{self, Layers},
    print,
    problems::{Located, Problems},
    secrets,
    shape::Shape,
    tree::Tree,
};

/// What was read. Where there are problems, defaults stand in.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) config: Config,
    pub(crate) problems: Problems,
    tree: Tree,
}

impl Reading {
    /// Reads all layers. Never fails: what is wrong is in `problems`.
    pub(crate) fn new(layers: &Layers) -> Self {
        let shape = Shape::of(&Config::schema());
        let defaults = defaults::tree();
        let mut tree = defaults.clone();
        let mut problems = Vec::new();
        let readable = match layers::read(layers, &shape) {
            Ok(layers) => {
                for layer in layers {
                    tree.overlay(layer, Some(&shape));
                }
                true
            }
            Err(problem) => {
                let origin = None;
                problems.push(Located { problem, origin });
                false
            }
        };
        check(&mut tree, &defaults, &shape, &mut problems);
        let config = deserialise(&mut tree, &defaults, &mut problems);
        // Without the file, most of what follows would be complaints about what it sets.
        if readable {
            let found = config.problems().into_iter();
            // A key that was reported before holds its default now, about which there is nothing to say.
            let new = found.filter(|found| {
                let known = |known: &Located| known.problem.path == found.path;
                !problems.iter().any(known)
            });
            let new: Vec<_> = new
                .map(|problem| Located::in_tree(problem, &tree))
                .collect();
            problems.extend(new);
        }
        Self {
            config,
            problems: Problems(problems),
            tree,
        }
    }

    /// The configuration, if nothing is wrong.
    pub(crate) fn valid(self) -> Result<Config, Problems> {
        self.valid_without(&[])
    }

    /// The configuration for a command that does not use some keys, if nothing is wrong with the others.
    pub(crate) fn valid_without(self, unused: &[&str]) -> Result<Config, Problems> {
        let mut problems = self.problems;
        let unused: Vec<_> = unused.iter().copied().map(KeyPath::from).collect();
        problems
            .0
            .retain(|located| !unused.contains(&located.problem.path));
        if problems.is_empty() {
            Ok(self.config)
        } else {
            Err(problems)
        }
    }

    /// The effective configuration as TOML, secrets masked, with where each value came from.
    pub(crate) fn print(&self) -> String {
        print::print(&self.tree)
    }
}

/// Each round finds one value that its type refuses. Its default takes its place, and the rest is read again.
fn deserialise(tree: &mut Tree, defaults: &Tree, problems: &mut Vec<Located>) -> Config {
    loop {
        let error = match serde_path_to_error::deserialize(tree.to_json()) {
            Ok(config) => return config,
            Err(error) => error,
        };
        let path: Vec<_> = error.path().iter().filter_map(name).collect();
        // The error can be at a key that is missing: then the table around it is at fault.
        let depth = tree.depth_of(&path);
        let path = &path[..depth];
        let default = defaults.get(path);
        let found = tree.get(path).expect("the tree is as deep as this path");
        problems.push(refusal(path, found, default, &error.inner().to_string()));
        if path.is_empty() || default == Some(found) {
            // The defaults themselves are refused: a test sees to it that they are not.
            return Config::default();
        }
        tree.replace(path, default.cloned());
    }
}

fn name(segment: &Segment) -> Option<&str> {
    match segment {
        Segment::Map { key } => Some(key),
        Segment::Enum { variant } => Some(variant),
        Segment::Seq { .. } | Segment::Unknown => None,
    }
}

/// A value that its type refuses, with the default as an example of a right one.
fn refusal(path: &[&str], found: &Tree, default: Option<&Tree>, message: &str) -> Located {
    let path: Vec<_> = path.iter().copied().map(str::to_owned).collect();
    let path = KeyPath::from(path);
    let shown = |tree: &Tree| secrets::masked(&path, &tree.to_json());
    let hint = if message.starts_with("expected ") {
        message.to_owned()
    } else if message.contains("invalid socket address") {
        // The standard library does not say what would be right.
        "expected an address and a port, like \"127.0.0.1:50051\"".to_owned()
    } else if let Some(default @ Tree::Leaf { .. }) = default {
        format!("expected a value like {}: {message}", shown(default))
    } else {
        format!("expected another value: {message}")
    };
    Located {
        problem: Problem::value(path.clone(), shown(found), hint),
        origin: found.origin().cloned(),
    }
}
