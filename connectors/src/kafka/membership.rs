//! Reading as a member of a group: partitions come and go.
//!
//! librdkafka waits until a rebalance is answered. So a partition is given back only after whoever reads has settled what
//! it read from it, and one that is assigned is read from the group's commit.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use rdkafka::{Offset, TopicPartitionList, consumer::Consumer as _};

use super::{
    client::{Consumer, Rebalance},
    connection::{Commits, committed, first_offsets, partition_list},
    error::{KafkaError, describe, fatal},
    progress::Progress,
    settings::KafkaSettings,
    topic::{Found, Topic},
    writer::Writer,
};
use crate::event::Offsets;

/// A member of `kafka.group`. Dropping it answers what is still open, so that the client can leave.
pub(super) struct Membership {
    consumer: Arc<Consumer>,
    topic: String,
    /// Who commits. Commits of another bundle are refused.
    writer: Writer,
    /// Assigned, and where to read from is not known yet.
    arriving: Option<Vec<i32>>,
    /// To be given back, as soon as it is settled.
    leaving: Option<Vec<i32>>,
    retry_at: Instant,
}

/// What a look at the rebalances has found.
pub(super) enum Change {
    /// These partitions are read from now on, from these offsets.
    Assigned(Found, Offsets),
    /// These are to be settled and given back with [`Membership::release`].
    Revoked { partitions: Vec<i32>, lost: bool },
}

const TIMEOUT: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(500);

impl Membership {
    pub(super) fn join(topic: &Topic, writer: Writer) -> Result<Self, KafkaError> {
        let consumer = Arc::clone(&topic.consumer);
        consumer.context().defers.store(true, Ordering::Release);
        consumer.subscribe(&[&topic.name]).map_err(fatal)?;
        Ok(Self {
            consumer,
            topic: topic.name.clone(),
            writer,
            arriving: None,
            leaving: None,
            retry_at: Instant::now(),
        })
    }

