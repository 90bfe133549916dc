//! An honest client beside hostile ones: `make bench-hostile`.
//!
//! Open loop: requests are sent on a schedule, and their time counts from the scheduled moment. Hostile clients would have
//! machines of their own. Here they share the processors, so they take what the daemon and the honest client leave. OSTARD
//! names the program to measure; it needs no broker. `-- --seconds 15` is how long each attack lasts, `--attack Pings` runs one. Fails if a
//! request of the honest client fails or the daemon takes more than 512 MiB.
#![expect(
    clippy::print_stdout,
    reason = "a benchmark's outcome is what it prints"
)]

mod client;

use std::{
    fs, io,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use client::{Client, Predicted};
use hdrhistogram::Histogram;
use ostar_tests::{
    daemon::{Daemon, Settings},
    hostile::{Attack, Target},
    large,
};
use rustix::process::setpriority_process;
use tokio::runtime::Runtime;

/// One-row requests per second of the honest client.
const RATE: u32 = 200;
const MEMORY: u64 = 512 << 10;

fn main() -> Result<()> {
    let program = std::env::var("OSTARD").context("OSTARD names the ostard to measure")?;
    let (mut seconds, mut only) = (15, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seconds" => {
                seconds = arguments
                    .next()
                    .context("--seconds needs a number")?
                    .parse()?
            }
            "--attack" => only = arguments.next(),
            "--bench" => {}
            other => bail!("{other} is no flag, expected --seconds 15 or --attack Pings"),
        }
    }
    let phase = Duration::from_secs(seconds);
    let folder = tempfile::tempdir()?;
    large::write_bundle(&folder.path().join("bundle"))?;
    let (bundle, checkpoints) = (folder.path().join("bundle"), folder.path().join("states"));
    let settings = Settings::new("127.0.0.1:1", "none", &bundle, &checkpoints);
    let daemon = Daemon::start(&program, &settings)?;
    daemon.is_ready()?;
    let target = Target {
        grpc: daemon.address("grpc_address")?,
        http: daemon.address("http_address")?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    open_loop(&runtime, &target.grpc, Duration::from_secs(3))?;
    println!(
        "{RATE} one-row requests a second, milliseconds; memory in MiB, at its highest so far"
    );
    let mut failed = 0;
    let mut attacks = Attack::ALL.to_vec();
    if let Some(only) = only {
        attacks.retain(|attack| format!("{attack:?}") == only);
        ensure!(!attacks.is_empty(), "{only} is none of {:?}", Attack::ALL);
    }
    for attack in [None].into_iter().chain(attacks.into_iter().map(Some)) {
        let stop = AtomicBool::new(false);
        let (before, cpu) = (cuts(&daemon)?, daemon.cpu_seconds()?);
        let measured = thread::scope(|scope| {
            let (target, stop) = (&target, &stop);
            if let Some(attack) = attack {
                scope.spawn(move || {
                    // A nice value is that of a thread, on Linux.
                    setpriority_process(None, 19)?;
                    attack.run(target, stop);
                    io::Result::Ok(())
                });
            }
            let measured = open_loop(&runtime, &target.grpc, phase);
            stop.store(true, Ordering::Relaxed);
            measured
        })?;
        let name = attack.map_or("nobody".to_owned(), |attack| format!("{attack:?}"));
        let milliseconds = |quantile| measured.times.value_at_quantile(quantile) as f64 / 1e3;
        let memory = status(&daemon, "VmHWM")?;
        println!(
            "{name:16} p50 {:7.2}  p99 {:7.2}  max {:7.2}  {} requests, {} failed  {:4} MiB  {} cut  {:.2} cores",
            milliseconds(0.5),
            milliseconds(0.99),
            milliseconds(1.0),
            measured.times.len(),
            measured.failed,
            memory >> 10,
            cuts(&daemon)? - before,
            (daemon.cpu_seconds()? - cpu) / phase.as_secs_f64(),
        );
        failed += measured.failed;
        ensure!(memory < MEMORY, "the daemon took {memory} KiB");
    }
    ensure!(failed == 0, "{failed} requests of the honest client failed");
    Ok(())
}

/// A line of `/proc/PID/status`, in KiB.
fn status(daemon: &Daemon, key: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{}/status", daemon.id()))?;
    let line = text
        .lines()
        .find(|line| line.starts_with(key))
        .context("no such line")?;
    let number = line.split_whitespace().nth(1).context("no number")?;
    Ok(number.parse()?)
}

/// Connections and requests that were cut so far.
fn cuts(daemon: &Daemon) -> Result<u64> {
    let (_, text) = daemon.get("/metrics")?;
    let lines = text.lines();
    let cut = lines.filter(|line| {
        line.starts_with("ostar_connections_cut_total")
            || line.starts_with("ostar_requests_cut_total")
    });
    Ok(cut
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum())
}

struct Measured {
    /// Microseconds.
    times: Histogram<u64>,
    failed: usize,
}

/// Sends requests on a schedule. Every second a new connection is made, too.
fn open_loop(runtime: &Runtime, address: &str, phase: Duration) -> Result<Measured> {
    let (rows, _) = large::draw(1, 0.2, 7);
    let (sender, receiver) = std::sync::mpsc::channel();
    runtime.block_on(async {
        let mut client = Client::connect(address).await?;
        let start = Instant::now();
        for number in 0..RATE * phase.as_secs() as u32 {
            let due = start + Duration::from_secs(1) / RATE * number;
            tokio::time::sleep_until(due.into()).await;
            if number % RATE == RATE - 1 {
                client = Client::connect(address).await?;
            }
            let (client, rows, sender) = (client.clone(), rows.clone(), sender.clone());
            tokio::spawn(async move {
                let answered = matches!(client.predict(&rows).await, Ok(Predicted::Answered));
                let _ = sender.send((due.elapsed(), answered));
            });
        }
        anyhow::Ok(())
    })?;
    drop(sender);
    let mut measured = Measured {
        times: Histogram::new(3)?,
        failed: 0,
    };
    while let Ok((time, answered)) = receiver.recv_timeout(Duration::from_secs(30)) {
        measured.times.record(time.as_micros() as u64)?;
        measured.failed += usize::from(!answered);
    }
    Ok(measured)
}
