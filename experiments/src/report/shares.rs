//! Shares by labels of randomly drawn rows.

use super::{gate::SUITES, table};
use crate::cli::shares::SharesLine;

pub(super) fn section(lines: &[SharesLine]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut page = "\n## Shares by labels\n\nAfter every block of 500 rows 20 labels are asked for, drawn at random among all rows, and \
                    answered in the next block. The shares are for the newest ten blocks with labels (5,000 rows), fewer at the \
                    beginning of a stream. *Covered* is the part of blocks whose 95 % interval holds the true share of those rows; \
                    *refuted* the part of blocks in which shares cannot be told otherwise. *Width* is the mean width of the \
                    interval, *alone* from the labels without the model, *theory* what the model's errors on all rows leave of \
                    that. With two classes one is counted. Commands: `ostar-experiments shares --suite enron --seeds 3`, `--suite \
                    bank --seeds 60`, `--suite failures --seeds 40`.\n\n"
        .to_owned();
    let head = [
        "streams",
        "n",
        "intervals",
        "covered",
        "refuted",
        "width",
        "alone",
        "wider than alone",
        "width / alone",
        "theory / alone",
        "width / theory",
    ];
    let mut rows = Vec::new();
    for (suite, title) in SUITES {
        let of_suite = || lines.iter().filter(move |line| line.suite == suite);
        let settings = match suite {
            // Few streams that differ: each is shown.
            "bank" | "failures" => settings(of_suite()),
            _ => Vec::new(),
        };
        if of_suite().next().is_some() {
            rows.push(row(title, &of_suite().collect::<Vec<_>>()));
        }
        for setting in settings {
            let of_setting: Vec<_> = of_suite().filter(|line| line.setting == setting).collect();
            rows.push(row(&format!("– {setting}"), &of_setting));
        }
    }
    page += &table(&head.map(str::to_owned), &rows);
    page
}

/// In the order in which they were run.
fn settings<'a>(lines: impl Iterator<Item = &'a SharesLine>) -> Vec<&'a str> {
    let mut settings = Vec::new();
    for line in lines {
        if !settings.contains(&line.setting.as_str()) {
            settings.push(line.setting.as_str());
        }
    }
    settings
}

fn row(title: &str, lines: &[&SharesLine]) -> Vec<String> {
    let count = |of: fn(&SharesLine) -> usize| lines.iter().map(|line| of(line)).sum::<usize>();
    let intervals = count(|line| line.intervals);
    let share = |part: usize, of: usize| format!("{:.1} %", 100.0 * part as f64 / of.max(1) as f64);
    let mean = |of: fn(&SharesLine) -> f64| {
        let weighted = lines.iter().map(|line| line.intervals as f64 * of(line));
        weighted.sum::<f64>() / intervals.max(1) as f64
    };
    let (width, alone, theory) = (
        mean(|line| line.width),
        mean(|line| line.alone),
        mean(|line| line.theory),
    );
    vec![
        title.to_owned(),
        lines.len().to_string(),
        intervals.to_string(),
        share(count(|line| line.covered), intervals),
        share(count(|line| line.refuted), count(|line| line.blocks)),
        format!("{width:.3}"),
        format!("{alone:.3}"),
        count(|line| line.wider).to_string(),
        format!("{:.2}", width / alone),
        format!("{:.2}", theory / alone),
        format!("{:.2}", width / theory),
    ]
}
