//! A ledger of events and outputs while everything around the daemon breaks.
//!
//! A round feeds events to a daemon for a while. Meanwhile, in an order that a seed decides, output topics refuse records
//! and take them again, are deleted and recreated, the group is deleted, the daemon is killed and the broker is stopped or
//! killed. The ledger keeps its own copy of every event, and of every output as it appears. At the end it is settled:
//! every event has an output, none has two from one life of the daemon, a kill repeats no more than is documented, and
//! the state is that of an undisturbed run on the copy.
//!
//! With `chaos`, the process is also frozen, hostile clients stall and flood, the network to the broker is slow, stalled or
//! cut, events come from other centuries and the disk fills up. An honest client asks for predictions all the time, and
//! memory, files and threads are watched. In the last two thirds nobody kills the daemon, so that a leak can be seen.

mod account;
mod caller;
mod collector;
mod faults;
mod feed;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};
use ostar_engine::Generator;

pub use account::Account;
use caller::{Disturbances, Witnesses};
pub use caller::{LEAK, Witness};
use collector::Collector;
use faults::{Faults, Surroundings};
use feed::Feed;

use crate::{
    daemon::{self, Daemon, Settings, newest_checkpoint, same_learning},
    disk::SmallDisk,
    free_port,
    kafka::Kafka,
    until,
};

/// What a round is made of.
#[derive(Debug, Clone)]
pub struct Round {
    /// The ostard to test.
    pub program: String,
    /// Decides events, faults and their order. Odd seeds park outputs in a topic, even ones in a file.
    pub seed: u64,
    /// How long faults go on. Settling comes after it.
    pub duration: Duration,
    /// More than the ledger's faults, and witnesses.
    pub chaos: bool,
    /// The control: the tests' daemon loses memory every second, and the round must fail for it.
    pub leaks: bool,
    /// Tells what is done, as it happens.
    pub tell: fn(&str),
}

/// One start of the daemon until its end, in milliseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    from_ms: i64,
    until_ms: i64,
}

/// The daemon under test: one process at a time, and the lives that it had.
pub(crate) struct Lives {
    program: String,
    settings: Settings,
    leaks: bool,
    daemon: Option<Daemon>,
    began_ms: i64,
    ended: Vec<Life>,
    disturbances: Arc<Disturbances>,
}

/// Names of topics and folders of one round, and when it began.
pub(crate) struct Names {
    pub(crate) events: String,
    pub(crate) group: String,
    pub(crate) predictions: String,
    pub(crate) letters: String,
    /// `None` if outputs are parked in a file.
    pub(crate) parked: Option<String>,
    pub(crate) checkpoints: PathBuf,
    /// Time of every event: times are part of what is learned, and the copy must have the same.
    pub(crate) time_ms: i64,
}

/// How long everything may take after the last fault, on a slow machine.
const SETTLING: Duration = Duration::from_secs(300);
/// How long an undisturbed daemon may take for all events of a round, which come at once.
const REPLAY: Duration = Duration::from_secs(1_200);
/// The bundle's name, unless another is given.
const MODEL: &str = "model";
/// Events in a block.
const BLOCK: usize = 250;

