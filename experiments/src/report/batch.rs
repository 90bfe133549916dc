//! Tables of the digits.

use anyhow::Result;

use super::{Images, Summary, paper, plot, table};
use crate::{
    data::digits::{Intensity, Preparation, Setting, variant},
    method::Method,
    results::Line,
};

/// Tables of both scales, and comparisons of how images were prepared.
pub(super) fn digits(lines: &[Line], images: &Images<'_>) -> Result<String> {
    let mut page = String::new();
    page += "\n## Digits, the paper's sizes\n\nOne run is hours of computing; what is missing has not been run.\n\n";
    page += &digits_table(lines, "paper", Preparation::Fill);
    page += &preparations(lines);
    page += &intensities(lines);
    page += "\n## Digits, quick\n\nSmall networks, 1,000 images a domain, short schedules: to see that every method runs, and which way each \
             moves. The paper's numbers are of other sizes and stand here for their order.\n\n";
    page += &digits_table(lines, "quick", Preparation::Fill);
    let bars = Method::ALL.map(|method| {
        let of = |setting: &str| summary(lines, "quick", setting, "fill", method);
        let values = ["m2u-high", "u2m-high"].map(|setting| of(setting).map(|s| s.mean));
        (method.title(), values)
    });
    if bars
        .iter()
        .any(|(_, values)| values.iter().any(Option::is_some))
    {
        let svg = plot::bars(
            "balanced accuracy, quick, high label shift",
            &["MNIST->USPS", "USPS->MNIST"],
            &bars,
        )?;
        page += &images.add("results-digits", "Balanced accuracy of all methods", &svg)?;
    }
    Ok(page)
}

fn summary(
    lines: &[Line],
    scale: &str,
    setting: &str,
    variant: &str,
    method: Method,
) -> Option<Summary> {
    let values: Vec<f64> = lines
        .iter()
        .filter(|line| {
            line.scale == scale
                && line.setting == setting
                && line.variant == variant
                && line.method == method.name()
        })
        .map(|line| line.balanced_accuracy)
        .collect();
    Summary::of(&values)
}

/// Ours and the paper's, method by method.
fn digits_table(lines: &[Line], scale: &str, preparation: Preparation) -> String {
    let variant = variant(preparation, Intensity::Signed);
    let present = |setting: &Setting| {
        let name = setting.name();
        let same =
            |line: &Line| line.scale == scale && line.setting == name && line.variant == variant;
        lines.iter().any(same)
    };
    let settings: Vec<Setting> = Setting::all().into_iter().filter(present).collect();
    if settings.is_empty() {
        return "Nothing has been run yet.\n".to_owned();
    }
    let mut head = vec!["method".to_owned()];
    for setting in &settings {
        head.push(format!("{} {}", setting.title(), setting.shift.name()));
        head.push("paper".to_owned());
    }
    let rows: Vec<Vec<String>> = Method::ALL
        .iter()
        .map(|method| {
            let mut row = vec![method.title().to_owned()];
            for setting in &settings {
                let ours = summary(lines, scale, &setting.name(), &variant, *method);
                row.push(Summary::text(ours));
                let theirs = paper::digits(*setting, *method);
                row.push(theirs.map_or(String::new(), |value| format!("{value:.2}")));
            }
            row
        })
        .filter(|row| row.iter().skip(1).step_by(2).any(|cell| !cell.is_empty()))
        .collect();
    table(&head, &rows)
}

/// Compares the ways of bringing USPS images to 32x32.
fn preparations(lines: &[Line]) -> String {
    let columns = [
        (Preparation::Fill, "fill: 16 -> 32"),
        (Preparation::Pad, "pad: 16 -> 20 in 28 -> 32"),
        (Preparation::Twice, "twice: 16 -> 28 -> 32"),
    ];
    let columns =
        columns.map(|(preparation, head)| (variant(preparation, Intensity::Signed), head));
    compared(lines, "How USPS images are brought to 32x32", &columns)
}

/// Compares the ranges that pixels were scaled to.
fn intensities(lines: &[Line]) -> String {
    let columns = [
        (Intensity::Signed, "signed: -1 to 1"),
        (Intensity::Unit, "unit: 0 to 1"),
        (Intensity::Standard, "standard: mean 0, deviation 1"),
    ];
    let columns = columns.map(|(intensity, head)| (variant(Preparation::Fill, intensity), head));
    compared(lines, "What numbers pixels become (`fill`)", &columns)
}

/// A table of the runs that exist for at least two of the variants.
fn compared(lines: &[Line], title: &str, columns: &[(String, &str)]) -> String {
    let mut rows = Vec::new();
    for scale in ["paper", "quick"] {
        for setting in Setting::all() {
            for method in Method::ALL {
                let of = |(variant, _): &(String, &str)| {
                    summary(lines, scale, &setting.name(), variant, method)
                };
                let cells: Vec<Option<Summary>> = columns.iter().map(of).collect();
                if cells.iter().flatten().count() < 2 {
                    continue;
                }
                let mut row = vec![format!(
                    "{scale} {} {} {}",
                    setting.title(),
                    setting.shift.name(),
                    method.title()
                )];
                row.extend(cells.into_iter().map(Summary::text));
                let theirs = paper::digits(setting, method);
                row.push(theirs.map_or(String::new(), |value| format!("{value:.2}")));
                rows.push(row);
            }
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut head = vec![String::new()];
    head.extend(columns.iter().map(|(_, head)| (*head).to_owned()));
    head.push("paper".to_owned());
    format!("\n### {title}\n\n{}", table(&head, &rows))
}
