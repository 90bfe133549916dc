//! A running `ostard run`, watched through its log and its endpoints.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// Longer than any wait in a healthy run on a machine that is busy with builds.
pub const TIMEOUT: Duration = Duration::from_secs(180);

/// Ticks a second in `/proc`.
const TICKS: f64 = 100.0;

/// Keys of the configuration and their values, passed to the daemon with `--set`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, String>);

/// A process. Dropping it kills it.
pub struct Daemon {
    process: Child,
    log: Arc<Mutex<Vec<Value>>>,
}

// === impl Settings ===

impl Settings {
    /// A daemon that listens on free ports and logs JSON.
    pub fn new(brokers: &str, topic: &str, bundle: &Path, checkpoints: &Path) -> Self {
        Self::default()
            .with("kafka.brokers", brokers)
            .with("kafka.topic", topic)
            .with("kafka.group", &format!("{topic}-group"))
            .with("bundle.path", &bundle.display().to_string())
            .with("checkpoints.folder", &checkpoints.display().to_string())
            .with("grpc.listen", "127.0.0.1:0")
            .with("http.listen", "127.0.0.1:0")
            .with("log.format", "json")
    }

    /// `--set` flags of the keys that start with `prefix`.
    pub fn flags(&self, prefix: &str) -> Vec<String> {
        let own = self.0.iter().filter(|(key, _)| key.starts_with(prefix));
        own.flat_map(|(key, value)| ["--set".to_owned(), format!("{key}={value}")])
            .collect()
    }

    /// The same with one key set.
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.0.insert(key.to_owned(), value.to_owned());
        self
    }
}

impl Settings {
    /// The same without a key.
    pub fn without(mut self, key: &str) -> Self {
        self.0.remove(key);
        self
    }
}

// === impl Daemon ===

impl Daemon {
    /// Starts `ostard run` and a thread that reads its log. Does not wait for anything.
    pub fn start(program: &str, settings: &Settings) -> Result<Self> {
        Self::start_with(program, settings, &[])
    }

    /// The same with environment variables.
    pub fn start_with(
        program: &str,
        settings: &Settings,
        variables: &[(&str, &str)],
    ) -> Result<Self> {
        let mut command = Command::new(program);
        command.envs(variables.iter().copied());
        command.arg("run").env_remove("RUST_LOG");
        command.args(settings.flags(""));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut process = command.stderr(Stdio::piped()).spawn().context("ostard")?;
        let lines = BufReader::new(process.stderr.take().context("no error stream")?);
        let log = Arc::new(Mutex::new(Vec::new()));
        let read = Arc::clone(&log);
        thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let entry = serde_json::from_str(&line).unwrap_or(Value::String(line));
                read.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(entry);
            }
        });
        Ok(Self { process, log })
    }

    /// All log entries so far; lines that are not JSON are strings.
    pub fn log(&self) -> Vec<Value> {
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits for a log entry with this message.
    pub fn logged(&self, message: &str) -> Result<Value> {
        crate::until(message, TIMEOUT, || {
            let log = self.log();
            let is_it = |entry: &&Value| entry["message"] == message;
            Ok(log.iter().find(is_it).cloned())
        })
        .with_context(|| format!("the log is {:#?}", self.log()))
    }

    /// Address of a listener: `grpc_address`, `http_address` or `control_address`.
    pub fn address(&self, listener: &str) -> Result<String> {
        let entry = self.logged("listening")?;
        let address = entry[listener].as_str().context("no such listener")?;
        Ok(address
            .trim_start_matches("Some(")
            .trim_end_matches(')')
            .to_owned())
    }

    /// Processor time of all its threads so far.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id()))?;
        let (_, fields) = stat.rsplit_once(") ").context("no process name")?;
        let ticks = fields.split(' ').skip(11).take(2);
        let ticks = ticks.map(|text| Ok(text.parse::<f64>()?));
        Ok(ticks.sum::<Result<f64>>()? / TICKS)
    }

    /// Status and body of an HTTP endpoint.
    pub fn get(&self, path: &str) -> Result<(u16, String)> {
        let address = self.address("http_address")?;
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(10)))
            .build()
            .new_agent();
        let mut answer = agent.get(format!("http://{address}{path}")).call()?;
        Ok((
            answer.status().as_u16(),
            answer.body_mut().read_to_string()?,
        ))
    }

    /// A metric's value; `series` is its name with its labels, as `/metrics` writes it.
    pub fn metric(&self, series: &str) -> Result<Option<f64>> {
        let (_, text) = self.get("/metrics")?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        Ok(line.map(str::parse).transpose()?)
    }

    /// Waits until a metric is at least this.
    pub fn metric_reaches(&self, series: &str, least: f64) -> Result<()> {
        let what = format!("{series} >= {least}");
        crate::until(&what, TIMEOUT, || {
            Ok(self.metric(series)?.filter(|value| *value >= least))
        })
        .with_context(|| format!("the log is {:#?}", self.log()))?;
        Ok(())
    }

    /// Waits until a metric has exactly this value.
    pub fn metric_is(&self, series: &str, value: f64) -> Result<()> {
        crate::until(&format!("{series} = {value}"), TIMEOUT, || {
            Ok(self.metric(series)?.filter(|found| *found == value))
        })
        .with_context(|| format!("the log is {:#?}", self.log()))?;
        Ok(())
    }

    /// Waits until `/readyz` answers with 200.
    pub fn is_ready(&self) -> Result<()> {
        crate::until("readiness", TIMEOUT, || {
            Ok((self.get("/readyz")?.0 == 200).then_some(()))
        })
        .with_context(|| format!("the log is {:#?}", self.log()))
    }

    /// The process id, for `/proc`.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Memory that the process holds, in megabytes.
    pub fn resident_megabytes(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes: f64 = line
            .and_then(|line| line.trim().strip_suffix(" kB"))
            .context("no VmRSS")?
            .parse()?;
        Ok(kilobytes / 1_000.0)
    }

    /// Sends SIGTERM and waits for the process to end.
    pub fn stop(mut self) -> Result<ExitStatus> {
        self.terminate()?;
        self.wait()
    }

    /// Sends SIGTERM without waiting.
    pub fn terminate(&self) -> Result<()> {
        self.signal("-TERM")
    }

    /// Sends SIGSTOP: none of its threads runs until [`Daemon::thaw`].
    pub fn freeze(&self) -> Result<()> {
        self.signal("-STOP")
    }

    /// Sends SIGCONT.
    pub fn thaw(&self) -> Result<()> {
        self.signal("-CONT")
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status();
        let sent = sent.context("kill")?;
        ensure!(sent.success(), "kill {signal} {id}: {sent}");
        Ok(())
    }

    /// Whether the process has not ended.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.process.try_wait()?.is_none())
    }

    /// Waits until the process has ended by itself.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        crate::until("the daemon's end", TIMEOUT, || {
            Ok(self.process.try_wait()?)
        })
    }

    /// Sends SIGTERM and fails, with the log, unless the exit code is 0.
    pub fn stop_cleanly(self) -> Result<()> {
        let log = Arc::clone(&self.log);
        match self.stop()? {
            status if status.success() => Ok(()),
            status => {
                let log = log.lock().unwrap_or_else(PoisonError::into_inner);
                bail!("ostard ended with {status}: {log:#?}")
            }
        }
    }

    /// Sends SIGKILL and waits for the process to end.
    pub fn kill(mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until a process has its own handler of SIGTERM.
pub fn listens_for_signals(process: u32) -> Result<()> {
    const SIGTERM: u32 = 15;
    crate::until("a handler of SIGTERM", TIMEOUT, || {
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.context("no SigCgt")?.trim(), 16)?;
        Ok((caught >> (SIGTERM - 1) & 1 == 1).then_some(()))
    })
}

