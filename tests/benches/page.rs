//! What the live page costs the daemon: processor time and latency with nobody looking, with a viewer, and with
//! viewers that have stopped reading. The learner is off. OSTARD names the program.
#![expect(
    clippy::print_stdout,
    reason = "a benchmark's outcome is what it prints"
)]

mod client;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{Shutdown, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use client::Client;
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

/// How long each phase is measured.
const PHASE: Duration = Duration::from_secs(120);
/// Times that all phases are gone through: what one differs by from round to round is noise.
const ROUNDS: usize = 2;
/// One-row requests follow each other after this, events after that.
const REQUEST_EVERY: Duration = Duration::from_millis(100);
const EVENT_EVERY: Duration = Duration::from_millis(10);
const TOPIC: &str = "events";
/// Connections that read nothing.
const STALLED: usize = 8;

/// Who looks at the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looking {
    Nobody,
    Viewer,
    Stalled,
}

fn main() -> Result<()> {
    let program = std::env::var("OSTARD").context("OSTARD names the ostard to measure")?;
    let folder = tempfile::tempdir()?;
    large::write_bundle(&folder.path().join("bundle"))?;
    let kafka = Kafka::start(Listener::Plaintext)?;
    kafka.create_topic(TOPIC, 1, &[])?;
    let (bundle, checkpoints) = (folder.path().join("bundle"), folder.path().join("states"));
    let settings = Settings::new(&kafka.bootstrap(), TOPIC, &bundle, &checkpoints)
        .with("events.format", "raw")
        .with("learner.steps_per_block", "0");
    let daemon = Daemon::start(&program, &settings)?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let feeding = scope.spawn(|| feed(&kafka, &stop));
        let measured = measure(&daemon);
        stop.store(true, Ordering::Relaxed);
        feeding.join().expect("the feeder does not panic")?;
        measured
    })?;
    daemon.stop_cleanly()
}

/// Sends events at a steady pace, so that the page has something to show.
fn feed(kafka: &Kafka, stop: &AtomicBool) -> Result<()> {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", kafka.bootstrap())
        .create()?;
    let (rows, _) = large::draw(1_000, 0.2, 2);
    for row in rows.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let payload = raw(row);
        let record = BaseRecord::<(), [u8]>::to(TOPIC).payload(&payload);
        producer.send(record).map_err(|(error, _)| error)?;
        producer.poll(EVENT_EVERY);
        thread::sleep(EVENT_EVERY);
    }
    Ok(producer.flush(Duration::from_secs(10))?)
}

fn measure(daemon: &Daemon) -> Result<()> {
    daemon.metric_reaches("ostar_blocks_total", 1.0)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let client = runtime.block_on(Client::connect(&daemon.address("grpc_address")?))?;
    println!("{PHASE:?} each, a request every {REQUEST_EVERY:?}, learner off");
    for round in 1..=ROUNDS {
        for looking in [Looking::Nobody, Looking::Viewer, Looking::Stalled] {
            phase(daemon, &runtime, &client, looking).with_context(|| format!("{looking:?}"))?;
        }
        println!("round {round} is over");
    }
    Ok(())
}

/// Measures one phase and prints it.
fn phase(daemon: &Daemon, runtime: &Runtime, client: &Client, looking: Looking) -> Result<()> {
    let connections: Vec<TcpStream> = match looking {
        Looking::Nobody => vec![],
        Looking::Viewer => vec![connect(daemon)?],
        Looking::Stalled => (0..STALLED)
            .map(|_| connect(daemon))
            .collect::<Result<_>>()?,
    };
    let reading = match looking {
        Looking::Viewer => Some(read(connections[0].try_clone()?)),
        _ => None,
    };
    let (rows, _) = large::draw(1, 0.2, 3);
    let mut latency = Histogram::<u64>::new(3)?;
    let (before, start) = (processor_seconds(daemon.id())?, Instant::now());
    while start.elapsed() < PHASE {
        let asked = Instant::now();
        runtime.block_on(client.predict(&rows))?;
        latency.record(asked.elapsed().as_micros() as u64)?;
        thread::sleep(REQUEST_EVERY.saturating_sub(asked.elapsed()));
    }
    let used = processor_seconds(daemon.id())? - before;
    let percent = 100.0 * used / start.elapsed().as_secs_f64();
    let lag = daemon.metric("ostar_consumer_lag_records{partition=\"0\"}")?;
    println!(
        "{looking:?}: {percent:.2} % of a core, request p50 {:.2} ms, p99 {:.2} ms, {} records behind",
        latency.value_at_quantile(0.5) as f64 / 1000.0,
        latency.value_at_quantile(0.99) as f64 / 1000.0,
        lag.unwrap_or(0.0),
    );
    for connection in &connections {
        connection.shutdown(Shutdown::Both)?;
    }
    if let Some(reading) = reading {
        let frames = reading
            .join()
            .map_err(|_| anyhow::anyhow!("the viewer panicked"))?;
        println!("the viewer got {frames} frames");
        ensure!(frames > 0, "the viewer saw nothing");
    }
    Ok(())
}

/// A viewer that has asked, and read nothing yet.
fn connect(daemon: &Daemon) -> Result<TcpStream> {
    let mut connection = TcpStream::connect(daemon.address("http_address")?)?;
    write!(
        connection,
        "GET /page/events HTTP/1.1\r\nhost: ostard\r\n\r\n"
    )?;
    Ok(connection)
}

/// Reads to the end; gives how many frames came.
fn read(connection: TcpStream) -> thread::JoinHandle<usize> {
    thread::spawn(move || {
        let lines = BufReader::new(connection).lines().map_while(Result::ok);
        lines.filter(|line| line == "event: frame").count()
    })
}

/// What the process has used so far, in user and kernel mode.
fn processor_seconds(process: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The program's name, in brackets, may have spaces in it.
    let (_, fields) = stat.rsplit_once(") ").context("no name in stat")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let [user, kernel] = [fields.get(11), fields.get(12)];
    let (Some(user), Some(kernel)) = (user, kernel) else {
        bail!("too few fields in {stat}");
    };
    let ticks = user.parse::<f64>()? + kernel.parse::<f64>()?;
    // Linux has 100 a second on every machine that it runs on today.
    Ok(ticks / 100.0)
}
