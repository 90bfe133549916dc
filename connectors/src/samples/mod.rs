//! Samples: the events that scorers pass on to the learner, each with what the frozen model made of it.
//!
//! Whether an event is a sample depends on its partition and offset alone, so that a scorer that reads it again decides
//! the same. Samples arrive at least once: [`SeenEvents`] tells those that were seen before.

mod seen;
mod settings;

use prost::Message as _;
use twox_hash::XxHash64;

pub use crate::sample_proto::{Input, Sample};
pub use seen::{Seen, SeenEvents};
pub use settings::SampleSettings;

use crate::event::{Reject, TimeLimit};

/// Makes the choice of samples independent of other uses of the same hash.
const SEED: u64 = 0x6f73_7461_7264;

/// Whether an event is passed on when this share of all events is: the same events at every call, and those of a smaller
/// share are among those of a larger one.
pub fn is_sampled(partition: i32, offset: i64, share: f64) -> bool {
    if share >= 1.0 {
        return true;
    }
    let mut place = [0; 12];
    place[..4].copy_from_slice(&partition.to_le_bytes());
    place[4..].copy_from_slice(&offset.to_le_bytes());
    // The upper half of the hash is exact as a double.
    let drawn = (XxHash64::oneshot(SEED, &place) >> 32) as f64 / f64::from(u32::MAX);
    drawn < share
}

/// A name as samples carry it; 0 for none.
pub fn fingerprint(name: Option<&str>) -> u64 {
    name.map_or(0, |name| XxHash64::oneshot(SEED, name.as_bytes()))
}

impl Sample {
    /// The record's value.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    /// Reads a record's value; `Err` says what is wrong with it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let sample = Self::decode(bytes).map_err(|error| error.to_string())?;
        if sample.partition < 0 || sample.offset < 0 {
            return Err("partition or offset is negative".to_owned());
        }
        Ok(sample)
    }

    /// Compares its times with those of its own record, as those of an event: it was written after its event was, and the
    /// event's time is bounded by that.
    pub fn check_times(&self, times: &TimeLimit, written_ms: Option<i64>) -> Result<(), Reject> {
        let recorded_ms = (self.recorded_ms > 0).then_some(self.recorded_ms);
        times.check(recorded_ms, written_ms)?;
        times.check(Some(self.time_ms), recorded_ms)
    }
}

#[cfg(test)]
mod tests {
    use ostar_bundle::fields::{Field, FieldKind, FieldSchema};

    use super::*;
    use crate::event::{EventSettings, InputRows};

    #[test]
    fn a_share_of_the_events_is_drawn_and_a_smaller_share_is_part_of_it() {
        for share in [0.5, 0.05, 0.001] {
            let places = (0..4).flat_map(|partition| (0..100_000).map(move |at| (partition, at)));
            let mut drawn = 0.0;
            for (partition, offset) in places {
                let is_drawn = is_sampled(partition, offset, share);
                drawn += f64::from(u8::from(is_drawn));
                assert!(!is_drawn || is_sampled(partition, offset, 2.0 * share));
            }
            // Five standard deviations of a binomial count.
            let (expected, deviation) = (4e5 * share, (4e5 * share * (1.0 - share)).sqrt());
            assert!(
                (drawn - expected).abs() < 5.0 * deviation,
                "{share}: {drawn}"
            );
        }
        assert!(is_sampled(0, 0, 1.0));
        assert!(!is_sampled(0, 0, 0.0));
    }

    #[test]
    fn a_sample_is_read_as_it_was_written_and_anything_else_is_refused() {
        let sample = Sample {
            partition: 3,
            offset: 77,
            creation: fingerprint(Some("topic")),
            bundle: fingerprint(None),
            id: "mail-77".to_owned(),
            time_ms: 5,
            recorded_ms: 6,
            latents: vec![0.1, -2.5],
            probabilities: vec![0.25, 0.75],
            scored_ms: 7,
            sent: 1,
            input: Some(Input {
                numbers: vec![1.5],
                tokens: vec![3, 4, 5],
                bags: vec![1, 2],
            }),
        };
        assert_eq!(Sample::from_bytes(&sample.to_bytes()), Ok(sample.clone()));
        let negative = Sample {
            offset: -1,
            ..sample
        };
        assert!(Sample::from_bytes(&negative.to_bytes()).is_err());
        assert!(Sample::from_bytes(b"no sample").is_err());
    }

    #[test]
    fn a_sample_of_the_year_2100_is_refused_by_the_time_of_its_record() {
        const NOW: i64 = 1_800_000_000_000;
        const YEAR_2100: i64 = 4_102_444_800_000;
        let times = TimeLimit::with_clock(&EventSettings::default(), || NOW);
        let is_taken = |time_ms, recorded_ms, written_ms| {
            let sample = Sample {
                time_ms,
                recorded_ms,
                ..Sample::default()
            };
            sample.check_times(&times, written_ms).is_ok()
        };
        assert!(is_taken(NOW, NOW, Some(NOW)));
        assert!(is_taken(0, NOW - 1_000_000_000, Some(NOW)), "a replay");
        assert!(is_taken(NOW, 0, None), "no time stamps");
        assert!(!is_taken(YEAR_2100, NOW, Some(NOW)));
        assert!(!is_taken(YEAR_2100, YEAR_2100, Some(NOW)));
        assert!(!is_taken(YEAR_2100, YEAR_2100, Some(YEAR_2100)));
        assert!(!is_taken(YEAR_2100, 0, None));
    }

    #[test]
    fn fuzz_samples() {
        let number = FieldKind::Number {
            mean: 0.0,
            deviation: 1.0,
        };
        let fields = [("price", number), ("country", FieldKind::Category)];
        let fields = fields.map(|(name, kind)| Field {
            name: name.to_owned(),
            kind,
        });
        let bundle_input = ostar_bundle::Input::Fields(FieldSchema {
            fields: fields.to_vec(),
            buckets: 10,
        });
        let sample = Sample {
            offset: 3,
            probabilities: vec![0.5, 0.5],
            input: Some(Input {
                numbers: vec![1.0],
                tokens: vec![7],
                bags: vec![1],
            }),
            ..Sample::default()
        };
        ostar_fuzzing::fuzz!("samples", [sample.to_bytes()], |bytes: &[u8]| {
            let mut rows = InputRows::new(&bundle_input, 2);
            let Ok(sample) = Sample::from_bytes(bytes) else {
                return;
            };
            if let Some(input) = sample.input
                && rows.push_carried(&bundle_input, input.clone()).is_ok()
            {
                assert_eq!(rows.carried(0), input);
            }
        });
    }
}
