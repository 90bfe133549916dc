//! Reads all partitions of a topic: every event once, every gap reported.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use rdkafka::{
    Message,
    consumer::Consumer as _,
    error::{KafkaError as RdKafkaError, RDKafkaErrorCode},
};

use super::{
    connection::partition_list,
    error::{KafkaError, describe, fatal},
    membership::{Change, Membership},
    progress::{LostOffsets, PartitionLag, Progress},
    record::Record,
    settings::{KafkaSettings, OnLostOffsets},
    topic::{Found, Report, Topic, Watcher},
    writer::Writer,
};
use crate::{clock::now_ms, event::Offsets};

/// Reads all partitions of the topic, or those that a group assigns. Made by [`super::Connection::read_from`] and
/// [`super::Connection::join`].
pub struct Reader {
    topic: Topic,
    // Apart from `topic`, so that a record that borrows from the client does not borrow the state.
    state: State,
}

/// Result of [`Reader::poll`].
pub enum Polled<'a> {
    /// An event that has not been read before.
    Record(Record<'a>),
    /// No new event within the timeout.
    Idle,
    /// Something that the caller should count and log.
    Notice(Notice),
}

/// A change of the topic or of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The topic has new partitions; they are read from their beginning.
    PartitionsAdded(Vec<i32>),
    /// Events were removed before they were read.
    OffsetsLost(LostOffsets),
    /// No broker answers, or the topic is gone. Reading continues by itself when they are back.
    BrokerDown {
        /// The error of the last look at the broker.
        reason: String,
    },
    /// The broker answers again after [`Notice::BrokerDown`].
    BrokerUp,
    /// The group has assigned these partitions to this member. They are read from now on.
    Assigned(Vec<i32>),
    /// The group takes these partitions back. Settle and commit what was read from them, unless they are lost already, then
    /// call [`Reader::release`]. Until then nothing is read.
    Revoked {
        /// The partitions.
        partitions: Vec<i32>,
        /// Others may read them already: nothing may be committed.
        lost: bool,
    },
}

struct State {
    settings: KafkaSettings,
    watcher: Watcher,
    progress: Progress,
    /// `None` if the broker does not tell.
    topic_id: Option<String>,
    /// Each poll returns at most one.
    notices: VecDeque<Notice>,
    next_look: Instant,
    broker_is_up: bool,
    /// A partition has stopped because its next offset is gone; the next report shows which.
    suspects_loss: bool,
    paused: bool,
    /// `None` if all partitions are read, whoever else is in the group.
    membership: Option<Membership>,
    /// Partitions that were read to their end. Only known with `enable.partition.eof`.
    at_end: BTreeSet<i32>,
    /// Errors since they were last asked for, by code.
    errors: BTreeMap<String, u64>,
    /// Polls until the next check of clock and watcher; 0 when there was nothing to read.
    polls_left: u32,
}

/// Polls between two checks of clock and watcher: a fraction of a millisecond at full speed.
const POLLS_BETWEEN_CHECKS: u32 = 64;
/// Interval of looks at the broker while it does not answer.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Whether a topic is the one it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Creation {
    Same,
    Another,
    Unknown,
}

fn compare(before: Option<&str>, now: Option<&str>) -> Creation {
    match (before, now) {
        (Some(before), Some(now)) if before == now => Creation::Same,
        (Some(_), Some(_)) => Creation::Another,
        _ => Creation::Unknown,
    }
}

// === impl Reader ===

impl Reader {
    pub(super) fn start(
        settings: KafkaSettings,
        topic: Topic,
        mut progress: Progress,
        found: Found,
        expected_id: Option<String>,
    ) -> Result<Self, KafkaError> {
        let choice = settings.on_lost_offsets;
        let losses = match compare(expected_id.as_deref(), found.id.as_deref()) {
            Creation::Another => progress.restart(&found.partitions, choice),
            creation => {
                let is_same = creation == Creation::Same;
                progress.skip_lost(&progress.offsets(), &found.partitions, choice, is_same)
            }
        };
        let mut state = State::new(settings, &topic, progress, found.id)?;
        state.report_losses(losses)?;
        state.assign(&topic)?;
        Ok(Self { topic, state })
    }

