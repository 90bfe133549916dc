//! ghz, a load generator for gRPC, installed with Go.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use ostar_tests::python::output;
use serde_json::Value;

const VERSION: &str = "v0.93.0";
const PROTO: &str = "daemon/proto/inference/open_inference.proto";

/// Path of the installed program.
pub(crate) struct Ghz(PathBuf);

/// Throughput and latencies that ghz reports.
pub(crate) struct Measured {
    pub(crate) requests_a_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Ghz {
    /// Builds it the first time, and keeps it outside the checkout.
    pub(crate) fn install() -> Result<Self> {
        let folder = ostar_tests::cache_folder()?.join(format!("ghz-{VERSION}"));
        let program = folder.join("ghz");
        if !program.is_file() {
            let package = format!("github.com/bojand/ghz/cmd/ghz@{VERSION}");
            output(
                Command::new("go")
                    .args(["install", &package])
                    .env("GOBIN", &folder),
            )?;
        }
        Ok(Self(program))
    }

    /// Sends the same request repeatedly from this number of callers.
    pub(crate) fn measure(
        &self,
        address: &str,
        request: &Path,
        callers: usize,
        seconds: u32,
    ) -> Result<Measured> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
        let mut command = Command::new(&self.0);
        command.current_dir(root.context("the checkout")?);
        command.args(["--insecure", "--proto", PROTO, "--format", "json"]);
        command.args(["--call", "inference.GRPCInferenceService/ModelInfer"]);
        command.arg("--binary-file").arg(request);
        command.args(["--concurrency", &callers.to_string(), "--connections"]);
        command.arg(callers.min(4).to_string());
        // Requests under way at the end would count as errors.
        command.args([
            "--duration",
            &format!("{seconds}s"),
            "--duration-stop",
            "ignore",
        ]);
        let report: Value = serde_json::from_str(&output(command.arg(address))?)?;
        let statuses = report["statusCodeDistribution"].as_object();
        let all_good = statuses.is_some_and(|all| all.len() == 1 && all.contains_key("OK"));
        ensure!(
            all_good,
            "{address} answered {}",
            report["statusCodeDistribution"]
        );
        let latencies = report["latencyDistribution"]
            .as_array()
            .context("latencies")?;
        let latency = |percentage: u64| {
            let found = latencies
                .iter()
                .find(|entry| entry["percentage"] == percentage);
            let nanoseconds = found.and_then(|entry| entry["latency"].as_f64());
            nanoseconds
                .map(|time| time / 1e6)
                .context("a percentile is missing")
        };
        Ok(Measured {
            requests_a_second: report["rps"].as_f64().context("rps")?,
            p50_ms: latency(50)?,
            p99_ms: latency(99)?,
        })
    }
}
