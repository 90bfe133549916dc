//! The outcome of a backtest: a table for people, figures for scripts, a picture.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};
use ostar_bundle::Description;
use ostar_method::{
    Candidate,
    diagnostics::OrderCheck,
    learner::{Measurement, Predictor},
};
use serde_json::{Value, json};

use super::{alarms::Alarm, chart};
use crate::{
    class_order::{describe_order, wrong_order},
    proto::State,
};

/// The table shows at most this many moments, evenly spaced.
const TABLE_LINES: usize = 30;

/// The result of a backtest.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) description: Description,
    /// The state after each block; its measures are those of the block.
    pub(crate) moments: Vec<State>,
    /// Measures over all labels; `None` without labels.
    pub(crate) measured: Option<Measurement>,
    pub(crate) rejected: u64,
    pub(crate) alarms: Vec<Alarm>,
    /// `None` without labels.
    pub(super) order: Option<OrderCheck>,
}

// === impl Report ===

impl Report {
    /// Says that another order of the classes fits the labels better, and what to do; `None` if none does.
    pub(crate) fn wrong_order(&self) -> Option<String> {
        wrong_order(self.order.as_ref()?, &self.description.classes)
    }

    /// Mean over blocks of the l1 distance between served and true proportions. `None` without labels.
    pub(crate) fn proportion_l1_mean(&self) -> Option<f64> {
        let distance = |state: &State| -> Option<f64> {
            let classes = state.classes.iter();
            let differences = classes.map(|class| Some((class.served - class.among_labels?).abs()));
            differences.sum()
        };
        let distances: Vec<f64> = self.moments.iter().filter_map(distance).collect();
        (!distances.is_empty()).then(|| distances.iter().sum::<f64>() / distances.len() as f64)
    }

    /// The report as text.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        self.write_table(&mut text)
            .expect("a String takes everything");
        text
    }

    fn write_table(&self, text: &mut String) -> std::fmt::Result {
        self.write_moments(text)?;
        writeln!(text)?;
        self.write_totals(text)?;
        if let Some(order) = &self.order {
            writeln!(text, "{}", describe_order(order, &self.description.classes))?;
        }
        if self.rejected > 0 {
            writeln!(text, "{} rows were rejected", self.rejected)?;
        }
        if self.alarms.is_empty() {
            return writeln!(text, "no alarms");
        }
        writeln!(text, "alarms:")?;
        for alarm in &self.alarms {
            writeln!(text, "  after {} events: {}", alarm.events, alarm.text)?;
        }
        Ok(())
    }

    fn write_moments(&self, text: &mut String) -> std::fmt::Result {
        write!(text, "{:>9} {:>6}", "events", "steps")?;
        for class in &self.description.classes {
            write!(text, "  {class:>20}")?;
        }
        writeln!(text, "   frozen  prior adapted served")?;
        let every = self.moments.len().div_ceil(TABLE_LINES);
        for state in self.moments.iter().step_by(every.max(1)) {
            write!(text, "{:9} {:6}", state.events, state.steps)?;
            for class in &state.classes {
                let (share, low, high) = (class.served, class.served_low, class.served_high);
                write!(text, "  {share:.3} [{low:.3}, {high:.3}]")?;
            }
            let measured: Vec<f64> = state
                .candidates
                .iter()
                .filter_map(|one| one.accuracy)
                .collect();
            if measured.is_empty() {
                writeln!(text, "   (no labels)")?;
                continue;
            }
            write!(text, "  ")?;
            for accuracy in measured {
                write!(text, " {accuracy:6.3}")?;
            }
            writeln!(text)?;
        }
        Ok(())
    }

    fn write_totals(&self, text: &mut String) -> std::fmt::Result {
        if let Some(measured) = &self.measured {
            writeln!(text, "over all {} labels:", measured.labels)?;
            for (predictor, measures) in Predictor::ALL.iter().zip(&measured.by_predictor) {
                writeln!(
                    text,
                    "  {:8} accuracy {:.4}  balanced {:.4}  log-loss {:.4}",
                    predictor.name(),
                    measures.accuracy,
                    measures.balanced_accuracy,
                    measures.log_loss
                )?;
            }
        }
        if let Some(distance) = self.proportion_l1_mean() {
            writeln!(text, "served shares: mean l1 error {distance:.4} per block")?;
        }
        Ok(())
    }

    /// The report as JSON.
    pub(crate) fn figures(&self) -> Value {
        let accuracy = |predictor: Predictor| Some(self.measured.as_ref()?.of(predictor).accuracy);
        let last = self.moments.last();
        json!({
            "accuracy_frozen": accuracy(Predictor::Candidate(Candidate::Frozen)),
            "accuracy_prior": accuracy(Predictor::Candidate(Candidate::Prior)),
            "accuracy_adapted": accuracy(Predictor::Candidate(Candidate::Adapted)),
            "accuracy_served": accuracy(Predictor::Served),
            "proportion_l1_mean": self.proportion_l1_mean(),
            "events": last.map(|state| state.events),
            "steps": last.map(|state| state.steps),
            "rejected": self.rejected,
            "class_order": self.order.as_ref().map(|order| json!({
                "fits_better": order.better_names(&self.description.classes),
                "not_checked": order.unchecked.iter().map(|class| &self.description.classes[*class]).collect::<Vec<_>>(),
            })),
            "moments": self.moments,
            "alarms": self.alarms.iter().map(|alarm| json!({
                "events": alarm.events,
                "text": alarm.text,
            })).collect::<Vec<_>>(),
        })
    }

    /// Writes `report.txt`, `report.json` and `report.svg`.
    pub(crate) fn save(&self, folder: &Path) -> Result<()> {
        let problem = || format!("cannot write the report to {}", folder.display());
        fs::create_dir_all(folder).with_context(problem)?;
        fs::write(folder.join("report.txt"), self.table()).with_context(problem)?;
        let figures = serde_json::to_string_pretty(&self.figures())?;
        fs::write(folder.join("report.json"), figures + "\n").with_context(problem)?;
        fs::write(folder.join("report.svg"), chart::draw(self)?).with_context(problem)
    }
}
