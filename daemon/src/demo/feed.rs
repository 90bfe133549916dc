//! Sends the demo's mails and answers the daemon's requests for labels.
//!
//! The gate gets to know what was asked for, and nothing else.

use std::{
    collections::{BTreeMap, HashSet},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use ostar_connectors::{
    event::{Cell, Encoder, Row},
    kafka::{KafkaSettings, Sender},
};
use serde_json::json;

use super::{
    EVENTS_TOPIC, LABELS_TOPIC,
    answers::Requests,
    meter::Meter,
    stream::{CLASSES, Mail, MailStream, Phase},
};

/// One in this many requests is never answered.
const UNANSWERED: u64 = 10;
/// One in this many mails is followed by a broken one, so that there are dead letters to see.
const BROKEN: u64 = 400;
/// The broken mails, sent in turn: torn JSON and a field of the wrong type.
const BROKEN_MAILS: [&str; 2] = [
    r#"{"id": "broken", "fields": {"subject": "cut o"#,
    r#"{"id": "broken", "fields": {"subject": "offer1", "links": "many"}}"#,
];
/// Mails are sent in bursts this long.
const TICK: Duration = Duration::from_millis(10);

/// How much is sent, and how fast.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// Total number of mails.
    pub(super) mails: u64,
    /// Mails per second.
    pub(super) rate: u64,
}

pub(super) fn id_of(number: u64) -> String {
    format!("mail-{number}")
}

/// The number of the mail with this id.
pub(super) fn number_of(id: &str) -> Option<u64> {
    id.strip_prefix("mail-")?.parse().ok()
}

/// Sends everything. Returns after the last mail, or when `stop` is true.
pub(super) fn send(
    plan: Plan,
    kafka: &KafkaSettings,
    encoder: &Encoder,
    meter: &mut Meter,
    stop: impl Fn() -> bool,
) -> Result<()> {
    let mut sender = Sender::open(kafka).context("cannot start the demo's producer")?;
    let requests = Requests::open(&kafka.brokers)?;
    let mut stream = MailStream::new(plan.seed);
    let mut truth = Truth::default();
    let start = Instant::now();
    let mut sent = 0;
    while sent < plan.mails && !stop() {
        let due = start.elapsed().as_millis() as u64 * plan.rate / 1000;
        while sent < due.min(plan.mails) {
            let (mail, class) = stream.next(Phase::at(sent as f64 / plan.mails as f64));
            let id = id_of(sent);
            let row = row(mail);
            meter.add(sent, &row, class)?;
            let payload = encoder.encode(Some(&id), None, &row);
            sender.hand_over(EVENTS_TOPIC, &id, &payload, None)?;
            truth.classes.push(class);
            sent += 1;
            if sent % BROKEN == 0 {
                let broken = BROKEN_MAILS[(sent / BROKEN) as usize % BROKEN_MAILS.len()];
                sender.hand_over(EVENTS_TOPIC, "broken", broken.as_bytes(), None)?;
            }
        }
        meter.score()?;
        for number in requests.asked() {
            if let Some(class) = truth.answer(number) {
                let id = id_of(number);
                let label = json!({"id": id, "label": CLASSES[class as usize]}).to_string();
                sender.hand_over(LABELS_TOPIC, &id, label.as_bytes(), None)?;
            }
        }
        thread::sleep(TICK);
    }
    sender.flush(Duration::from_secs(5))?;
    Ok(())
}

/// The class of every mail that was sent.
#[derive(Default)]
struct Truth {
    classes: Vec<u32>,
    /// Mails whose label was sent.
    answered: HashSet<u64>,
}

impl Truth {
    /// The class of a mail that was asked for, unless nobody looks at it or it was told before.
    fn answer(&mut self, number: u64) -> Option<u32> {
        let class = *self.classes.get(number as usize)?;
        let is_new = !number.is_multiple_of(UNANSWERED) && self.answered.insert(number);
        is_new.then_some(class)
    }
}

fn row(mail: Mail) -> Row {
    Row::Fields(BTreeMap::from([
        ("subject".to_owned(), Cell::Text(mail.subject.into())),
        ("sender".to_owned(), Cell::Text(mail.sender.into())),
        ("links".to_owned(), Cell::Number(mail.links)),
        ("kilobytes".to_owned(), Cell::Number(mail.kilobytes)),
    ]))
}
