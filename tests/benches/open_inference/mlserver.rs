//! MLServer, serving a bundle's network as a scikit-learn model.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};
use ostar_tests::{
    daemon::TIMEOUT,
    free_port,
    python::{environment, output, script},
    until,
};

/// Worker processes. 0 predicts in the server's process, which avoids the transfer to another one.
const WORKERS: &str = "0";

/// A process. Dropping it kills it.
pub(crate) struct MlServer {
    process: Child,
    python: PathBuf,
    folder: PathBuf,
    /// host:port of the gRPC listener.
    pub(crate) grpc: String,
}

impl MlServer {
    pub(crate) fn start(bundle: &Path, folder: &Path) -> Result<Self> {
        let python = environment("mlserver", "mlserver.txt")?;
        let [http, grpc, metrics] = [(); 3].map(|()| free_port().to_string());
        let mut prepare = Command::new(&python);
        prepare
            .arg(script("mlserver_model.py"))
            .arg("--out")
            .arg(folder);
        prepare
            .args(["prepare", "--workers", WORKERS, "--bundle"])
            .arg(bundle);
        prepare.args(["--ports", &http, &grpc, &metrics]);
        output(&mut prepare)?;
        let mut command = Command::new(python.with_file_name("mlserver"));
        command.arg("start").arg(folder).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self {
            process: command.spawn().context("mlserver")?,
            python,
            folder: folder.to_owned(),
            grpc: format!("127.0.0.1:{grpc}"),
        };
        let ready = format!("http://127.0.0.1:{http}/v2/health/ready");
        until("MLServer", TIMEOUT, || Ok(ureq::get(&ready).call().ok()))?;
        Ok(server)
    }

    /// File with the encoded request for `ostard` or `mlserver`.
    pub(crate) fn request(&self, server: &str) -> PathBuf {
        self.folder.join(format!("{server}.request"))
    }

    /// Fails unless both servers give the same probabilities.
    pub(crate) fn compare(&self, ostard: &str) -> Result<String> {
        let mut compare = Command::new(&self.python);
        compare
            .arg(script("mlserver_model.py"))
            .arg("--out")
            .arg(&self.folder);
        output(compare.args(["compare", "--ostard", ostard, "--mlserver", &self.grpc]))
    }
}

impl Drop for MlServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
