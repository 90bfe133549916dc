//! The record that says what the state topic holds. It is written last, so that whoever reads it has all that it names.

use serde::{Deserialize, Serialize};

use super::PartKind;
use crate::checkpoint::{FORMAT_VERSION, Manifest, Orders, StateBytes};

/// Value of the record with the key `manifest`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateManifest {
    /// Version of this format, and of the manifests in it.
    pub format_version: u32,
    /// Of the learner that wrote it. Grows with every learner.
    pub epoch: u64,
    /// Grows with every record of the learner.
    pub sequence: u64,
    /// When it was written, in milliseconds since 1970.
    pub written_at_ms: u64,
    /// Share of the events that scorers pass on.
    pub sample_share: f64,
    /// What the newest snapshot was learned from, with the orders in force, which scorers carry out, too. `None` before
    /// the first.
    #[serde(deserialize_with = "Option::deserialize")]
    pub snapshot: Option<Manifest>,
    /// What the newest checkpoint was learned from. `None` before the first.
    #[serde(deserialize_with = "Option::deserialize")]
    pub checkpoint: Option<Manifest>,
}

/// Most bytes of a record: brokers take a little more than a megabyte by default, headers included. Part of the format.
pub(super) const CHUNK_BYTES: usize = 900_000;

/// Records that so many bytes are spread over.
pub(super) fn chunks_of(length: usize) -> usize {
    length.div_ceil(CHUNK_BYTES)
}

/// The bytes, if their chunks are all there and no others.
pub(super) fn join<'c>(
    bytes: &StateBytes,
    chunk: impl Fn(usize) -> Option<&'c Vec<u8>>,
) -> Option<Vec<u8>> {
    let mut joined = Vec::with_capacity(bytes.length.min(1 << 30));
    for number in 0..chunks_of(bytes.length) {
        joined.extend_from_slice(chunk(number)?);
    }
    (StateBytes::new(&joined) == *bytes).then_some(joined)
}

impl StateManifest {
    /// Of a topic without records.
    pub(super) fn empty() -> Self {
        Self {
            format_version: FORMAT_VERSION,
            epoch: 0,
            sequence: 0,
            written_at_ms: 0,
            sample_share: 1.0,
            snapshot: None,
            checkpoint: None,
        }
    }

    /// Orders in force.
    pub fn orders(&self) -> Orders {
        let newest = self.snapshot.as_ref();
        newest.map_or_else(Orders::default, |newest| newest.orders.clone())
    }

    /// The bytes that the topic holds of this kind.
    pub(super) fn part(&self, kind: PartKind) -> Option<&StateBytes> {
        let manifest = match kind {
            PartKind::Snapshot => &self.snapshot,
            PartKind::Checkpoint => &self.checkpoint,
        };
        manifest.as_ref().map(|manifest| &manifest.state)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::checkpoint::read_manifest;

    #[test]
    fn every_key_of_the_record_is_required_and_no_other_is_known() {
        let whole = serde_json::to_value(StateManifest::empty()).unwrap();
        let read = |record: &Value| read_manifest::<StateManifest>(record.to_string().as_bytes());
        assert_eq!(read(&whole), Ok(StateManifest::empty()));
        for key in whole.as_object().unwrap().keys() {
            let mut without = whole.clone();
            without.as_object_mut().unwrap().remove(key).unwrap();
            let problem = read(&without).unwrap_err();
            let expected = format!("missing field `{key}`");
            assert!(problem.contains(&expected), "{problem}");
        }
        for (key, problem) in [
            ("format_version", "it has format version 7"),
            ("offsets", "unknown field `offsets`"),
        ] {
            let mut other = whole.clone();
            other[key] = 7.into();
            assert!(read(&other).unwrap_err().contains(problem));
        }
    }

    #[test]
    fn a_part_is_joined_from_its_own_chunks_only() {
        let bytes: Vec<u8> = (0..2 * CHUNK_BYTES + 5).map(|n| (n % 251) as u8).collect();
        let part = StateBytes::new(&bytes);
        let mut chunks: Vec<Vec<u8>> = bytes.chunks(CHUNK_BYTES).map(<[u8]>::to_vec).collect();
        assert_eq!((chunks_of(part.length), chunks.len()), (3, 3));
        assert_eq!(join(&part, |number| chunks.get(number)), Some(bytes));
        chunks[1][0] ^= 1;
        assert_eq!(
            join(&part, |number| chunks.get(number)),
            None,
            "another state's"
        );
        chunks.pop();
        assert_eq!(
            join(&part, |number| chunks.get(number)),
            None,
            "one is missing"
        );
        assert_eq!(join(&StateBytes::new(b""), |_| None), Some(Vec::new()));
    }
}
