//! Digits as a stream: how far the daemon's learner comes with its steps, beside the paper's method.

use super::table;
use crate::{
    cli::digits_stream::DigitsStreamLine,
    method::{Method, Stage},
    results::Line,
};

/// Steps whose lines are on the page; the results file has the others.
const TOLD: [u64; 5] = [500, 1_000, 2_000, 3_000, 5_000];

pub(super) fn section(lines: &[DigitsStreamLine], batch: &[Line]) -> String {
    let Some(first) = lines.first() else {
        return String::new();
    };
    let mut page = format!(
        "\n## Digits as a stream\n\nThe daemon's learner with its defaults, mode `adapted`, on latents of the pretrained \
         encoder ({} sizes, {}, `{}`): the target comes in blocks of 500, again and again, until the steps are taken. \
         *Source* is the encoder with the classifier it was trained with, *frozen* the classifier that `ostard fit` makes of \
         its latents. The encoder stays as it is, as in OSTAR and OSTAR+SS. *Settings* are what differs from the \
         daemon's `learner.method`. Command: `ostar-experiments digits-stream`, with `--settings` for the others.\n\n",
        first.scale, first.setting, first.preparation
    );
    let head = [
        "settings",
        "seed",
        "steps",
        "Source",
        "frozen",
        "prior",
        "adapted",
        "OSTAR",
        "OSTAR+SS",
        "distance before, after the map, noise floor",
        "guard",
        "auto serves",
    ];
    let told = lines
        .iter()
        .filter(|line| TOLD.contains(&(line.steps / 500 * 500)));
    let rows: Vec<Vec<String>> = told.map(|line| row(line, batch)).collect();
    page += &table(&head.map(str::to_owned), &rows);
    page
}

fn row(line: &DigitsStreamLine, batch: &[Line]) -> Vec<String> {
    let peer = |method: Method| {
        let same = |other: &&Line| {
            other.scale == line.scale
                && other.setting == line.setting
                && other.variant == line.preparation
                && other.seed == line.seed
                && other.method == method.name()
        };
        let found = batch.iter().find(same);
        found.map_or(String::new(), |other| {
            format!("{:.2}", other.balanced_accuracy)
        })
    };
    vec![
        match &line.settings[..] {
            "{}" => "defaults".to_owned(),
            changed => format!("`{changed}`"),
        },
        line.seed.to_string(),
        line.steps.to_string(),
        format!("{:.2}", line.source),
        format!("{:.2}", line.frozen),
        format!("{:.2}", line.prior),
        format!("{:.2}", line.adapted),
        peer(Method::Ostar(Stage::Alignment)),
        peer(Method::Ostar(Stage::Classifier)),
        format!(
            "{:.3}, {:.3}, {:.3}",
            line.distance_before_map, line.distance_after_map, line.noise_floor
        ),
        line.guard.clone(),
        line.auto.clone(),
    ]
}