impl Round {
    /// Runs the round on a broker, in a folder that has a bundle in `bundle`.
    pub fn run(&self, kafka: &mut Kafka, folder: &Path) -> Result<(Account, Option<Witness>)> {
        // Where outputs are parked in a file, it needs more room.
        let is_small = self.chaos && self.seed % 2 == 1;
        let disk = if is_small { SmallDisk::new()? } else { None };
        let place = disk.as_ref().map_or(folder, SmallDisk::path);
        let names = Names::new(self.seed, place);
        kafka.create_topic(&names.events, 1, &[])?;
        for topic in names.outputs() {
            kafka.create_topic(topic, 1, &[])?;
        }
        let (link, linked) = kafka.link()?;
        let mut settings = settings(kafka, &names, folder);
        let address = free_address();
        if self.chaos {
            settings = settings
                .with("kafka.brokers", &linked)
                .with("http.listen", &address)
                .with("connections.header_timeout", "3s")
                .with("connections.body_timeout", "3s");
        }
        let mut generator = Generator::new(self.seed);
        let mut lives = Lives::new(&self.program, settings.clone(), self.leaks);
        let mut collector = Collector::new(&names);
        let feed = Feed::start(kafka, &names, self.seed, self.chaos)?;
        lives.start()?;
        let witnesses = self
            .chaos
            .then(|| Witnesses::start(address.clone(), MODEL, &lives.disturbances));
        let begin = Instant::now();
        let end = begin + self.duration;
        let surroundings = self.chaos.then(|| Surroundings {
            address,
            disk: disk.as_ref(),
            link: &link,
            last_kill: begin + self.duration / 3,
        });
        let mut faults = Faults::new(&names, self.tell, surroundings);
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(100 + generator.below(3_000) as u64));
            faults.next(&mut generator, kafka, &mut lives, &mut collector)?;
            collector.collect(kafka)?;
            lives.ensure_running()?;
        }
        faults.end(kafka, &mut collector)?;
        let events = feed.stop()?;
        (self.tell)(&format!(
            "faults are over; settling {} events",
            events.len()
        ));
        ensure!(
            kafka.values(&names.events)? == events,
            "the broker holds other events than were sent"
        );
        let mut account = Account::new(self.seed, &events, faults.counts());
        let settled = until("an output of every event", SETTLING, || {
            lives.ensure_running()?;
            collector.collect(kafka)?;
            let all = collector.all(&lives)?;
            Ok(account.covers(&all).then_some(()))
        });
        let learned = events.iter().filter(|event| feed::is_good(event)).count() / BLOCK * BLOCK;
        let caught_up = until("all events in a checkpoint", SETTLING, || {
            learned_events(&names.checkpoints).map(|events| (events >= learned).then_some(()))
        });
        let witness = witnesses.map(Witnesses::stop).transpose()?;
        let log = lives.stop()?;
        collector.collect(kafka)?;
        account.settle(&collector.all(&lives)?, &lives);
        settled.with_context(|| account.to_string())?;
        caught_up.with_context(|| format!("{log:#?}"))?;
        account.check()?;
        (self.tell)("outputs are accounted for; replaying the copy");
        self.replay(kafka, &names, &settings, &events, folder, learned)?;
        if let Some(witness) = &witness {
            witness.check()?;
        }
        Ok((account, witness))
    }

    /// Runs a daemon on the copy without disturbing it, and compares what both have learned.
    fn replay(
        &self,
        kafka: &Kafka,
        names: &Names,
        settings: &Settings,
        events: &[Vec<u8>],
        folder: &Path,
        learned: usize,
    ) -> Result<()> {
        let copy = format!("{}-copy", names.events);
        let checkpoints = folder.join(format!("ledger-{}-replayed", self.seed));
        kafka.create_topic(&copy, 1, &[])?;
        kafka.produce_at(&copy, 0, events, Some(names.time_ms))?;
        let settings = settings
            .clone()
            .without("predictions.topic")
            .without("dead_letters.topic")
            .without("parked.topic")
            .with("kafka.brokers", &kafka.bootstrap())
            .with("http.listen", "127.0.0.1:0")
            .with("kafka.topic", &copy)
            .with("kafka.group", &copy)
            .with("checkpoints.folder", &checkpoints.display().to_string());
        let daemon = Daemon::start(&self.program, &settings)?;
        until("the replay", REPLAY, || {
            learned_events(&checkpoints).map(|events| (events >= learned).then_some(()))
        })
        .with_context(|| format!("{:#?}", daemon.log()))?;
        daemon.stop_cleanly()?;
        same_learning(&names.checkpoints, &checkpoints)
    }
}

/// A daemon that learns every event, in small blocks.
fn settings(kafka: &Kafka, names: &Names, folder: &Path) -> Settings {
    let settings = Settings::new(
        &kafka.bootstrap(),
        &names.events,
        &folder.join("bundle"),
        &names.checkpoints,
    )
    .with("kafka.group", &names.group)
    .with("events.format", "json")
    .with("predictions.topic", &names.predictions)
    .with("dead_letters.topic", &names.letters)
    .with("learner.block", &BLOCK.to_string())
    .with("learner.steps_per_block", "2")
    .with("learner.when_behind", "wait")
    .with("learner.method.window", "1000")
    .with("learner.method.threads", "1")
    // At the default priority: tests run beside builds.
    .with("learner.nice", "0")
    .with("checkpoints.every_events", &BLOCK.to_string())
    .with("checkpoints.min_interval", "500ms");
    match &names.parked {
        Some(topic) => settings.with("parked.topic", topic),
        None => settings,
    }
}

