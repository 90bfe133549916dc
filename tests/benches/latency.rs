//! Latency of one-row requests while the learner works and while it is paused, and how overload is refused.
//!
//! Open loop: requests are sent on a schedule, and their time counts from the scheduled moment. OSTARD names the
//! program to measure.
#![expect(
    clippy::print_stdout,
    reason = "a benchmark's outcome is what it prints"
)]

mod client;

use std::{
    process::Command,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use client::{Client, Predicted};
use hdrhistogram::Histogram;
use ostar_tests::{
    daemon::{Daemon, Settings},
    gaussians::raw,
    kafka::{Kafka, Listener},
    large,
};
use rdkafka::{
    ClientConfig,
    producer::{BaseProducer, BaseRecord, Producer},
};
use tokio::runtime::Runtime;

/// One-row requests per second.
const RATE: u32 = 500;
/// Times that learning and pausing alternate, and how long each lasts.
const ROUNDS: usize = 3;
const PHASE: Duration = Duration::from_secs(20);
/// Enough for 12 steps a second with the learner's defaults: five for every 500 events.
const EVENTS_A_SECOND: u32 = 1_250;
const TOPIC: &str = "events";

/// Overload: rows of a request, requests under way at any time, and duration.
const FLOOD_ROWS: usize = 256;
const FLOOD_REQUESTS: usize = 64;
const FLOOD: Duration = Duration::from_secs(10);

fn main() -> Result<()> {
    let program = std::env::var("OSTARD").context("OSTARD names the ostard to measure")?;
    let folder = tempfile::tempdir()?;
    large::write_bundle(&folder.path().join("bundle"))?;
    let kafka = Kafka::start(Listener::Plaintext)?;
    kafka.create_topic(TOPIC, 1, &[])?;
    let (bundle, checkpoints) = (folder.path().join("bundle"), folder.path().join("states"));
    let settings = Settings::new(&kafka.bootstrap(), TOPIC, &bundle, &checkpoints)
        .with("events.format", "raw")
        .with("grpc.control_listen", "127.0.0.1:0");
    let daemon = Daemon::start(&program, &settings)?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let feeding = scope.spawn(|| feed(&kafka, &stop));
        let measured = measure(&program, &daemon);
        stop.store(true, Ordering::Relaxed);
        feeding.join().expect("the feeder does not panic")?;
        measured
    })?;
    daemon.stop_cleanly()
}

/// Sends events at a steady pace.
fn feed(kafka: &Kafka, stop: &AtomicBool) -> Result<()> {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", kafka.bootstrap())
        .create()?;
    let (rows, _) = large::draw(5_000, 0.2, 2);
    let payloads: Vec<Vec<u8>> = rows.iter().map(|row| raw(row)).collect();
    let start = Instant::now();
    for (number, payload) in (0..).zip(payloads.iter().cycle()) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        // Ten at a time: on a small machine a wake-up for each would disturb the measurement.
        if number % 10 == 0 {
            sleep_until(start + Duration::from_secs(1) / EVENTS_A_SECOND * number);
            producer.poll(Duration::ZERO);
        }
        let record = BaseRecord::<(), [u8]>::to(TOPIC).payload(payload);
        producer.send(record).map_err(|(error, _)| error)?;
    }
    Ok(producer.flush(Duration::from_secs(10))?)
}

fn measure(program: &str, daemon: &Daemon) -> Result<()> {
    // Warm-up: the window is full and the guard has decided.
    daemon.metric_reaches("ostar_steps_total", 50.0)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let client = runtime.block_on(Client::connect(&daemon.address("grpc_address")?))?;
    let (mut paused, mut learning) = (histogram()?, histogram()?);
    let mut steps = 0.0;
    open_loop(&runtime, &client, Duration::from_secs(3))?;
    for _ in 0..ROUNDS {
        order(program, daemon, "pause")?;
        paused.add(open_loop(&runtime, &client, PHASE)?)?;
        order(program, daemon, "resume")?;
        let before = steps_taken(daemon)?;
        learning.add(open_loop(&runtime, &client, PHASE)?)?;
        steps += steps_taken(daemon)? - before;
    }
    let steps = steps / (PHASE * ROUNDS as u32).as_secs_f64();
    println!(
        "{RATE} one-row requests a second, d {}, milliseconds",
        large::WIDTH
    );
    show("learner paused", &paused);
    show("learner working", &learning);
    println!("  {steps:.1} steps a second");
    let limit = (2.0 * p99(&paused)).max(5.0);
    println!(
        "  p99 with the learner {:.2} ms, limit {limit:.2} ms",
        p99(&learning)
    );

    let flooded = flood(&runtime, &client)?;
    println!("flood: {FLOOD_REQUESTS} requests of {FLOOD_ROWS} rows under way at any time");
    show("answered", &flooded.answered);
    show("refused", &flooded.refused);
    let after = open_loop(&runtime, &client, PHASE)?;
    show("one row, after it", &after);
    ensure!(
        steps >= 10.0,
        "{steps:.1} steps a second, expected 10 or more"
    );
    Ok(())
}

