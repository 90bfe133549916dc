//! Tests the connectors against a real Apache Kafka. Without Java or Maven the tests are skipped, unless CI or
//! OSTARD_REQUIRE_SERVICES is set.

mod outages;
mod outputs;
mod reading;
mod secure;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use libtest_mimic::Arguments;
use ostar_connectors::{
    event::Offsets,
    kafka::{Connection, KafkaSettings, Notice, Polled, Reader},
    settings::Period,
};
use ostar_tests::{
    harness::{Shared, trial},
    kafka::{Kafka, Listener, missing_tool},
};

/// Longer than any wait in a healthy run under load.
const TIMEOUT: Duration = Duration::from_secs(60);

type Test = fn(&mut Kafka) -> anyhow::Result<()>;

fn main() {
    let mut arguments = Arguments::from_args();
    // Some tests stop the broker that others use.
    arguments.test_threads = Some(1);
    let shared = Arc::new(Shared::default());
    let tests = [reading::TESTS, outages::TESTS, outputs::TESTS].concat();
    let mut trials: Vec<_> = tests
        .into_iter()
        .map(|(name, test)| {
            let shared = Arc::clone(&shared);
            let broker = || Kafka::start(Listener::Plaintext);
            trial(name, missing_tool(), move || shared.run_alone(broker, test))
        })
        .collect();
    let secure = secure::TESTS.iter();
    trials.extend(secure.map(|(name, test)| trial(name, missing_tool(), test)));
    let conclusion = libtest_mimic::run(&arguments, trials);
    // `exit` runs no destructors, so the broker would survive.
    drop(shared);
    conclusion.exit();
}

/// Partition, offset and value of a record.
type Read = (i32, i64, Vec<u8>);

/// Records and notices, each in the order of polling.
#[derive(Debug, Default)]
struct Seen {
    records: Vec<Read>,
    notices: Vec<Notice>,
}

fn settings(kafka: &Kafka, topic: &str) -> KafkaSettings {
    KafkaSettings {
        brokers: kafka.bootstrap(),
        topic: topic.to_owned(),
        group: Some(format!("{topic}-group")),
        metadata_refresh: Period::from_millis(300),
        ..KafkaSettings::default()
    }
}

fn open(settings: &KafkaSettings, resume: &[(i32, i64)]) -> anyhow::Result<Reader> {
    let connection = Connection::open(settings, TIMEOUT)?;
    let resume: Offsets = resume.iter().copied().collect();
    Ok(connection.read_from(&resume, TIMEOUT)?)
}

/// Polls until `enough` is satisfied.
fn read_until(
    reader: &mut Reader,
    what: &str,
    enough: impl Fn(&Seen) -> bool,
) -> anyhow::Result<Seen> {
    let deadline = Instant::now() + TIMEOUT;
    let mut seen = Seen::default();
    while !enough(&seen) {
        if Instant::now() > deadline {
            bail!("timed out waiting for {what}, seen {seen:?}");
        }
        match reader.poll(Duration::from_millis(100)).context("poll")? {
            Polled::Record(record) => {
                let read = (
                    record.partition,
                    record.offset,
                    record.payload().unwrap_or_default().to_vec(),
                );
                seen.records.push(read);
            }
            Polled::Notice(notice) => seen.notices.push(notice),
            Polled::Idle => {}
        }
    }
    Ok(seen)
}

/// Polls until so many records were seen.
fn read(reader: &mut Reader, records: usize) -> anyhow::Result<Seen> {
    let what = format!("{records} records");
    read_until(reader, &what, |seen| seen.records.len() >= records)
}

/// Values that name their partition and offset.
fn values(partition: i32, numbers: std::ops::Range<i64>) -> Vec<String> {
    numbers
        .map(|number| format!("{partition}/{number}"))
        .collect()
}

/// Checks that a partition's records are those of [`values`], at these offsets, in order.
fn check_partition(
    seen: &Seen,
    partition: i32,
    offsets: std::ops::Range<i64>,
) -> anyhow::Result<()> {
    let found = seen.records.iter().filter(|record| record.0 == partition);
    let found: Vec<_> = found.map(|record| (record.1, record.2.clone())).collect();
    let expected = offsets.map(|offset| (offset, format!("{partition}/{offset}").into_bytes()));
    let expected: Vec<_> = expected.collect();
    if found != expected {
        bail!("partition {partition}: found {found:?}, expected {expected:?}");
    }
    Ok(())
}
