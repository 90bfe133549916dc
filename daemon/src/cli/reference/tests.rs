use std::{fmt::Write as _, fs, path::PathBuf};

use clap::Parser;
use ostar_engine::Generator;
use tempfile::{TempDir, tempdir};

use super::super::fit::Fit;
use super::*;

#[derive(Parser)]
struct FitLine {
    #[command(flatten)]
    fit: Fit,
}

struct Folder(TempDir);

impl Folder {
    fn write(&self, name: &str, content: &str) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn out(&self) -> PathBuf {
        self.0.path().join("bundle")
    }

    /// `ostard fit` into a folder that is not there: what it says, and the bundle.
    fn fit(&self, flags: &[&str]) -> Result<(String, Bundle), String> {
        let out = self.out();
        let _ = fs::remove_dir_all(&out);
        let line = ["fit", "--out", out.to_str().unwrap()];
        let line = line.iter().chain(flags);
        let parsed = FitLine::try_parse_from(line).unwrap();
        let said = parsed.fit.fit().map_err(|error| format!("{error:#}"))?;
        Ok((said, Bundle::load(&out).unwrap()))
    }
}

/// Two classes of mails; as many of the second as `spam` says.
fn mails(rows: usize, spam: f64, seed: u64) -> Vec<(f64, &'static str, &'static str)> {
    let mut generator = Generator::new(seed);
    let mail = |_| {
        let is_spam = generator.uniform() < spam;
        let length = generator.normal() + if is_spam { 2.0 } else { 0.0 };
        let is_known = generator.uniform() < if is_spam { 0.3 } else { 0.7 };
        let sender = if is_known { "friend" } else { "stranger" };
        (length, sender, if is_spam { "spam" } else { "ham" })
    };
    (0..rows).map(mail).collect()
}

fn labelled(rows: usize) -> String {
    let mut text = "id,length,sender,kind\n".to_owned();
    for (id, (length, sender, kind)) in mails(rows, 0.25, 1).into_iter().enumerate() {
        writeln!(text, "{id},{length},{sender},{kind}").unwrap();
    }
    text
}

fn unlabelled(rows: usize, spam: f64) -> String {
    let mut text = "length,sender\n".to_owned();
    for (length, sender, _) in mails(rows, spam, 2) {
        writeln!(text, "{length},{sender}").unwrap();
    }
    text
}

#[test]
fn fit_takes_unlabelled_rows_and_without_them_says_what_they_would_buy() {
    let folder = Folder(tempdir().unwrap());
    let data = folder.write("mails.csv", &labelled(2_000));
    let flags = ["--data", &data, "--label", "kind"];
    let (said, bundle) = folder.fit(&flags).unwrap();
    assert!(
        said.contains("reference rows: 0; without reference rows"),
        "{said}"
    );
    assert!(
        said.contains("about 65 instead of 79 %") && said.contains("--reference"),
        "{said}"
    );
    assert_eq!(bundle.reference_rows(), 0);
    let rows = unlabelled(700, 0.25);
    let reference = folder.write("more.csv", &rows);
    let with = |reference: &str| folder.fit(&[&flags[..], &["--reference", reference]].concat());
    let (said, bundle) = with(&reference).unwrap();
    assert!(said.ends_with("reference rows: 700"), "{said}");
    assert_eq!(bundle.reference_rows(), 700);
    // Labels are not looked at.
    let named = rows
        .lines()
        .enumerate()
        .map(|(number, line)| line.to_owned() + if number == 0 { ",kind\n" } else { ",unknown\n" });
    let (_, same) = with(&folder.write("named.csv", &named.collect::<String>())).unwrap();
    assert_eq!(same, bundle);
}

#[test]
fn a_reference_that_cannot_be_used_is_refused_and_no_bundle_is_written() {
    let folder = Folder(tempdir().unwrap());
    let data = folder.write("mails.csv", &labelled(2_000));
    let number = unlabelled(600, 0.25).replacen("friend", "friend,1", 1);
    for (rows, told) in [
        (unlabelled(499, 0.25), "has 499 rows, expected 500 to 20000"),
        (
            unlabelled(2_000, 0.6),
            "differs from the held-out rows beyond chance",
        ),
        (number, "row "),
        (
            "size,from\n1,2\n".to_owned(),
            "none of the columns is a field of the bundle",
        ),
    ] {
        let reference = folder.write("more.csv", &rows);
        let flags = [
            "--data",
            &data,
            "--label",
            "kind",
            "--reference",
            &reference,
        ];
        let refused = folder.fit(&flags).unwrap_err();
        let start = format!("cannot take --reference {reference}: ");
        assert!(
            refused.starts_with(&start) && refused.contains(told),
            "{refused}"
        );
        assert!(!folder.out().exists(), "{refused}");
    }
}

