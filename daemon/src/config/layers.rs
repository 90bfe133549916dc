//! The layers of a configuration: defaults, a file, environment variables, flags.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use config::{File, FileFormat, Source, ValueKind};
use ostar_bundle::{SMALL_FILE, read_text_stream};
use ostar_connectors::settings::Problem;
use serde_json::Value;

use super::{
    shape::Shape,
    tree::{Origin, Tree},
};

/// Prefix of the environment variables that are settings.
const PREFIX: &str = "OSTAR__";

/// The sources of a configuration besides the defaults. Later fields win.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layers {
    /// Configuration file, TOML or YAML by its extension.
    pub(crate) file: Option<PathBuf>,
    /// Environment variables. Those without the prefix are ignored.
    pub(crate) variables: BTreeMap<String, String>,
    /// Settings by flag, in the order of the command line.
    pub(crate) flags: Vec<Flag>,
}

#[derive(Debug, Clone)]
pub(crate) struct Flag {
    /// The flag as the user typed it, for messages.
    pub(crate) name: &'static str,
    /// The key, like `kafka.topic`.
    pub(crate) key: String,
    /// The value as the user typed it.
    pub(crate) text: String,
}

/// All layers but the defaults. Later ones win.
pub(super) fn read(layers: &Layers, shape: &Shape) -> Result<Vec<Tree>, Problem> {
    let mut trees = Vec::new();
    if let Some(path) = &layers.file {
        let mut tree = file(path)?;
        tree.join_map_keys(shape);
        trees.push(tree);
    }
    for (name, text) in &layers.variables {
        if let Some(key) = name.strip_prefix(PREFIX) {
            let key = key.to_lowercase();
            let path = place(key.split("__"), shape, |rest| {
                // librdkafka's option names have dots, which names of variables cannot have.
                rest.join(".").replace('_', ".")
            });
            trees.push(single(&path, text, Origin::Variable(name.clone()), shape));
        }
    }
    for flag in &layers.flags {
        let path = place(flag.key.split('.'), shape, |rest| rest.join("."));
        trees.push(single(&path, &flag.text, Origin::Flag(flag.name), shape));
    }
    Ok(trees)
}

/// The path of keys for a key with dots. Below a map, the rest is one key.
fn place<'k>(
    keys: impl Iterator<Item = &'k str>,
    shape: &Shape,
    name: impl Fn(&[&str]) -> String,
) -> Vec<String> {
    let keys: Vec<_> = keys.collect();
    let mut path = Vec::new();
    let mut shape = Some(shape);
    for (depth, key) in keys.iter().enumerate() {
        if let Some(Shape::Map(_)) = shape {
            path.push(name(&keys[depth..]));
            return path;
        }
        path.push((*key).to_owned());
        shape = shape.and_then(|shape| shape.child(key));
    }
    path
}

/// A tree with one value, read as the type of its key.
fn single(path: &[String], text: &str, origin: Origin, shape: &Shape) -> Tree {
    let target = path
        .iter()
        .try_fold(shape, |shape, key| shape.child(key))
        .unwrap_or(&Shape::Text);
    Tree::from_json(target.interpret(text), &origin).under(path)
}

fn file(path: &Path) -> Result<Tree, Problem> {
    let refused = |hint: String| Problem::value("--config", path, hint);
    let format = match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => FileFormat::Toml,
        Some("yaml" | "yml") => FileFormat::Yaml,
        _ => {
            return Err(refused(
                "expected a name that ends in .toml, .yaml or .yml".into(),
            ));
        }
    };
    let text = read_text_stream(path, SMALL_FILE)
        .map_err(|error| refused(format!("expected a file that can be read: {error}")))?;
    parse(&text, format, &Origin::File(path.display().to_string()))
        .map_err(|error| refused(format!("expected valid {format:?}: {error}")))
}

/// Parses TOML or YAML.
pub(super) fn parse(
    text: &str,
    format: FileFormat,
    origin: &Origin,
) -> Result<Tree, config::ConfigError> {
    let fields = File::from_str(text, format).collect()?.into_iter();
    let fields = fields.map(|(key, value)| (key, json(value.kind))).collect();
    Ok(Tree::from_json(fields, origin))
}

fn json(kind: ValueKind) -> Value {
    match kind {
        ValueKind::Nil => Value::Null,
        ValueKind::Boolean(value) => value.into(),
        ValueKind::I64(value) => value.into(),
        ValueKind::U64(value) => value.into(),
        ValueKind::Float(value) if value.is_finite() => value.into(),
        ValueKind::String(value) => value.into(),
        ValueKind::Array(values) => values.into_iter().map(|value| json(value.kind)).collect(),
        ValueKind::Table(fields) => fields
            .into_iter()
            .map(|(key, value)| (key, json(value.kind)))
            .collect(),
        // JSON has no infinite or 128-bit numbers. As texts they are refused like any value of the wrong type.
        other => other.to_string().into(),
    }
}
