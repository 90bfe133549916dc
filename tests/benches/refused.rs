//! Resident memory of a daemon whose predictions are refused while events keep coming: `make bench-refused`.
//!
//! OSTARD names the program to measure. `-- --seconds 300 --rate 2000` are the defaults.
#![expect(
    clippy::print_stdout,
    reason = "a benchmark's outcome is what it prints"
)]

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use ostar_tests::{
    daemon::{Daemon, Settings},
    gaussians,
    kafka::{Kafka, Listener},
};

/// Events that are predicted before predictions are refused.
const BEFORE: usize = 20_000;
/// Memory of the first look counts from here on: by then every queue is full.
const SETTLED: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Most that memory may grow while an output is refused.
const MOST_MEGABYTES: f64 = 20.0;

fn main() -> Result<()> {
    let program = std::env::var("OSTARD").context("OSTARD names the ostard to measure")?;
    let (mut seconds, mut rate) = (300, 2_000);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().context("a flag without a value");
        match argument.as_str() {
            "--seconds" => seconds = value()?.parse()?,
            "--rate" => rate = value()?.parse()?,
            // cargo adds it.
            "--bench" => {}
            other => bail!("{other} is no flag, expected --seconds 300 or --rate 2000"),
        }
    }
    let folder = tempfile::tempdir()?;
    gaussians::write_bundle(&folder.path().join("bundle"))?;
    let kafka = Kafka::start(Listener::Plaintext)?;
    kafka.create_topic("events", 1, &[])?;
    kafka.create_topic("predictions", 1, &[])?;
    let settings = Settings::new(
        &kafka.bootstrap(),
        "events",
        &folder.path().join("bundle"),
        &folder.path().join("state"),
    )
    .with("predictions.topic", "predictions");
    let (rows, _) = gaussians::draw(10_000, 0.4, 0.1, 5);
    let events: Vec<_> = rows.iter().map(|row| gaussians::json("", row)).collect();
    let daemon = Daemon::start(&program, &settings)?;
    kafka.produce("events", 0, events.iter().cycle().take(BEFORE))?;
    let delivered = "ostar_output_records_total{outcome=\"delivered\",output=\"predictions\"}";
    daemon.metric_reaches(delivered, BEFORE as f64)?;
    println!(
        "{BEFORE} predictions delivered, resident {:.1} MB",
        daemon.resident_megabytes()?
    );

    // Refused for now: the topic may come back.
    kafka.delete_topic("predictions")?;
    let began = Instant::now();
    let end = Duration::from_secs(seconds);
    let (mut next, mut sent) = (Duration::ZERO, 0);
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    while began.elapsed() < end {
        let due = (began.elapsed().as_secs_f64() * rate as f64) as usize;
        kafka.produce(
            "events",
            0,
            events.iter().cycle().skip(sent % 10_000).take(due - sent),
        )?;
        sent = due;
        if began.elapsed() >= next {
            next += LOOK_EVERY;
            let megabytes = daemon.resident_megabytes()?;
            let lag = daemon.metric("ostar_consumer_lag_records{partition=\"0\"}")?;
            let lag = lag.context("no lag")?;
            println!(
                "{:4.0} s  {sent} events sent, lag {lag}, resident {megabytes:.1} MB",
                began.elapsed().as_secs_f64(),
            );
            if began.elapsed() >= SETTLED {
                least = megabytes.min(least);
                most = megabytes.max(most);
            }
        }
        thread::sleep(Duration::from_millis(200));
    }
    println!("from {SETTLED:?} on between {least:.1} and {most:.1} MB");
    let refused = daemon.metric("ostar_condition{condition=\"outputs\"}")?;
    ensure!(refused == Some(1.0), "predictions were not refused");
    kafka.create_topic("predictions", 1, &[])?;
    daemon.metric_reaches(delivered, (BEFORE + sent) as f64)?;
    println!(
        "allowed again: all {} delivered, resident {:.1} MB",
        BEFORE + sent,
        daemon.resident_megabytes()?
    );
    daemon.stop_cleanly()?;
    ensure!(
        most - least <= MOST_MEGABYTES,
        "memory grew by {:.1} MB, more than {MOST_MEGABYTES}",
        most - least
    );
    Ok(())
}
