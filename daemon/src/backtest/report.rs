//! The outcome of a backtest: a table for people, figures for scripts, a picture.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};
use ostar_bundle::Description;
use ostar_method::{
    Candidate,
    diagnostics::OrderCheck,
    learner::{LabelMeasures, Measurement, Predictor},
};
use serde_json::{Value, json};

use super::{
    alarms::{Alarm, alarms},
    chart,
};
use crate::{
    class_order::{describe_order, wrong_order},
    status::Status,
};

/// The table shows at most this many moments, evenly spaced.
const TABLE_LINES: usize = 30;

/// The state after a block.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    /// Time of the block's last event; 0 if the files have none.
    pub(crate) time_ms: i64,
    pub(crate) status: Status,
    /// Shares of the classes among the block's events; `None` without labels.
    pub(crate) truth: Option<Vec<f64>>,
}

/// The result of a backtest.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) description: Description,
    pub(crate) moments: Vec<Moment>,
    pub(crate) rejected: u64,
    pub(crate) alarms: Vec<Alarm>,
    /// `None` without labels.
    order: Option<OrderCheck>,
}

// === impl Moment ===

impl Moment {
    pub(super) fn new(time_ms: i64, status: Status, truth: Option<Vec<f64>>) -> Self {
        Self {
            time_ms,
            status,
            truth,
        }
    }

    /// Of the labels that took effect with this block, and of all so far; `None` without labels.
    pub(super) fn measured(&self) -> Option<&LabelMeasures> {
        Some(&self.status.block.as_ref()?.labels.as_ref()?.measured)
    }

    /// The block's proportions with intervals, and the accuracy of each predictor.
    fn figures(&self) -> Value {
        let block = self.status.block.as_ref();
        let measured = self.measured().and_then(|measured| measured.block.as_ref());
        json!({
            "events": self.status.events,
            "time_ms": self.time_ms,
            "frozen": block.map(|block| &block.frozen),
            "adapted": block.map(|block| &block.adapted),
            "served": block.map(|block| &block.served),
            "candidate": block.map(|block| block.verdict.candidate),
            "true_proportions": &self.truth,
            "accuracies": measured.map(|measured| {
                let accuracies = measured.by_predictor.iter().map(|measures| measures.accuracy);
                Predictor::ALL.iter().map(|candidate| candidate.name()).zip(accuracies)
                    .collect::<BTreeMap<_, _>>()
            }),
        })
    }
}

// === impl Report ===

impl Report {
    pub(super) fn new(
        description: Description,
        moments: Vec<Moment>,
        rejected: u64,
        order: Option<OrderCheck>,
    ) -> Self {
        let alarms = alarms(&description.classes, &moments);
        Self {
            description,
            moments,
            rejected,
            alarms,
            order,
        }
    }

    /// Says that another order of the classes fits the labels better, and what to do; `None` if none does.
    pub(crate) fn wrong_order(&self) -> Option<String> {
        wrong_order(self.order.as_ref()?, &self.description.classes)
    }

    /// Measures over all labels. `None` without labels.
    pub(crate) fn measured(&self) -> Option<&Measurement> {
        self.moments.last()?.measured()?.total.as_ref()
    }

    /// Mean over blocks of the l1 distance between served and true proportions. `None` without labels.
    pub(crate) fn proportion_l1_mean(&self) -> Option<f64> {
        let distance = |moment: &Moment| {
            let block = moment.status.block.as_ref()?;
            let estimate = &block.served;
            let truth = moment.truth.as_ref()?;
            let pairs = estimate.proportions.as_ref().iter().zip(truth);
            Some(
                pairs
                    .map(|(estimate, truth)| (estimate - truth).abs())
                    .sum::<f64>(),
            )
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
        for moment in self.moments.iter().step_by(every.max(1)) {
            let status = &moment.status;
            write!(text, "{:9} {:6}", status.events, status.steps)?;
            if let Some(block) = &status.block {
                let estimate = &block.served;
                let proportions = estimate.proportions.as_ref().iter();
                for (proportion, interval) in proportions.zip(&estimate.intervals) {
                    write!(
                        text,
                        "  {proportion:.3} [{:.3}, {:.3}]",
                        interval.low, interval.high
                    )?;
                }
            }
            match moment.measured().and_then(|measured| measured.block.as_ref()) {
                Some(measured) => {
                    write!(text, "  ")?;
                    for measures in &measured.by_predictor {
                        write!(text, " {:6.3}", measures.accuracy)?;
                    }
                    writeln!(text)?;
                }
                None => writeln!(text, "   (no labels)")?,
            }
        }
        Ok(())
    }

    fn write_totals(&self, text: &mut String) -> std::fmt::Result {
        if let Some(measured) = self.measured() {
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
        let accuracy = |predictor: Predictor| Some(self.measured()?.of(predictor).accuracy);
        let last = self.moments.last().map(|moment| &moment.status);
        json!({
            "accuracy_frozen": accuracy(Predictor::Candidate(Candidate::Frozen)),
            "accuracy_prior": accuracy(Predictor::Candidate(Candidate::Prior)),
            "accuracy_adapted": accuracy(Predictor::Candidate(Candidate::Adapted)),
            "accuracy_served": accuracy(Predictor::Served),
            "proportion_l1_mean": self.proportion_l1_mean(),
            "events": last.map(|status| status.events),
            "steps": last.map(|status| status.steps),
            "rejected": self.rejected,
            "class_order": self.order.as_ref().map(|order| json!({
                "fits_better": order.better_names(&self.description.classes),
                "not_checked": order.unchecked.iter().map(|class| &self.description.classes[*class]).collect::<Vec<_>>(),
            })),
            "moments": self.moments.iter().map(Moment::figures).collect::<Vec<_>>(),
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
