//! What stands where in an event, as a tree of keys.

use std::collections::BTreeMap;

use super::{
    EventSettings,
    layout::{Layout, UnsuitableSettings},
    path::Path,
};

/// What a value of an event is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Id,
    Time,
    /// Position of the field in the schema.
    Field(usize),
}

/// A value of an event that is used, or that has such values inside.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Object {
        children: BTreeMap<String, Node>,
        /// Whether an event without it has no input.
        is_input: bool,
    },
    Value(Vec<Use>),
    /// The input's numbers.
    Numbers,
}

/// How many fields the uses are.
#[cfg(feature = "schemas")]
pub(super) fn fields(uses: &[Use]) -> usize {
    let is_field = |used: &&Use| matches!(used, Use::Field(_));
    uses.iter().filter(is_field).count()
}

/// Some keys of an object, each for the field at its place in the list.
pub(super) fn keys(names: &[&str]) -> Node {
    let mut children = BTreeMap::new();
    for (position, name) in names.iter().enumerate() {
        let node = children.entry((*name).to_owned());
        if let Node::Value(uses) = node.or_insert(Node::Value(Vec::new())) {
            uses.push(Use::Field(position));
        }
    }
    Node::Object {
        children,
        is_input: false,
    }
}

/// The tree of an event with these settings.
pub(super) fn tree(settings: &EventSettings, layout: &Layout) -> Result<Node, UnsuitableSettings> {
    let mut root = object(false);
    let mut place = |path: &Path, node: Node| insert(&mut root, path, node);
    match layout {
        Layout::Dense(_) => place(&layout.numbers_path(settings)?, Node::Numbers)?,
        Layout::Fields(fields) => {
            if !settings.is_flat() {
                place(&Path::key(layout.kind().as_str()), object(true))?;
            }
            for (position, path) in fields.paths(settings)?.iter().enumerate() {
                place(path, Node::Value(vec![Use::Field(position)]))?;
            }
        }
    }
    for (name, used) in [
        (&settings.id_field, Use::Id),
        (&settings.time_field, Use::Time),
    ] {
        place(&Path::pointer_or_key(name), Node::Value(vec![used]))?;
    }
    Ok(root)
}

impl Node {
    pub(super) fn child(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object { children, .. } => children.get(key),
            Self::Value(_) | Self::Numbers => None,
        }
    }
}

fn object(is_input: bool) -> Node {
    Node::Object {
        children: BTreeMap::new(),
        is_input,
    }
}

/// A value may be used for several things. It cannot be an object as well.
fn insert(root: &mut Node, path: &Path, node: Node) -> Result<(), UnsuitableSettings> {
    let conflict = || {
        UnsuitableSettings::new(format!(
            "`{path}` of events would be an object and a value, expected paths of which none is inside another: see \
             events.fields, events.id_field and events.time_field"
        ))
    };
    let mut at = root;
    for key in path.keys() {
        let Node::Object { children, .. } = at else {
            return Err(conflict());
        };
        at = children.entry(key.clone()).or_insert_with(|| object(false));
    }
    match (at, node) {
        (Node::Value(uses), Node::Value(more)) => uses.extend(more),
        (at @ Node::Object { .. }, node) if is_empty(at) => *at = node,
        _ => return Err(conflict()),
    }
    Ok(())
}

fn is_empty(node: &Node) -> bool {
    matches!(node, Node::Object { children, is_input: false } if children.is_empty())
}