/// Rows of probabilities of three classes, sure to this degree, with labels or without.
fn scores(rows: usize, sure: f64, has_labels: bool, seed: u64) -> String {
    let mut generator = Generator::new(seed);
    let mut text = String::new();
    for row in 0..rows {
        let class = [0, 0, 1, 0, 2][row % 5];
        let exponents: Vec<f64> = (0..3)
            .map(|k| (sure * (generator.normal() + if k == class { 1.5 } else { 0.0 })).exp())
            .collect();
        let sum: f64 = exponents.iter().sum();
        let shares = exponents.iter().map(|exponent| exponent / sum);
        let mut line = serde_json::json!({"probabilities": shares.collect::<Vec<_>>()});
        if has_labels {
            line["label"] = ["a", "b", "c"][class].into();
        }
        writeln!(text, "{line}").unwrap();
    }
    text
}

#[test]
fn of_a_black_box_an_even_spread_of_scores_is_kept_and_another_models_are_refused() {
    let folder = Folder(tempdir().unwrap());
    let data = folder.write("scores.jsonl", &scores(1_500, 1.0, true, 1));
    let with = |rows: &str| {
        let reference = folder.write("more.jsonl", rows);
        folder.fit(&[
            "--data",
            &data,
            "--classes",
            "a,b,c",
            "--reference",
            &reference,
        ])
    };
    let (said, bundle) = with(&scores(20_500, 1.0, false, 2)).unwrap();
    assert!(
        said.ends_with("reference rows: 20000, an even spread of 20500"),
        "{said}"
    );
    assert_eq!(bundle.reference_rows(), 20_000);
    let refused = with(&scores(2_000, 1.6, false, 2)).unwrap_err();
    assert!(refused.contains("another model"), "{refused}");
    let refused = with("{\"probabilities\": [0.5, 0.5]}\n").unwrap_err();
    assert!(
        refused.contains("row 1") && refused.contains("has 2 numbers, expected 3"),
        "{refused}"
    );
}

#[cfg(feature = "onnx")]
mod onnx {
    use super::{super::super::import::Import, *};

    #[derive(Parser)]
    struct ImportLine {
        #[command(flatten)]
        import: Import,
    }

    /// A field of a Protobuf message with bytes in it.
    fn bytes(field: u8, content: &[u8]) -> Vec<u8> {
        [&[field << 3 | 2, content.len() as u8], content].concat()
    }

    fn number(field: u8, value: u8) -> Vec<u8> {
        vec![field << 3, value]
    }

    /// The softmax of three numbers.
    fn softmax() -> Vec<u8> {
        let tensor = |name: &str| {
            let sizes = [bytes(1, &bytes(2, b"rows")), bytes(1, &number(1, 3))].concat();
            let kind = bytes(1, &[number(1, 1), bytes(2, &sizes)].concat());
            [bytes(1, name.as_bytes()), bytes(2, &kind)].concat()
        };
        let node = [bytes(1, b"x"), bytes(2, b"p"), bytes(4, b"Softmax")].concat();
        let graph = [
            bytes(1, &node),
            bytes(2, b"softmax"),
            bytes(11, &tensor("x")),
            bytes(12, &tensor("p")),
        ];
        [
            number(1, 8),
            bytes(7, &graph.concat()),
            bytes(8, &number(2, 13)),
        ]
        .concat()
    }

    /// Logits as dense features.
    fn features(rows: usize, sure: f64, has_labels: bool, seed: u64) -> String {
        let scores = scores(rows, sure, has_labels, seed);
        let line = |line: &str| {
            let mut row: serde_json::Value = serde_json::from_str(line).unwrap();
            let numbers = row["probabilities"].take();
            let numbers = numbers.as_array().unwrap().iter();
            row["dense"] = numbers.map(|p| p.as_f64().unwrap().ln()).collect();
            row.as_object_mut().unwrap().remove("probabilities");
            row.to_string() + "\n"
        };
        scores.lines().map(line).collect()
    }

    #[test]
    fn import_takes_unlabelled_rows_and_refuses_those_of_another_time() {
        let folder = Folder(tempdir().unwrap());
        let model = folder.0.path().join("model.onnx");
        fs::write(&model, softmax()).unwrap();
        let data = folder.write("data.jsonl", &features(1_500, 1.0, true, 1));
        let import = |rows: &str| {
            let reference = folder.write("more.jsonl", rows);
            let out = folder.out();
            let line = [
                "import",
                "--onnx",
                model.to_str().unwrap(),
                "--data",
                &data,
                "--classes",
                "a,b,c",
                "--reference",
                &reference,
                "--out",
                out.to_str().unwrap(),
            ];
            let parsed = ImportLine::try_parse_from(line).unwrap();
            parsed.import.import().map_err(|error| format!("{error:#}"))
        };
        let refused = import(&features(2_000, 1.6, false, 2)).unwrap_err();
        assert!(
            refused.contains("--reference") && refused.contains("another month"),
            "{refused}"
        );
        assert!(!folder.out().exists());
        let said = import(&features(800, 1.0, false, 2)).unwrap();
        assert!(said.contains("reference rows: 800"), "{said}");
        assert_eq!(Bundle::load(&folder.out()).unwrap().reference_rows(), 800);
    }
}
