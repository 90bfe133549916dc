//! The lists of a node that describe its trees, checked.

use std::collections::HashMap;

use tract_onnx::pb::NodeProto;

use super::{Node, Rule};
use crate::onnx::graph::{attribute, integers, numbers, texts};

/// Where each node of each tree is: (tree, id) to its place in the lists.
pub(super) type Places = HashMap<(i64, i64), usize>;

/// The nodes as the file has them: lists of one length.
pub(super) struct Lists<'n> {
    pub(super) ids: &'n [i64],
    trees: &'n [i64],
    modes: Vec<String>,
    features: &'n [i64],
    values: &'n [f32],
    yes: &'n [i64],
    no: &'n [i64],
    /// May be shorter.
    missing: &'n [i64],
}

impl<'n> Lists<'n> {
    pub(super) fn read(node: &'n NodeProto) -> Result<Self, String> {
        let list = |name: &str| integers(node, name);
        let lists = Self {
            ids: list("nodes_nodeids"),
            trees: list("nodes_treeids"),
            modes: texts(node, "nodes_modes"),
            features: list("nodes_featureids"),
            values: numbers(node, "nodes_values"),
            yes: list("nodes_truenodeids"),
            no: list("nodes_falsenodeids"),
            missing: list("nodes_missing_value_tracks_true"),
        };
        let count = lists.ids.len();
        let lengths = [
            lists.trees.len(),
            lists.modes.len(),
            lists.features.len(),
            lists.values.len(),
            lists.yes.len(),
            lists.no.len(),
        ];
        if count == 0 || lengths.iter().any(|length| *length != count) {
            return Err(format!(
                "has {count} nodes with lists of {lengths:?}, expected single precision and lists of one length"
            ));
        }
        Ok(lists)
    }

    pub(super) fn places(&self) -> Places {
        let numbered = self.trees.iter().zip(self.ids).enumerate();
        numbered.map(|(n, (tree, id))| ((*tree, *id), n)).collect()
    }

    /// The nodes, and which of them have a parent.
    pub(super) fn nodes(
        &self,
        place: &Places,
        ranges: &[(usize, usize)],
    ) -> Result<(Vec<Node>, Vec<bool>), String> {
        let child = |n: usize, id: i64| {
            let found = place.get(&(self.trees[n], id)).copied();
            found.ok_or_else(|| format!("tree {} has no node {id}", self.trees[n]))
        };
        let mut has_parent = vec![false; self.ids.len()];
        let mut nodes = Vec::with_capacity(self.ids.len());
        for (n, (first, end)) in ranges.iter().copied().enumerate() {
            let Some(rule) = rule(&self.modes[n])? else {
                nodes.push(Node::Leaf { first, end });
                continue;
            };
            let feature = usize::try_from(self.features[n])
                .map_err(|_| format!("has feature {}, expected 0 or more", self.features[n]))?;
            let (yes, no) = (child(n, self.yes[n])?, child(n, self.no[n])?);
            let children = if yes == no { vec![yes] } else { vec![yes, no] };
            for next in children {
                // One parent each, and roots have none: no branch leads back to where it came from.
                if std::mem::replace(&mut has_parent[next], true) {
                    return Err(format!(
                        "tree {} has a node with two parents",
                        self.trees[n]
                    ));
                }
            }
            nodes.push(Node::Branch {
                feature,
                value: self.values[n],
                rule,
                missing_is_true: self.missing.get(n) == Some(&1),
                yes,
                no,
            });
        }
        Ok((nodes, has_parent))
    }

    /// The nodes without a parent, one for each tree.
    pub(super) fn roots(&self, has_parent: &[bool]) -> Result<Vec<usize>, String> {
        let mut roots: Vec<usize> = Vec::new();
        let mut last = None;
        for (n, tree) in self.trees.iter().enumerate() {
            if has_parent[n] {
                continue;
            }
            if last.replace(tree) == Some(tree) {
                return Err(format!("tree {tree} has two roots"));
            }
            roots.push(n);
        }
        if roots.is_empty() {
            return Err("has a branch that leads back".into());
        }
        Ok(roots)
    }
}

/// The rule of a node; `None` for a leaf.
fn rule(mode: &str) -> Result<Option<Rule>, String> {
    Ok(Some(match mode {
        "LEAF" => return Ok(None),
        "BRANCH_LT" => Rule::Less,
        "BRANCH_LEQ" => Rule::LessOrEqual,
        "BRANCH_GT" => Rule::Greater,
        "BRANCH_GTE" => Rule::GreaterOrEqual,
        "BRANCH_EQ" => Rule::Equal,
        "BRANCH_NEQ" => Rule::NotEqual,
        other => return Err(format!("has a node of mode {other:?}")),
    }))
}

type Votes = (usize, Vec<(usize, f32)>, Vec<(usize, usize)>);

/// How many outputs there are, all votes by leaf, and the range of each node's votes.
pub(super) fn votes(
    node: &NodeProto,
    is_classifier: bool,
    count: usize,
    place: &Places,
) -> Result<Votes, String> {
    let prefix = if is_classifier { "class" } else { "target" };
    let list = |name: &str| integers(node, &format!("{prefix}_{name}"));
    let (trees, ids, outputs) = (list("treeids"), list("nodeids"), list("ids"));
    let weights = numbers(node, &format!("{prefix}_weights"));
    if [ids.len(), outputs.len(), weights.len()] != [trees.len(); 3] || trees.is_empty() {
        return Err(format!(
            "has {} leaves with lists of other lengths",
            trees.len()
        ));
    }
    let width = if is_classifier {
        let integers = integers(node, "classlabels_int64s").len();
        integers.max(texts(node, "classlabels_strings").len())
    } else {
        let targets = attribute(node, "n_targets").map_or(1, |targets| targets.i);
        usize::try_from(targets).unwrap_or(0)
    };
    // A leaf votes for each of them at most; more would be memory for nothing.
    if width == 0 || width > 100_000 {
        return Err(format!("has {width} outputs, expected 1 to 100000"));
    }
    let mut by_leaf: Vec<Vec<(usize, f32)>> = vec![Vec::new(); count];
    for n in 0..trees.len() {
        let leaf = place.get(&(trees[n], ids[n]));
        let leaf = *leaf.ok_or_else(|| format!("tree {} has no leaf {}", trees[n], ids[n]))?;
        let output = usize::try_from(outputs[n])
            .ok()
            .filter(|output| *output < width);
        let output = output.ok_or_else(|| {
            format!(
                "a leaf is for output {}, expected below {width}",
                outputs[n]
            )
        })?;
        by_leaf[leaf].push((output, weights[n]));
    }
    let mut all = Vec::with_capacity(trees.len());
    let mut ranges = Vec::with_capacity(count);
    for votes in by_leaf {
        let first = all.len();
        all.extend(votes);
        ranges.push((first, all.len()));
    }
    Ok((width, all, ranges))
}
