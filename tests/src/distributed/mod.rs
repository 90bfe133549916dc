//! A ledger of events and outputs while scorers, learners and brokers come and go.
//!
//! A round starts three brokers, two learners and three scorers, and feeds events. Meanwhile, in an order that a seed
//! decides, every process is killed several times, scorers join and leave, a broker is restarted, and the learner is
//! stopped for longer than its session and continued. At the end every event has an output, repeats are bounded by the
//! kills, the state topic shows that no learner wrote after its successor's first record, and the learner's state is that
//! of an undisturbed learner of the same samples.

mod fleet;
mod outputs;

pub use self::fleet::{learner, scorer};

use std::{
    collections::BTreeMap,
    fmt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use ostar_engine::Generator;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use self::{
    fleet::{Fleet, Role},
    outputs::outputs,
};
use crate::{
    daemon::{Daemon, Settings, learned_events},
    gaussians,
    kafka::Kafka,
    state, until,
};

/// What a round is made of.
#[derive(Debug, Clone)]
pub struct Round {
    /// The ostard to test.
    pub program: String,
    /// Decides events, faults and their order.
    pub seed: u64,
    /// Events to send.
    pub events: usize,
    /// How often each of the five processes is killed.
    pub kills: usize,
    /// Tells what is done, as it happens.
    pub tell: fn(&str),
}

/// What a round came to.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Events that were sent.
    pub events: usize,
    /// Events with at least one prediction.
    pub predicted: usize,
    /// Events with at least one dead letter.
    pub letters: usize,
    /// Outputs beyond the first of an event.
    pub repeats: usize,
    /// Processes that were killed.
    pub kills: usize,
    /// Learners that ended because another one had taken over.
    pub fenced: usize,
    /// Assignments that scorers have lost: others had their partitions before they were given back.
    pub lost: usize,
    /// Of each learner: epoch, first and last offset in the state topic.
    pub lives: Vec<(u64, i64, i64)>,
    /// Samples in their topic, and those that were learned.
    pub samples: usize,
    /// Events that were learned.
    pub learned: u64,
    /// From the stop of the learner until another one learned.
    pub takeover: Duration,
}

/// Partitions of the events.
pub const PARTITIONS: i32 = 6;
const BLOCK: usize = 250;
const SESSION: Duration = Duration::from_secs(3);
/// The bound of ARCHITECTURE.md for one crash.
const MOST_REPEATS: usize = 2_000 + 2_048;
/// While a broker restarts, a commit may come too late for whoever gets the partition.
const BROKER_RESTARTS: usize = 1;
/// An event that no format can read.
const BAD: &[u8] = b"no event";
/// Beyond the session.
const TAKEOVER: Duration = Duration::from_secs(5);
const SETTLING: Duration = Duration::from_secs(300);

/// A fault, in the order that the seed decides.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Kill(Role, usize),
    JoinAndLeave,
    RestartBroker(usize),
    FreezeLearner,
}

impl Round {
    /// Runs the round in a folder that has a `bundle`.
    pub fn run(&self, folder: &Path) -> Result<Account> {
        let mut brokers = Kafka::start_cluster(3)?;
        let addresses: Vec<String> = brokers.iter().map(Kafka::bootstrap).collect();
        let addresses = addresses.join(",");
        create_topics(&brokers[0])?;
        let mut fleet = Fleet::new(&self.program, settings(&addresses, folder));
        fleet.start(Role::Learner, 2)?;
        fleet.start(Role::Scorer, 3)?;
        let mut generator = Generator::new(self.seed);
        let mut faults = self.faults(&mut generator);
        let pieces = faults.len() + 1;
        let mut account = Account {
            events: self.events,
            ..Account::default()
        };
        let producer = producer(&addresses)?;
        let mut sent = 0;
        for piece in 0..pieces {
            let until = self.events * (piece + 1) / pieces;
            self.feed(&producer, sent..until)?;
            sent = until;
            thread::sleep(Duration::from_millis(500 + generator.below(1_500) as u64));
            fleet.tend()?;
            if let Some(fault) = faults.pop() {
                (self.tell)(&format!("{sent} events, {fault:?}"));
                self.carry_out(fault, &mut fleet, &mut brokers, &mut account)?;
            }
        }
        producer.flush(SETTLING).context("sending events")?;
        (self.tell)("settling");
        account.kills = fleet.kills();
        self.settle(&addresses, &mut fleet, &brokers[0], &mut account)?;
        account.fenced = fleet.fenced();
        fleet.stop()?;
        account.lives = state::handovers(&brokers[0], "state")?;
        self.replay(&addresses, folder, &brokers[0], &account)?;
        Ok(account)
    }

