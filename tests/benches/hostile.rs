//! An honest client beside hostile ones: `make bench-hostile`.
//!
//! Open loop: requests are sent on a schedule, and their time counts from the scheduled moment. Hostile clients would have
//! machines of their own. Here they share the processors, so they take what the daemon and the honest client leave. OSTARD
//! names the program to measure; it needs no broker. With and without each attack in turns, five rounds of ten seconds each;
//! the ratio is the median of the rounds (`-- --rounds 5 --seconds 10`, `--attack Pings` for one). Fails if a request of
//! the honest client fails or the daemon takes more than 512 MiB.
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
    let options = Options::read()?;
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
    println!("{RATE} one-row requests a second; p99 in milliseconds, alone and beside the attack");
    let mut failed = 0;
    for attack in options.attacks {
        let (before, cpu) = (cuts(&daemon)?, daemon.cpu_seconds()?);
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            for (attack, p99s) in [(None, &mut alone), (Some(attack), &mut beside)] {
                let measured = phase(&runtime, &target, attack, options.phase)?;
                failed += measured.failed;
                p99s.push(measured.times.value_at_quantile(0.99) as f64 / 1e3);
            }
        }
        let ratios = alone.iter().zip(&beside).map(|(a, b)| b / a);
        let mut ratios: Vec<f64> = ratios.collect();
        ratios.sort_by(f64::total_cmp);
        let memory = status(&daemon, "VmHWM")?;
        println!(
            "{:16} ratio {:5.2}  alone {alone:6.2?}  beside {beside:6.2?}  {failed} failed so far  {} MiB at most  {} cut  {:.2} cores",
            format!("{attack:?}"),
            ratios[ratios.len() / 2],
            memory >> 10,
            cuts(&daemon)? - before,
            (daemon.cpu_seconds()? - cpu)
                / options.phase.as_secs_f64()
                / (2 * options.rounds) as f64,
        );
        ensure!(memory < MEMORY, "the daemon took {memory} KiB");
    }
    ensure!(failed == 0, "{failed} requests of the honest client failed");
    Ok(())
}

struct Options {
    rounds: usize,
    phase: Duration,
    attacks: Vec<Attack>,
}

impl Options {
    fn read() -> Result<Self> {
        let mut options = Self {
            rounds: 5,
            phase: Duration::from_secs(10),
            attacks: Attack::ALL.to_vec(),
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().context("a flag without a value");
            match argument.as_str() {
                "--rounds" => options.rounds = value()?.parse()?,
                "--seconds" => options.phase = Duration::from_secs(value()?.parse()?),
                "--attack" => {
                    let only = value()?;
                    options.attacks.retain(|a| format!("{a:?}") == only);
                    let found = !options.attacks.is_empty();
                    ensure!(found, "{only} is none of {:?}", Attack::ALL);
                }
                // cargo adds it.
                "--bench" => {}
                other => {
                    bail!("{other} is no flag, expected --rounds 5, --seconds 10 or --attack Pings")
                }
            }
        }
        Ok(options)
    }
}

/// The honest client, beside one attack or alone.
fn phase(
    runtime: &Runtime,
    target: &Target,
    attack: Option<Attack>,
    time: Duration,
) -> Result<Measured> {
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        if let Some(attack) = attack {
            scope.spawn(move || {
                // A nice value is that of a thread, on Linux.
                setpriority_process(None, 19)?;
                attack.run(target, stop);
                io::Result::Ok(())
            });
        }
        let measured = open_loop(runtime, &target.grpc, time);
        stop.store(true, Ordering::Relaxed);
        measured
    })
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
