//! Streams: tables by candidate, pair and tenth of the stream, and one plot for each scenario.

use anyhow::Result;

use super::{Images, Summary, plot, table};
use crate::{cli::stream::StreamLine, stream::PARTS};

pub(super) fn section(lines: &[StreamLine], images: &Images<'_>) -> Result<String> {
    let mut page = String::new();
    for set in ["enron", "bank"] {
        for drift in ["natural", "square", "sinusoidal", "monotone"] {
            let lines: Vec<&StreamLine> = lines
                .iter()
                .filter(|line| line.set == set && line.drift == drift)
                .collect();
            if !lines.is_empty() {
                page += &scenario(set, drift, &lines, images)?;
            }
        }
    }
    Ok(page)
}

fn methods<'l>(lines: &[&'l StreamLine]) -> Vec<&'l str> {
    let mut methods: Vec<&str> = Vec::new();
    for line in lines {
        if !methods.contains(&line.method.as_str()) {
            methods.push(&line.method);
        }
    }
    methods
}

fn unique(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut values: Vec<String> = values.collect();
    values.sort();
    values.dedup();
    values
}

fn scenario(set: &str, drift: &str, lines: &[&StreamLine], images: &Images<'_>) -> Result<String> {
    let pairs = unique(lines.iter().map(|line| line.setting.clone()));
    let seeds = unique(lines.iter().map(|line| line.seed.to_string()));
    let mut page = format!(
        "\n## Stream: {set}, {drift} label shift\n\nPrequential: every block of 500 is scored before it is learned \
         from, 5 alignment steps a block, the daemon's defaults. Streams: {}, seeds: {}.\n\n",
        pairs.len(),
        seeds.len()
    );
    page += &by_method(lines);
    if pairs.len() > 1 {
        page += "\n";
        page += &by_pair(lines, &pairs);
    } else {
        page += "\nAccuracy by tenth of the stream, mean over seeds:\n\n";
        page += &by_part(lines);
    }
    let shown = [
        "frozen",
        "confusion cumulative",
        "em adaptive",
        "prior",
        "ostar",
    ];
    let series = |of: fn(&StreamLine) -> &str| -> Vec<(&str, Vec<f64>)> {
        let known = shown.iter().filter(|name| methods(lines).contains(name));
        known
            .map(|name| (*name, mean_series(lines, name, of)))
            .collect()
    };
    let svg = plot::two_panels(
        ("accuracy in percent", &series(|line| &line.accuracies)),
        ("l1 error of the shares", &series(|line| &line.errors)),
    )?;
    let what = format!("Accuracy and error of the shares over the stream, {set}, {drift}");
    page += &images.add(&format!("results-stream-{set}-{drift}"), &what, &svg)?;
    Ok(page)
}

fn by_method(lines: &[&StreamLine]) -> String {
    let head = [
        "candidate",
        "accuracy",
        "l1 of p",
        "against frozen: mean",
        "worst",
        "streams better / worse",
    ];
    let frozen = |of: &StreamLine| {
        let same = |line: &&&StreamLine| {
            line.method == "frozen" && line.setting == of.setting && line.seed == of.seed
        };
        lines.iter().find(same).map(|line| line.accuracy)
    };
    let rows: Vec<Vec<String>> = methods(lines)
        .into_iter()
        .map(|method| {
            let own: Vec<&&StreamLine> = lines.iter().filter(|l| l.method == method).collect();
            let mean = |of: fn(&StreamLine) -> f64| {
                let values: Vec<f64> = own.iter().map(|line| of(line)).collect();
                Summary::of(&values).map_or(0.0, |summary| summary.mean)
            };
            let gains: Vec<f64> = own
                .iter()
                .filter_map(|line| Some(line.accuracy - frozen(line)?))
                .collect();
            let gain = Summary::of(&gains).map_or(0.0, |summary| summary.mean);
            let worst = gains.iter().copied().fold(f64::INFINITY, f64::min);
            // Differences within a tenth of a point count as equal.
            let better = gains.iter().filter(|gain| **gain > 0.1).count();
            let worse = gains.iter().filter(|gain| **gain < -0.1).count();
            vec![
                method.to_owned(),
                format!("{:.2}", mean(|line| line.accuracy)),
                format!("{:.3}", mean(|line| line.proportion_error)),
                format!("{gain:+.2}"),
                format!("{worst:+.2}"),
                format!("{better} / {worse}"),
            ]
        })
        .collect();
    table(&head.map(str::to_owned), &rows)
}

fn by_pair(lines: &[&StreamLine], pairs: &[String]) -> String {
    let shown = ["frozen", "prior", "ostar"];
    let head = ["pair", "frozen", "prior", "ostar", "l1 prior", "l1 ostar"].map(str::to_owned);
    let rows: Vec<Vec<String>> = pairs
        .iter()
        .map(|pair| {
            let mean = |method: &str, of: fn(&StreamLine) -> f64| {
                let same = lines
                    .iter()
                    .filter(|l| l.setting == *pair && l.method == method);
                let values: Vec<f64> = same.map(|line| of(line)).collect();
                Summary::of(&values).map_or(0.0, |summary| summary.mean)
            };
            let mut row = vec![pair.clone()];
            row.extend(shown.map(|method| format!("{:.2}", mean(method, |line| line.accuracy))));
            let errors = ["prior", "ostar"];
            row.extend(errors.map(|m| format!("{:.3}", mean(m, |line| line.proportion_error))));
            row
        })
        .collect();
    table(&head, &rows)
}

fn by_part(lines: &[&StreamLine]) -> String {
    let mut head = vec!["candidate".to_owned()];
    head.extend((1..=PARTS).map(|part| part.to_string()));
    let rows: Vec<Vec<String>> = methods(lines)
        .into_iter()
        .map(|method| {
            let mut row = vec![method.to_owned()];
            let series = mean_series(lines, method, |line| &line.accuracies);
            row.extend(series.iter().map(|value| format!("{value:.1}")));
            row
        })
        .collect();
    table(&head, &rows)
}

/// The mean over streams and seeds, for each part of the stream.
fn mean_series(lines: &[&StreamLine], method: &str, of: fn(&StreamLine) -> &str) -> Vec<f64> {
    let mut sums = [0.0; PARTS];
    let mut count = 0.0;
    for line in lines.iter().filter(|line| line.method == method) {
        let values = of(line).split_whitespace().flat_map(str::parse::<f64>);
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += value;
        }
        count += 1.0;
    }
    sums.iter().map(|sum| sum / f64::max(count, 1.0)).collect()
}
