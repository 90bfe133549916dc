//! Where a start reads on, from what the checkpoint and the group say.

use std::{
    process,
    time::{SystemTime, UNIX_EPOCH},
};

use ostar_bundle::Bundle;
use ostar_connectors::{
    checkpoint::{Manifest, Position, digest},
    event::Offsets,
    kafka::{Commits, KafkaError, KafkaSettings, Start, Writer},
};
use tracing::warn;

use crate::config::{Config, Role};

/// What earlier runs have left about offsets.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// Where the newest checkpoint ends; `None` without one.
    position: Option<Position>,
    /// Who this daemon is in commits to the group.
    pub(super) writer: Writer,
}

/// Who the scorers of a group are in its commits: all of them are one writer.
const SCORERS: &str = "scorers";

impl Known {
    /// The writer is whoever wrote the checkpoint, or somebody new.
    pub(super) fn new(config: &Config, bundle: &Bundle, resumed: Option<&Manifest>) -> Self {
        let id = match resumed {
            Some(manifest) => manifest.identity.writer.clone(),
            None if config.role == Role::Scorer => SCORERS.to_owned(),
            None => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                let moment = (now.unwrap_or_default().as_nanos(), process::id());
                digest(format!("{moment:?} {}", config.state_place()).as_bytes())
            }
        };
        Self {
            position: resumed.map(|manifest| manifest.position.clone()),
            writer: Writer {
                id,
                bundle: bundle.description().name.clone(),
            },
        }
    }

    /// In each partition, the offset behind the last event that was learned.
    pub(super) fn learned(&self) -> Offsets {
        let position = self.position.as_ref();
        position.map_or_else(Offsets::new, |position| position.learned.clone())
    }

    /// The broker's id of the topic that the offsets belong to; `None` if unknown.
    pub(super) fn topic_id(&self) -> Option<String> {
        self.position.as_ref()?.topic_id.clone()
    }

    /// The commits that are this daemon's own. One that names another writer is an error.
    pub(super) fn own(
        &self,
        commits: &Commits,
        settings: &KafkaSettings,
    ) -> Result<Offsets, KafkaError> {
        let mut own = Offsets::new();
        let mut unnamed = false;
        for (partition, commit) in commits {
            if commit.metadata.is_empty() {
                // This daemon leaves its name: somebody else has set these offsets. They say where a first start begins.
                if self.position.is_some() {
                    unnamed = true;
                    continue;
                }
            } else if !self.is_own(&commit.metadata) {
                return Err(KafkaError::ForeignCommit {
                    group: settings.group().to_owned(),
                    topic: settings.topic.clone(),
                    ours: self.writer.to_string(),
                    theirs: commit.metadata.clone(),
                });
            }
            own.insert(*partition, commit.offset);
        }
        if unnamed {
            warn!(
                group = settings.group(),
                "ignored commits that this daemon did not make; the checkpoint says what was emitted"
            );
        }
        Ok(own)
    }

    fn is_own(&self, metadata: &str) -> bool {
        let Some(theirs) = Writer::parse(metadata) else {
            return false;
        };
        // Without a checkpoint the folder may be lost or new. The bundle then decides.
        let is_lost = self.position.is_none() && theirs.bundle == self.writer.bundle;
        is_lost || theirs.id == self.writer.id
    }

    /// In each partition, the offset behind the last event whose output is known to be delivered or parked: the later of
    /// the group's commit and the checkpoint's. Nothing was emitted yet of a partition that is missing among others.
    pub(super) fn emitted(&self, own: &Offsets) -> Offsets {
        let mut emitted = own.clone();
        for (partition, offset) in self.position.iter().flat_map(|known| &known.emitted) {
            let known = emitted.entry(*partition).or_insert(*offset);
            *known = offset.max(known).to_owned();
        }
        emitted
    }

    /// Where to read from so that every event is both learned and emitted: in each partition the lower of the two
    /// offsets. With no offsets at all `kafka.start` decides; a partition of which nothing was learned or emitted is new and
    /// read from its beginning.
    pub(super) fn first(&self, emitted: &Offsets, start: Start) -> Offsets {
        let learned = self.learned();
        if learned.is_empty() {
            // A new learner takes all there is. Emission leaves out what was emitted before.
            return match start {
                Start::Earliest => Offsets::new(),
                Start::Latest | Start::Timestamp => emitted.clone(),
            };
        }
        let lower = |(partition, learned): (&i32, &i64)| {
            let emitted = emitted.get(partition)?;
            Some((*partition, *emitted.min(learned)))
        };
        learned.iter().filter_map(lower).collect()
    }
}

