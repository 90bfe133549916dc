//! `ostard import`, of a model that is one softmax.

use std::{fs, path::Path};

use anyhow::{Result, ensure};
use tempfile::tempdir;

use super::{
    Printed,
    data::{self, DataSet, Predicted},
    judge_all, ostard, text,
};

/// A field of a Protobuf message with bytes in it.
fn bytes(field: u8, content: &[u8]) -> Vec<u8> {
    assert!(content.len() < 1 << 14, "two bytes of length");
    let (low, high) = (content.len() as u8 & 0x7f, (content.len() >> 7) as u8);
    [&[field << 3 | 2, low | 0x80, high], content].concat()
}

fn number(field: u8, value: u8) -> Vec<u8> {
    vec![field << 3, value]
}

/// A tensor of floats: rows of `width`, as many as there are.
fn tensor(name: &str, width: usize) -> Vec<u8> {
    let sizes = [
        bytes(1, &bytes(2, b"rows")),
        bytes(1, &number(1, width as u8)),
    ]
    .concat();
    let kind = bytes(1, &[number(1, 1), bytes(2, &sizes)].concat());
    [bytes(1, name.as_bytes()), bytes(2, &kind)].concat()
}

/// Probabilities of logits; with names, if there are any, in the dictionary that scikit-learn's models end in.
fn model(width: usize, names: Option<&[String]>) -> Vec<u8> {
    let node = |from: &str, to: &str, operator: &str, more: &[u8]| {
        let text = |field, text: &str| bytes(field, text.as_bytes());
        bytes(
            1,
            &[&text(1, from)[..], &text(2, to), &text(4, operator), more].concat(),
        )
    };
    let mut nodes = node("x", "p", "Softmax", &[]);
    let mut opsets = bytes(8, &number(2, 13));
    let mut output = "p";
    if let Some(names) = names {
        let listed: Vec<u8> = names
            .iter()
            .flat_map(|name| bytes(9, name.as_bytes()))
            .collect();
        // Field 20, the attribute's kind, is 8: strings.
        let attribute = [
            bytes(1, b"classlabels_strings"),
            listed,
            vec![0xa0, 0x01, 8],
        ]
        .concat();
        let domain = bytes(7, b"ai.onnx.ml");
        nodes.extend(node(
            "p",
            "z",
            "ZipMap",
            &[bytes(5, &attribute), domain].concat(),
        ));
        opsets.extend(bytes(8, &[bytes(1, b"ai.onnx.ml"), number(2, 3)].concat()));
        output = "z";
    }
    let graph = [
        nodes,
        bytes(2, b"softmax"),
        bytes(11, &tensor("x", width)),
        bytes(12, &tensor(output, width)),
    ];
    [number(1, 8), bytes(7, &graph.concat()), opsets].concat()
}

fn write_rows(set: &DataSet, path: &Path, rows: &Predicted) -> Result<()> {
    let lines = rows.iter().map(|(row, class)| {
        let logits: Vec<f64> = row.iter().map(|value| value.max(1e-9).ln()).collect();
        serde_json::json!({"dense": logits, "label": set.classes[*class]}).to_string() + "\n"
    });
    Ok(fs::write(path, lines.collect::<String>())?)
}

fn import(
    set: &DataSet,
    folder: &Path,
    names: Option<&[String]>,
    more: &[&str],
) -> Result<Printed> {
    let [model_file, data, out] =
        ["model.onnx", "labelled.jsonl", "bundle"].map(|name| folder.join(name));
    fs::write(&model_file, model(set.classes.len(), names))?;
    write_rows(set, &data, &set.draw(1))?;
    let (model_file, data, out) = (text(&model_file), text(&data), text(&out));
    ostard(
        &[
            &[
                "import",
                "--onnx",
                &model_file,
                "--data",
                &data,
                "--out",
                &out,
            ],
            more,
        ]
        .concat(),
    )
}

#[test]
fn import_takes_no_wrong_order_of_20_data_sets_without_a_word_and_every_right_one() -> Result<()> {
    let refused = judge_all(|set, folder, order| {
        let printed = import(set, folder, None, &["--classes", &order.join(",")])?;
        ensure!(
            folder.join("bundle/bundle.json").exists() == printed.is_success,
            "{}",
            printed.error
        );
        Ok(printed)
    })?;
    ensure!(refused >= 25, "only {refused} wrong orders were refused");
    Ok(())
}

#[test]
fn import_takes_a_models_own_names_and_demands_them_of_a_model_without() -> Result<()> {
    let folder = tempdir()?;
    let set = &data::all()[3];
    let printed = import(set, folder.path(), None, &[])?;
    ensure!(
        !printed.is_success && printed.error.contains("with --classes NAME,NAME"),
        "{}",
        printed.error
    );
    let printed = import(
        set,
        folder.path(),
        Some(&set.classes),
        &["--classes", "click,no_click"],
    )?;
    ensure!(
        !printed.is_success && printed.error.contains("the model itself says"),
        "{}",
        printed.error
    );
    let reversed: Vec<String> = set.classes.iter().rev().cloned().collect();
    let printed = import(set, folder.path(), Some(&reversed), &[])?;
    ensure!(
        !printed.is_success && printed.error.contains("these are the model's own names"),
        "{}",
        printed.error
    );
    let printed = import(set, folder.path(), Some(&set.classes), &[])?;
    ensure!(printed.is_success, "{}", printed.error);
    for wanted in [
        "classes no_click, click",
        "AUC 0.",
        "at temperature",
        "the labels confirm it",
    ] {
        ensure!(
            printed.output.contains(wanted),
            "no {wanted:?} in {}",
            printed.output
        );
    }
    // A black box is the model itself: there is nothing to compare.
    ensure!(
        !printed.output.contains("equal the model's"),
        "{}",
        printed.output
    );
    Ok(())
}
