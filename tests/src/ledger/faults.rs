//! What goes wrong, in an order that the round's seed decides.

use std::{
    collections::BTreeMap,
    fmt, fs,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use ostar_engine::Generator;

use super::{Collector, Lives, Names};
use crate::{
    daemon::TIMEOUT,
    disk::SmallDisk,
    hostile::{Attack, Target},
    kafka::Kafka,
    link::{Link, Quality},
    until,
};

/// What an output topic does with records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Topic {
    Takes,
    /// Every record is too large: refused for good.
    Refuses,
    /// Refused for now: the same record may be taken later.
    Gone,
}

/// Something to do. Cards are drawn until none is left, so that a short round has every kind, too.
#[derive(Debug, Clone, Copy)]
enum Card {
    Kill,
    Broker,
    Group,
    Topic,
    Freeze,
    Flood,
    Disk,
    Link,
}

const DECK: [Card; 8] = [
    Card::Kill,
    Card::Kill,
    Card::Broker,
    Card::Group,
    Card::Topic,
    Card::Topic,
    Card::Topic,
    Card::Topic,
];

/// What `chaos` adds.
const MORE: [Card; 8] = [
    Card::Freeze,
    Card::Freeze,
    Card::Flood,
    Card::Flood,
    Card::Flood,
    Card::Disk,
    Card::Link,
    Card::Link,
];

/// Brings faults about, and remembers which.
pub(super) struct Faults<'a> {
    group: String,
    topics: Vec<(String, Topic)>,
    deck: Vec<Card>,
    counts: BTreeMap<&'static str, usize>,
    began: Instant,
    /// `None` without chaos.
    surroundings: Option<Surroundings<'a>>,
    tell: fn(&str),
}

/// What chaos disturbs besides Kafka and the process.
pub(super) struct Surroundings<'a> {
    /// Of the HTTP listener.
    pub(super) address: String,
    pub(super) disk: Option<&'a SmallDisk>,
    /// Between the daemon and the broker.
    pub(super) link: &'a Link,
    /// Nobody kills the daemon after this.
    pub(super) last_kill: Instant,
}

/// How long a frozen daemon's last records may take to be written.
const QUIET: Duration = Duration::from_millis(700);

impl<'a> Faults<'a> {
    pub(super) fn new(
        names: &Names,
        tell: fn(&str),
        surroundings: Option<Surroundings<'a>>,
    ) -> Self {
        let topics = names.outputs().map(|topic| (topic.clone(), Topic::Takes));
        Self {
            group: names.group.clone(),
            topics: topics.collect(),
            deck: Vec::new(),
            counts: BTreeMap::new(),
            began: Instant::now(),
            surroundings,
            tell,
        }
    }

