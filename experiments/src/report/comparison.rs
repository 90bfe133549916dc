//! The table that a reader of the paper looks for: its number, ours, whether they agree, and why not.

use serde::Deserialize;

use super::{Summary, paper, table};
use crate::{
    data::digits::{Intensity, Preparation, Setting, variant},
    method::Method,
    results::{Line, Record},
};

/// Differences up to this many points count as the same.
const SAME: f64 = 2.0;

/// Why a number differs from the paper's: a line of `reasons.csv`, written by hand.
#[derive(Debug, Clone, Deserialize, serde::Serialize)]
pub(super) struct Reason {
    /// [`Setting::name`], or `lambda`.
    setting: String,
    /// [`Method::name`], or the weight.
    method: String,
    /// A sentence with its evidence.
    reason: String,
}

impl Record for Reason {
    fn key(&self) -> String {
        format!("{}|{}", self.setting, self.method)
    }
}

/// Digits at the paper's sizes, and lambda_OT; every method of the settings that were run at all.
pub(super) fn section(digits: &[Line], ablation: &[Line], reasons: &[Reason]) -> String {
    let mut rows = Vec::new();
    let mut missing = Vec::new();
    let variant = variant(Preparation::Fill, Intensity::Signed);
    for setting in Setting::all() {
        let name = setting.name();
        let of = |method: Method| {
            let same = digits.iter().filter(|line| {
                line.scale == "paper"
                    && line.setting == name
                    && line.variant == variant
                    && line.method == method.name()
            });
            let values: Vec<f64> = same.map(|line| line.balanced_accuracy).collect();
            Summary::of(&values)
        };
        if Method::ALL.iter().all(|method| of(*method).is_none()) {
            missing.push(format!("{} {}", setting.title(), setting.shift.name()));
            continue;
        }
        for method in Method::ALL {
            let title = format!(
                "{} {}, {}",
                setting.title(),
                setting.shift.name(),
                method.title()
            );
            let theirs = paper::digits(setting, method);
            let why = reason(reasons, &name, method.name());
            rows.push(row(title, theirs, of(method), why));
        }
    }
    rows.extend(lambda(ablation, reasons));
    let head = ["", "paper", "ours", "difference", "same", "why not"].map(str::to_owned);
    let mut page = format!(
        "\n## The paper's numbers and ours\n\nThe paper's sizes and schedules, USPS scaled to fill the frame. *Same*: within {SAME} \
         points. The paper has means of ten runs; with one seed of ours, a difference of a point says little. An \
         empty cell was not run.\n\n{}",
        table(&head, &rows)
    );
    if !missing.is_empty() {
        page += &format!("\nNot run at the paper's sizes: {}.\n", missing.join(", "));
    }
    page += "\nNot run at all: VisDA12, Office31 and OfficeHome. Their features are not available here \
             ([README.md](README.md#sets-of-the-paper-that-are-not-here)).\n";
    page
}

fn reason(reasons: &[Reason], setting: &str, method: &str) -> Option<String> {
    let found = reasons
        .iter()
        .find(|reason| reason.setting == setting && reason.method == method);
    found.map(|reason| reason.reason.clone())
}

/// A difference beyond [`SAME`] without a reason is not known to have one.
fn row(
    title: String,
    theirs: Option<f64>,
    ours: Option<Summary>,
    why: Option<String>,
) -> Vec<String> {
    let difference = ours.zip(theirs).map(|(ours, theirs)| ours.mean - theirs);
    let (same, why) = match difference {
        None => (String::new(), String::new()),
        Some(points) if points.abs() <= SAME => ("yes".to_owned(), String::new()),
        Some(_) => {
            let why = why.unwrap_or_else(|| "not known".to_owned());
            ("no".to_owned(), why)
        }
    };
    vec![
        title,
        theirs.map_or(String::new(), |value| format!("{value:.2}")),
        Summary::text(ours),
        difference.map_or(String::new(), |points| format!("{points:+.1}")),
        same,
        why,
    ]
}

/// CAL with the weights of the paper's table.
fn lambda(lines: &[Line], reasons: &[Reason]) -> Vec<Vec<String>> {
    let group = "MNIST->USPS - initialization gain 0.02";
    let weights = ["0", "1e-3", "1e-2", "1e-1", "1", "1e4"];
    let of = |key: &str| {
        let weight: f64 = key.parse().ok()?;
        let name = format!("lambda={weight}");
        let same = lines.iter().filter(|line| {
            line.experiment == "ablation-lambda" && line.scale == "paper" && line.variant == name
        });
        let values: Vec<f64> = same.map(|line| line.balanced_accuracy).collect();
        Summary::of(&values)
    };
    if weights.iter().all(|key| of(key).is_none()) {
        return Vec::new();
    }
    weights
        .iter()
        .map(|key| {
            let theirs = paper::value("ablation_lambda_ot", group, "high", key);
            let title = format!("MNIST->USPS high, OSTAR with lambda_OT {key}");
            row(title, theirs, of(key), reason(reasons, "lambda", key))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(method: &str, balanced_accuracy: f64) -> Line {
        Line {
            experiment: "digits".to_owned(),
            scale: "paper".to_owned(),
            setting: "m2u-high".to_owned(),
            variant: "fill".to_owned(),
            method: method.to_owned(),
            seed: 0,
            balanced_accuracy,
            accuracy: 0.0,
            proportion_error: None,
            extra: None,
            seconds: 1.0,
        }
    }

    #[test]
    fn a_difference_has_its_reason_or_is_not_known_and_what_was_not_run_is_empty() {
        let lines = [
            line("source", 82.39),
            line("marsc", 94.75),
            line("ostar+im", 91.06),
        ];
        let reasons = [Reason {
            setting: "m2u-high".to_owned(),
            method: "ostar+im".to_owned(),
            reason: "another file".to_owned(),
        }];
        let page = section(&lines, &[], &reasons);
        for expected in [
            "| MNIST->USPS high, Source | 86.23 | 82.39 (1) | -3.8 | no | not known |",
            "| MNIST->USPS high, MARSc | 95.07 | 94.75 (1) | -0.3 | yes |  |",
            "| MNIST->USPS high, OSTAR+IM | 96.06 | 91.06 (1) | -5.0 | no | another file |",
            "| MNIST->USPS high, DANN | 93.03 |  |  |  |  |",
            "Not run at the paper's sizes: MNIST->USPS balanced",
        ] {
            assert!(page.contains(expected), "{expected}\n{page}");
        }
    }
}
