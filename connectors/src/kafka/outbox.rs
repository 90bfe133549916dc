//! Keeps every outgoing message until it is delivered or parked.
//!
//! The broker answers for each message. One that is delivered is forgotten. One that is refused for now is sent again
//! after a pause that grows. One whose batch is refused is sent again alone, because the fault may be another's. One that
//! is refused for good is parked, with the reason; one that is as large as a message that was refused for its size is
//! parked without being tried.

use std::{
    collections::VecDeque,
    thread,
    time::{Duration, Instant},
};

use super::{
    delivery::{Delivery, Refusal, RefusalKind, Report, Unsent},
    error::KafkaError,
    line_file::LineFile,
    lines,
    message::{Destination, Message, Output},
    outputs::{OutputCounts, OutputError},
    settings::{KafkaSettings, OutputSettings},
    size_limit::SizeLimit,
};
use crate::event::Offsets;

/// The places that messages go to.
pub(super) struct Destinations {
    /// Topic of the events, for headers and lines.
    pub(super) event_topic: String,
    pub(super) predictions: Option<String>,
    pub(super) dead_letters: Option<String>,
    pub(super) samples: Option<String>,
    pub(super) dead_letter_file: Option<LineFile>,
    pub(super) parking: Parking,
}

/// Where messages go that are refused for good.
pub(super) enum Parking {
    /// They wait, and reading with them.
    Nowhere,
    Topic(String),
    File(LineFile),
}

/// Messages between `send` and their end.
pub(super) struct Outbox {
    destinations: Destinations,
    /// `None` if nothing goes to a topic; then no producer is made.
    delivery: Option<Delivery>,
    /// How long a message may be refused for now, before it is parked; `None` for ever.
    patience: Option<Duration>,
    /// Messages that librdkafka has, by ticket.
    under_way: Vec<Option<Message>>,
    free_tickets: Vec<usize>,
    /// Since when librdkafka has messages and reports nothing about them.
    silent_since: Option<Instant>,
    /// Messages that were refused for now.
    again: VecDeque<Message>,
    /// Messages whose batch was refused.
    alone: VecDeque<Message>,
    /// By output, what its topic refuses for its size.
    limits: [SizeLimit; Output::ALL.len()],
    /// The one message under way has to stay alone: a refusal would say nothing about a batch.
    single_file: bool,
    next_attempt: Instant,
    pause: Duration,
    bytes: usize,
    unpolled: usize,
    last_refusal: Option<String>,
    last_parked: Option<String>,
    counts: [OutputCounts; Output::ALL.len()],
}

/// Most bytes that may be under way. Beyond them sending waits. 8 MiB are some 25,000 predictions. A
/// larger outbox holds more memory while an output is refused.
const MAX_BYTES: usize = 8 << 20;
/// Messages between two polls for delivery reports.
const SENDS_BETWEEN_POLLS: usize = 256;
/// How long `make_room` waits, so that the caller can check for a shutdown.
const ROOM_WAIT: Duration = Duration::from_secs(1);
const POLL_SLICE: Duration = Duration::from_millis(50);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

// === impl Destinations ===

impl Destinations {
    /// The topic of a message; `None` if it goes to a file.
    fn topic(&self, message: &Message) -> Option<&str> {
        match (message.destination, message.output, &self.parking) {
            (Destination::Topic, Output::Predictions, _) => self.predictions.as_deref(),
            (Destination::Topic, Output::DeadLetters, _) => self.dead_letters.as_deref(),
            (Destination::Topic, Output::Samples, _) => self.samples.as_deref(),
            (Destination::ParkedTopic, _, Parking::Topic(topic)) => Some(topic),
            _ => None,
        }
    }

    fn file(&mut self, message: &Message) -> Option<&mut LineFile> {
        match (message.destination, &mut self.parking) {
            (Destination::File, _) => self.dead_letter_file.as_mut(),
            (Destination::ParkedFile, Parking::File(file)) => Some(file),
            _ => None,
        }
    }
}

// === impl Outbox ===

impl Outbox {
    pub(super) fn new(
        kafka: &KafkaSettings,
        destinations: Destinations,
        settings: &OutputSettings,
    ) -> Result<Self, KafkaError> {
        let topics = [
            &destinations.predictions,
            &destinations.dead_letters,
            &destinations.samples,
        ];
        let to_topic = topics.into_iter().any(Option::is_some);
        let delivery = if to_topic || matches!(destinations.parking, Parking::Topic(_)) {
            Some(Delivery::new(kafka)?)
        } else {
            None
        };
        Ok(Self {
            destinations,
            delivery,
            patience: settings.patience.map(|patience| patience.get()),
            under_way: Vec::new(),
            free_tickets: Vec::new(),
            silent_since: None,
            again: VecDeque::new(),
            alone: VecDeque::new(),
            limits: Default::default(),
            single_file: false,
            next_attempt: Instant::now(),
            pause: FIRST_PAUSE,
            bytes: 0,
            unpolled: 0,
            last_refusal: None,
            last_parked: None,
            counts: Default::default(),
        })
    }

