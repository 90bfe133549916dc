//! The gate with labels that answer its requests.

use super::{
    gate::{LISTED, SUITES, gain},
    table,
};
use crate::cli::gate::GateLine;

/// `held_out` are streams of seeds that no rule was chosen on.
pub(super) fn section(next_block: &[GateLine], held_out: &[GateLine], late: &[GateLine]) -> String {
    if next_block.is_empty() && late.is_empty() {
        return String::new();
    }
    let mut page = "\n## The gate with ten labels a block\n\nAs above, but after every block of 500 rows ten labels are asked for, at \
                    random among rows on which candidates disagree, and answered. *Second half* is over the second half of each \
                    stream; on *two shifts* that is from the ninth block after the shift on. Commands: `ostar-experiments gate \
                    --suite SUITES --seeds 3 --requests 10 --results experiments/results/gate-labels.csv`, with `--late 4` for late \
                    answers, and `--steps 5` for two shifts. *Seeds 3 to 5* (of a run with `--seeds 6`) were not looked at before the rule \
                    was fixed.\n\n"
        .to_owned();
    let head = [
        "streams",
        "answers",
        "n",
        "prior",
        "auto",
        "worst auto",
        "below -0.5",
        "worst 2,000 rows",
        "second half: adapted",
        "auto",
        "labels a stream",
    ];
    let mut rows = Vec::new();
    for (suite, title) in SUITES {
        for (lines, answers) in [
            (next_block, "next block"),
            (held_out, "next block, seeds 3 to 5"),
            (late, "4 blocks late"),
        ] {
            let of_suite: Vec<&GateLine> =
                lines.iter().filter(|line| line.suite == suite).collect();
            if !of_suite.is_empty() {
                rows.push(row(title, answers, &of_suite));
            }
        }
    }
    page += &table(&head.map(str::to_owned), &rows);
    for (lines, which) in [(next_block, "Seeds 0 to 2"), (held_out, "Seeds 3 to 5")] {
        page += &kept(lines, which);
    }
    page
}

fn row(title: &str, answers: &str, lines: &[&GateLine]) -> Vec<String> {
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
        answers.to_owned(),
        lines.len().to_string(),
        points(mean(|line| line.prior - line.frozen)),
        points(mean(gain)),
        points(least(gain)),
        below.to_string(),
        points(least(|line| line.worst_window)),
        points(mean(|line| line.later_adapted)),
        points(mean(|line| line.later_auto)),
        format!("{:.0}", mean(|line| line.labels as f64)),
    ]
}

/// Reviews at 20 % and 80 %: how much of prior correction's gain is kept.
fn kept(lines: &[GateLine], which: &str) -> String {
    let shifted = lines
        .iter()
        .filter(|line| line.suite == "amazon" && line.setting.ends_with("0 %"));
    let (mut prior, mut auto) = (0.0, 0.0);
    for line in shifted {
        prior += line.prior - line.frozen;
        auto += gain(line);
    }
    if prior <= 0.0 {
        return String::new();
    }
    format!(
        "\n{which}, reviews at 20 % and 80 % positive: {:.1} % of prior correction's gain is kept.\n",
        100.0 * auto / prior
    )
}
