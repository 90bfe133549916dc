//! What stands where in an event, as a tree of keys.

use std::collections::HashMap;

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
        children: HashMap<String, Node>,
        /// Whether an event without it has no input.
        is_input: bool,
    },
    Value(Vec<Use>),
    /// The input's numbers.
    Numbers,
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

fn object(is_input: bool) -> Node {
    Node::Object {
        children: HashMap::new(),
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