    /// Returns when another message may be sent, or [`OutputError::Full`] after a second.
    pub(super) fn make_room(&mut self) -> Result<(), OutputError> {
        self.unpolled += 1;
        if self.unpolled >= SENDS_BETWEEN_POLLS {
            self.advance(Duration::ZERO)?;
        }
        let deadline = Instant::now() + ROOM_WAIT;
        while self.bytes > MAX_BYTES || self.single_file {
            if Instant::now() >= deadline {
                return Err(OutputError::Full);
            }
            self.advance(POLL_SLICE)?;
        }
        Ok(())
    }

    /// Takes a message, for which [`Outbox::make_room`] has made room.
    pub(super) fn send(&mut self, message: Message) {
        self.bytes += message.size();
        match self.known_refusal(&message) {
            Some(reason) => self.park(message, &reason),
            None => self.attempt(message),
        }
    }

    /// Why the topic would refuse the message, by what it refused before.
    fn known_refusal(&mut self, message: &Message) -> Option<String> {
        let limit = &mut self.limits[message.output as usize];
        match message.destination {
            Destination::Topic => limit.refuses(message.size(), Instant::now()),
            _ => None,
        }
    }

    pub(super) fn flush(&mut self, timeout: Duration) -> Result<(), OutputError> {
        let deadline = Instant::now() + timeout;
        loop {
            let waiting: usize = Output::ALL.iter().map(|output| self.waiting(*output)).sum();
            if waiting == 0 {
                return self.sync();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let refused = self.last_refusal.clone();
                return Err(OutputError::Timeout { waiting, refused });
            }
            self.advance(left.min(POLL_SLICE))?;
        }
    }

    pub(super) fn unsettled(&self) -> Offsets {
        let mut first = Offsets::new();
        for message in self.messages() {
            let offset = first.entry(message.partition).or_insert(message.offset);
            *offset = message.offset.min(*offset);
        }
        first
    }

    pub(super) fn waiting(&self, output: Output) -> usize {
        self.messages()
            .filter(|message| message.output == output)
            .count()
    }

    pub(super) fn take_counts(&mut self, output: Output) -> OutputCounts {
        std::mem::take(&mut self.counts[output as usize])
    }

    pub(super) fn take_parked_reason(&mut self) -> Option<String> {
        self.last_parked.take()
    }

    fn messages(&self) -> impl Iterator<Item = &Message> {
        let under_way = self.under_way.iter().flatten();
        under_way.chain(&self.again).chain(&self.alone)
    }

    fn sync(&mut self) -> Result<(), OutputError> {
        let letters = self.destinations.dead_letter_file.as_mut();
        let parked = match &mut self.destinations.parking {
            Parking::File(file) => Some(file),
            _ => None,
        };
        for (key, file) in [("dead_letters.file", letters), ("parked.file", parked)] {
            if let Some(file) = file {
                file.sync().map_err(|problem| OutputError::File {
                    key,
                    path: file.path().display().to_string(),
                    problem,
                })?;
            }
        }
        Ok(())
    }

    /// Takes delivery reports, waiting for them at most this long, and sends again what is due.
    fn advance(&mut self, timeout: Duration) -> Result<(), OutputError> {
        self.unpolled = 0;
        match &mut self.delivery {
            Some(delivery) => {
                let reports = delivery.poll(timeout)?;
                self.take_reports(reports);
            }
            None => thread::sleep(timeout),
        }
        self.check_silence();
        if !self.again.is_empty() && Instant::now() >= self.next_attempt {
            self.next_attempt = Instant::now() + self.pause;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            for message in std::mem::take(&mut self.again) {
                if message.alone {
                    self.alone.push_back(message);
                } else {
                    self.attempt(message);
                }
            }
        }
        let is_idle = self
            .delivery
            .as_ref()
            .is_none_or(|delivery| delivery.waiting() == 0);
        if is_idle {
            self.single_file = false;
            while !self.single_file
                && let Some(message) = self.alone.pop_front()
            {
                if let Some(reason) = self.known_refusal(&message) {
                    self.park(message, &reason);
                } else {
                    self.single_file = true;
                    self.attempt(message);
                }
            }
        }
        Ok(())
    }

    fn take_reports(&mut self, reports: Vec<Report>) {
        if reports.is_empty() {
            return;
        }
        self.silent_since = None;
        for report in reports {
            let message = self.under_way[report.ticket].take();
            self.free_tickets.push(report.ticket);
            let Some(message) = message else { continue };
            match report.outcome {
                Ok(()) => self.settle(message),
                Err(refusal) => self.refuse(message, refusal),
            }
        }
    }

