//! The program on small generated files: runs that go on, and mistakes that are named.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

mod common;

use std::{fs, path::Path};

use common::{refusal, succeed, write_digits, write_features};
use tempfile::{TempDir, tempdir};

fn digits_folder() -> TempDir {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    write_digits(&data, "mnist", 28, 15);
    write_digits(&data, "usps", 16, 25);
    folder
}

fn results(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(format!("experiments/results/{name}.csv"))).unwrap()
}

const DIGITS: [&str; 5] = ["digits", "--data", "data", "--setting", "m2u-high"];

fn digits<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&DIGITS[..], more].concat()
}

#[test]
fn a_resumed_job_adds_what_is_missing_and_repeats_nothing() {
    let folder = digits_folder();
    let folder = folder.path();
    succeed(folder, &digits(&["--method", "source"]));
    let first = results(folder, "digits");
    assert_eq!(first.lines().count(), 2, "{first}");

    let message = refusal(folder, &digits(&["--method", "source,ostar"]));
    assert!(message.contains("add --resume"), "{message}");

    succeed(folder, &digits(&["--method", "source,ostar", "--resume"]));
    let second = results(folder, "digits");
    assert!(second.starts_with(&first), "what was there is still there");
    assert_eq!(second.lines().count(), 3, "{second}");

    succeed(folder, &digits(&["--method", "source,ostar", "--resume"]));
    assert_eq!(results(folder, "digits"), second, "nothing is run twice");
}

#[test]
fn a_report_has_the_papers_numbers_beside_ours() {
    let folder = digits_folder();
    let folder = folder.path();
    succeed(folder, &digits(&["--method", "source"]));
    succeed(folder, &["report"]);
    let page = fs::read_to_string(folder.join("experiments/RESULTS.md")).unwrap();
    assert!(page.contains("MNIST->USPS high | paper"), "{page}");
    assert!(page.contains("86.23"), "the paper's Source: {page}");
    assert!(
        folder
            .join("experiments/images/results-digits.svg")
            .exists()
    );
}

#[test]
fn mistakes_are_named() {
    let folder = digits_folder();
    let folder = folder.path();
    for (arguments, expected) in [
        (
            digits(&["--method", "ostrich"]),
            "unknown method \"ostrich\"",
        ),
        (
            vec!["digits", "--data", "nowhere"],
            "nowhere is not a folder",
        ),
        (
            vec!["digits", "--data", "data", "--setting", "m2m-high"],
            "unknown setting \"m2m-high\"",
        ),
        (
            vec!["features", "--data", "data", "--set", "office31"],
            "office31.npz",
        ),
        (
            vec!["stream", "--data", "data", "--set", "enron"],
            "enron_spam.npz",
        ),
    ] {
        let message = refusal(folder, &arguments);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}

#[test]
fn a_damaged_file_is_named() {
    let folder = digits_folder();
    let path = folder.path().join("data/mnist/mnist.npz");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let message = refusal(folder.path(), &digits(&[]));
    assert!(
        message.contains("mnist.npz is not an npz file, or damaged"),
        "{message}"
    );
}

#[test]
fn a_results_file_that_was_cut_off_is_named_with_its_line() {
    let folder = digits_folder();
    let folder = folder.path();
    succeed(folder, &digits(&["--method", "source"]));
    let path = folder.join("experiments/results/digits.csv");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() - 12]).unwrap();
    let message = refusal(folder, &digits(&["--method", "source", "--resume"]));
    assert!(message.contains("line 2 of"), "{message}");
}

#[test]
fn a_feature_file_of_office31s_form_runs_by_its_protocol() {
    let folder = tempdir().unwrap();
    let folder = folder.path();
    write_features(&folder.join("data/office31.npz"), 2_048, 120, 4);
    let arguments = ["features", "--data", "data", "--set", "office31"];
    let more = [
        "--setting",
        "amazon-webcam",
        "--method",
        "source,ostar+im,marsc",
    ];
    succeed(folder, &[&arguments[..], &more[..]].concat());
    let text = results(folder, "features");
    assert_eq!(text.lines().count(), 4, "{text}");
    for line in text.lines().skip(1) {
        let accuracy: f64 = line.split(',').nth(6).unwrap().parse().unwrap();
        assert!(accuracy > 60.0, "{line}");
    }
}

#[test]
fn a_target_of_two_classes_is_thinned_to_the_shares_asked_for() {
    let folder = tempdir().unwrap();
    let folder = folder.path();
    write_features(&folder.join("data/reviews.npz"), 20, 400, 2);
    let arguments = ["features", "--data", "data", "--set", "reviews"];
    let more = ["--setting", "amazon-webcam", "--method", "source,di-oracle"];
    let shares = ["--positive", "20,80", "--rows", "100"];
    succeed(folder, &[&arguments[..], &more, &shares].concat());
    let text = results(folder, "features");
    let variants: Vec<&str> = text
        .lines()
        .skip(1)
        .map(|l| l.split(',').nth(3).unwrap())
        .collect();
    let expected = ["reviews-20-rows100", "reviews-80-rows100"];
    assert_eq!(
        variants,
        [expected[0], expected[0], expected[1], expected[1]]
    );

    write_features(&folder.join("data/objects.npz"), 20, 400, 4);
    for (set, percent, expected) in [
        (
            "objects",
            "20",
            "--positive is for two classes, objects has 4",
        ),
        (
            "reviews",
            "0",
            "--positive 0: expected a percentage from 1 to 99",
        ),
    ] {
        let arguments = ["features", "--data", "data", "--set", set, "--resume"];
        let message = refusal(folder, &[&arguments[..], &["--positive", percent]].concat());
        assert!(message.contains(expected), "{message}");
    }
}
