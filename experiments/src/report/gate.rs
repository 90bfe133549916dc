//! The gate: a table of suites, and every stream that lost.

use super::table;
use crate::cli::gate::GateLine;

pub(super) const SUITES: [(&str, &str); 7] = [
    ("exact", "exact label shift: inboxes, Gaussians, digits"),
    ("bank", "bank marketing, four trainings"),
    ("enron", "mail, 30 pairs of inboxes"),
    (
        "amazon",
        "reviews, 12 pairs, as they are, 20 %, 80 % positive",
    ),
    ("office", "Office-Caltech pairs"),
    ("failures", "failure streams"),
    ("two-shifts", "classes and shares move at once"),
];
/// A loss of more points is listed.
pub(super) const LISTED: f64 = -0.5;

pub(super) fn section(lines: &[GateLine]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut page = "\n## The gate: mode `auto` against the frozen model\n\nPoints of accuracy against the frozen model, one \
                    default configuration, no labels. *Oracle* is correction with the true shares of each block. *Known* is \
                    the share of blocks whose proportions were published as known, *covered* the share of their 95 % \
                    intervals that contain the truth. Command: `ostar-experiments gate --suite \
                    exact,bank,enron,failures,office,amazon --seeds 3`.\n\n"
        .to_owned();
    let head = [
        "streams",
        "n",
        "prior",
        "auto",
        "oracle",
        "worst auto",
        "below -0.5",
        "worst tenth",
        "worst 2,000 rows",
        "known",
        "covered",
    ];
    let mut rows = Vec::new();
    for (suite, title) in SUITES {
        let of_suite: Vec<&GateLine> = lines.iter().filter(|line| line.suite == suite).collect();
        if !of_suite.is_empty() {
            rows.push(row(title, &of_suite));
        }
    }
    page += &table(&head.map(str::to_owned), &rows);
    page += &failures(lines);
    page += &losses(lines);
    page
}

pub(super) fn gain(line: &GateLine) -> f64 {
    line.auto - line.frozen
}

fn row(title: &str, lines: &[&GateLine]) -> Vec<String> {
    let count = lines.len() as f64;
    let mean = |of: fn(&GateLine) -> f64| lines.iter().map(|line| of(line)).sum::<f64>() / count;
    let least = |of: fn(&GateLine) -> f64| {
        let values = lines.iter().map(|line| of(line));
        values.fold(f64::INFINITY, f64::min)
    };
    let below = lines.iter().filter(|line| gain(line) < LISTED).count();
    let points = |value: f64| format!("{value:+.2}");
    vec![
        title.to_owned(),
        lines.len().to_string(),
        points(mean(|line| line.prior - line.frozen)),
        points(mean(gain)),
        points(mean(|line| line.oracle - line.frozen)),
        points(least(gain)),
        below.to_string(),
        points(least(|line| line.worst_tenth)),
        points(least(|line| line.worst_window)),
        format!("{:.2}", mean(|line| line.known)),
        covered(lines),
    ]
}

/// Share of the intervals published as known that cover, over all blocks of these streams.
fn covered(lines: &[&GateLine]) -> String {
    let known: f64 = lines.iter().map(|line| line.known * line.rows as f64).sum();
    let covered = lines
        .iter()
        .filter_map(|line| Some(line.covered? * line.known * line.rows as f64));
    if known > 0.0 {
        format!("{:.3}", covered.sum::<f64>() / known)
    } else {
        "-".to_owned()
    }
}

/// Each failure stream, mean over seeds.
fn failures(lines: &[GateLine]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for line in lines.iter().filter(|line| line.suite == "failures") {
        if !names.contains(&line.setting.as_str()) {
            names.push(&line.setting);
        }
    }
    let head = [
        "failure stream",
        "prior, no gate",
        "its worst 2,000 rows",
        "auto",
        "its worst 2,000 rows",
        "known",
        "covered",
        "reasons (seed 0)",
    ];
    let rows = names.iter().map(|name| {
        let of_name: Vec<&GateLine> = lines
            .iter()
            .filter(|line| line.suite == "failures" && line.setting == *name)
            .collect();
        let count = of_name.len() as f64;
        let mean =
            |of: fn(&GateLine) -> f64| of_name.iter().map(|line| of(line)).sum::<f64>() / count;
        let worst = |of: fn(&GateLine) -> f64| {
            let of_each = of_name.iter().map(|line| of(line));
            format!("{:+.2}", of_each.fold(f64::INFINITY, f64::min))
        };
        vec![
            (*name).to_owned(),
            format!("{:+.2}", mean(|line| line.prior - line.frozen)),
            worst(|line| line.prior_worst_window),
            format!("{:+.2}", mean(gain)),
            worst(|line| line.worst_window),
            format!("{:.2}", mean(|line| line.known)),
            covered(&of_name),
            of_name[0].reasons.clone(),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("\n{}", table(&head.map(str::to_owned), &rows))
}

fn losses(lines: &[GateLine]) -> String {
    let lost = lines.iter().filter(|line| gain(line) < LISTED);
    let texts: Vec<String> = lost
        .map(|line| {
            format!(
                "{} {} seed {}: {:+.2}",
                line.suite,
                line.setting,
                line.seed,
                gain(line)
            )
        })
        .collect();
    if texts.is_empty() {
        return "\nNo stream lost more than half a point.\n".to_owned();
    }
    format!(
        "\nStreams that lost more than half a point: {}.\n",
        texts.join("; ")
    )
}
