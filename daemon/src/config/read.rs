//! From layers to a configuration, or to everything that is wrong with them.

use serde_path_to_error::Segment;

use super::{
    Config,
    check::check,
    layers::{self, Layers},
    print,
    problems::{Problem, Problems},
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
        let defaults = layers::defaults();
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
                problems.push(problem);
                false
            }
        };
        check(&mut tree, &defaults, &shape, &mut problems);
        let config = deserialise(&mut tree, &defaults, &mut problems);
        // Without the file, most of what follows would be complaints about what it sets.
        if readable {
            let found = config.problems();
            let found = found.iter().map(|text| located(text, &tree));
            let new: Vec<_> = found.filter(|found| !is_known(found, &problems)).collect();
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
        problems
            .0
            .retain(|problem| !unused.contains(&problem.key.as_str()));
        match problems.is_empty() {
            true => Ok(self.config),
            false => Err(problems),
        }
    }

    /// The effective configuration as TOML, secrets masked, with where each value came from.
    pub(crate) fn print(&self) -> String {
        print::print(&self.tree)
    }
}

/// Each round finds one value that its type refuses; its default takes its place, and the rest is read
/// again.
fn deserialise(tree: &mut Tree, defaults: &Tree, problems: &mut Vec<Problem>) -> Config {
    loop {
        let error = match serde_path_to_error::deserialize(tree.to_json()) {
            Ok(config) => return config,
            Err(error) => error,
        };
        let path: Vec<_> = error.path().iter().filter_map(name).collect();
        let (found, depth) = tree.descend(&path);
        let path = &path[..depth];
        problems.push(refusal(path, found, defaults, &error.inner().to_string()));
        let (default, default_depth) = defaults.descend(path);
        let default = (default_depth == depth).then(|| default.clone());
        if path.is_empty() || default.as_ref() == Some(found) {
            // The defaults themselves are refused: a test sees to it that they are not.
            return Config::default();
        }
        tree.replace(path, default);
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
fn refusal(path: &[&str], found: &Tree, defaults: &Tree, message: &str) -> Problem {
    let key = path.join(".");
    let shown = |tree: &Tree| secrets::shown(&key, &tree.to_json());
    let value = shown(found);
    let text = match defaults.descend(path) {
        _ if message.contains(&value) => format!(": {message}"),
        // The standard library's words do not say what would be right.
        _ if message.contains("invalid socket address") => {
            format!("is {value}, expected an address and a port, like \"127.0.0.1:50051\"")
        }
        (default @ Tree::Leaf { .. }, depth) if depth == path.len() => {
            format!(
                "is {value}: {message}, expected one like {}",
                shown(default)
            )
        }
        _ => format!("is {value}: {message}"),
    };
    Problem {
        origin: found.origin().cloned(),
        ..Problem::new(key, text)
    }
}

/// A problem that a section found, with where the value came from.
fn located(text: &str, tree: &Tree) -> Problem {
    let problem = Problem::from_text(text);
    let path: Vec<_> = problem.key.split('.').collect();
    let (found, depth) = tree.descend(&path);
    // The name of an option has dots itself.
    let (found, _) = found.descend(&[&path[depth..].join(".")]);
    let origin = match found {
        Tree::Leaf { origin, .. } if !is_unset(&problem.text) => Some(origin.clone()),
        _ => None,
    };
    Problem { origin, ..problem }
}

/// Whether a key has no value that could have come from anywhere.
fn is_unset(text: &str) -> bool {
    text.starts_with("is not set") || text.starts_with("is empty")
}

/// Whether a key was reported before: then a default stands there, about which there is nothing to say.
fn is_known(found: &Problem, problems: &[Problem]) -> bool {
    problems.iter().any(|known| known.key == found.key)
}
