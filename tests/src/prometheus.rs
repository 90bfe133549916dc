//! A real Prometheus: Debian's package, fetched by `scripts/prometheus` and kept outside the checkout.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::is_on_the_path;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/prometheus");

/// A process that scrapes its targets every second. Dropping it kills it.
pub struct Prometheus {
    process: Child,
    address: String,
    /// Holds configuration and data, and is removed with the process.
    _folder: TempDir,
}

/// The tool that this machine lacks to run Prometheus or to fetch its package.
pub fn missing_tool() -> Option<&'static str> {
    let there = is_on_the_path("prometheus") && is_on_the_path("promtool");
    (!there && !is_on_the_path("apt-get")).then_some("prometheus")
}

/// The folder with `prometheus` and `promtool`.
pub fn folder() -> Result<PathBuf> {
    let output = Command::new(SCRIPT).output().context(SCRIPT)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{SCRIPT}: {errors}");
    Ok(String::from_utf8(output.stdout)?.trim().into())
}

impl Prometheus {
    /// Starts a server on a free port. It scrapes the targets as the job `ostard` and evaluates the rules of a folder.
    pub fn start(targets: &[String], rules: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let config = serde_json::json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [rules.join("*.yaml")],
            "scrape_configs": [{"job_name": "ostard", "static_configs": [{"targets": targets}]}],
        });
        // Every JSON document is valid YAML.
        let config_file = folder.path().join("prometheus.yaml");
        std::fs::write(&config_file, config.to_string())?;
        let mut process = Command::new(self::folder()?.join("prometheus"))
            .arg(format!("--config.file={}", config_file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().display()))
            .arg("--web.listen-address=127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("prometheus")?;
        let log = BufReader::new(process.stderr.take().context("no error stream")?);
        let listening = listening(log);
        Ok(Self {
            address: listening.inspect_err(|_| {
                let _ = process.kill();
            })?,
            process,
            _folder: folder,
        })
    }

    /// The series that an expression gives now; an error if it cannot be parsed.
    pub fn query(&self, expression: &str) -> Result<Vec<Value>> {
        let answer = self.ask("/api/v1/query", &[("query", expression)])?;
        let series = answer["result"].as_array();
        Ok(series.context("not a vector")?.clone())
    }

    /// All groups of rules, with their health.
    pub fn rules(&self) -> Result<Vec<Value>> {
        let answer = self.ask("/api/v1/rules", &[])?;
        let groups = answer["groups"].as_array().context("no groups")?;
        let rules = groups
            .iter()
            .filter_map(|group| group["rules"].as_array())
            .flatten();
        Ok(rules.cloned().collect())
    }

    /// Values of a label, of series that a selector finds.
    pub fn label_values(&self, label: &str, selector: &str) -> Result<Vec<Value>> {
        let path = format!("/api/v1/label/{label}/values");
        let answer = self.ask(&path, &[("match[]", selector)])?;
        Ok(answer.as_array().context("no values")?.clone())
    }

    fn ask(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value> {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(20)))
            .build()
            .new_agent();
        let mut request = agent.get(format!("http://{}{path}", self.address));
        for (name, value) in parameters {
            request = request.query(name, value);
        }
        let answer = request.call()?.body_mut().read_to_string()?;
        let answer: Value = serde_json::from_str(&answer).with_context(|| answer.clone())?;
        ensure!(
            answer["status"] == "success",
            "{parameters:?}: {}",
            answer["error"]
        );
        Ok(answer["data"].clone())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads the log until the server is ready and returns its address. A thread drains the rest: with a full pipe the
/// process would block.
fn listening(mut log: impl BufRead + Send + 'static) -> Result<String> {
    let (mut seen, mut address) = (String::new(), None);
    loop {
        let start = seen.len();
        ensure!(log.read_line(&mut seen)? > 0, "prometheus ended: {seen}");
        let line = &seen[start..];
        if line.contains("msg=\"Listening on\"") {
            let mut words = line.split_whitespace();
            let found = words.find_map(|word| word.strip_prefix("address="));
            address = found.map(str::to_owned);
        }
        if line.contains("Server is ready to receive web requests") {
            thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
            return address.with_context(|| format!("no address in the log: {seen}"));
        }
    }
}
