//! A scorer and two learners over a broker, for the panels and alerts that are about roles.

use std::{
    fs,
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Result, ensure};
use ostar_tests::{
    daemon::{Daemon, TIMEOUT},
    distributed::{self, PARTITIONS},
    gaussians,
    kafka::{Kafka, Listener},
    until,
};
use tempfile::TempDir;

use crate::PROGRAM;

/// The processes. Dropping it kills them.
pub(crate) struct Split {
    daemons: Vec<Daemon>,
    kafka: Kafka,
    fed: AtomicU64,
    folder: TempDir,
}

/// Place of the scorer among the daemons.
const SCORER: usize = 2;
/// A file with one event.
const EVENT: &str = "event.jsonl";
/// Events of one feed: a block, after which the learner publishes.
const EVENTS: usize = 250;

impl Split {
    pub(crate) fn start() -> Result<Self> {
        let kafka = Kafka::start(Listener::Plaintext)?;
        let folder = tempfile::tempdir()?;
        gaussians::write_bundle(&folder.path().join("bundle"))?;
        distributed::create_topics(&kafka)?;
        let shared = distributed::settings(&kafka.bootstrap(), folder.path());
        let (rows, _) = gaussians::draw(1, 0.4, 0.2, 0);
        let event = gaussians::json("", &rows[0]);
        fs::write(folder.path().join(EVENT), event)?;
        let (scorer, learner) = (distributed::scorer(&shared), distributed::learner(&shared));
        let daemons = [&learner, &learner, &scorer];
        let daemons = daemons.map(|settings| Daemon::start(PROGRAM, settings));
        let daemons: Vec<Daemon> = daemons.into_iter().collect::<Result<_>>()?;
        for daemon in &daemons {
            daemon.is_ready()?;
        }
        Ok(Self {
            daemons,
            kafka,
            fed: AtomicU64::new(0),
            folder,
        })
    }

    /// Where Prometheus finds them.
    pub(crate) fn targets(&self) -> Result<Vec<String>> {
        let addresses = self.daemons.iter();
        addresses
            .map(|daemon| daemon.address("http_address"))
            .collect()
    }

    /// A request to the scorer, and further events, so that something is published.
    pub(crate) fn feed(&self) -> Result<()> {
        let address = self.daemons[SCORER].address("grpc_address")?;
        until("a prediction", TIMEOUT, || {
            let mut request = Command::new(PROGRAM);
            request.arg("predict").arg(self.folder.path().join(EVENT));
            let answer = request.args(["--address", &address]).output()?;
            // A busy machine refuses now and then.
            let errors = String::from_utf8_lossy(&answer.stderr);
            let refused = errors.contains("try again later");
            ensure!(answer.status.success() || refused, "{answer:?}");
            Ok((!refused).then_some(()))
        })?;
        let fed = self.fed.fetch_add(1, Ordering::Relaxed);
        let (rows, _) = gaussians::draw(EVENTS, 0.4, 0.2, fed);
        let events = rows.iter().map(|row| gaussians::json("", row));
        let partition = (fed % PARTITIONS as u64) as i32;
        self.kafka.produce("events", partition, events)
    }
}