/// Sends requests on a schedule; returns their times in microseconds, refused ones included.
fn open_loop(runtime: &Runtime, client: &Client, length: Duration) -> Result<Histogram<u64>> {
    let (rows, _) = large::draw(1_000, 0.2, 3);
    let times = Arc::new(Mutex::new(histogram()?));
    let requests = (length.as_secs_f64() * f64::from(RATE)) as u32;
    let start = Instant::now();
    let mut sent = Vec::new();
    for (number, row) in (0..requests).zip(rows.iter().cycle()) {
        let intended = start + Duration::from_secs(1) / RATE * number;
        sleep_until(intended);
        let (client, times, row) = (client.clone(), Arc::clone(&times), row.clone());
        sent.push(runtime.spawn(async move {
            let predicted = client.predict(std::slice::from_ref(&row)).await?;
            let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
            times.record(intended.elapsed().as_micros() as u64)?;
            anyhow::Ok(predicted)
        }));
    }
    let mut refused = 0;
    for request in sent {
        refused += u32::from(runtime.block_on(request)?? == Predicted::Refused);
    }
    if refused > 0 {
        println!(
            "{refused} of {requests} requests were refused: the machine is busy with something else"
        );
    }
    let times = times.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(times.clone())
}

struct Flooded {
    answered: Histogram<u64>,
    refused: Histogram<u64>,
}

/// Sends requests from many callers at once, each without a pause.
fn flood(runtime: &Runtime, client: &Client) -> Result<Flooded> {
    let (rows, _) = large::draw(FLOOD_ROWS, 0.2, 4);
    let rows = Arc::new(rows);
    let end = Instant::now() + FLOOD;
    let caller = || {
        let (client, rows) = (client.clone(), Arc::clone(&rows));
        runtime.spawn(async move {
            let mut times = Vec::new();
            while Instant::now() < end {
                let start = Instant::now();
                let predicted = client.predict(&rows).await?;
                times.push((predicted, start.elapsed()));
            }
            anyhow::Ok(times)
        })
    };
    let callers: Vec<_> = (0..FLOOD_REQUESTS).map(|_| caller()).collect();
    let mut flooded = Flooded {
        answered: histogram()?,
        refused: histogram()?,
    };
    for caller in callers {
        for (predicted, time) in runtime.block_on(caller)?? {
            let times = match predicted {
                Predicted::Answered => &mut flooded.answered,
                Predicted::Refused => &mut flooded.refused,
            };
            times.record(time.as_micros() as u64)?;
        }
    }
    Ok(flooded)
}

fn order(program: &str, daemon: &Daemon, what: &str) -> Result<()> {
    let address = daemon.address("control_address")?;
    let given = Command::new(program)
        .args(["ctl", "--address", &address, what])
        .output()?;
    ensure!(given.status.success(), "ctl {what}: {given:?}");
    Ok(())
}

fn steps_taken(daemon: &Daemon) -> Result<f64> {
    let steps = daemon.metric("ostar_steps_total")?;
    steps.context("no ostar_steps_total")
}

fn histogram() -> Result<Histogram<u64>> {
    Ok(Histogram::new(3)?)
}

fn p99(times: &Histogram<u64>) -> f64 {
    times.value_at_quantile(0.99) as f64 / 1_000.0
}

fn show(what: &str, times: &Histogram<u64>) {
    let milliseconds = |quantile| times.value_at_quantile(quantile) as f64 / 1_000.0;
    println!(
        "  {what:<18} {:>7} requests, p50 {:.2}, p90 {:.2}, p99 {:.2}, p99.9 {:.2}, most {:.2}",
        times.len(),
        milliseconds(0.5),
        milliseconds(0.9),
        milliseconds(0.99),
        milliseconds(0.999),
        times.max() as f64 / 1_000.0,
    );
}

fn sleep_until(moment: Instant) {
    thread::sleep(moment.saturating_duration_since(Instant::now()));
}
