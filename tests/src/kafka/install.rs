//! Kafka's jars, from Maven Central, kept outside the checkout.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, bail};

const POM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kafka/pom.xml");

/// A tool that the broker needs and this machine lacks.
pub fn missing_tool() -> Option<&'static str> {
    let runs = |tool, argument| {
        let mut command = Command::new(tool);
        let command = command.arg(argument).stdin(Stdio::null());
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !runs("java", "-version") {
        return Some("java");
    }
    let installed = folder().is_ok_and(|folder| folder.is_dir());
    (!installed && !runs("mvn", "-version")).then_some("mvn")
}

/// The folder with the jars, filled by Maven the first time.
pub(super) fn jars() -> anyhow::Result<PathBuf> {
    let folder = folder()?;
    if folder.is_dir() {
        return Ok(folder);
    }
    let cache = folder.parent().context("a cache folder")?;
    fs::create_dir_all(cache)?;
    // Renamed when whole: another test may be at it, and a download may be interrupted.
    let partial = tempfile::tempdir_in(cache)?;
    let output = Command::new("mvn")
        .args(["--quiet", "--batch-mode", "--file", POM])
        .arg("dependency:copy-dependencies")
        .arg("-DincludeScope=runtime")
        .arg(format!("-DoutputDirectory={}", partial.path().display()))
        .output()
        .context("mvn")?;
    if !output.status.success() {
        bail!("mvn: {}", String::from_utf8_lossy(&output.stdout));
    }
    match fs::rename(partial.path(), &folder) {
        Err(error) if !folder.is_dir() => Err(error.into()),
        _ => Ok(folder),
    }
}

fn folder() -> anyhow::Result<PathBuf> {
    Ok(crate::cache_folder()?.join(format!("kafka-{}", version()?)))
}

/// The pom is the one place that has it.
fn version() -> anyhow::Result<String> {
    let pom = fs::read_to_string(POM).context(POM)?;
    let kafka = pom.split("<artifactId>kafka_2.13</artifactId>").nth(1);
    let version = kafka.and_then(|rest| rest.split("<version>").nth(1));
    let version = version.and_then(|rest| rest.split("</version>").next());
    version
        .map(str::to_owned)
        .context("the pom has no version of kafka_2.13")
}
