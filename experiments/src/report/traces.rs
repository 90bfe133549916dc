//! Epoch by epoch: how far the map moves rows, and how the latents lie.

use super::table;
use crate::results::TraceLine;

/// Epochs at the beginning of a run that are all on the page.
const FIRST: usize = 5;

pub(super) fn section(lines: &[TraceLine]) -> String {
    let mut runs: Vec<[&str; 4]> = Vec::new();
    for line in lines {
        let run = of(line);
        if !runs.contains(&run) {
            runs.push(run);
        }
    }
    if runs.is_empty() {
        return String::new();
    }
    let mut page = "\n## OSTAR, epoch by epoch\n\nSquared distances per row, in the latent space of the epoch, in evaluation mode. \
                    *Cost* is the transport cost over the map's blocks, *moved* the squared distance from a row to its image. *Gap* \
                    is between a class's mean in the source and in the target, *gap mapped* the same after the map; *apart* \
                    is from a class's mean to the nearest other in the source. Every fifth epoch; experiments/results/trace.csv has all.\n"
        .to_owned();
    for run in runs {
        let [scale, setting, variant, method] = run;
        let head = [
            "epoch",
            "W",
            "cost",
            "moved",
            "spread of source",
            "of target",
            "gap",
            "gap mapped",
            "apart",
            "balanced accuracy",
            "l1 of p",
        ];
        let run: Vec<&TraceLine> = lines.iter().filter(|line| of(line) == run).collect();
        let rows: Vec<Vec<String>> = told(&run).map(cells).collect();
        page += &format!(
            "\n### {method}, {setting}, {variant}, {scale}\n\n{}",
            table(&head.map(str::to_owned), &rows)
        );
    }
    page
}

fn of(line: &TraceLine) -> [&str; 4] {
    [&line.scale, &line.setting, &line.variant, &line.method]
}

/// The first epochs, every fifth after them, and the last one; the results file has the others.
fn told<'l>(run: &[&'l TraceLine]) -> impl Iterator<Item = &'l TraceLine> {
    let numbered = run.iter().enumerate();
    let told = numbered
        .filter(|(n, line)| *n < FIRST || line.epoch.is_multiple_of(5) || n + 1 == run.len());
    told.map(|(_, line)| *line)
}

fn cells(line: &TraceLine) -> Vec<String> {
    let distances = [
        line.transport_cost,
        line.displacement,
        line.source_spread,
        line.target_spread,
        line.class_gap,
        line.mapped_class_gap,
        line.class_distance,
    ];
    let mut cells = vec![line.epoch.to_string(), format!("{:.2}", line.distance)];
    cells.extend(distances.map(|value| format!("{value:.1}")));
    cells.push(format!("{:.2}", line.balanced_accuracy));
    cells.push(format!("{:.3}", line.proportion_error));
    cells
}
