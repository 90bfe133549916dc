//! Keeps a copy of every output as it appears, because topics are deleted.

use std::{collections::BTreeMap, fs, path::PathBuf};

use anyhow::{Context, Result};
use rdkafka::message::{BorrowedMessage, Headers, Message};

use super::{Lives, Names};
use crate::{daemon::TIMEOUT, kafka::Kafka, until};

/// Where an output was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Predictions,
    Letters,
    Parked,
}

/// An output of an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(super) place: Place,
    /// Offset of the event.
    pub(super) event: usize,
    /// Life of the daemon that has sent it.
    pub(super) life: usize,
}

struct Record {
    place: Place,
    event: usize,
    time_ms: i64,
}

/// The outputs that were there at any time.
pub(crate) struct Collector {
    topics: Vec<(Place, String)>,
    /// Offset behind the last record that was collected; absent while a topic is gone.
    next: BTreeMap<String, i64>,
    records: Vec<Record>,
    parked_file: PathBuf,
    /// Lines of the file at each end of a life.
    lines_at_end: Vec<usize>,
}

impl Collector {
    pub(super) fn new(names: &Names) -> Self {
        let mut topics = vec![
            (Place::Predictions, names.predictions.clone()),
            (Place::Letters, names.letters.clone()),
        ];
        topics.extend(names.parked.clone().map(|topic| (Place::Parked, topic)));
        let next = topics.iter().map(|(_, topic)| (topic.clone(), 0)).collect();
        Self {
            topics,
            next,
            records: Vec::new(),
            parked_file: names.checkpoints.join("parked.jsonl"),
            lines_at_end: Vec::new(),
        }
    }

    /// Collects what has appeared in every topic that exists.
    pub(super) fn collect(&mut self, kafka: &Kafka) -> Result<()> {
        for (place, topic) in self.topics.clone() {
            self.collect_from(kafka, place, &topic)?;
        }
        Ok(())
    }

    /// The topic is deleted. Nobody may write to it between this and the deletion.
    pub(super) fn forget(&mut self, kafka: &Kafka, topic: &str) -> Result<()> {
        let place = self.topics.iter().find(|(_, name)| name == topic);
        let place = place.context("no such output")?.0;
        self.collect_from(kafka, place, topic)?;
        self.next.remove(topic);
        Ok(())
    }

    /// The topic was recreated.
    pub(super) fn expect(&mut self, topic: &str) {
        self.next.insert(topic.to_owned(), 0);
    }

    /// The daemon was killed: lines of the file from here on are another life's.
    pub(super) fn end_life(&mut self) {
        self.lines_at_end.push(self.lines().len());
    }

    /// Everything so far, with the life that each output is from.
    pub(super) fn all(&self, lives: &Lives) -> Result<Vec<Seen>> {
        let mut all: Vec<Seen> = self
            .records
            .iter()
            .map(|record| Seen {
                place: record.place,
                event: record.event,
                life: lives.at(record.time_ms),
            })
            .collect();
        for (number, line) in self.lines().iter().enumerate() {
            let line: serde_json::Value =
                serde_json::from_str(line).with_context(|| format!("parked line {line:?}"))?;
            all.push(Seen {
                place: Place::Parked,
                event: line["offset"].as_u64().context("no offset")? as usize,
                life: self
                    .lines_at_end
                    .iter()
                    .filter(|end| number >= **end)
                    .count(),
            });
        }
        Ok(all)
    }

    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.parked_file).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn collect_from(&mut self, kafka: &Kafka, place: Place, topic: &str) -> Result<()> {
        let Some(next) = self.next.get_mut(topic) else {
            return Ok(());
        };
        let mut last = None;
        let take = |message: &BorrowedMessage<'_>| {
            let headers = message.headers().context("a record without headers")?;
            let header = headers.iter().find(|header| header.key == "ostar-offset");
            let offset = header
                .and_then(|header| header.value)
                .context("no offset")?;
            let event = std::str::from_utf8(offset)?.parse()?;
            let time_ms = message.timestamp().to_millis().context("no time")?;
            let record = Record {
                place,
                event,
                time_ms,
            };
            Ok((message.offset(), record))
        };
        // Right after a start of the broker a read may fail. Nothing is kept of it.
        let records = until("a read of the outputs", TIMEOUT, || {
            let read = kafka.read_from(topic, *next, take);
            Ok(read.map_err(|error| last = Some(error)).ok())
        });
        let records = records.with_context(|| format!("{last:?}"))?;
        for (offset, record) in records {
            *next = offset + 1;
            self.records.push(record);
        }
        Ok(())
    }
}
