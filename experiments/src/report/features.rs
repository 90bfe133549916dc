//! Tables of the sets of features: a row a method, a column a pair of domains.

use super::{Summary, table};
use crate::{method::Method, results::Line};

/// A difference up to this many points is a draw.
const DRAW: f64 = 0.5;

/// For each set: balanced accuracy and l1 of p by pair, what they come to over all pairs, and each method against each.
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
                "\n## Features: {}, {}\n\n{}{}\n{}\n{}",
                set.0,
                set.1,
                by_pair(&lines, "balanced accuracy", 1, accuracy),
                summary(&lines),
                by_pair(&lines, "l1 of p", 2, |line| line.proportion_error),
                duels(&lines)
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

/// A measure with a column for each pair, of the methods that have it.
fn by_pair(
    lines: &[&Line],
    title: &str,
    digits: usize,
    of: impl Fn(&Line) -> Option<f64> + Copy,
) -> String {
    let settings = settings(lines);
    let mut head = vec![title.to_owned()];
    head.extend(settings.iter().map(|setting| (*setting).to_owned()));
    let row = |method: Method| {
        let mut row = vec![method.title().to_owned()];
        row.extend(settings.iter().map(|setting| {
            let summary = Summary::of(&values(lines, method, Some(setting), of));
            summary.map_or(String::new(), |summary| {
                format!("{:.digits$}", summary.mean)
            })
        }));
        row
    };
    let has = |method: &Method| !values(lines, *method, None, of).is_empty();
    let rows: Vec<Vec<String>> = methods(lines).into_iter().filter(has).map(row).collect();
    table(&head, &rows)
}

/// On how many pairs the method of a row is better and worse than that of a column.
fn duels(lines: &[&Line]) -> String {
    let methods = methods(lines);
    let mut head = vec!["won-lost against".to_owned()];
    head.extend(methods.iter().map(|method| method.title().to_owned()));
    let row = |method: &Method| {
        let mut row = vec![method.title().to_owned()];
        row.extend(methods.iter().map(|other| {
            if method == other {
                return String::new();
            }
            let (won, lost) = won_and_lost(lines, *method, *other);
            format!("{won}-{lost}")
        }));
        row
    };
    let rows: Vec<Vec<String>> = methods.iter().map(row).collect();
    format!(
        "{}\nWon and lost: pairs on which the row's method is better and worse by more than {DRAW} points.\n",
        table(&head, &rows)
    )
}

fn won_and_lost(lines: &[&Line], method: Method, other: Method) -> (usize, usize) {
    let (mut won, mut lost) = (0, 0);
    for line in lines.iter().filter(|line| line.method == method.name()) {
        let others = pair(lines, line).filter(|rival| rival.method == other.name());
        for rival in others {
            let difference = line.balanced_accuracy - rival.balanced_accuracy;
            won += usize::from(difference > DRAW);
            lost += usize::from(difference < -DRAW);
        }
    }
    (won, lost)
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
        let (better, worse) = won_and_lost(lines, method, Method::Source);
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
            better.to_string(),
            worse.to_string(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn line(setting: &str, method: &str, balanced_accuracy: f64) -> Line {
        Line {
            experiment: "features".to_owned(),
            scale: "quick".to_owned(),
            setting: setting.to_owned(),
            variant: "set".to_owned(),
            method: method.to_owned(),
            seed: 0,
            balanced_accuracy,
            accuracy: balanced_accuracy,
            proportion_error: (method == "marsc").then_some(0.25),
            extra: None,
            seconds: 1.0,
        }
    }

    #[test]
    fn pages_have_accuracy_shares_and_duels() {
        let lines = [
            line("a-b", "source", 80.0),
            line("b-a", "source", 70.0),
            line("a-b", "marsc", 80.4),
            line("b-a", "marsc", 75.0),
            line("a-b", "dann", 85.0),
        ];
        let page = section(&lines);
        assert!(page.contains("| Source | 80.0 | 70.0 |"), "{page}");
        assert!(page.contains("| DANN | 85.0 |  |"), "{page}");
        assert!(page.contains("| l1 of p | a-b | b-a |"), "{page}");
        assert!(page.contains("| MARSc | 0.25 | 0.25 |"), "{page}");
        // MARSc draws with Source in a-b, wins in b-a, and loses to DANN in the only pair that both have.
        assert!(page.contains("| MARSc | 1-0 | 0-1 |  |"), "{page}");
        assert!(page.contains("| Source |  | 0-1 | 0-1 |"), "{page}");
    }
}
