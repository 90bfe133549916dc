//! Tables of the sets of features: a row a method, a column a pair of domains.

use super::{Summary, table};
use crate::{method::Method, results::Line};

/// A difference to Source up to this many points is a draw.
const DRAW: f64 = 0.5;

/// For each set: balanced accuracy, and what it comes to over all pairs.
pub(super) fn section(lines: &[Line]) -> String {
    let mut sets: Vec<(&str, &str)> = lines.iter().map(|l| (&*l.variant, &*l.scale)).collect();
    sets.sort_unstable();
    sets.dedup();
    let of_set = |(variant, scale): (&str, &str)| -> Vec<&Line> {
        let same = lines.iter();
        same.filter(|line| line.variant == variant && line.scale == scale)
            .collect()
    };
    sets.into_iter()
        .map(|set| {
            let lines = of_set(set);
            format!(
                "\n## Features: {}, {}\n\n{}\n{}",
                set.0,
                set.1,
                accuracies(&lines),
                summary(&lines)
            )
        })
        .collect()
}

fn settings<'l>(lines: &[&'l Line]) -> Vec<&'l str> {
    let mut settings: Vec<&str> = lines.iter().map(|line| line.setting.as_str()).collect();
    settings.sort_unstable();
    settings.dedup();
    settings
}

/// Methods that were run, in the order of the paper's tables.
fn methods(lines: &[&Line]) -> Vec<Method> {
    let ran = |method: &Method| lines.iter().any(|line| line.method == method.name());
    Method::ALL.into_iter().filter(ran).collect()
}

fn values(
    lines: &[&Line],
    method: Method,
    setting: Option<&str>,
    of: impl Fn(&Line) -> Option<f64>,
) -> Vec<f64> {
    let same = lines.iter().filter(|line| {
        line.method == method.name() && setting.is_none_or(|setting| line.setting == setting)
    });
    same.filter_map(|line| of(line)).collect()
}

fn accuracy(line: &Line) -> Option<f64> {
    Some(line.balanced_accuracy)
}

fn accuracies(lines: &[&Line]) -> String {
    let settings = settings(lines);
    let mut head = vec!["balanced accuracy".to_owned()];
    head.extend(settings.iter().map(|setting| (*setting).to_owned()));
    let row = |method: Method| {
        let mut row = vec![method.title().to_owned()];
        row.extend(settings.iter().map(|setting| {
            let summary = Summary::of(&values(lines, method, Some(setting), accuracy));
            summary.map_or(String::new(), |summary| format!("{:.1}", summary.mean))
        }));
        row
    };
    let rows: Vec<Vec<String>> = methods(lines).into_iter().map(row).collect();
    table(&head, &rows)
}

/// Means over pairs, and on how many of them a method is better and worse than Source.
fn summary(lines: &[&Line]) -> String {
    let head = [
        "over all pairs",
        "n",
        "balanced accuracy",
        "l1 of p",
        "better than Source",
        "worse",
        "best of all",
        "seconds",
    ];
    let mean = |values: &[f64], digits: usize| {
        let summary = Summary::of(values);
        summary.map_or(String::new(), |s| format!("{:.digits$}", s.mean))
    };
    let row = |method: Method| {
        let count = |found: &dyn Fn(&Line) -> bool| {
            let of_method = lines.iter().filter(|line| line.method == method.name());
            of_method.filter(|line| found(line)).count().to_string()
        };
        let against_source = |line: &Line| {
            let source = pair(lines, line).find(|other| other.method == Method::Source.name());
            source.map_or(0.0, |source| {
                line.balanced_accuracy - source.balanced_accuracy
            })
        };
        let best = |line: &Line| {
            let mut others = pair(lines, line);
            // DI-Oracle knows the target's labels.
            method != Method::Reweighted(crate::method::Reweighting::Truth)
                && others.all(|other| {
                    other.method == "di-oracle" || other.balanced_accuracy <= line.balanced_accuracy
                })
        };
        let all = values(lines, method, None, accuracy);
        vec![
            method.title().to_owned(),
            all.len().to_string(),
            mean(&all, 2),
            mean(
                &values(lines, method, None, |line| line.proportion_error),
                3,
            ),
            count(&|line| against_source(line) > DRAW),
            count(&|line| against_source(line) < -DRAW),
            count(&best),
            mean(&values(lines, method, None, |line| Some(line.seconds)), 0),
        ]
    };
    let rows: Vec<Vec<String>> = methods(lines).into_iter().map(row).collect();
    format!(
        "\n{}\nBetter and worse: by more than {DRAW} points. Best of all: DI-Oracle, which knows the target's shares, is not \
         counted. Seconds: mean of a run, next to other work.\n",
        table(&head.map(str::to_owned), &rows)
    )
}

/// The runs of the same pair and seed.
fn pair<'l>(lines: &'l [&Line], line: &'l Line) -> impl Iterator<Item = &'l Line> {
    let same = move |other: &&&Line| other.setting == line.setting && other.seed == line.seed;
    lines.iter().filter(same).copied()
}