    fn faults(&self, generator: &mut Generator) -> Vec<Fault> {
        let mut faults = Vec::new();
        for number in 0..self.kills {
            faults.extend((0..3).map(|at| Fault::Kill(Role::Scorer, at)));
            faults.extend((0..2).map(|at| Fault::Kill(Role::Learner, at)));
            if number < 3 {
                faults.push(Fault::JoinAndLeave);
            }
        }
        faults.push(Fault::RestartBroker(generator.below(3)));
        faults.push(Fault::FreezeLearner);
        for at in (1..faults.len()).rev() {
            faults.swap(at, generator.below(at + 1));
        }
        faults
    }

    fn carry_out(
        &self,
        fault: Fault,
        fleet: &mut Fleet,
        brokers: &mut [Kafka],
        account: &mut Account,
    ) -> Result<()> {
        match fault {
            Fault::Kill(role, at) => fleet.kill(role, at),
            Fault::JoinAndLeave => fleet.join_and_leave(),
            Fault::RestartBroker(at) => {
                brokers[at].stop()?;
                brokers[at].restart()
            }
            Fault::FreezeLearner => {
                account.takeover = fleet.freeze_learner(SESSION)?;
                (self.tell)(&format!("takeover after {:?}", account.takeover));
                ensure!(
                    account.takeover < SESSION + TAKEOVER,
                    "{:?}",
                    account.takeover
                );
                Ok(())
            }
        }
    }

    /// Sends a range of events, one in a hundred bad, to all partitions in turn.
    fn feed(&self, producer: &BaseProducer, range: std::ops::Range<usize>) -> Result<()> {
        let (rows, _) = gaussians::draw(range.len(), 0.4, 0.2, self.seed + range.start as u64);
        for (number, row) in range.zip(rows) {
            let event = match (number + self.seed as usize) % 100 {
                0 => BAD.to_vec(),
                _ => gaussians::json(&number.to_string(), &row),
            };
            let mut record = BaseRecord::<(), [u8]>::to("events")
                .partition(number as i32 % PARTITIONS)
                .payload(&event);
            while let Err((error, refused)) = producer.send(record) {
                use rdkafka::types::RDKafkaErrorCode::QueueFull;
                ensure!(error.rdkafka_error_code() == Some(QueueFull), "{error}");
                producer.poll(Duration::from_millis(50));
                record = refused;
            }
        }
        Ok(())
    }

    /// Waits until every event has an output, and the learner has learned every whole block.
    fn settle(
        &self,
        addresses: &str,
        fleet: &mut Fleet,
        broker: &Kafka,
        account: &mut Account,
    ) -> Result<()> {
        let began = Instant::now();
        let (predictions, letters) = loop {
            fleet.tend()?;
            let predictions = outputs(addresses, "predictions")?;
            let letters = outputs(addresses, "letters")?;
            if predictions.len() + letters.len() >= self.events {
                break (predictions, letters);
            }
            let found = predictions.len() + letters.len();
            ensure!(
                began.elapsed() < SETTLING,
                "{found} of {} events have an output",
                self.events
            );
            thread::sleep(Duration::from_secs(2));
        };
        let all: usize = predictions.values().chain(letters.values()).sum();
        account.predicted = predictions.len();
        account.letters = letters.len();
        account.repeats = all - self.events;
        let both = predictions
            .keys()
            .filter(|place| letters.contains_key(place));
        ensure!(
            both.count() == 0,
            "events with a prediction and a dead letter"
        );
        complete(&predictions, &letters, self.events)?;
        account.lost = fleet.lost();
        let most = (fleet.scorer_kills() + account.lost + BROKER_RESTARTS) * MOST_REPEATS;
        ensure!(
            account.repeats <= most,
            "{} repeats, {} lost assignments",
            account.repeats,
            account.lost
        );
        let whole = (account.predicted - account.predicted % BLOCK) as u64;
        until("every whole block in a checkpoint", SETTLING, || {
            fleet.tend()?;
            let learned = learned(broker)?;
            Ok((learned >= whole).then_some(()))
        })?;
        account.learned = learned(broker)?;
        ensure!(account.learned == whole, "{} were learned", account.learned);
        account.samples = outputs(addresses, "samples")?.values().sum();
        Ok(())
    }