/// The newest checkpoint: its folder, manifest and state.
pub fn newest_checkpoint(folder: &Path) -> Result<(PathBuf, Value, Vec<u8>)> {
    let mut names: Vec<PathBuf> = std::fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("checkpoint-")
        })
        .collect();
    names.sort();
    let newest = names.pop().context("no checkpoint was written")?;
    let manifest = serde_json::from_slice(&std::fs::read(newest.join("manifest.json"))?)?;
    let state = std::fs::read(newest.join("state.safetensors"))?;
    Ok((newest, manifest, state))
}

/// Waits until the newest checkpoint has learned so many events.
pub fn checkpoint_reaches(folder: &Path, events: usize) -> Result<()> {
    crate::until(&format!("{events} events in a checkpoint"), TIMEOUT, || {
        // There is none yet, or the newest one was removed while it was read.
        let Ok((_, manifest, _)) = newest_checkpoint(folder) else {
            return Ok(None);
        };
        let learned = learned_events(&manifest)?;
        Ok((learned >= events as u64).then_some(()))
    })
}

/// Events that a checkpoint has learned, by its manifest.
pub fn learned_events(manifest: &Value) -> Result<u64> {
    let events = manifest["position"]["events"].as_u64();
    events.context("position.events")
}

/// Keys of a manifest that differ from run to run: times, epochs, names, and how far outputs were when it was written.
const OF_A_RUN: [&str; 6] = [
    "/created_at_ms",
    "/version/epoch",
    "/identity/writer",
    "/position/emitted",
    "/position/requested_block",
    "/shares/at_ms",
];

/// Checks that the newest checkpoints of two folders are equal, except for time and epoch.
pub fn same_state(one: &Path, other: &Path) -> Result<()> {
    let ((_, one, state), (_, other, other_state)) =
        (newest_checkpoint(one)?, newest_checkpoint(other)?);
    same((one, state), (other, other_state), &[])
}

/// [`same_state`] of two daemons that have read the same events from two topics.
pub fn same_learning(one: &Path, other: &Path) -> Result<()> {
    let ((_, one, state), (_, other, other_state)) =
        (newest_checkpoint(one)?, newest_checkpoint(other)?);
    same_but_topic((one, state), (other, other_state))
}

/// [`same_learning`] of manifests and states, wherever they were kept.
pub fn same_but_topic(one: (Value, Vec<u8>), other: (Value, Vec<u8>)) -> Result<()> {
    same(one, other, &["/identity/topic", "/position/topic_id"])
}

fn same(one: (Value, Vec<u8>), other: (Value, Vec<u8>), but: &[&str]) -> Result<()> {
    let comparable = |mut manifest: Value| {
        for pointer in OF_A_RUN.iter().chain(but) {
            if let Some(value) = manifest.pointer_mut(pointer) {
                *value = Value::Null;
            }
        }
        manifest
    };
    let (manifest, other_manifest) = (comparable(one.0), comparable(other.0));
    ensure!(
        manifest == other_manifest,
        "{manifest:#} differs from {other_manifest:#}"
    );
    ensure!(one.1 == other.1, "the states differ");
    Ok(())
}