    /// How often each thing was done.
    pub(super) fn counts(&self) -> BTreeMap<&'static str, usize> {
        self.counts.clone()
    }

    /// Does one thing.
    pub(super) fn next(
        &mut self,
        generator: &mut Generator,
        kafka: &mut Kafka,
        lives: &mut Lives,
        collector: &mut Collector,
    ) -> Result<()> {
        if self.deck.is_empty() {
            self.deck.extend(DECK);
            if self.surroundings.is_some() {
                self.deck.extend(MORE);
            }
            generator.shuffle(&mut self.deck);
        }
        match self.deck.pop() {
            Some(Card::Kill) => self.kill(lives, collector),
            Some(Card::Broker) => self.restart_broker(generator, kafka, lives, collector),
            Some(Card::Group) => self.delete_group(kafka),
            Some(Card::Freeze) => self.freeze(generator, lives),
            Some(Card::Flood) => self.flood(generator, lives),
            Some(Card::Disk) => self.fill_disk(generator),
            Some(Card::Link) => self.disturb_link(generator),
            Some(Card::Topic) | None => self.change_topic(generator, kafka, lives, collector),
        }
    }

    /// Ends all refusals.
    pub(super) fn end(&mut self, kafka: &Kafka, collector: &mut Collector) -> Result<()> {
        for place in 0..self.topics.len() {
            self.allow(place, kafka, collector)?;
        }
        Ok(())
    }

    fn count(&mut self, what: &'static str, subject: impl fmt::Display) {
        *self.counts.entry(what).or_default() += 1;
        let seconds = self.began.elapsed().as_secs_f64();
        (self.tell)(&format!("{seconds:6.1} s  {what} {subject}"));
    }

    fn kill(&mut self, lives: &mut Lives, collector: &mut Collector) -> Result<()> {
        let last_kill = self.surroundings.as_ref().map(|around| around.last_kill);
        if last_kill.is_some_and(|last| Instant::now() > last) {
            return Ok(());
        }
        self.count("kill", "the daemon");
        lives.kill(|| collector.end_life())
    }

    fn freeze(&mut self, generator: &mut Generator, lives: &Lives) -> Result<()> {
        self.count("freeze", "the daemon");
        let time = Duration::from_millis(generator.below(8_000) as u64);
        lives.frozen(|| thread::sleep(time))
    }

    fn flood(&mut self, generator: &mut Generator, lives: &Lives) -> Result<()> {
        let Some(around) = &self.surroundings else {
            return Ok(());
        };
        let http = around.address.clone();
        let attack = Attack::ALL[generator.below(Attack::ALL.len())];
        self.count("attack", format!("{attack:?}"));
        let target = Target {
            grpc: lives.daemon()?.address("grpc_address")?,
            http,
        };
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| attack.run(&target, &stop));
            thread::sleep(Duration::from_millis(2_000 + generator.below(4_000) as u64));
            stop.store(true, Ordering::Relaxed);
        });
        Ok(())
    }

    fn fill_disk(&mut self, generator: &mut Generator) -> Result<()> {
        let Some(disk) = self.surroundings.as_ref().and_then(|around| around.disk) else {
            return Ok(());
        };
        self.count("fill", "the disk");
        let filler = disk.fill()?;
        thread::sleep(Duration::from_millis(generator.below(5_000) as u64));
        fs::remove_file(filler)?;
        Ok(())
    }

    fn disturb_link(&mut self, generator: &mut Generator) -> Result<()> {
        let Some(link) = self.surroundings.as_ref().map(|around| around.link) else {
            return Ok(());
        };
        let quality = match generator.below(4) {
            0 => Quality::Slow(Duration::from_millis(200)),
            1 => Quality::Narrow(20_000),
            2 => Quality::Stalled,
            _ => Quality::Cut,
        };
        self.count("disturb the link", format!("{quality:?}"));
        link.set(quality);
        // The disturbance itself, not a wait for something to happen.
        thread::sleep(Duration::from_millis(2_000 + generator.below(8_000) as u64));
        link.set(Quality::Good);
        Ok(())
    }

    fn restart_broker(
        &mut self,
        generator: &mut Generator,
        kafka: &mut Kafka,
        lives: &mut Lives,
        collector: &mut Collector,
    ) -> Result<()> {
        match generator.below(2) {
            0 => {
                self.count("stop", "the broker");
                kafka.stop()?;
            }
            _ => {
                self.count("kill the broker", "");
                kafka.kill()?;
            }
        }
        // The outage itself, not a wait for something to happen.
        thread::sleep(Duration::from_millis(generator.below(6_000) as u64));
        if generator.below(2) == 0 {
            self.kill(lives, collector)?;
            thread::sleep(Duration::from_millis(generator.below(2_000) as u64));
        }
        kafka.restart()?;
        self.count("start", "the broker");
        Ok(())
    }

    fn delete_group(&mut self, kafka: &Kafka) -> Result<()> {
        self.count("delete the group", "");
        // There is none before the first commit, and none while its coordinator is being found.
        if let Err(error) = kafka.delete_group(&self.group) {
            (self.tell)(&format!("          the group was not deleted: {error:#}"));
        }
        Ok(())
    }

    fn change_topic(
        &mut self,
        generator: &mut Generator,
        kafka: &Kafka,
        lives: &Lives,
        collector: &mut Collector,
    ) -> Result<()> {
        let place = generator.below(self.topics.len());
        let (topic, state) = self.topics[place].clone();
        if state != Topic::Takes {
            return self.allow(place, kafka, collector);
        }
        self.topics[place].1 = match generator.below(2) {
            0 => {
                self.count("refuse", &topic);
                persist("", || {
                    kafka.configure_topic(&topic, &[("max.message.bytes", "50")])
                })?;
                Topic::Refuses
            }
            _ => {
                self.count("delete", &topic);
                // Records that appear after the last look would be missing in the copy.
                lives.frozen(|| {
                    quiet(kafka, &topic)?;
                    collector.forget(kafka, &topic)?;
                    persist("Unknown topic", || kafka.delete_topic(&topic))
                })??;
                Topic::Gone
            }
        };
        Ok(())
    }

    fn allow(&mut self, place: usize, kafka: &Kafka, collector: &mut Collector) -> Result<()> {
        let (topic, state) = self.topics[place].clone();
        match state {
            Topic::Takes => {}
            Topic::Refuses => {
                self.count("allow", &topic);
                persist("", || kafka.configure_topic(&topic, &[]))?;
            }
            Topic::Gone => {
                self.count("create", &topic);
                persist("already exists", || kafka.create_topic(&topic, 1, &[]))?;
                collector.expect(&topic);
            }
        }
        self.topics[place].1 = Topic::Takes;
        Ok(())
    }
}

/// Tries again: right after a start the broker may not have found itself yet. An error that contains `done` says that an
/// earlier try was carried out although its answer was lost.
fn persist(done: &str, mut action: impl FnMut() -> Result<()>) -> Result<()> {
    let mut last = None;
    let outcome = until("an answer of the broker", TIMEOUT, || match action() {
        Ok(()) => Ok(Some(())),
        Err(error) => {
            let is_done = !done.is_empty() && format!("{error:#}").contains(done);
            last = Some(format!("{error:#}"));
            Ok(is_done.then_some(()))
        }
    });
    outcome.with_context(|| format!("{last:?}"))
}

/// Waits until a topic does not grow any more.
fn quiet(kafka: &Kafka, topic: &str) -> Result<()> {
    let mut before = None;
    until("an end of writing", TIMEOUT, || {
        let end = kafka.end(topic).ok();
        let is_same = end.is_some() && end == before;
        before = end;
        if !is_same {
            thread::sleep(QUIET);
        }
        Ok(is_same.then_some(()))
    })
}