/// Events in the newest checkpoint; 0 without one, or if it was removed while it was read.
fn learned_events(folder: &Path) -> Result<usize> {
    let Ok((_, manifest, _)) = newest_checkpoint(folder) else {
        return Ok(0);
    };
    Ok(daemon::learned_events(&manifest)? as usize)
}

/// An address that nobody listens on, for all lives of a round.
fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}

pub(crate) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as i64)
}

// === impl Names ===

impl Names {
    fn new(seed: u64, folder: &Path) -> Self {
        let name = |what: &str| format!("ledger-{seed}-{what}");
        Self {
            events: name("events"),
            group: name("group"),
            predictions: name("predictions"),
            letters: name("letters"),
            parked: (seed % 2 == 1).then(|| name("parked")),
            checkpoints: folder.join(name("state")),
            time_ms: now_ms(),
        }
    }

    /// Topics that the daemon writes to.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = &String> {
        [&self.predictions, &self.letters]
            .into_iter()
            .chain(&self.parked)
    }
}

// === impl Lives ===

impl Lives {
    fn new(program: &str, settings: Settings, leaks: bool) -> Self {
        Self {
            program: program.to_owned(),
            settings,
            leaks,
            daemon: None,
            began_ms: 0,
            ended: Vec::new(),
            disturbances: Arc::default(),
        }
    }

    fn start(&mut self) -> Result<()> {
        self.began_ms = now_ms();
        let variables: &[_] = if self.leaks {
            &[("LEAK_BYTES_PER_SECOND", "80000")]
        } else {
            &[]
        };
        let daemon = Daemon::start_with(&self.program, &self.settings, variables)?;
        self.disturbances.process(daemon.id());
        self.daemon = Some(daemon);
        Ok(())
    }

    fn end(&mut self) {
        self.ended.push(Life {
            from_ms: self.began_ms,
            until_ms: now_ms(),
        });
    }

    /// Kills the daemon and starts it again at once; `between` is called while there is none.
    pub(crate) fn kill(&mut self, between: impl FnOnce()) -> Result<()> {
        if let Some(daemon) = self.daemon.take() {
            self.disturbances.begin();
            daemon.kill()?;
            self.end();
            between();
        }
        self.start()
    }

    /// Freezes the daemon while something is done.
    fn frozen<T>(&self, during: impl FnOnce() -> T) -> Result<T> {
        self.disturbances.begin();
        self.daemon()?.freeze()?;
        let done = during();
        self.daemon()?.thaw()?;
        self.disturbances.end();
        Ok(done)
    }

    /// Number of the life in which something happened; 0 is the first.
    pub(crate) fn at(&self, time_ms: i64) -> usize {
        self.ended
            .iter()
            .position(|life| time_ms >= life.from_ms && time_ms <= life.until_ms)
            .unwrap_or(self.ended.len())
    }

    /// Lives that have ended by a kill.
    pub(crate) fn kills(&self) -> usize {
        self.ended.len()
    }

    /// The running daemon.
    pub(crate) fn daemon(&self) -> Result<&Daemon> {
        self.daemon.as_ref().context("the daemon is not running")
    }

    /// Fails, with the log, if the daemon has ended by itself.
    fn ensure_running(&mut self) -> Result<()> {
        let daemon = self.daemon.as_mut().context("the daemon is not running")?;
        let is_running = daemon.is_running()?;
        ensure!(is_running, "the daemon has ended: {:#?}", daemon.log());
        Ok(())
    }

    /// Stops the daemon as an orchestrator would; returns its log.
    fn stop(&mut self) -> Result<Vec<serde_json::Value>> {
        let daemon = self.daemon.take().context("the daemon is not running")?;
        let log = daemon.log();
        daemon.stop_cleanly()?;
        Ok(log)
    }
}
