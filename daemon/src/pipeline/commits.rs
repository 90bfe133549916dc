//! How far outputs are, for the checkpoint and for the consumer group.

use std::{
    collections::btree_map::Entry,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use ostar_connectors::{event::Offsets, kafka::Committer};
use tracing::warn;

use crate::metrics::Metrics;

/// In each partition, the offset behind the last event whose output is delivered or parked, and all before it. Written by
/// emission, read for checkpoints.
#[derive(Debug, Default)]
pub(crate) struct Emitted {
    offsets: Mutex<Offsets>,
}

/// Commits to the group what emission has settled. The group is for lag tools, and tells a start after a crash what was
/// emitted since the last checkpoint.
pub(crate) struct Commits {
    committer: Committer,
    emitted: Arc<Emitted>,
    /// Offsets that no commit has acknowledged yet.
    pending: Offsets,
    renewed: Instant,
    metrics: Arc<Metrics>,
}

/// All partitions are committed this often, so that the broker does not forget those without events: by default it keeps
/// a commit for seven days.
const RENEW_EVERY: Duration = Duration::from_secs(600);

// === impl Emitted ===

impl Emitted {
    pub(crate) fn new(offsets: Offsets) -> Arc<Self> {
        Arc::new(Self {
            offsets: Mutex::new(offsets),
        })
    }

    pub(crate) fn get(&self) -> Offsets {
        let offsets = self.offsets.lock();
        offsets.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Moves the offsets forward, never back. Events that are read again only to be learned were emitted before.
    fn raise(&self, settled: &Offsets) {
        let offsets = self.offsets.lock();
        let mut offsets = offsets.unwrap_or_else(PoisonError::into_inner);
        for (partition, offset) in settled {
            match offsets.entry(*partition) {
                Entry::Vacant(entry) => drop(entry.insert(*offset)),
                Entry::Occupied(mut entry) => {
                    let known = *entry.get();
                    entry.insert(known.max(*offset));
                }
            }
        }
    }
}

impl Emitted {
    /// These partitions begin anew.
    fn rewind(&self, rewound: &Offsets) {
        let offsets = self.offsets.lock();
        offsets
            .unwrap_or_else(PoisonError::into_inner)
            .extend(rewound);
    }
}

// === impl Commits ===

impl Commits {
    pub(crate) fn new(committer: Committer, emitted: Arc<Emitted>, metrics: Arc<Metrics>) -> Self {
        Self {
            committer,
            emitted,
            pending: Offsets::new(),
            renewed: Instant::now(),
            metrics,
        }
    }

    /// Outputs of events before these offsets are delivered or parked.
    pub(crate) fn settle(&mut self, settled: &Offsets) {
        self.emitted.raise(settled);
        let emitted = self.emitted.get();
        for partition in settled.keys() {
            if let Some(offset) = emitted.get(partition) {
                self.pending.insert(*partition, *offset);
            }
        }
    }

    /// These partitions begin anew: the group's offsets go back, this once.
    pub(crate) fn rewind(&mut self, rewound: &Offsets) {
        self.emitted.rewind(rewound);
        self.pending.extend(rewound);
    }

    /// Commits what is settled. What the broker does not take is committed again the next time.
    pub(crate) fn commit(&mut self, and_wait: bool) {
        self.take_failed();
        if self.renewed.elapsed() >= RENEW_EVERY {
            self.renewed = Instant::now();
            self.pending = self.emitted.get();
        }
        if self.pending.is_empty() {
            return;
        }
        let committed = if and_wait {
            self.committer.commit_and_wait(&self.pending)
        } else {
            self.committer.commit(&self.pending)
        };
        match committed {
            Ok(()) => self.pending.clear(),
            Err(error) => {
                self.metrics.outputs.commit_failed();
                warn!(%error, "cannot commit offsets to the group, trying again");
            }
        }
    }

    /// Takes commits back that failed without being waited for.
    fn take_failed(&mut self) {
        let failed = self.committer.take_failed();
        if failed.is_empty() {
            return;
        }
        self.metrics.outputs.commit_failed();
        for (partition, offset) in failed {
            self.pending.entry(partition).or_insert(offset);
        }
    }
}
