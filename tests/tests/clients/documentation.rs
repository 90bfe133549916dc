//! Runs the Python examples of docs/OPEN_INFERENCE.md against the demo's model.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use ostar_tests::python::output;

use crate::{PROGRAM, python, serve};

const PAGE: &str = "docs/OPEN_INFERENCE.md";

pub(crate) fn examples() -> Result<()> {
    let python = python()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("the checkout")?;
    let folder = tempfile::tempdir()?;
    output(
        Command::new(PROGRAM)
            .args(["demo", "--seconds", "1", "--export"])
            .arg(folder.path()),
    )?;
    let daemon = serve(&folder.path().join("bundle"), folder.path())?;
    let (grpc, http) = (
        daemon.address("grpc_address")?,
        daemon.address("http_address")?,
    );
    let page = fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let examples: Vec<_> = blocks(&page, "python").collect();
    ensure!(examples.len() == 3, "{} examples in Python", examples.len());
    for example in examples {
        ensure!(
            example.lines().filter(|line| !line.is_empty()).count() <= 10,
            "{example}"
        );
        let script = example
            .replace("localhost:50051", &grpc)
            .replace("localhost:8080", &http);
        let told = output(
            Command::new(&python)
                .current_dir(root)
                .args(["-c", &script]),
        )?;
        ensure!(
            told.contains("ham") && told.contains("spam"),
            "{example}: {told}"
        );
    }
    daemon.stop_cleanly()
}

/// The contents of the page's code blocks in a language.
fn blocks<'a>(page: &'a str, language: &str) -> impl Iterator<Item = &'a str> {
    let parts = page
        .split(&format!("```{language}\n"))
        .skip(1)
        .collect::<Vec<_>>();
    parts
        .into_iter()
        .filter_map(|part| part.split("```").next())
}
