//! A real schema registry: Apicurio's, with Confluent's API, from Maven Central.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{free_port, link::Link};

/// Later ones need Java 21.
const VERSION: &str = "3.0.9";
const TIMEOUT: Duration = Duration::from_secs(120);

/// A process that keeps its schemas in memory. Dropping it kills it.
pub struct Registry {
    process: Option<Child>,
    port: u16,
}

impl Registry {
    /// Downloads the registry the first time, starts it and waits until it answers.
    pub fn start() -> Result<Self> {
        let port = free_port();
        let mut registry = Self {
            process: None,
            port,
        };
        registry.restart()?;
        Ok(registry)
    }

    /// Address of Confluent's API.
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// A network to the registry that can be cut, and the address to reach it by.
    pub fn link(&self) -> Result<(Link, String)> {
        let port = free_port();
        Ok((Link::start(port, self.port)?, url(port)))
    }

    /// Sends SIGKILL and waits for the end. The schemas are gone.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }

    /// Starts it again at the same port, without schemas.
    pub fn restart(&mut self) -> Result<()> {
        self.kill()?;
        let folder = installed()?;
        let log = File::create(std::env::temp_dir().join(format!("registry-{}.log", self.port)))?;
        let mut command = Command::new("java");
        command.args(["-Xmx512m", "-Dquarkus.http.host=127.0.0.1"]);
        command.arg(format!("-Dquarkus.http.port={}", self.port));
        command
            .arg("-jar")
            .arg(folder.join(format!("apicurio-registry-app-{VERSION}-runner.jar")));
        command.stdin(Stdio::null()).stdout(log.try_clone()?);
        self.process = Some(command.stderr(log).spawn().context("java")?);
        let url = format!("{}/subjects", self.url());
        crate::until("the registry", TIMEOUT, || {
            Ok(ureq::get(&url).call().ok().map(drop))
        })
    }

    /// Registers a schema of a topic's values, and returns its id.
    pub fn register(&self, topic: &str, kind: &str, schema: &Value) -> Result<u64> {
        self.register_text(topic, kind, &schema.to_string())
    }

    /// The same of a schema that is not JSON.
    pub fn register_text(&self, topic: &str, kind: &str, schema: &str) -> Result<u64> {
        let url = format!("{}/subjects/{topic}-value/versions", self.url());
        let body = json!({"schema": schema, "schemaType": kind}).to_string();
        let mut answer = ureq::post(&url)
            .header("Content-Type", "application/vnd.schemaregistry.v1+json")
            .send(&body)
            .with_context(|| format!("{url}: {body}"))?;
        let answer = answer.body_mut().read_to_string()?;
        let answer: Value = serde_json::from_str(&answer)?;
        answer["id"].as_u64().with_context(|| answer.to_string())
    }
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}/apis/ccompat/v7")
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// The folder with the program, filled by Maven the first time.
fn installed() -> Result<PathBuf> {
    let cache = crate::cache_folder()?;
    let folder = cache.join(format!("apicurio-{VERSION}"));
    if folder.is_dir() {
        return Ok(folder);
    }
    fs::create_dir_all(&cache)?;
    // Renamed when complete: a download may be interrupted.
    let partial = tempfile::tempdir_in(&cache)?;
    let artifact = format!("io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all");
    let output = Command::new("mvn")
        .args(["--quiet", "--batch-mode", "dependency:copy"])
        .arg(format!("-Dartifact={artifact}"))
        .arg(format!("-DoutputDirectory={}", partial.path().display()))
        .output()
        .context("mvn")?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "mvn: {told}");
    let archive = partial
        .path()
        .join(format!("apicurio-registry-app-{VERSION}-all.tar.gz"));
    let unpacked = Command::new("tar")
        .arg("xzf")
        .arg(&archive)
        .arg("-C")
        .arg(partial.path())
        .status()
        .context("tar")?;
    ensure!(unpacked.success(), "tar: {unpacked}");
    fs::remove_file(archive)?;
    match fs::rename(partial.path(), &folder) {
        Err(error) if !folder.is_dir() => Err(error.into()),
        _ => Ok(folder),
    }
}
