//! Families of streams: a row each.

use clap::ValueEnum;

use super::table;
use crate::{cli::gate::families::FamilyLine, gate::families::Family};

/// Streams with fewer known blocks are not judged by their coverage.
const KNOWN_BLOCKS: usize = 5;
/// Mean gain of the oracle, in points, from which on its kept part means something.
const LEAST_GAIN: f64 = 0.5;
/// Least coverage of a stream.
const COVERAGE: f64 = 0.85;

/// A Markdown table, a row a family, and how long it took.
pub(crate) fn table_of(lines: &[FamilyLine]) -> String {
    let head = [
        "family",
        "n (real)",
        "frozen",
        "prior",
        "auto",
        "worst",
        "below -0.5",
        "below -1",
        "worst window",
        "windows lost (streams)",
        "oracle",
        "kept",
        "known",
        "range",
        "covered",
        "streams under 85 %",
        "width",
    ];
    let mut rows = Vec::new();
    for family in Family::value_variants() {
        let of_family = lines.iter().filter(|line| line.family == family.name());
        let of_family: Vec<&FamilyLine> = of_family.collect();
        if !of_family.is_empty() {
            rows.push(row(&family.name(), &of_family));
        }
    }
    let seconds: f64 = lines.iter().map(|line| line.seconds).sum();
    let mut commits: Vec<&str> = lines.iter().map(|line| line.commit.as_str()).collect();
    commits.sort_unstable();
    commits.dedup();
    format!(
        "{}\n{} streams, commit {}, {seconds:.0} s of replay\n",
        table(&head.map(str::to_owned), &rows),
        lines.len(),
        commits.join(", "),
    )
}

fn row(name: &str, lines: &[&FamilyLine]) -> Vec<String> {
    let count = lines.len() as f64;
    let sum = |of: &dyn Fn(&FamilyLine) -> f64| lines.iter().map(|line| of(line)).sum::<f64>();
    let least = |of: &dyn Fn(&FamilyLine) -> f64| {
        let values = lines.iter().map(|line| of(line));
        values.fold(f64::INFINITY, f64::min)
    };
    let number = |is: &dyn Fn(&FamilyLine) -> bool| lines.iter().filter(|line| is(line)).count();
    let points = |value: f64| format!("{value:+.2}");
    let share = |part: f64, of: f64| {
        if of > 0.0 {
            format!("{:.0} %", 100.0 * part / of)
        } else {
            "-".to_owned()
        }
    };
    let (blocks, intervals) = (
        sum(&|line| line.blocks as f64),
        sum(&|line| line.intervals as f64),
    );
    let judged = number(&|line| line.known >= KNOWN_BLOCKS);
    let badly = number(&|line| {
        line.known >= KNOWN_BLOCKS && (line.covered as f64) < COVERAGE * line.intervals as f64
    });
    let width = sum(&|line| line.width.unwrap_or(0.0) * line.intervals as f64) / intervals;
    let oracle = sum(&|line| line.oracle - line.frozen);
    let kept = if oracle >= LEAST_GAIN * count {
        share(sum(&|line| line.gain), oracle)
    } else {
        "-".to_owned()
    };
    vec![
        name.to_owned(),
        format!(
            "{} ({})",
            lines.len(),
            number(&|line| line.set != "synthetic")
        ),
        format!("{:.1}", sum(&|line| line.frozen) / count),
        points(sum(&|line| line.prior - line.frozen) / count),
        points(sum(&|line| line.gain) / count),
        points(least(&|line| line.gain)),
        number(&|line| line.gain < -0.5).to_string(),
        number(&|line| line.gain < -1.0).to_string(),
        points(least(&|line| line.worst_window)),
        format!(
            "{:.0} ({})",
            sum(&|line| line.windows_lost as f64),
            number(&|line| line.windows_lost > 0)
        ),
        points(oracle / count),
        kept,
        share(sum(&|line| line.known as f64), blocks),
        share(sum(&|line| line.range as f64), blocks),
        share(sum(&|line| line.covered as f64), intervals),
        format!("{badly} of {judged}"),
        if intervals > 0.0 {
            format!("{width:.3}")
        } else {
            "-".to_owned()
        },
    ]
}
