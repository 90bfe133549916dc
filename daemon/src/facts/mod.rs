//! What the state says in figures. Each figure stands here once: its metric with the help text, and the words and the unit
//! in which people read it.
//!
//! Prometheus gets all of them; the live page and `ostard state --why` list those that have words.

mod classes;
mod scalars;
mod series;

pub(crate) use self::{
    classes::{AMONG_LABELS, CLASS_FACTS},
    scalars::FACTS,
    series::SERIES,
};
use crate::proto::State;

/// How people read a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Number,
    Count,
    Share,
}

/// What people read beside a metric.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown {
    pub(crate) words: &'static str,
    pub(crate) unit: Unit,
}

/// A figure of the whole stream.
#[derive(Debug)]
pub(crate) struct Fact {
    pub(crate) metric: &'static str,
    pub(crate) help: &'static str,
    /// `None` where a sentence or a table says it.
    pub(crate) shown: Option<Shown>,
    /// `None` means not known, or not known yet.
    pub(crate) of: fn(&State) -> Option<f64>,
}

/// A figure of each class.
#[derive(Debug)]
pub(crate) struct ClassFact {
    pub(crate) metric: &'static str,
    pub(crate) help: &'static str,
    /// The label `candidate`, if the metric has it.
    pub(crate) candidate: Option<&'static str>,
    /// Whether a sum over classes says something: then classes without a series of their own have one together.
    pub(crate) has_sum: bool,
    /// The column in the table of classes; `None` where it has one anyway.
    pub(crate) shown: Option<Shown>,
    /// Of the class with this number.
    pub(crate) of: fn(&State, usize) -> Option<f64>,
}

/// Takes the values of the labels of a series, and its value if it is known.
pub(crate) type Add<'a> = dyn FnMut(&[&str], Option<f64>) + 'a;

/// Figures with other labels than the class.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) metric: &'static str,
    pub(crate) help: &'static str,
    pub(crate) labels: &'static [&'static str],
    pub(crate) read: fn(&State, &mut Add<'_>),
}

// === impl Fact ===

impl Fact {
    const fn new(metric: &'static str, help: &'static str, of: fn(&State) -> Option<f64>) -> Self {
        Self {
            metric,
            help,
            shown: None,
            of,
        }
    }

    const fn shown(mut self, words: &'static str, unit: Unit) -> Self {
        self.shown = Some(Shown { words, unit });
        self
    }
}

// === impl ClassFact ===

impl ClassFact {
    const fn new(
        metric: &'static str,
        help: &'static str,
        of: fn(&State, usize) -> Option<f64>,
    ) -> Self {
        Self {
            metric,
            help,
            candidate: None,
            has_sum: false,
            shown: None,
            of,
        }
    }

    const fn of_candidate(mut self, candidate: &'static str) -> Self {
        self.candidate = Some(candidate);
        self
    }

    const fn shown(mut self, words: &'static str, unit: Unit) -> Self {
        self.shown = Some(Shown { words, unit });
        self
    }

    const fn summed(mut self) -> Self {
        self.has_sum = true;
        self
    }
}

/// Whether shares were estimated, if only before a restart.
pub(crate) fn has_shares(state: &State) -> bool {
    state.shares_age_ms.is_some()
}

/// Whether the served shares can be told.
pub(crate) fn shares_are_known(state: &State) -> bool {
    let unknown = |gate: &crate::proto::GateState| gate.proportions_unknown;
    has_shares(state) && !state.gate.as_ref().is_some_and(unknown)
}

fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1_000.0
}
