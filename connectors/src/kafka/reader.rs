//! The stream of events: all partitions of a topic, each event once, every gap told.

use std::{
    collections::VecDeque,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rdkafka::{
    Message,
    consumer::Consumer as _,
    error::{KafkaError as RdKafkaError, RDKafkaErrorCode},
};

use super::{
    connection::partition_list,
    error::{KafkaError, describe},
    progress::{LostOffsets, PartitionLag, Progress},
    record::Record,
    settings::{KafkaSettings, OnLostOffsets},
    topic::{Partitions, Report, Topic, Watcher},
};
use crate::event::Offsets;

/// Reads all partitions of the topic. Made by [`super::Connection::read_from`].
pub struct Reader {
    topic: Topic,
    // Apart from the client, so that a record borrowed from the one does not lock the other.
    state: State,
}

/// What a poll found.
pub enum Polled<'a> {
    /// The next event.
    Record(Record<'a>),
    /// Nothing within the timeout.
    Idle,
    /// Something that the caller should count and tell.
    Notice(Notice),
}

/// Something that happened to the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The topic has new partitions; they are read from their beginning.
    PartitionsAdded(Vec<i32>),
    /// Events are gone before they were read.
    OffsetsLost(LostOffsets),
    /// No broker answers, or the topic is gone. Reading goes on by itself when they are back.
    BrokerDown {
        /// What librdkafka said.
        reason: String,
    },
    /// The broker answers again.
    BrokerUp,
}

struct State {
    settings: KafkaSettings,
    watcher: Watcher,
    progress: Progress,
    /// Told one a poll.
    notices: VecDeque<Notice>,
    next_look: Instant,
    broker_up: bool,
    /// A partition has stopped because its next offset is not there; the next report tells which.
    doubt: bool,
    paused: bool,
    /// Polls until the watcher is looked after; at once when there was nothing to read.
    polls_left: u32,
}

/// The clock and the watcher are looked at once in so many records: a fraction of a millisecond at full speed.
const POLLS_BETWEEN_CHECKS: u32 = 64;
/// While something is wrong, the broker is asked this often.
const RETRY: Duration = Duration::from_secs(1);

// === impl Reader ===

impl Reader {
    pub(super) fn start(
        settings: KafkaSettings,
        topic: Topic,
        mut progress: Progress,
        found: &Partitions,
    ) -> Result<Self, KafkaError> {
        let losses = progress.skip_lost(&progress.offsets(), found, settings.on_lost_offsets);
        let mut state = State {
            watcher: Watcher::start(topic.clone())?,
            next_look: Instant::now() + settings.metadata_refresh.get(),
            settings,
            progress,
            notices: VecDeque::new(),
            broker_up: true,
            doubt: false,
            paused: false,
            polls_left: 0,
        };
        state.tell_losses(losses)?;
        state.assign(&topic)?;
        Ok(Self { topic, state })
    }

    /// The next event or notice. An error is final.
    pub fn poll(&mut self, timeout: Duration) -> Result<Polled<'_>, KafkaError> {
        if let Some(notice) = self.state.check(&self.topic)? {
            return Ok(Polled::Notice(notice));
        }
        if self.state.paused {
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
                match self.state.progress.advance(partition, offset, time_ms) {
                    true => Ok(Polled::Record(Record::new(message))),
                    false => Ok(Polled::Idle),
                }
            }
            Some(Err(error)) => {
                self.state.take_error(&error)?;
                Ok(Polled::Idle)
            }
        }
    }

    /// Where reading goes on, all that was polled counted as read.
    pub fn offsets(&self) -> Offsets {
        self.state.progress.offsets()
    }

    /// How far each partition is behind, as of the last look at the broker.
    pub fn lags(&self) -> Vec<PartitionLag> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.state
            .progress
            .lags(now.map_or(0, |now| now.as_millis() as i64))
    }

    /// No records until [`Reader::resume`]; notices still come. Nothing read so far is lost.
    pub fn pause(&mut self) {
        self.state.paused = true;
    }

    /// Records again.
    pub fn resume(&mut self) {
        self.state.paused = false;
    }
}

