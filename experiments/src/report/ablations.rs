//! Ablations: lambda_OT, initial gain, terms of the bound.

use anyhow::Result;

use super::{Images, Summary, paper, plot, table};
use crate::results::Line;

pub(super) fn section(lines: &[Line], images: &Images<'_>) -> Result<String> {
    let mut page = String::new();
    for scale in ["paper", "quick"] {
        page += &lambda(lines, scale, images)?;
        page += &plain(
            lines,
            scale,
            "ablation-gain",
            "Initial gain of the map",
            "CAL on MNIST->USPS high, without and with transport cost.",
        );
        page += &bound(lines, scale);
    }
    Ok(page)
}

fn of<'l>(lines: &'l [Line], scale: &str, experiment: &str) -> Vec<&'l Line> {
    lines
        .iter()
        .filter(|line| line.scale == scale && line.experiment == experiment)
        .collect()
}

/// Variants in the order they came.
fn variants(lines: &[&Line]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for line in lines {
        if !names.contains(&line.variant) {
            names.push(line.variant.clone());
        }
    }
    names
}

fn values(lines: &[&Line], variant: &str, of: impl Fn(&Line) -> Option<f64>) -> Option<Summary> {
    let same = lines.iter().filter(|line| line.variant == variant);
    let values: Vec<f64> = same.filter_map(|line| of(line)).collect();
    Summary::of(&values)
}

fn lambda(lines: &[Line], scale: &str, images: &Images<'_>) -> Result<String> {
    let lines = of(lines, scale, "ablation-lambda");
    if lines.is_empty() {
        return Ok(String::new());
    }
    let group = "MNIST->USPS - initialization gain 0.02";
    let mut rows = Vec::new();
    let mut points = Vec::new();
    for variant in variants(&lines) {
        let (name, key) = match variant.strip_prefix("lambda=") {
            None => ("Source".to_owned(), "Source".to_owned()),
            Some(weight) => {
                let weight: f64 = weight.parse().unwrap_or(0.0);
                let key = match weight {
                    0.0 => "0".to_owned(),
                    1.0 => "1".to_owned(),
                    _ => format!("{weight:e}"),
                };
                (format!("{weight}"), key)
            }
        };
        let accuracy = values(&lines, &variant, |line| Some(line.balanced_accuracy));
        if let (Some(summary), Ok(weight)) = (accuracy, name.parse::<f64>()) {
            points.push((weight, summary.mean));
        }
        let theirs = paper::value("ablation_lambda_ot", group, "high", &key);
        let small =
            |summary: Option<Summary>| summary.map_or(String::new(), |s| format!("{:.3}", s.mean));
        rows.push(vec![
            name,
            Summary::text(accuracy),
            theirs.map_or(String::new(), |value| format!("{value:.2}")),
            small(values(&lines, &variant, |line| line.proportion_error)),
            small(values(&lines, &variant, |line| line.extra)),
        ]);
    }
    let head = [
        "lambda_OT",
        "balanced accuracy",
        "paper",
        "l1 of p",
        "transport cost",
    ];
    let mut page = format!(
        "\n## lambda_OT, {scale}\n\nCAL on MNIST->USPS high; one pretrained encoder and the same latents for all \
         weights of a seed.\n\n{}",
        table(&head.map(str::to_owned), &rows)
    );
    let weights: Vec<(String, f64)> = points
        .iter()
        .map(|(weight, accuracy)| (format!("{weight}"), *accuracy))
        .collect();
    let svg = plot::steps("balanced accuracy by lambda_OT, MNIST->USPS high", &weights)?;
    page += &images.add(
        &format!("results-lambda-{scale}"),
        "Balanced accuracy by lambda_OT",
        &svg,
    )?;
    Ok(page)
}

fn plain(lines: &[Line], scale: &str, experiment: &str, title: &str, text: &str) -> String {
    let lines = of(lines, scale, experiment);
    if lines.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = variants(&lines)
        .into_iter()
        .map(|variant| {
            let accuracy = values(&lines, &variant, |line| Some(line.balanced_accuracy));
            let error = values(&lines, &variant, |line| line.proportion_error);
            let cost = values(&lines, &variant, |line| line.extra);
            let small = |summary: Option<Summary>| {
                summary.map_or(String::new(), |s| format!("{:.3}", s.mean))
            };
            let name = if variant.is_empty() {
                "Source".to_owned()
            } else {
                variant
            };
            vec![name, Summary::text(accuracy), small(error), small(cost)]
        })
        .collect();
    let head = ["", "balanced accuracy", "l1 of p", "transport cost"];
    let table = table(&head.map(str::to_owned), &rows);
    format!("\n## {title}, {scale}\n\n{text}\n\n{table}")
}

fn bound(lines: &[Line], scale: &str) -> String {
    let lines = of(lines, scale, "ablation-bound");
    let terms: Vec<&Line> = lines
        .into_iter()
        .filter(|line| line.variant.ends_with("terms"))
        .collect();
    if terms.is_empty() {
        return String::new();
    }
    let mut methods: Vec<&str> = Vec::new();
    for line in &terms {
        if !methods.contains(&line.method.as_str()) {
            methods.push(&line.method);
        }
    }
    let rows: Vec<Vec<String>> = methods
        .into_iter()
        .map(|method| {
            let mean = |of: fn(&Line) -> f64| {
                let same = terms.iter().filter(|line| line.method == method);
                let values: Vec<f64> = same.map(|line| of(line)).collect();
                Summary::of(&values).map_or(String::new(), |summary| format!("{:.2}", summary.mean))
            };
            vec![
                method.to_owned(),
                mean(|l| l.balanced_accuracy),
                mean(|l| l.accuracy),
            ]
        })
        .collect();
    let head = ["", "(A) W1 of mapped source and target", "(L) W1 by class"].map(str::to_owned);
    format!(
        "\n## Terms of the bound, {scale}\n\nExact optimal transport between samples (400 rows; 100 a class), \
         MNIST->USPS high, true target proportions. The paper scales them otherwise: only the order compares \
         (there, high: A 38.60 for OSTAR and 21.10 for OSTAR+IM, L 12.78 and 0.74).\n\n{}",
        table(&head, &rows)
    )
}
