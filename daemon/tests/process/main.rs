//! The daemon as a process, against librdkafka's mock broker. `tests/` has the same daemon against a real Apache Kafka.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

mod backtest;
mod class_order;
mod early_stop;
mod faults;
mod promises;
mod refused_starts;
mod starting;
mod stopping;

use ostar_harness::{Mock, Place, daemon::Daemon, gaussians};

const PROGRAM: &str = env!("CARGO_BIN_EXE_ostard");

/// Raw events of two Gaussian classes whose share has moved.
fn events(count: usize) -> Vec<Vec<u8>> {
    let (rows, _) = gaussians::draw(count, 0.6, 0.3, 7);
    rows.iter().map(|row| gaussians::raw(row)).collect()
}

/// A broker with these topics of one partition each.
fn broker(topics: &[&str]) -> Mock {
    let mock = Mock::start().unwrap();
    for topic in topics {
        mock.create_topic(topic, 1).unwrap();
    }
    mock
}
