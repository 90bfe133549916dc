//! A running `ostard demo`, and requests to it.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Output, Stdio},
    thread,
};

use anyhow::{Context, Result, ensure};

use crate::{daemon::TIMEOUT, until};

/// A mail as the demo's model takes it.
const MAIL: &str = r#"{"fields": {"subject": "offer1 work2", "sender": "office1.example", "links": 1, "kilobytes": 9}}"#;

/// The process. Dropping it kills it.
pub struct Demo {
    program: String,
    process: Child,
    /// host:port of the gRPC listener.
    pub grpc_address: String,
    /// host:port of the HTTP listener, with `/metrics`.
    pub http_address: String,
}

impl Demo {
    /// Starts a demo of this length in this serving mode, and waits until it serves.
    pub fn start(program: &str, seconds: u64, mode: &str) -> Result<Self> {
        let mut process = Command::new(program)
            .args(["demo", "--seconds", &seconds.to_string(), "--mode", mode])
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("ostard demo")?;
        let mut lines = BufReader::new(process.stdout.take().context("no output")?).lines();
        let mut said = lines.by_ref().map_while(Result::ok);
        let http = said.find_map(|line| {
            let address = line.strip_prefix("live page")?.trim();
            Some(
                address
                    .strip_prefix("http://")?
                    .strip_suffix('/')?
                    .to_owned(),
            )
        });
        let grpc = said.find_map(|line| Some(line.strip_prefix("gRPC")?.trim().to_owned()));
        // Drains the output: with a full pipe the demo would block.
        thread::spawn(move || lines.for_each(drop));
        let (Some(grpc_address), Some(http_address)) = (grpc, http) else {
            let _ = process.kill();
            anyhow::bail!("the demo ended without serving: {}", process.wait()?);
        };
        Ok(Self {
            program: program.to_owned(),
            process,
            grpc_address,
            http_address,
        })
    }

    /// Runs `ostard predict`, and again as long as the daemon refuses because the machine is busy.
    pub fn predict(&self) -> Result<()> {
        until("a prediction", TIMEOUT, || {
            let output = self.ask()?;
            let errors = String::from_utf8_lossy(&output.stderr);
            let refused = errors.contains("try again later");
            ensure!(
                output.status.success() || refused,
                "ostard predict: {errors}"
            );
            Ok((!refused).then_some(()))
        })
    }

    fn ask(&self) -> Result<Output> {
        let mut command = Command::new(&self.program);
        command.args(["predict", "--address", &self.grpc_address]);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut process = command.stderr(Stdio::piped()).spawn()?;
        let mut input = process.stdin.take().context("no input")?;
        writeln!(input, "{MAIL}")?;
        drop(input);
        Ok(process.wait_with_output()?)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
