//! Decision trees, as `TreeEnsembleClassifier` and `TreeEnsembleRegressor` describe them.
//!
//! Our own evaluator: tract's does not check places of features and classes, so that a broken file would read beyond its
//! memory, and lacks regressors and some of the ways to write two classes. The results are those of onnxruntime, also
//! where the standard is vague.

use std::collections::HashMap;

use tract_onnx::pb::NodeProto;

use super::graph::{attribute, integers, numbers, text, texts};

/// An ensemble of trees.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trees {
    nodes: Vec<Node>,
    roots: Vec<usize>,
    /// Classes or targets, and numbers, of all leaves.
    votes: Vec<(usize, f32)>,
    /// Features that are looked at; inputs must have as many.
    features: usize,
    /// Numbers of a row that comes out.
    outputs: usize,
    base: Vec<f32>,
    finish: Finish,
    aggregate: Aggregate,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Node {
    Branch {
        feature: usize,
        value: f32,
        rule: Rule,
        missing_is_true: bool,
        yes: usize,
        no: usize,
    },
    /// A range of votes.
    Leaf { first: usize, end: usize },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Rule {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

/// What becomes of the sums.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Finish {
    None,
    Softmax,
    Logistic,
    /// Two classes by one sum of weights that are never negative: 1 - s and s.
    Share,
    /// Two classes by one sum: -s and s.
    Sign,
    /// Two classes by one sum: the logistic function of -s and s.
    TwoLogistic,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Aggregate {
    Sum,
    Average,
    Min,
    Max,
}

impl Trees {
    /// Reads a node's attributes, and checks that every place exists and that no branch leads back.
    pub(super) fn read(node: &NodeProto) -> Result<Self, String> {
        let is_classifier = attribute(node, "is_classifier").is_some_and(|is| is.i == 1);
        let list = |name: &str| integers(node, name);
        let (ids, trees) = (list("nodes_nodeids"), list("nodes_treeids"));
        let modes = texts(node, "nodes_modes");
        let (features, values) = (list("nodes_featureids"), numbers(node, "nodes_values"));
        let (yes, no) = (list("nodes_truenodeids"), list("nodes_falsenodeids"));
        let missing = list("nodes_missing_value_tracks_true");
        let count = ids.len();
        let lengths = [
            trees.len(),
            modes.len(),
            features.len(),
            values.len(),
            yes.len(),
            no.len(),
        ];
        if count == 0 || lengths.iter().any(|length| *length != count) {
            return Err(format!(
                "has {count} nodes with lists of {lengths:?}, expected single precision and lists of one length"
            ));
        }
        let place: HashMap<(i64, i64), usize> =
            (0..count).map(|n| ((trees[n], ids[n]), n)).collect();
        let (outputs, votes, ranges) = votes(node, is_classifier, count, &place)?;
        let child = |n: usize, id: i64| {
            let found = place.get(&(trees[n], id)).copied();
            found.ok_or_else(|| format!("tree {} has no node {id}", trees[n]))
        };
        let mut has_parent = vec![false; count];
        let mut nodes = Vec::with_capacity(count);
        let mut highest = 0;
        for n in 0..count {
            let Some(rule) = rule(&modes[n])? else {
                let (first, end) = ranges[n];
                nodes.push(Node::Leaf { first, end });
                continue;
            };
            let feature = usize::try_from(features[n])
                .map_err(|_| format!("has feature {}, expected 0 or more", features[n]))?;
            highest = highest.max(feature + 1);
            let (yes, no) = (child(n, yes[n])?, child(n, no[n])?);
            let children = if yes == no { vec![yes] } else { vec![yes, no] };
            for next in children {
                // One parent each, and roots have none: no branch leads back to where it came from.
                if std::mem::replace(&mut has_parent[next], true) {
                    return Err(format!("tree {} has a node with two parents", trees[n]));
                }
            }
            nodes.push(Node::Branch {
                feature,
                value: values[n],
                rule,
                missing_is_true: missing.get(n) == Some(&1),
                yes,
                no,
            });
        }
        let mut roots: Vec<usize> = Vec::new();
        let mut last = None;
        for n in (0..count).filter(|n| !has_parent[*n]) {
            if last.replace(trees[n]) == Some(trees[n]) {
                return Err(format!("tree {} has two roots", trees[n]));
            }
            roots.push(n);
        }
        if roots.is_empty() {
            return Err("has a branch that leads back".into());
        }
        let mut base = numbers(node, "base_values").to_vec();
        let all_positive = votes.iter().all(|(_, weight)| *weight >= 0.0);
        let one_sum = outputs == 2 && votes.iter().all(|(class, _)| *class == 0);
        let transform = text(node, "post_transform").unwrap_or("NONE");
        let finish = match (is_classifier && one_sum && base.len() < 2, transform) {
            (true, "LOGISTIC") => Finish::TwoLogistic,
            (true, "NONE" | "SOFTMAX") if all_positive => Finish::Share,
            (true, "NONE" | "SOFTMAX") => Finish::Sign,
            (false, "NONE") => Finish::None,
            (false, "SOFTMAX") => Finish::Softmax,
            (false, "LOGISTIC") => Finish::Logistic,
            (_, other) => {
                return Err(format!(
                    "has post_transform {other}, expected NONE, SOFTMAX or LOGISTIC"
                ));
            }
        };
        let aggregate = match text(node, "aggregate_function").unwrap_or("SUM") {
            "SUM" => Aggregate::Sum,
            "AVERAGE" => Aggregate::Average,
            "MIN" => Aggregate::Min,
            "MAX" => Aggregate::Max,
            other => return Err(format!("has aggregate_function {other}")),
        };
        // onnxruntime leaves a class that nothing votes for at 0.
        if let ([_, second], true) = (&mut base[..], is_classifier && one_sum) {
            *second = 0.0;
        }
        if base.len() > outputs {
            return Err(format!(
                "has {} base values for {outputs} outputs",
                base.len()
            ));
        }
        Ok(Self {
            nodes,
            roots,
            votes,
            features: highest,
            outputs,
            base,
            finish,
            aggregate,
        })
    }

    /// Numbers of a row that comes out.
    pub(super) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Appends the row's scores.
    pub(super) fn score(&self, row: &[f32], out: &mut Vec<f32>) -> Result<(), String> {
        if row.len() < self.features {
            return Err(format!(
                "trees look at feature {}, found {} features",
                self.features - 1,
                row.len()
            ));
        }
        let mut sums = vec![None; self.outputs];
        for root in &self.roots {
            for (output, weight) in self.leaf(*root, row) {
                let sum: &mut Option<f64> = &mut sums[*output];
                let weight = f64::from(*weight);
                *sum = Some(match (*sum, self.aggregate) {
                    (None, _) => weight,
                    (Some(sum), Aggregate::Sum | Aggregate::Average) => sum + weight,
                    (Some(sum), Aggregate::Min) => sum.min(weight),
                    (Some(sum), Aggregate::Max) => sum.max(weight),
                });
            }
        }
        let trees = self.roots.len() as f64;
        let sums = sums.iter().enumerate().map(|(output, sum)| {
            let sum = sum.unwrap_or(0.0);
            let sum = if self.aggregate == Aggregate::Average {
                sum / trees
            } else {
                sum
            };
            sum + f64::from(self.base.get(output).copied().unwrap_or(0.0))
        });
        let sums: Vec<f64> = sums.collect();
        let logistic = |value: f64| 1.0 / (1.0 + (-value).exp());
        let scores: Vec<f64> = match self.finish {
            Finish::None => sums,
            Finish::Logistic => sums.into_iter().map(logistic).collect(),
            Finish::Softmax => {
                let highest = sums.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let powers: Vec<f64> = sums.iter().map(|sum| (sum - highest).exp()).collect();
                let total: f64 = powers.iter().sum();
                powers.into_iter().map(|power| power / total).collect()
            }
            Finish::Share => vec![1.0 - sums[0], sums[0]],
            Finish::Sign => vec![-sums[0], sums[0]],
            Finish::TwoLogistic => vec![logistic(-sums[0]), logistic(sums[0])],
        };
        out.extend(scores.into_iter().map(|score| score as f32));
        Ok(())
    }

    /// Votes of the leaf that a row comes to.
    fn leaf(&self, root: usize, row: &[f32]) -> &[(usize, f32)] {
        let mut at = root;
        loop {
            match self.nodes[at] {
                Node::Leaf { first, end } => return &self.votes[first..end],
                Node::Branch {
                    feature,
                    value,
                    rule,
                    missing_is_true,
                    yes,
                    no,
                } => {
                    let is = row[feature];
                    let holds = if is.is_nan() {
                        missing_is_true
                    } else {
                        rule.holds(is, value)
                    };
                    at = if holds { yes } else { no };
                }
            }
        }
    }
}

impl Rule {
    fn holds(self, is: f32, value: f32) -> bool {
        match self {
            Self::Less => is < value,
            Self::LessOrEqual => is <= value,
            Self::Greater => is > value,
            Self::GreaterOrEqual => is >= value,
            Self::Equal => is == value,
            Self::NotEqual => is != value,
        }
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
fn votes(
    node: &NodeProto,
    is_classifier: bool,
    count: usize,
    place: &HashMap<(i64, i64), usize>,
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
