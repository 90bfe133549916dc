//! Resident memory of a daemon whose events wait half an hour for a click: `make bench-waiting`.
//!
//! Waiting is by the events' own times, so that two hours of 1,000 events a second pass in minutes. Two daemons read the same
//! events, one with labels and one without. OSTARD names the program to measure. `-- --id-bytes 36` makes ids as long as a UUID;
//! by default they are as long as their numbers.
#![expect(
    clippy::print_stdout,
    reason = "a benchmark's outcome is what it prints"
)]

use std::{thread, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use ostar_tests::{
    daemon::{Daemon, Settings},
    gaussians,
    kafka::{Kafka, Listener},
};

/// Two hours at 1,000 events a second: half an hour fills what waits, 86 minutes the memory for labels of events that do not
/// wait, and the rest shows that it stays.
const EVENTS: usize = 7_200_000;
const LOOKS: usize = 12;
/// One event in so many is clicked, a minute of event time later.
const CLICKED: usize = 50;
const CLICK_MS: usize = 60_000;
/// Some time in 2026, in milliseconds since 1970.
const START_MS: usize = 1_767_225_600_000;
/// Freed memory goes back to the system within ten seconds; what is in use stays.
const SETTLE: Duration = Duration::from_secs(15);
/// What docs/SIZING.md says of the default `labels.cache`: with short ids, and with ids of up to 36 bytes.
const DOCUMENTED_MEGABYTES: [f64; 2] = [42.0, 53.0];
/// The longest ids that are called short: most numbers.
const SHORT_ID_BYTES: usize = 8;

fn main() -> Result<()> {
    let program = std::env::var("OSTARD").context("OSTARD names the ostard to measure")?;
    let mut id_bytes = 0;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--id-bytes" => {
                id_bytes = arguments
                    .next()
                    .context("a flag without a value")?
                    .parse()?
            }
            // cargo adds it.
            "--bench" => {}
            other => bail!("{other} is no flag, expected --id-bytes 36"),
        }
    }
    let id = |number: usize| format!("{number:0id_bytes$}");
    let folder = tempfile::tempdir()?;
    gaussians::write_bundle(&folder.path().join("bundle"))?;
    let kafka = Kafka::start(Listener::Plaintext)?;
    kafka.create_topic("events", 1, &[])?;
    kafka.create_topic("clicks", 1, &[])?;
    let settings = |name: &str| {
        Settings::new(
            &kafka.bootstrap(),
            "events",
            &folder.path().join("bundle"),
            &folder.path().join(name),
        )
        .with("kafka.group", name)
        .with("learner.steps_per_block", "0")
        .with("learner.when_behind", "wait")
    };
    let without = Daemon::start(&program, &settings("without"))?;
    let with = settings("with")
        .with("labels.topic", "clicks")
        .with("labels.negative_after", "30m")
        .with("labels.taken_by", "arrival")
        .with("serving.objective", "probability");
    let with = Daemon::start(&program, &with)?;
    let (rows, _) = gaussians::draw(10_000, 0.4, 0.0, 5);
    let rows: Vec<String> = rows
        .iter()
        .map(serde_json::to_string)
        .collect::<std::result::Result<_, _>>()?;
    let part = EVENTS / LOOKS;
    for look in 0..LOOKS {
        let numbers = look * part..(look + 1) * part;
        let event = |number: usize| {
            let (time, row) = (START_MS + number, &rows[number % rows.len()]);
            let id = id(number);
            format!("{{\"id\": \"{id}\", \"time_ms\": {time}, \"latent\": {row}}}")
        };
        let clicked = numbers.clone().filter(|number| number % CLICKED == 0);
        let clicks: Vec<String> = clicked
            .filter_map(|number| number.checked_sub(CLICK_MS))
            .map(|number| format!("{{\"id\": \"{}\", \"label\": \"spam\"}}", id(number)))
            .collect();
        kafka.produce("clicks", 0, clicks)?;
        kafka.produce("events", 0, numbers.map(event))?;
        for daemon in [&with, &without] {
            daemon.metric_reaches("ostar_learned_events_total", ((look + 1) * part) as f64)?;
        }
        thread::sleep(SETTLE);
        println!(
            "{:4.0} minutes: with labels {:.1} MB, without {:.1} MB, one of {} waits, {} became negative",
            ((look + 1) * part) as f64 / 60_000.0,
            with.resident_megabytes()?,
            without.resident_megabytes()?,
            with.metric("ostar_label_waiting_one_of")?
                .context("no rate")?,
            with.metric("ostar_labels_total{outcome=\"negative\"}")?
                .unwrap_or(0.0),
        );
    }
    let more = with.resident_megabytes()? - without.resident_megabytes()?;
    let documented = DOCUMENTED_MEGABYTES[usize::from(id_bytes > SHORT_ID_BYTES)];
    println!("labels take {more:.1} MB, documented are {documented}");
    with.stop_cleanly()?;
    without.stop_cleanly()?;
    ensure!(more <= documented, "more than docs/SIZING.md says");
    Ok(())
}
