//! Decision trees, as `TreeEnsembleClassifier` and `TreeEnsembleRegressor` describe them.
//!
//! Our own evaluator: tract's does not check places of features and classes, so that a broken file would read beyond its
//! memory, and lacks regressors and some of the ways to write two classes. The results are those of onnxruntime, also
//! where the standard is vague.

mod lists;

use tract_onnx::pb::NodeProto;

use self::lists::{Lists, votes};
use super::graph::{attribute, numbers, text};

/// An ensemble of trees.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trees {
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

impl Finish {
    /// `one_sum`: two classes of which nothing votes for the second.
    fn read(node: &NodeProto, one_sum: bool, all_positive: bool) -> Result<Self, String> {
        let transform = text(node, "post_transform").unwrap_or("NONE");
        Ok(match (one_sum, transform) {
            (true, "LOGISTIC") => Self::TwoLogistic,
            (true, "NONE" | "SOFTMAX") if all_positive => Self::Share,
            (true, "NONE" | "SOFTMAX") => Self::Sign,
            (false, "NONE") => Self::None,
            (false, "SOFTMAX") => Self::Softmax,
            (false, "LOGISTIC") => Self::Logistic,
            (_, other) => {
                return Err(format!(
                    "has post_transform {other}, expected NONE, SOFTMAX or LOGISTIC"
                ));
            }
        })
    }
}

impl Aggregate {
    fn read(node: &NodeProto) -> Result<Self, String> {
        Ok(match text(node, "aggregate_function").unwrap_or("SUM") {
            "SUM" => Self::Sum,
            "AVERAGE" => Self::Average,
            "MIN" => Self::Min,
            "MAX" => Self::Max,
            other => return Err(format!("has aggregate_function {other}")),
        })
    }
}

impl Trees {
    /// Reads a node's attributes, and checks that every place exists and that no branch leads back.
    pub(crate) fn read(node: &NodeProto) -> Result<Self, String> {
        let is_classifier = attribute(node, "is_classifier").is_some_and(|is| is.i == 1);
        let lists = Lists::read(node)?;
        let place = lists.places();
        let (outputs, votes, ranges) = votes(node, is_classifier, lists.ids.len(), &place)?;
        let (nodes, has_parent) = lists.nodes(&place, &ranges)?;
        let looked_at = nodes.iter().map(|node| match node {
            Node::Branch { feature, .. } => feature + 1,
            Node::Leaf { .. } => 0,
        });
        let features = looked_at.max().unwrap_or(0);
        let mut base = numbers(node, "base_values").to_vec();
        let one_sum = is_classifier && outputs == 2 && votes.iter().all(|(class, _)| *class == 0);
        let all_positive = votes.iter().all(|(_, weight)| *weight >= 0.0);
        let finish = Finish::read(node, one_sum && base.len() < 2, all_positive)?;
        // onnxruntime leaves a class that nothing votes for at 0.
        if let ([_, second], true) = (&mut base[..], one_sum) {
            *second = 0.0;
        }
        if base.len() > outputs {
            return Err(format!(
                "has {} base values for {outputs} outputs",
                base.len()
            ));
        }
        Ok(Self {
            roots: lists.roots(&has_parent)?,
            nodes,
            votes,
            features,
            outputs,
            base,
            finish,
            aggregate: Aggregate::read(node)?,
        })
    }

    /// Numbers of a row that comes out.
    pub(super) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Appends the row's scores.
    pub(crate) fn score(&self, row: &[f32], out: &mut Vec<f32>) -> Result<(), String> {
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
