//! A stop while the process starts.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use nix::{
    sys::signal::{SigSet, Signal, kill},
    unistd::Pid,
};
use ostar_engine::Generator;
use ostar_harness::{
    daemon::{Settings, TIMEOUT, listens_for_signals},
    until,
};

use crate::{PROGRAM, Place, broker};

const STARTS: usize = 100;
/// Signals come within this time.
const FIRST: Duration = Duration::from_millis(50);
/// Longest time from a signal to the end, on a machine that is busy with builds. The demo's stream alone takes longer.
const PROMPT: Duration = Duration::from_secs(8);
/// An address at which nobody listens.
const NOBODY: &str = "127.0.0.1:1";

/// `ostard` with a way to see what it says. Dropping it kills it.
struct Started(Child);

impl Started {
    /// Starts it with signals blocked, which it inherits: one that comes before it listens waits until it does. Without
    /// that, a signal in the first milliseconds, before `main`, would end any process.
    fn new<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
        signals.thread_block()?;
        let started = Command::new(PROGRAM)
            .args(arguments)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        signals.thread_unblock()?;
        Ok(Self(started.context("ostard")?))
    }

    fn send(&self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(self.0.id().try_into()?), signal)?;
        Ok(())
    }

    /// Sends a signal and expects a clean end in time.
    fn ends_cleanly_after(mut self, signal: Signal) -> Result<()> {
        let sent = Instant::now();
        self.send(signal)?;
        let status = self.end()?;
        let took = sent.elapsed();
        let mut log = String::new();
        let output = self.0.stderr.take().context("no error stream")?;
        BufReader::new(output).read_to_string(&mut log)?;
        ensure!(status.success(), "{status} after {signal}: {log}");
        ensure!(took < PROMPT, "stopping took {took:?}: {log}");
        Ok(())
    }

    fn end(&mut self) -> Result<ExitStatus> {
        until("the process's end", TIMEOUT, || Ok(self.0.try_wait()?))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The settings of each role, with a broker that answers where one process alone is enough.
fn roles(place: &Place, brokers: &str) -> [Vec<String>; 4] {
    let settings = |brokers, name: &str| {
        let bundle = place.path().join("bundle");
        Settings::new(brokers, "early", &bundle, &place.checkpoints(name))
            .with("events.format", "raw")
    };
    let split = |role| {
        settings(NOBODY, "unused")
            .with("role", role)
            .with("checkpoints.store", "kafka")
            .with("checkpoints.topic", "early-state")
            .with("samples.topic", "early-samples")
    };
    [
        settings(brokers, "answered"),
        settings(NOBODY, "unanswered"),
        split("scorer"),
        split("learner"),
    ]
    .map(|settings| [vec!["run".to_owned()], settings.flags("")].concat())
}

#[test]
fn a_stop_in_the_first_fifty_milliseconds_is_a_clean_one_in_every_role() -> Result<()> {
    let mock = broker(&["early"]);
    let place = Place::new()?;
    let roles = roles(&place, mock.address());
    let mut generator = Generator::new(35);
    for start in 0..STARTS {
        let role = &roles[start % roles.len()];
        let delay = FIRST.mul_f64(generator.uniform());
        let signal = [Signal::SIGTERM, Signal::SIGINT][generator.below(2)];
        let process = Started::new(role.iter().map(String::as_str))?;
        thread::sleep(delay);
        if start % 3 == 0 {
            // A second one changes nothing.
            process.send(signal)?;
        }
        let ended = process.ends_cleanly_after(signal);
        ended.with_context(|| format!("start {start}, after {delay:?}, of {role:?}"))?;
    }
    Ok(())
}

#[test]
fn signals_are_listened_for_before_the_configuration_is_read() -> Result<()> {
    let place = Place::new()?;
    let file = place.path().join("ostard.toml");
    // Holds up whoever reads it, until somebody writes to it.
    let made = Command::new("mkfifo").arg(&file).status()?;
    ensure!(made.success(), "mkfifo {}: {made}", file.display());
    let path = file.to_str().context("path")?;
    let process = Started::new(["run", "--config", path])?;
    listens_for_signals(process.0.id())?;
    process.send(Signal::SIGTERM)?;
    let settings = Settings::new(
        NOBODY,
        "early",
        &place.path().join("bundle"),
        &place.checkpoints("state"),
    );
    let flags = settings.flags("");
    let keys = flags.iter().filter(|flag| *flag != "--set");
    let lines: Vec<String> = keys
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| format!("{key} = {value:?}\n"))
        .collect();
    fs::write(&file, lines.concat())?;
    process.ends_cleanly_after(Signal::SIGTERM)
}

#[test]
fn the_demo_stops_cleanly_while_it_trains_and_once_it_runs() -> Result<()> {
    let mut generator = Generator::new(36);
    let demo = ["demo", "--http", "127.0.0.1:0"];
    for _ in 0..5 {
        let delay = FIRST.mul_f64(generator.uniform());
        let process = Started::new(demo)?;
        thread::sleep(delay);
        process.ends_cleanly_after(Signal::SIGTERM)?;
    }
    // It says that it trains, and then where its page is.
    for line in ["training", "gRPC"] {
        let mut process = Started::new(demo)?;
        let output = process.0.stdout.take().context("no output")?;
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let said = lines.any(|said| said.starts_with(line));
        ensure!(said, "the demo ended without saying {line:?}");
        // What it says from here on must find a reader.
        thread::spawn(move || lines.count());
        process.ends_cleanly_after(Signal::SIGINT)?;
    }
    Ok(())
}