    pub(super) fn join(
        settings: KafkaSettings,
        topic: Topic,
        found: Found,
        writer: Writer,
    ) -> Result<Self, KafkaError> {
        let mut state = State::new(settings, &topic, Progress::default(), found.id)?;
        state.membership = Some(Membership::join(&topic, writer)?);
        Ok(Self { topic, state })
    }

    /// Gives back the partitions of [`Notice::Revoked`].
    pub fn release(&mut self, partitions: &[i32]) -> Result<(), KafkaError> {
        self.state.progress.forget(partitions);
        match &mut self.state.membership {
            Some(membership) => membership.release(),
            None => Ok(()),
        }
    }

    /// Whether the group has given this member's partitions to others, because it did not answer in time.
    pub fn has_lost_assignment(&self) -> bool {
        let membership = self.state.membership.as_ref();
        membership.is_some_and(Membership::has_lost)
    }

    /// Whether a group assigns the partitions.
    pub fn is_member(&self) -> bool {
        self.state.membership.is_some()
    }

    /// Leaves the group, so that others get the partitions at once; waits at most this long. Everything that was read must
    /// be settled and committed.
    pub fn leave(mut self, timeout: Duration) {
        if let Some(membership) = &mut self.state.membership {
            membership.leave(timeout);
        }
    }

    /// The next event or notice. After an error the reader cannot be used any more.
    pub fn poll(&mut self, timeout: Duration) -> Result<Polled<'_>, KafkaError> {
        if let Some(notice) = self.state.check(&self.topic)? {
            return Ok(Polled::Notice(notice));
        }
        // A member has to poll, or it is taken for dead: its partitions are paused instead.
        if self.state.paused && self.state.membership.is_none() {
            self.state.polls_left = 0;
            self.state.wait(timeout, &self.topic)?;
            return Ok(Polled::Idle);
        }
        match self.topic.consumer.poll(timeout) {
            None => {
                self.state.polls_left = 0;
                Ok(Polled::Idle)
            }
            Some(Ok(message)) => {
                let time_ms = message.timestamp().to_millis();
                let (partition, offset) = (message.partition(), message.offset());
                self.state.at_end.remove(&partition);
                if self.state.progress.advance(partition, offset, time_ms) {
                    Ok(Polled::Record(Record::new(message)))
                } else {
                    Ok(Polled::Idle)
                }
            }
            Some(Err(RdKafkaError::PartitionEOF(partition))) => {
                self.state.at_end.insert(partition);
                self.state.polls_left = 0;
                Ok(Polled::Idle)
            }
            Some(Err(error)) => {
                self.state.take_error(&error)?;
                Ok(Polled::Idle)
            }
        }
    }

    /// Looks at the broker if that is due, without polling, so that [`Reader::lags`] are true while nothing is read.
    /// Notices wait for the next poll. After an error the reader cannot be used any more.
    pub fn refresh(&mut self) -> Result<(), KafkaError> {
        self.state.look(&self.topic)
    }

    /// The offset to read next in each partition, after everything that was polled.
    pub fn offsets(&self) -> Offsets {
        self.state.progress.offsets()
    }

    /// Whether the broker answers and every partition was read to where it ended a moment ago. Needs
    /// `enable.partition.eof`.
    pub(super) fn is_at_end(&self) -> bool {
        let offsets = self.state.progress.offsets();
        self.state.broker_is_up
            && offsets
                .keys()
                .all(|partition| self.state.at_end.contains(partition))
    }

    /// The broker's id of the topic; `None` if it does not tell.
    pub fn topic_id(&self) -> Option<&str> {
        self.state.topic_id.as_deref()
    }

    /// How far reading is behind in each partition, by the last look at the broker.
    pub fn lags(&self) -> Vec<PartitionLag> {
        let now_ms = now_ms() as i64;
        self.state.progress.lags(now_ms, &self.topic.positions())
    }

    /// How many errors librdkafka has reported since the last call, by code. It recovers from most by itself.
    pub fn take_errors(&mut self) -> BTreeMap<String, u64> {
        std::mem::take(&mut self.state.errors)
    }

    /// Holds records back until [`Reader::resume`]; notices still come. No event is lost.
    pub fn pause(&mut self) {
        self.state.paused = true;
        if let Some(membership) = &self.state.membership {
            membership.pause(true);
        }
    }

    /// Ends a [`Reader::pause`].
    pub fn resume(&mut self) {
        self.state.paused = false;
        if let Some(membership) = &self.state.membership {
            membership.pause(false);
        }
    }
}