    /// Takes messages back from librdkafka when no broker has answered for longer than the patience.
    fn check_silence(&mut self) {
        let (Some(delivery), Some(patience)) = (&self.delivery, self.patience) else {
            return;
        };
        if delivery.waiting() == 0 {
            return;
        }
        let since = *self.silent_since.get_or_insert_with(Instant::now);
        if since.elapsed() < patience {
            return;
        }
        self.silent_since = None;
        for message in self.under_way.iter_mut().flatten() {
            message.refused_since.get_or_insert(since);
        }
        delivery.take_back();
    }

    /// Sends a message to its topic or writes it to its file.
    fn attempt(&mut self, message: Message) {
        if let Some(file) = self.destinations.file(&message) {
            return match file.append(&message.payload) {
                Ok(()) => self.settle(message),
                Err(problem) => {
                    let path = file.path().display();
                    let reason = format!("cannot write {path}: {problem}");
                    self.refuse_for_now(message, reason);
                }
            };
        }
        let topic = self.destinations.topic(&message);
        let (Some(topic), Some(delivery)) = (topic, &mut self.delivery) else {
            return self.refuse_for_now(message, "there is nowhere to send it".to_owned());
        };
        let ticket = self.free_tickets.pop().unwrap_or(self.under_way.len());
        let record = message.record(topic, &self.destinations.event_topic);
        let sent = delivery.send(record, ticket);
        if ticket == self.under_way.len() {
            self.under_way.push(None);
        }
        match sent {
            Ok(()) => self.under_way[ticket] = Some(message),
            Err(unsent) => {
                self.free_tickets.push(ticket);
                match unsent {
                    Unsent::Full => self.refuse_for_now(message, "the queue is full".to_owned()),
                    Unsent::Refused(refusal) => self.refuse(message, refusal),
                }
            }
        }
    }

    fn refuse(&mut self, message: Message, refusal: Refusal) {
        let Refusal { kind, reason } = refusal;
        if kind == RefusalKind::TooLarge && message.alone {
            let limit = &mut self.limits[message.output as usize];
            limit.refused(message.size(), &reason, Instant::now());
        }
        let kind = match (message.destination, kind) {
            // What cannot even be parked waits until somebody has made room for it.
            (Destination::ParkedTopic | Destination::ParkedFile, _) => RefusalKind::ForNow,
            (_, RefusalKind::Batch | RefusalKind::TooLarge) if message.alone => {
                RefusalKind::ForGood
            }
            (_, kind) => kind,
        };
        match kind {
            RefusalKind::ForNow => self.refuse_for_now(message, reason),
            RefusalKind::ForGood => self.park(message, &reason),
            RefusalKind::Batch | RefusalKind::TooLarge => self.alone.push_back(Message {
                alone: true,
                ..message
            }),
        }
    }

    fn refuse_for_now(&mut self, mut message: Message, reason: String) {
        let since = *message.refused_since.get_or_insert_with(Instant::now);
        let is_parked = matches!(
            message.destination,
            Destination::ParkedTopic | Destination::ParkedFile
        );
        let is_over = |patience| since.elapsed() >= patience;
        if !is_parked && self.patience.is_some_and(is_over) {
            return self.park(message, &reason);
        }
        self.counts[message.output as usize].refused += 1;
        self.last_refusal = Some(reason);
        self.again.push_back(message);
    }

    fn park(&mut self, message: Message, reason: &str) {
        let destination = match &self.destinations.parking {
            Parking::Topic(_) => Destination::ParkedTopic,
            Parking::File(_) => Destination::ParkedFile,
            Parking::Nowhere => {
                let reason =
                    format!("{reason}; set parked.topic or parked.file to put such messages aside");
                self.last_refusal = Some(reason);
                return self.again.push_back(message);
            }
        };
        self.bytes = self.bytes.saturating_sub(message.size());
        let line = lines::parked(&self.destinations.event_topic, &message, reason);
        let (partition, offset) = (message.partition, message.offset);
        let parked = Message {
            destination,
            extra: vec![
                ("ostar-output", message.output.as_str().to_owned()),
                ("ostar-reason", reason.to_owned()),
            ],
            ..Message::new(message.output, partition, offset, None, line)
        };
        self.bytes += parked.size();
        self.last_parked = Some(reason.to_owned());
        self.attempt(parked);
    }

    fn settle(&mut self, message: Message) {
        self.bytes = self.bytes.saturating_sub(message.size());
        let counts = &mut self.counts[message.output as usize];
        match message.destination {
            Destination::Topic => {
                counts.delivered += 1;
                self.limits[message.output as usize].taken(message.size());
            }
            Destination::File => counts.delivered += 1,
            Destination::ParkedTopic | Destination::ParkedFile => counts.parked += 1,
        }
        if self.again.is_empty() {
            self.last_refusal = None;
            self.pause = FIRST_PAUSE;
        }
    }
}