#[cfg(test)]
mod tests {
    use ostar_connectors::kafka::Commit;

    use super::*;

    fn known(learned: &[(i32, i64)], emitted: &[(i32, i64)]) -> Known {
        Known {
            position: Some(Position {
                learned: learned.iter().copied().collect(),
                emitted: emitted.iter().copied().collect(),
                ..Position::default()
            }),
            writer: writer("00ff", "spam"),
        }
    }

    fn writer(id: &str, bundle: &str) -> Writer {
        Writer {
            id: id.to_owned(),
            bundle: bundle.to_owned(),
        }
    }

    fn commit(offset: i64, metadata: &str) -> Commits {
        let metadata = metadata.to_owned();
        Commits::from([(0, Commit { offset, metadata })])
    }

    #[test]
    fn reading_starts_at_the_lower_of_learned_and_emitted() {
        let known = known(&[(0, 10), (1, 30)], &[(0, 20), (1, 25)]);
        let emitted = known.emitted(&Offsets::new());
        assert_eq!(emitted, Offsets::from([(0, 20), (1, 25)]));
        let first = known.first(&emitted, Start::Latest);
        assert_eq!(first, Offsets::from([(0, 10), (1, 25)]));
    }

    #[test]
    fn a_new_partition_that_was_learned_before_anything_of_it_was_emitted_is_read_from_its_beginning()
     {
        let known = known(&[(0, 10), (1, 5)], &[(0, 20)]);
        let emitted = known.emitted(&Offsets::from([(0, 20)]));
        assert_eq!(emitted, Offsets::from([(0, 20)]));
        let first = known.first(&emitted, Start::Latest);
        assert_eq!(first, Offsets::from([(0, 10)]));
    }

    #[test]
    fn the_later_of_commit_and_checkpoint_says_what_was_emitted() {
        let known = known(&[(0, 10)], &[(0, 20)]);
        for (commit, expected) in [(15, 20), (25, 25)] {
            let emitted = known.emitted(&Offsets::from([(0, commit)]));
            assert_eq!(emitted, Offsets::from([(0, expected)]));
        }
    }

    #[test]
    fn a_new_learner_reads_from_the_group_unless_it_wants_everything() {
        let known = Known {
            position: None,
            writer: writer("00ff", "spam"),
        };
        let (nothing, emitted) = (Offsets::new(), Offsets::from([(0, 20)]));
        assert_eq!(known.first(&emitted, Start::Latest), emitted);
        assert_eq!(known.first(&emitted, Start::Earliest), nothing);
    }

    #[test]
    fn a_commit_of_another_writer_is_an_error_that_names_both() {
        let settings = KafkaSettings::default();
        let mut known = known(&[(0, 10)], &[(0, 20)]);
        let theirs = writer("0001", "ham").to_string();
        let error = known.own(&commit(30, &theirs), &settings).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("bundle=spam") && error.contains("bundle=ham"),
            "{error}"
        );
        assert!(known.own(&commit(30, "an app"), &settings).is_err());

        let ours = known.writer.to_string();
        let own = known.own(&commit(30, &ours), &settings).unwrap();
        assert_eq!(own, Offsets::from([(0, 30)]));
        // Somebody has set the offsets by hand: the checkpoint knows better.
        assert_eq!(
            known.own(&commit(3, ""), &settings).unwrap(),
            Offsets::new()
        );
        // Without a checkpoint they say where to begin.
        known.position = None;
        let set = known.own(&commit(3, ""), &settings).unwrap();
        assert_eq!(set, Offsets::from([(0, 3)]));
        // The folder is lost, the bundle is the same.
        let same = writer("0001", "spam").to_string();
        assert!(known.own(&commit(30, &same), &settings).is_ok());
        assert!(known.own(&commit(30, &theirs), &settings).is_err());
    }
}