// === impl State ===

impl State {
    fn new(
        settings: KafkaSettings,
        topic: &Topic,
        progress: Progress,
        topic_id: Option<String>,
    ) -> Result<Self, KafkaError> {
        Ok(Self {
            watcher: Watcher::start(topic.clone())?,
            next_look: Instant::now() + settings.metadata_refresh.get(),
            settings,
            progress,
            topic_id,
            notices: VecDeque::new(),
            broker_is_up: true,
            suspects_loss: false,
            paused: false,
            membership: None,
            at_end: BTreeSet::new(),
            errors: BTreeMap::new(),
            polls_left: 0,
        })
    }

    fn check(&mut self, topic: &Topic) -> Result<Option<Notice>, KafkaError> {
        if let Some(notice) = self.notices.pop_front() {
            return Ok(Some(notice));
        }
        if self.polls_left > 0 {
            self.polls_left -= 1;
            return Ok(None);
        }
        self.polls_left = POLLS_BETWEEN_CHECKS;
        self.look(topic)?;
        Ok(self.notices.pop_front())
    }

    /// Takes the watcher's report, if there is one, and asks for the next when it is due.
    fn look(&mut self, topic: &Topic) -> Result<(), KafkaError> {
        self.rebalance(topic)?;
        self.wait(Duration::ZERO, topic)?;
        if !self.watcher.is_waiting() && Instant::now() >= self.next_look {
            self.watcher.request(self.progress.offsets());
        }
        Ok(())
    }

    /// Takes partitions that the group assigns, and tells of those that it takes back.
    fn rebalance(&mut self, topic: &Topic) -> Result<(), KafkaError> {
        let Some(membership) = &mut self.membership else {
            return Ok(());
        };
        match membership.next(topic, &self.settings)? {
            None => Ok(()),
            Some(Change::Revoked { partitions, lost }) => {
                self.notices.push_back(Notice::Revoked { partitions, lost });
                Ok(())
            }
            Some(Change::Assigned(found, offsets)) => {
                let creation = compare(self.topic_id.as_deref(), found.id.as_deref());
                for (partition, next) in &offsets {
                    if let Some(watermarks) = found.partitions.get(partition) {
                        self.progress.start(*partition, *next, *watermarks);
                    }
                }
                self.topic_id = found.id.or(self.topic_id.take());
                let is_same = creation == Creation::Same;
                let choice = self.settings.on_lost_offsets;
                let losses = self
                    .progress
                    .skip_lost(&offsets, &found.partitions, choice, is_same);
                if let Some(membership) = &mut self.membership {
                    membership.accept(&self.progress)?;
                    if self.paused {
                        membership.pause(true);
                    }
                }
                self.report_losses(losses)?;
                let partitions = offsets.into_keys().collect();
                self.notices.push_back(Notice::Assigned(partitions));
                Ok(())
            }
        }
    }

