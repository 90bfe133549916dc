//! The order of a model's classes is never guessed, and never wrong without a word.

mod data;
#[cfg(feature = "onnx")]
mod onnx;
mod run;

use std::{path::Path, process::Command};

use anyhow::{Result, ensure};
use tempfile::tempdir;

use self::data::DataSet;
use crate::PROGRAM;

/// What a command printed.
struct Printed {
    is_success: bool,
    output: String,
    error: String,
}

fn ostard(arguments: &[&str]) -> Result<Printed> {
    let output = Command::new(PROGRAM).args(arguments).output()?;
    Ok(Printed {
        is_success: output.status.success(),
        output: String::from_utf8(output.stdout)?,
        error: String::from_utf8(output.stderr)?,
    })
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A right order is taken. A wrong one is an error that names both and the option to give, or one of the classes that are out
/// of their place is said to be unchecked. Returns whether it was an error.
fn judge(set: &DataSet, order: &[String], printed: &Printed) -> Result<bool> {
    let what = || {
        format!(
            "set {} in the order {order:?}: {}{}",
            set.seed, printed.output, printed.error
        )
    };
    if order == set.classes {
        ensure!(printed.is_success, "refused: {}", what());
        return Ok(false);
    }
    if printed.is_success {
        let line = printed
            .output
            .lines()
            .find(|line| line.contains("not checked"));
        let line = line.ok_or_else(|| anyhow::anyhow!("taken without a word: {}", what()))?;
        let displaced = order
            .iter()
            .zip(&set.classes)
            .filter(|(given, right)| given != right);
        ensure!(
            displaced
                .clone()
                .any(|(given, _)| line.contains(given.as_str())),
            "{}",
            what()
        );
        return Ok(false);
    }
    let option = format!("--classes {}", set.classes.join(","));
    for wanted in [option, order.join(", "), set.classes.join(", ")] {
        ensure!(printed.error.contains(&wanted), "no {wanted:?}: {}", what());
    }
    Ok(true)
}

/// Judges all sets by what `command` says of each in an order, and returns how many wrong orders were refused.
fn judge_all(command: impl Fn(&DataSet, &Path, &[String]) -> Result<Printed>) -> Result<usize> {
    let mut refused = 0;
    for set in data::all() {
        let folder = tempdir()?;
        let mut orders = set.wrong_orders();
        orders.push(set.classes.clone());
        for (number, order) in orders.iter().enumerate() {
            let folder = folder.path().join(number.to_string());
            std::fs::create_dir(&folder)?;
            refused += usize::from(judge(&set, order, &command(&set, &folder, order)?)?);
        }
    }
    Ok(refused)
}

#[test]
fn fit_takes_no_wrong_order_of_20_data_sets_without_a_word_and_every_right_one() -> Result<()> {
    let refused = judge_all(|set, folder, order| {
        let (data, out) = (folder.join("scores.csv"), folder.join("bundle"));
        set.write(&data, &set.draw(1))?;
        let printed = ostard(&[
            "fit",
            "--data",
            &text(&data),
            "--out",
            &text(&out),
            "--classes",
            &order.join(","),
        ])?;
        // What is refused is not written.
        ensure!(
            out.join("bundle.json").exists() == printed.is_success,
            "{}",
            printed.error
        );
        Ok(printed)
    })?;
    // Of 40; the others are weak models, or have few rows of a class.
    ensure!(refused >= 25, "only {refused} wrong orders were refused");
    Ok(())
}

#[test]
fn backtest_takes_no_wrong_order_of_20_data_sets_without_a_word_and_every_right_one() -> Result<()>
{
    let refused = judge_all(|set, folder, order| {
        let (data, bundle) = (folder.join("stream.csv"), folder.join("bundle"));
        set.write_bundle(&bundle, &set.draw(1), order)?;
        set.write(&data, &set.draw(2))?;
        let printed = ostard(&[
            "backtest",
            "--data",
            &text(&data),
            "--bundle",
            &text(&bundle),
        ])?;
        ensure!(
            printed.output.contains("accuracy"),
            "no report: {}",
            printed.error
        );
        Ok(printed)
    })?;
    ensure!(refused >= 25, "only {refused} wrong orders were refused");
    Ok(())
}

#[test]
fn the_order_of_a_list_must_be_given_and_that_of_a_map_is_in_it() -> Result<()> {
    let folder = tempdir()?;
    let set = &data::all()[3];
    let (data, out) = (
        folder.path().join("scores.csv"),
        folder.path().join("bundle"),
    );
    let rows = set.draw(1);
    set.write(&data, &rows)?;
    let fit = |data: &Path, more: &[&str]| {
        let (data, out) = (text(data), text(&out));
        ostard(&[&["fit", "--data", &data, "--out", &out], more].concat())
    };
    let printed = fit(&data, &[])?;
    ensure!(
        !printed.is_success && printed.error.contains("--classes NAME,NAME"),
        "{}",
        printed.error
    );
    let printed = fit(&data, &["--classes", "no_click,click,skip"])?;
    ensure!(
        !printed.is_success && printed.error.contains("rows have 2 numbers"),
        "{}",
        printed.error
    );

    let map = folder.path().join("scores.jsonl");
    let lines = rows.iter().map(|(row, class)| {
        let probabilities = serde_json::json!({"no_click": row[0], "click": row[1]});
        serde_json::json!({"label": set.classes[*class], "probabilities": probabilities})
            .to_string()
            + "\n"
    });
    std::fs::write(&map, lines.collect::<String>())?;
    let printed = fit(&map, &["--classes", "no_click,tap"])?;
    ensure!(
        !printed.is_success && printed.error.contains("name the classes click, no_click"),
        "{}",
        printed.error
    );
    let printed = fit(&map, &[])?;
    ensure!(
        printed.is_success && printed.output.contains("the labels confirm it"),
        "{}",
        printed.error
    );
    // A stream is read in the bundle's order, list or map.
    for (data, wanted) in [(&map, true), (&data, false)] {
        let printed = ostard(&["backtest", "--data", &text(data), "--bundle", &text(&out)])?;
        // The map's order in the bundle is the alphabet's, the list's is not.
        ensure!(printed.is_success == wanted, "{}", printed.error);
    }
    Ok(())
}

#[test]
fn fit_says_how_good_the_model_is_and_how_far_the_order_was_checked() -> Result<()> {
    let folder = tempdir()?;
    let set = &data::all()[3];
    let (data, out) = (
        folder.path().join("scores.csv"),
        folder.path().join("bundle"),
    );
    set.write(&data, &set.draw(1))?;
    let (data, out) = (text(&data), text(&out));
    let printed = ostard(&[
        "fit",
        "--data",
        &data,
        "--out",
        &out,
        "--classes",
        "no_click,click",
    ])?;
    for wanted in [
        "classes no_click, click",
        "accuracy 0.9",
        "AUC 0.",
        "calibration error 0.0",
        "at temperature",
        "the labels confirm it",
    ] {
        ensure!(
            printed.output.contains(wanted),
            "no {wanted:?} in {}",
            printed.output
        );
    }
    Ok(())
}
