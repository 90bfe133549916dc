//! Serves what a learner in another process publishes: scorers, and learners that stand by.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use ostar_connectors::{
    checkpoint::Orders,
    kafka::{
        KafkaSettings,
        state::{Followed, StateFollower, Wanted},
    },
};
use ostar_method::Deployed;
use ostar_method::{
    alarms::AlarmReport,
    learner::{LearnerSettings, LoadedSnapshot},
};
use tracing::{info, warn};

use super::{Process, process::set_mode};
use crate::{
    clock::now_ms,
    current::{ServingMode, Version},
    error_text::one_line,
    health::Health,
    pipeline::{Publisher, SampleShare, Threads, recall_shares},
};

/// How long a poll waits, so that stopping is noticed.
const POLL: Duration = Duration::from_millis(100);

/// How long the thread may take to end.
const END: Duration = Duration::from_secs(1);

/// A thread that follows the state topic, until it is dropped. If it fails, the process ends.
pub(super) struct Following {
    flags: Arc<Flags>,
    /// Taken by drop.
    threads: Option<Threads>,
}

#[derive(Debug, Default)]
struct Flags {
    ends: AtomicBool,
    has_caught_up: AtomicBool,
}

/// What the thread works with.
struct Follower {
    kafka: KafkaSettings,
    topic: String,
    deployed: Deployed,
    settings: LearnerSettings,
    publisher: Publisher,
    health: Arc<Health>,
    share: Arc<SampleShare>,
    flags: Arc<Flags>,
    /// When the learner wrote last, in milliseconds since 1970.
    written_at_ms: Option<u64>,
    began: Instant,
    /// Without a word of a learner for this long, a condition tells so: time for a takeover, and as much again.
    silence: Duration,
    /// A snapshot of another bundle was told of.
    is_foreign: bool,
}

// === impl Following ===

impl Following {
    /// Starts to follow. Scorers take the share of events that they pass on from it.
    pub(super) fn start(process: &Process, share: Arc<SampleShare>) -> Result<Self> {
        let flags = Arc::new(Flags::default());
        let checkpoints = &process.config.checkpoints;
        let follower = Follower {
            kafka: process.config.kafka.clone(),
            topic: process.config.checkpoints.topic.clone().unwrap_or_default(),
            deployed: process.bundle.deployed()?.without_rows(),
            settings: process.config.learner.method.clone(),
            publisher: process.publisher.clone(),
            health: Arc::clone(&process.health),
            share,
            flags: Arc::clone(&flags),
            written_at_ms: None,
            began: Instant::now(),
            silence: 2 * (checkpoints.heartbeat.get() + checkpoints.session_timeout.get()),
            is_foreign: false,
        };
        // Health tells of a failure.
        let (mut threads, _) = Threads::new(Arc::clone(&process.health));
        threads.start("state", move || follower.run())?;
        Ok(Self {
            flags,
            threads: Some(threads),
        })
    }

    /// Whether everything was read that the topic held at the start.
    pub(super) fn has_caught_up(&self) -> bool {
        self.flags.has_caught_up.load(Ordering::Acquire)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.flags.ends.store(true, Ordering::Release);
        if let Some(threads) = self.threads.take()
            && let Err(error) = threads.wait(Instant::now() + END)
        {
            warn!(error = %one_line(&error), "could not stop following the learner");
        }
    }
}

// === impl Follower ===

impl Follower {
    fn run(mut self) -> Result<()> {
        let broken = "cannot follow checkpoints.topic";
        let opened = StateFollower::open(&self.kafka, &self.topic, Wanted::Snapshots);
        let mut topic = opened.context(broken)?;
        while !self.flags.ends.load(Ordering::Acquire) {
            if let Some(followed) = topic.poll(POLL).context(broken)? {
                self.take(followed);
            }
            if topic.is_at_end() {
                self.flags.has_caught_up.store(true, Ordering::Release);
            }
            self.check_silence();
        }
        Ok(())
    }

    fn take(&mut self, followed: Followed) {
        let manifest = &followed.manifest;
        self.written_at_ms = Some(manifest.written_at_ms);
        self.share.set(manifest.sample_share);
        self.obey(&manifest.orders);
        self.publisher.status.send_modify(|status| {
            status.paused = manifest.orders.paused;
            status.state_written_at_ms = Some(manifest.written_at_ms);
            status.sample_share = Some(manifest.sample_share);
        });
        if let Err(error) = self.publish(&followed)
            && !self.is_foreign
        {
            self.is_foreign = true;
            let reason = format!("the learner's snapshot cannot be served: {error:#}");
            warn!(reason, "what was served before is served on");
            self.health.set_condition("state", reason);
        }
    }

    fn publish(&mut self, followed: &Followed) -> Result<()> {
        let (Some(entry), Some(bytes)) = (&followed.manifest.snapshot, &followed.snapshot) else {
            return Ok(());
        };
        let current = &self.publisher.current;
        let read = LoadedSnapshot::read(&self.deployed, &self.settings, bytes)?;
        let version = Version {
            epoch: entry.epoch,
            step: entry.step,
        };
        let steps = read.snapshot.steps;
        current.publish(read.snapshot, version);
        // What was there before this process is no measure of how fast it follows.
        if self.flags.has_caught_up.load(Ordering::Acquire) {
            let metrics = &self.publisher.metrics.process;
            metrics.observe_snapshot(entry.published_at_ms);
        }
        let block = entry
            .shares
            .clone()
            .map(|shares| recall_shares(shares, &read.gate, AlarmReport::default()));
        self.publisher.status.send_modify(|status| {
            status.version = version;
            status.events = entry.events;
            status.steps = steps;
            status.gate = read.gate;
            status.shares_at_ms = entry.shares.as_ref().map(|shares| shares.at_ms);
            status.block = block;
            status.snapshot_at_ms = Some(entry.published_at_ms);
        });
        if std::mem::take(&mut self.is_foreign) {
            self.health.clear("state");
        }
        Ok(())
    }

    /// Serves by the mode that was ordered at the learner, as long as both have the same configuration.
    fn obey(&self, orders: &Orders) {
        let current = &self.publisher.current;
        let configured = current.configured_mode();
        let ordered = orders.mode.as_deref().and_then(ServingMode::named);
        let mode = match ordered {
            Some(mode) if orders.configured_mode.as_deref() == Some(configured.name()) => mode,
            _ => configured,
        };
        if mode != current.mode() {
            set_mode(&self.publisher, mode);
        }
    }

    /// Tells when no learner has written for too long. Predictions go on with the last snapshot.
    fn check_silence(&self) {
        let silent = match self.written_at_ms {
            Some(at_ms) => Duration::from_millis(now_ms().saturating_sub(at_ms)),
            None => self.began.elapsed(),
        };
        if self.is_foreign {
            return;
        }
        if silent >= self.silence {
            let seconds = silent.as_secs();
            let reason = match self.written_at_ms {
                Some(_) => format!("no learner has written to {:?} for {seconds} s", self.topic),
                None => format!(
                    "{:?} is empty or cannot be read, for {seconds} s",
                    self.topic
                ),
            };
            self.health.set_condition("state", reason);
        } else if self.health.conditions().contains_key("state") {
            info!("a learner writes again");
            self.health.clear("state");
        }
    }
}