    /// An undisturbed learner of the same samples has the same state.
    fn replay(
        &self,
        addresses: &str,
        folder: &Path,
        broker: &Kafka,
        account: &Account,
    ) -> Result<()> {
        broker.create_topic("replayed", 1, &state::TOPIC)?;
        let settings = fleet::learner(&settings(addresses, folder))
            .with("kafka.group", "replayed")
            .with("checkpoints.topic", "replayed");
        let daemon = Daemon::start(&self.program, &settings)?;
        state::reaches(broker, "replayed", account.learned)
            .with_context(|| format!("{:#?}", daemon.log()))?;
        daemon.stop_cleanly()?;
        let one = state::checkpoint(broker, "state")?.context("no checkpoint")?;
        let other = state::checkpoint(broker, "replayed")?.context("no checkpoint")?;
        state::same_learning(one, other)
    }
}

/// Every offset of every partition has an output.
fn complete(
    predictions: &BTreeMap<(i32, i64), usize>,
    letters: &BTreeMap<(i32, i64), usize>,
    events: usize,
) -> Result<()> {
    for partition in 0..PARTITIONS {
        let own = (0..events).filter(|number| *number as i32 % PARTITIONS == partition);
        for offset in 0..own.count() as i64 {
            let place = (partition, offset);
            ensure!(
                predictions.contains_key(&place) || letters.contains_key(&place),
                "{place:?} has no output"
            );
        }
    }
    Ok(())
}

fn learned(broker: &Kafka) -> Result<u64> {
    let checkpoint = state::checkpoint(broker, "state")?;
    Ok(checkpoint.map_or(0, |(manifest, _)| learned_events(&manifest).unwrap_or(0)))
}

/// Makes all topics of [`settings`].
pub fn create_topics(broker: &Kafka) -> Result<()> {
    broker.create_topic("events", PARTITIONS, &[])?;
    for topic in ["samples", "predictions", "letters", "parked"] {
        broker.create_topic(topic, 1, &[])?;
    }
    broker.create_topic("state", 1, &state::TOPIC)
}

/// Idempotent and without a time limit: whatever happens to a broker, each event arrives once.
fn producer(addresses: &str) -> Result<BaseProducer> {
    let mut config = rdkafka::ClientConfig::new();
    config
        .set("bootstrap.servers", addresses)
        .set("enable.idempotence", "true")
        .set("message.timeout.ms", "0")
        .set_log_level(rdkafka::config::RDKafkaLogLevel::Emerg);
    Ok(config.create()?)
}

/// What scorers and learners have in common. The folder has a `bundle`.
pub fn settings(addresses: &str, folder: &Path) -> Settings {
    Settings::new(addresses, "events", &folder.join("bundle"), folder)
        .without("checkpoints.folder")
        .with("kafka.group", "ledger")
        .with("events.format", "json")
        .with("samples.topic", "samples")
        .with("samples.per_second", "100000000")
        .with("checkpoints.topic", "state")
        .with("checkpoints.session_timeout", "3s")
        .with("checkpoints.heartbeat", "500ms")
        .with("checkpoints.every_events", &BLOCK.to_string())
        .with("checkpoints.min_interval", "500ms")
        .with("learner.block", &BLOCK.to_string())
        .with("learner.steps_per_block", "2")
        .with("learner.when_behind", "wait")
        .with("learner.method.window", "1000")
        .with("learner.method.threads", "1")
        .with("learner.nice", "0")
}

impl fmt::Display for Account {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "events {}, predicted {}, dead letters {}, repeats {} over {} kills and {} lost assignments",
            self.events, self.predicted, self.letters, self.repeats, self.kills, self.lost,
        )?;
        writeln!(
            formatter,
            "samples {}, learned {}, learners that were fenced {}, takeover after {:.1} s",
            self.samples,
            self.learned,
            self.fenced,
            self.takeover.as_secs_f64()
        )?;
        write!(formatter, "offsets of each learner in the state topic:")?;
        for (epoch, first, last) in &self.lives {
            write!(formatter, " {epoch}: {first} to {last};")?;
        }
        Ok(())
    }
}