// === impl State ===

impl State {
    fn check(&mut self, topic: &Topic) -> Result<Option<Notice>, KafkaError> {
        if let Some(notice) = self.notices.pop_front() {
            return Ok(Some(notice));
        }
        if self.polls_left > 0 {
            self.polls_left -= 1;
            return Ok(None);
        }
        self.polls_left = POLLS_BETWEEN_CHECKS;
        self.wait(Duration::ZERO, topic)?;
        if !self.watcher.is_waiting() && Instant::now() >= self.next_look {
            self.watcher.ask(self.progress.offsets());
        }
        Ok(self.notices.pop_front())
    }

    /// Waits for the watcher's report, if one is under way, and acts on it.
    fn wait(&mut self, timeout: Duration, topic: &Topic) -> Result<(), KafkaError> {
        match self.watcher.report(timeout)? {
            Some(report) => self.take_report(report, topic),
            None => Ok(()),
        }
    }

    fn take_report(&mut self, report: Report, topic: &Topic) -> Result<(), KafkaError> {
        let found = match report.partitions {
            Ok(found) => found,
            Err(error) => {
                self.next_look = Instant::now() + RETRY;
                if self.broker_up {
                    self.broker_up = false;
                    let reason = error.to_string();
                    self.notices.push_back(Notice::BrokerDown { reason });
                }
                return Ok(());
            }
        };
        self.next_look = Instant::now() + self.settings.metadata_refresh.get();
        if !self.broker_up {
            self.broker_up = true;
            self.notices.push_back(Notice::BrokerUp);
        }
        self.progress.note_watermarks(&found);
        let added = self.progress.add_new(&found);
        let reassign = self.doubt || !added.is_empty();
        if !added.is_empty() {
            self.notices.push_back(Notice::PartitionsAdded(added));
        }
        if self.doubt {
            self.doubt = false;
            let choice = self.settings.on_lost_offsets;
            let losses = self.progress.skip_lost(&report.asked_at, &found, choice);
            self.tell_losses(losses)?;
        }
        match reassign {
            true => self.assign(topic),
            false => Ok(()),
        }
    }

    fn tell_losses(&mut self, losses: Vec<LostOffsets>) -> Result<(), KafkaError> {
        for loss in losses {
            if self.settings.on_lost_offsets == OnLostOffsets::Stop {
                return Err(KafkaError::Lost(loss));
            }
            self.notices.push_back(Notice::OffsetsLost(loss));
        }
        Ok(())
    }

    /// All partitions from where they are. What was fetched and not polled is fetched again: this is rare.
    fn assign(&self, topic: &Topic) -> Result<(), KafkaError> {
        let list = partition_list(&topic.name, self.progress.offsets().into_iter())?;
        topic
            .consumer
            .assign(&list)
            .map_err(|error| KafkaError::Fatal(describe(&error)))
    }

    fn take_error(&mut self, error: &RdKafkaError) -> Result<(), KafkaError> {
        if let RdKafkaError::MessageConsumptionFatal(code) = error {
            return Err(KafkaError::Fatal(code.to_string()));
        }
        let code = error.rdkafka_error_code();
        let offset_gone = [
            Some(RDKafkaErrorCode::AutoOffsetReset),
            Some(RDKafkaErrorCode::LogTruncation),
        ];
        if offset_gone.contains(&code) {
            self.doubt = true;
        }
        // Whatever it is, the broker is asked soon; it says whether anything is wrong that lasts.
        tracing::debug!(error = %describe(error), "librdkafka reported an error");
        self.next_look = self
            .next_look
            .min(Instant::now() + Duration::from_millis(100));
        self.polls_left = 0;
        Ok(())
    }
}