    /// The next rebalance that somebody has to act on.
    pub(super) fn next(
        &mut self,
        topic: &Topic,
        settings: &KafkaSettings,
    ) -> Result<Option<Change>, KafkaError> {
        if self.leaving.is_some() {
            return Ok(None);
        }
        if self.arriving.is_none() {
            match self.consumer.context().next_rebalance() {
                None => return Ok(None),
                Some(Rebalance::Assign(partitions)) => self.arriving = Some(partitions),
                Some(Rebalance::Revoke { partitions, lost }) => {
                    self.leaving = Some(partitions.clone());
                    return Ok(Some(Change::Revoked { partitions, lost }));
                }
            }
        }
        if Instant::now() < self.retry_at {
            return Ok(None);
        }
        match self.begin(topic, settings) {
            Ok(change) => Ok(Some(change)),
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "cannot begin to read the partitions assigned, trying again");
                self.retry_at = Instant::now() + RETRY;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Where the partitions that arrive are read from.
    fn begin(&self, topic: &Topic, settings: &KafkaSettings) -> Result<Change, KafkaError> {
        let arriving = self.arriving.as_deref().unwrap_or_default();
        let found = topic.look(TIMEOUT)?;
        let commits = committed(topic, settings.group(), arriving.iter().copied(), TIMEOUT)?;
        self.check_writers(&commits, settings)?;
        let mut offsets = first_offsets(settings, topic, &found, TIMEOUT)?;
        offsets.retain(|partition, _| arriving.contains(partition));
        for (partition, next) in &mut offsets {
            if let Some(commit) = commits.get(partition) {
                *next = commit.offset;
            }
        }
        Ok(Change::Assigned(found, offsets))
    }

    /// Somebody else's commits would make this group skip events. A daemon of the same bundle may have been here before.
    fn check_writers(&self, commits: &Commits, settings: &KafkaSettings) -> Result<(), KafkaError> {
        for commit in commits.values() {
            let theirs = Writer::parse(&commit.metadata);
            if theirs.is_some_and(|theirs| theirs.bundle != self.writer.bundle) {
                return Err(KafkaError::ForeignCommit {
                    group: settings.group().to_owned(),
                    topic: settings.topic.clone(),
                    ours: self.writer.to_string(),
                    theirs: commit.metadata.clone(),
                });
            }
        }
        Ok(())
    }

    /// Begins to read what was assigned, at the positions of `progress`.
    pub(super) fn accept(&mut self, progress: &Progress) -> Result<(), KafkaError> {
        let arriving = self.arriving.take().unwrap_or_default();
        let positions = progress.offsets();
        let own = arriving.iter().filter_map(|partition| {
            let next = positions.get(partition)?;
            Some((*partition, *next))
        });
        let list = partition_list(&self.topic, own)?;
        self.consumer.incremental_assign(&list).map_err(fatal)
    }

    /// Gives back what was revoked; others read it from now on.
    pub(super) fn release(&mut self) -> Result<(), KafkaError> {
        let Some(leaving) = self.leaving.take() else {
            return Ok(());
        };
        let list = self.list(&leaving);
        self.consumer.incremental_unassign(&list).map_err(fatal)
    }

    /// Whether others may read what this member reads.
    pub(super) fn has_lost(&self) -> bool {
        self.consumer.assignment_lost()
    }

    pub(super) fn seek(&self, progress: &Progress) -> Result<(), KafkaError> {
        let list = partition_list(&self.topic, progress.offsets().into_iter())?;
        let sought = self.consumer.seek_partitions(list, TIMEOUT);
        for element in sought.map_err(fatal)?.elements() {
            if let Err(error) = element.error() {
                tracing::warn!(partition = element.partition(), error = %describe(&error), "cannot seek");
            }
        }
        Ok(())
    }

    /// Holds records back, or no longer.
    pub(super) fn pause(&self, pause: bool) {
        let outcome = self.consumer.assignment().and_then(|list| {
            if pause {
                self.consumer.pause(&list)
            } else {
                self.consumer.resume(&list)
            }
        });
        if let Err(error) = outcome {
            tracing::warn!(error = %describe(&error), pause, "cannot pause or resume partitions");
        }
    }

    /// Leaves the group, so that others get its partitions at once. What was read must be settled.
    pub(super) fn leave(&mut self, timeout: Duration) {
        self.answer_all();
        self.consumer.unsubscribe();
        let deadline = Instant::now() + timeout;
        while Instant::now() < deadline
            && self
                .consumer
                .assignment()
                .is_ok_and(|list| list.count() > 0)
        {
            // Records that still arrive were never read.
            let _ = self.consumer.poll(Duration::from_millis(20));
        }
    }

    /// Answers rebalances that are open, and lets the client answer further ones itself.
    fn answer_all(&mut self) {
        let context = self.consumer.context();
        context.defers.store(false, Ordering::Release);
        let arriving = self.arriving.take().map(Rebalance::Assign);
        let leaving = self.leaving.take().map(|partitions| Rebalance::Revoke {
            partitions,
            lost: false,
        });
        let waiting = std::iter::from_fn(|| context.next_rebalance());
        for rebalance in arriving.into_iter().chain(leaving).chain(waiting) {
            let outcome = match rebalance {
                // Accepted without a partition: nothing is read any more.
                Rebalance::Assign(_) => self.consumer.incremental_assign(&self.list(&[])),
                Rebalance::Revoke { partitions, .. } => {
                    self.consumer.incremental_unassign(&self.list(&partitions))
                }
            };
            if let Err(error) = outcome {
                tracing::debug!(error = %describe(&error), "could not answer a rebalance");
            }
        }
    }

    fn list(&self, partitions: &[i32]) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            let mut element = list.add_partition(&self.topic, *partition);
            // Without an offset; it cannot be refused.
            let _ = element.set_offset(Offset::Invalid);
        }
        list
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.answer_all();
    }
}
