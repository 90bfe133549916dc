//! Downloads Kafka's jars from Maven Central and keeps them in the cache folder.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, bail};

const POM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kafka/pom.xml");

/// The tool that this machine lacks to run the broker or to download it.
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
    // Renamed when complete: another test may download at the same time, and a download may be interrupted.
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

/// Kafka's version, which only the pom states.
fn version() -> anyhow::Result<String> {
    let pom = fs::read_to_string(POM).context(POM)?;
    let kafka = pom.split("<artifactId>kafka_2.13</artifactId>").nth(1);
    let version = kafka.and_then(|rest| rest.split("<version>").nth(1));
    let version = version.and_then(|rest| rest.split("</version>").next());
    version
        .map(str::to_owned)
        .context("the pom has no version of kafka_2.13")
}
