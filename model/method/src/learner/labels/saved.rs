//! A [`LabelBook`] as bytes: small parts as JSON, events and labels one after the other.

use ostar_engine::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{
    JoinCounts, LabelBook, LabelDelays, LabelUse,
    measures::{Joined, MeterSums},
    memory::{Entry, Outcome},
    requests::RequestKind,
    sampling::Sampling,
    shares::ShareBook,
};
use crate::{Candidate, gate::Change};

/// What a state says of labels beside the events that wait.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedBook {
    clock_ms: i64,
    counts: JoinCounts,
    delays: LabelDelays,
    sampling: Sampling,
    /// Events and labels in the bytes.
    entries: usize,
    early: usize,
    window: usize,
    shares: ShareBook,
    measures: MeterSums,
}

impl LabelBook {
    /// Without the open block, which a start fills again.
    pub(crate) fn save(&self) -> (SavedBook, Vec<u8>) {
        let mut bytes = Vec::new();
        for (entry, probabilities) in self.memory.entries() {
            write_entry(entry, &mut bytes);
            write_numbers(&probabilities, &mut bytes);
        }
        for (id, class, time_ms) in self.early.iter() {
            bytes.extend(class.to_le_bytes());
            bytes.extend(time_ms.to_le_bytes());
            write_text(id, &mut bytes);
        }
        for joined in self.meter.window() {
            bytes.extend(joined.class.to_le_bytes());
            bytes.push(joined.served as u8);
            write_numbers(&joined.probabilities, &mut bytes);
        }
        let saved = SavedBook {
            clock_ms: self.clock_ms,
            counts: self.counts,
            delays: self.delays.clone(),
            sampling: self.sampling,
            entries: self.memory.entries().len(),
            early: self.early.iter().len(),
            window: self.meter.window().len(),
            shares: self.shares.clone(),
            measures: self.meter.sums().clone(),
        };
        (saved, bytes)
    }

    pub(crate) fn restore(
        saved: SavedBook,
        bytes: &[u8],
        settings: LabelUse,
        classes: usize,
    ) -> Result<Self> {
        let mut book = Self::new(settings, classes);
        let width = Candidate::ALL.len() * classes;
        let mut rest = Bytes(bytes);
        for _ in 0..saved.entries {
            let entry = rest.entry()?;
            let probabilities = rest.numbers(width)?;
            book.memory.push(entry, &probabilities, usize::MAX);
        }
        for _ in 0..saved.early {
            let class = u32::from_le_bytes(rest.take()?);
            let time_ms = i64::from_le_bytes(rest.take()?);
            book.early.push(&rest.text()?, class, time_ms, usize::MAX);
        }
        for _ in 0..saved.window {
            book.meter.keep(Joined {
                class: u32::from_le_bytes(rest.take()?),
                served: rest.candidate()?,
                probabilities: rest.numbers(width)?.into(),
            });
        }
        if !rest.0.is_empty() {
            return Err(broken("has more bytes than it says"));
        }
        book.clock_ms = saved.clock_ms;
        book.counts = saved.counts;
        book.delays = saved.delays;
        book.sampling = saved.sampling;
        // Shares that no further label follows would be those of long ago.
        if settings.random > 0 {
            book.shares = saved.shares;
        }
        book.meter.restore(saved.measures);
        Ok(book)
    }
}

fn write_entry(entry: &Entry, bytes: &mut Vec<u8>) {
    bytes.extend(entry.block.to_le_bytes());
    bytes.extend(entry.time_ms.to_le_bytes());
    let asked = match entry.asked {
        None => 0,
        Some(RequestKind::Disagreement) => 1,
        Some(RequestKind::Random) => 2,
    };
    bytes.extend([asked, entry.outcome as u8, entry.served as u8]);
    bytes.push(u8::from(entry.change.is_some()));
    if let Some(Change {
        class,
        reach,
        shift,
    }) = entry.change
    {
        bytes.extend(class.to_le_bytes());
        bytes.extend(reach.to_le_bytes());
        bytes.extend(shift.to_le_bytes());
    }
    write_text(&entry.id, bytes);
}

fn write_numbers(numbers: &[f32], bytes: &mut Vec<u8>) {
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

fn write_text(text: &str, bytes: &mut Vec<u8>) {
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn broken(problem: &str) -> Error {
    Error::setting("labels of the state", problem)
}

/// What is left to read.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (word, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or_else(|| broken("end too soon"))?;
        self.0 = rest;
        Ok(*word)
    }

    fn length(&mut self) -> Result<usize> {
        Ok(u32::from_le_bytes(self.take()?) as usize)
    }

    fn text(&mut self) -> Result<Box<str>> {
        let length = self.length()?;
        let (text, rest) = self
            .0
            .split_at_checked(length)
            .ok_or_else(|| broken("end too soon"))?;
        self.0 = rest;
        let text = std::str::from_utf8(text).map_err(|_| broken("have an id that is no text"))?;
        Ok(text.into())
    }

    fn entry(&mut self) -> Result<Entry> {
        let block = u64::from_le_bytes(self.take()?);
        let time_ms = i64::from_le_bytes(self.take()?);
        let [asked, outcome] = self.take()?;
        let served = self.candidate()?;
        let change = self.change()?;
        Ok(Entry {
            id: self.text()?,
            block,
            time_ms,
            asked: match asked {
                0 => None,
                1 => Some(RequestKind::Disagreement),
                2 => Some(RequestKind::Random),
                _ => return Err(broken("have a request of an unknown kind")),
            },
            outcome: match outcome {
                0 => Outcome::Waiting,
                1 => Outcome::Joined,
                2 => Outcome::Negative,
                _ => return Err(broken("have an event of an unknown outcome")),
            },
            served,
            change,
        })
    }

    fn numbers(&mut self, count: usize) -> Result<Vec<f32>> {
        (0..count)
            .map(|_| Ok(f32::from_le_bytes(self.take()?)))
            .collect()
    }

    fn candidate(&mut self) -> Result<Candidate> {
        let [number] = self.take()?;
        let candidate = Candidate::ALL.get(number as usize);
        candidate
            .copied()
            .ok_or_else(|| broken("have an unknown candidate"))
    }

    fn change(&mut self) -> Result<Option<Change>> {
        match self.take()? {
            [0] => Ok(None),
            [1] => Ok(Some(Change {
                class: u32::from_le_bytes(self.take()?),
                reach: f32::from_le_bytes(self.take()?),
                shift: f32::from_le_bytes(self.take()?),
            })),
            _ => Err(broken("have a change of an unknown kind")),
        }
    }
}
