//! Requests per second of the Open Inference Protocol and their latency, compared with MLServer and the same network.
//!
//! ghz, which MLServer's own benchmarks used first, sends the same one-row request repeatedly from a fixed number of
//! callers, to one server after the other. OSTARD names the program to measure.
#![expect(
    clippy::print_stdout,
    reason = "a benchmark's outcome is what it prints"
)]

mod ghz;
mod mlserver;

use anyhow::{Context, Result, ensure};
use ghz::{Ghz, Measured};
use mlserver::MlServer;
use ostar_tests::{
    daemon::{Daemon, Settings},
    large,
};

/// Times that the servers take turns.
const ROUNDS: usize = 3;
/// Callers that wait for their answer before they ask again.
const CALLERS: [usize; 2] = [1, 16];
/// Nothing listens on the port of tcpmux. Without events the learner idles; MLServer has none.
const CLOSED_PORT: &str = "127.0.0.1:1";

fn main() -> Result<()> {
    let program = std::env::var("OSTARD").context("OSTARD names the ostard to measure")?;
    let ghz = Ghz::install()?;
    let folder = tempfile::tempdir()?;
    let bundle = folder.path().join("bundle");
    large::write_bundle(&bundle)?;
    let settings = Settings::new(
        CLOSED_PORT,
        "events",
        &bundle,
        &folder.path().join("states"),
    )
    .with("kafka.patience", "24h")
    // MLServer queues without a limit: with a long wait, overload shows as latency on both sides.
    .with("requests.max_wait", "10s");
    let daemon = Daemon::start(&program, &settings)?;
    daemon.is_ready()?;
    let mlserver = MlServer::start(&bundle, &folder.path().join("mlserver"))?;
    let address = daemon.address("grpc_address")?;
    println!("the same network: {}", mlserver.compare(&address)?.trim());
    println!("load average before: {}", load()?);
    for callers in CALLERS {
        // Warm-up of both servers.
        ghz.measure(&address, &mlserver.request("ostard"), callers, 2)?;
        ghz.measure(&mlserver.grpc, &mlserver.request("mlserver"), callers, 2)?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(ghz.measure(&address, &mlserver.request("ostard"), callers, 8)?);
            theirs.push(ghz.measure(&mlserver.grpc, &mlserver.request("mlserver"), callers, 8)?);
        }
        report(callers, &ours, &theirs)?;
    }
    println!("load average after: {}", load()?);
    daemon.stop_cleanly()
}

fn report(callers: usize, ours: &[Measured], theirs: &[Measured]) -> Result<()> {
    println!("{callers} callers, medians of {ROUNDS} rounds");
    for (name, rounds) in [("ostard", ours), ("MLServer", theirs)] {
        println!(
            "  {name:<8} {:>8.0} requests a second, p50 {:.2} ms, p99 {:.2} ms",
            median(rounds, |round| round.requests_a_second),
            median(rounds, |round| round.p50_ms),
            median(rounds, |round| round.p99_ms),
        );
    }
    let ratios: Vec<f64> = ours
        .iter()
        .zip(theirs)
        .map(|(ours, theirs)| ours.requests_a_second / theirs.requests_a_second)
        .collect();
    let p99 = |rounds: &[Measured]| median(rounds, |round| round.p99_ms);
    println!("  requests a second over MLServer's, by round: {ratios:.1?}");
    let ratio = median(&ratios, |ratio| *ratio);
    ensure!(
        ratio >= 5.0,
        "{ratio:.1} times MLServer, expected 5 or more"
    );
    ensure!(
        p99(ours) < p99(theirs),
        "the p99 is not lower than MLServer's"
    );
    Ok(())
}

fn median<T>(rounds: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn load() -> Result<String> {
    let load = std::fs::read_to_string("/proc/loadavg")?;
    Ok(load.split(' ').take(3).collect::<Vec<_>>().join(" "))
}