    /// Waits for the watcher's report and acts on it; without one under way, waits for the timeout.
    fn wait(&mut self, timeout: Duration, topic: &Topic) -> Result<(), KafkaError> {
        match self.watcher.report(timeout)? {
            Some(report) => self.take_report(report, topic),
            None => Ok(()),
        }
    }

    fn take_report(&mut self, report: Report, topic: &Topic) -> Result<(), KafkaError> {
        let Found { partitions, id } = match report.found {
            Ok(found) => found,
            Err(error) => {
                self.next_look = Instant::now() + RETRY_INTERVAL;
                if self.broker_is_up {
                    self.broker_is_up = false;
                    let reason = error.to_string();
                    self.notices.push_back(Notice::BrokerDown { reason });
                }
                return Ok(());
            }
        };
        self.next_look = Instant::now() + self.settings.metadata_refresh.get();
        if !self.broker_is_up {
            self.broker_is_up = true;
            self.notices.push_back(Notice::BrokerUp);
        }
        let creation = compare(self.topic_id.as_deref(), id.as_deref());
        self.topic_id = id.or(self.topic_id.take());
        let suspects_loss = std::mem::take(&mut self.suspects_loss);
        let choice = self.settings.on_lost_offsets;
        let is_another = creation == Creation::Another;
        if is_another {
            let losses = self.progress.restart(&partitions, choice);
            self.report_losses(losses)?;
        } else if suspects_loss {
            let is_same = creation == Creation::Same;
            let asked_at = &report.asked_at;
            let losses = self
                .progress
                .skip_lost(asked_at, &partitions, choice, is_same);
            self.report_losses(losses)?;
        }
        self.progress.note_watermarks(&partitions);
        // The group assigns new partitions, too.
        let added = match self.membership {
            Some(_) => Vec::new(),
            None => self.progress.add_new(&partitions),
        };
        let reassign = is_another || suspects_loss || !added.is_empty();
        if !added.is_empty() {
            self.notices.push_back(Notice::PartitionsAdded(added));
        }
        if reassign {
            self.assign(topic)?;
        }
        Ok(())
    }

    fn report_losses(&mut self, losses: Vec<LostOffsets>) -> Result<(), KafkaError> {
        for loss in losses {
            if self.settings.on_lost_offsets == OnLostOffsets::Stop {
                return Err(KafkaError::Lost(loss));
            }
            self.notices.push_back(Notice::OffsetsLost(loss));
        }
        Ok(())
    }

    /// Assigns all partitions at their positions. Records that were fetched but not polled are fetched again.
    fn assign(&mut self, topic: &Topic) -> Result<(), KafkaError> {
        self.at_end.clear();
        if let Some(membership) = &self.membership {
            return membership.seek(&self.progress);
        }
        let list = partition_list(&topic.name, self.progress.offsets().into_iter())?;
        topic.consumer.assign(&list).map_err(fatal)
    }

    fn take_error(&mut self, error: &RdKafkaError) -> Result<(), KafkaError> {
        if let RdKafkaError::MessageConsumptionFatal(code) = error {
            return Err(KafkaError::Fatal(code.to_string()));
        }
        let code = error.rdkafka_error_code();
        // As many codes as librdkafka knows.
        let name = code.map_or_else(|| "Unknown".to_owned(), |code| format!("{code:?}"));
        *self.errors.entry(name).or_default() += 1;
        let offset_gone = [
            Some(RDKafkaErrorCode::AutoOffsetReset),
            Some(RDKafkaErrorCode::LogTruncation),
        ];
        if offset_gone.contains(&code) {
            self.suspects_loss = true;
        }
        // librdkafka reports passing errors too. A look at the broker soon shows whether this one lasts.
        tracing::debug!(error = %describe(error), "librdkafka reported an error");
        self.next_look = self
            .next_look
            .min(Instant::now() + Duration::from_millis(100));
        self.polls_left = 0;
        Ok(())
    }
}
