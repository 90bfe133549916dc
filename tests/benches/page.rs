//! Cost of the live page to the daemon, with the learner off: processor time without and with a viewer, and latency of
//! requests while viewers have stopped reading. OSTARD names the program to measure.
#![expect(
    clippy::print_stdout,
    reason = "a benchmark's outcome is what it prints"
)]

mod client;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{Shutdown, TcpStream},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use client::Client;
use hdrhistogram::Histogram;
use ostar_tests::{
    daemon::{Daemon, Settings},
    gaussians::raw,
    kafka::{Kafka, Listener},
    large,
};

/// The difference between rounds shows the noise.
const ROUNDS: usize = 2;
/// Durations of the measurements.
const PROCESSOR: Duration = Duration::from_secs(120);
const LATENCY: Duration = Duration::from_secs(30);
const REQUEST_EVERY: Duration = Duration::from_millis(20);
/// Connections that ask for the page's events and read nothing.
const STALLED: usize = 32;
const TOPIC: &str = "events";
/// One block, so that the page has something to show.
const EVENTS: usize = 500;

fn main() -> Result<()> {
    let program = std::env::var("OSTARD").context("OSTARD names the ostard to measure")?;
    let folder = tempfile::tempdir()?;
    large::write_bundle(&folder.path().join("bundle"))?;
    let kafka = Kafka::start(Listener::Plaintext)?;
    kafka.create_topic(TOPIC, 1, &[])?;
    let (rows, _) = large::draw(EVENTS, 0.2, 2);
    let payloads: Vec<Vec<u8>> = rows.iter().map(|row| raw(row)).collect();
    kafka.produce(TOPIC, 0, payloads.iter())?;
    let (bundle, checkpoints) = (folder.path().join("bundle"), folder.path().join("states"));
    let settings = Settings::new(&kafka.bootstrap(), TOPIC, &bundle, &checkpoints)
        .with("events.format", "raw")
        .with("learner.steps_per_block", "0");
    let daemon = Daemon::start(&program, &settings)?;
    daemon.metric_reaches("ostar_blocks_total", 1.0)?;
    for round in 1..=ROUNDS {
        println!("round {round}");
        processor_time(&daemon)?;
        latency(&daemon)?;
    }
    daemon.stop_cleanly()
}

/// Measured without events and requests, whose cost would hide the page's.
fn processor_time(daemon: &Daemon) -> Result<()> {
    let measure = || {
        let (before, start) = (processor_seconds(daemon.id())?, Instant::now());
        thread::sleep(PROCESSOR);
        let used = processor_seconds(daemon.id())? - before;
        anyhow::Ok(100.0 * used / start.elapsed().as_secs_f64())
    };
    let alone = measure()?;
    let viewer = connect(daemon)?;
    let reading = read(viewer.try_clone()?);
    let viewed = measure()?;
    viewer.shutdown(Shutdown::Both)?;
    let frames = reading.join().map_err(|_| anyhow!("the viewer panicked"))?;
    ensure!(frames > 0, "the viewer saw nothing");
    println!(
        "processor over {PROCESSOR:?}: {alone:.3} % of a core alone, {viewed:.3} % with a viewer, who got {frames} frames: \
         {:+.3} %",
        viewed - alone
    );
    Ok(())
}

fn latency(daemon: &Daemon) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let client = runtime.block_on(Client::connect(&daemon.address("grpc_address")?))?;
    let (rows, _) = large::draw(1, 0.2, 3);
    let measure = |who: &str| {
        let mut histogram = Histogram::<u64>::new(3)?;
        let start = Instant::now();
        while start.elapsed() < LATENCY {
            let asked = Instant::now();
            runtime.block_on(client.predict(&rows))?;
            histogram.record(asked.elapsed().as_micros() as u64)?;
            thread::sleep(REQUEST_EVERY.saturating_sub(asked.elapsed()));
        }
        let quantile = |at| histogram.value_at_quantile(at) as f64 / 1000.0;
        println!(
            "requests, {who}: p50 {:.2} ms, p99 {:.2} ms",
            quantile(0.5),
            quantile(0.99)
        );
        anyhow::Ok(())
    };
    measure("nobody looking")?;
    let stalled: Vec<TcpStream> = (0..STALLED)
        .map(|_| connect(daemon))
        .collect::<Result<_>>()?;
    measure("beside viewers that have stopped reading")?;
    drop(stalled);
    Ok(())
}

/// A viewer that has sent its request and read nothing yet.
fn connect(daemon: &Daemon) -> Result<TcpStream> {
    let mut connection = TcpStream::connect(daemon.address("http_address")?)?;
    write!(
        connection,
        "GET /page/events HTTP/1.1\r\nhost: ostard\r\n\r\n"
    )?;
    Ok(connection)
}

/// Reads until the connection closes; returns the number of frames.
fn read(connection: TcpStream) -> thread::JoinHandle<usize> {
    thread::spawn(move || {
        let lines = BufReader::new(connection).lines().map_while(Result::ok);
        lines.filter(|line| line == "event: frame").count()
    })
}

/// Processor time of all threads of a process, from the scheduler's statistics.
fn processor_seconds(process: u32) -> Result<f64> {
    let mut nanoseconds = 0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let path = thread?.path().join("schedstat");
        // Threads that end between listing and reading are ignored: they are short-lived.
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let running = text.split(' ').next().context("an empty schedstat")?;
        nanoseconds += running.parse::<u64>()?;
    }
    Ok(nanoseconds as f64 / 1e9)
}
