//! The record that says what the state topic holds. It is written last, so that whoever reads it has all that it names.

use serde::{Deserialize, Serialize};

use crate::checkpoint::{Manifest, Orders, Shares, digest};

/// Format version that this build reads and writes. Another format of [`Manifest`] is another one of this, too.
pub(super) const FORMAT_VERSION: u32 = 1;

/// Value of the record with the key `manifest`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateManifest {
    /// Version of this format; set by the writer.
    pub format_version: u32,
    /// Of the learner that wrote it. Grows with every learner.
    pub epoch: u64,
    /// Grows with every record of the learner.
    pub sequence: u64,
    /// When it was written, in milliseconds since 1970.
    pub written_at_ms: u64,
    /// Orders in force, which scorers carry out, too.
    pub orders: Orders,
    /// Share of the events that scorers pass on.
    pub sample_share: f64,
    /// `None` before the first.
    pub snapshot: Option<SnapshotEntry>,
    /// `None` before the first.
    pub checkpoint: Option<CheckpointEntry>,
}

/// A snapshot, and what is shown with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotEntry {
    /// Epoch of its version.
    pub epoch: u64,
    /// Step of its version.
    pub step: u64,
    /// Events that it was learned from.
    pub events: u64,
    /// Shares after the newest block; `None` before the first.
    pub shares: Option<Shares>,
    /// When it was published, in milliseconds since 1970.
    pub published_at_ms: u64,
    /// Its bytes.
    pub part: Part,
}

/// A checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointEntry {
    /// What the state was learned from.
    pub manifest: Manifest,
    /// The bytes of the state.
    pub part: Part,
}

/// Bytes that are spread over several records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// How many records.
    pub chunks: usize,
    /// Bytes of all of them.
    pub bytes: usize,
    /// XXH64 of all bytes, in 16 hexadecimal digits.
    pub digest: String,
}

/// Most bytes of a record: brokers take a little more than a megabyte by default, headers included.
pub(super) const CHUNK_BYTES: usize = 900_000;

impl Part {
    /// How these bytes are spread.
    pub fn of(bytes: &[u8]) -> Self {
        Self {
            chunks: bytes.len().div_ceil(CHUNK_BYTES),
            bytes: bytes.len(),
            digest: digest(bytes),
        }
    }

    /// The bytes, if the chunks are all there and those that the part was made of.
    pub(super) fn join<'c>(&self, chunk: impl Fn(usize) -> Option<&'c Vec<u8>>) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.bytes.min(1 << 30));
        for number in 0..self.chunks {
            bytes.extend_from_slice(chunk(number)?);
        }
        (bytes.len() == self.bytes && digest(&bytes) == self.digest).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_joined_from_its_own_chunks_only() {
        let bytes: Vec<u8> = (0..2 * CHUNK_BYTES + 5).map(|n| (n % 251) as u8).collect();
        let part = Part::of(&bytes);
        let mut chunks: Vec<Vec<u8>> = bytes.chunks(CHUNK_BYTES).map(<[u8]>::to_vec).collect();
        assert_eq!((part.chunks, chunks.len()), (3, 3));
        assert_eq!(part.join(|number| chunks.get(number)), Some(bytes));
        chunks[1][0] ^= 1;
        assert_eq!(
            part.join(|number| chunks.get(number)),
            None,
            "another state's"
        );
        chunks.pop();
        assert_eq!(
            part.join(|number| chunks.get(number)),
            None,
            "one is missing"
        );
        assert_eq!(Part::of(b"").join(|_| None), Some(Vec::new()));
    }
}
