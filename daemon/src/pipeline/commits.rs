//! How far outputs are, for the checkpoint and for the consumer group.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use ostar_connectors::{event::Offsets, kafka::KafkaError};
use parking_lot::Mutex;
use tracing::warn;

use crate::metrics::Metrics;

/// In each partition, the offset behind the last event whose output is delivered or parked, and all before it. Written by
/// emission, read for checkpoints.
#[derive(Debug, Default)]
pub(crate) struct Emitted {
    offsets: Mutex<Offsets>,
}

/// Commits to the group what emission has settled. The group is for lag tools, and tells a start after a crash what was
/// emitted since the last checkpoint. A thread waits for the broker's answers: without waiting nobody learns of a failure,
/// and emission must not wait while no broker answers.
pub(crate) struct Commits {
    emitted: Arc<Emitted>,
    /// Room for one: there is at most one commit under way. Dropped to end the thread.
    to_thread: Sender<Offsets>,
    outcomes: Receiver<Result<(), KafkaError>>,
    /// What the thread commits.
    under_way: Option<Offsets>,
    /// Offsets that no commit has acknowledged yet.
    pending: Offsets,
    renewed: Instant,
    renew_every: Duration,
    /// The thread has ended, which only a panic does.
    dead: bool,
    metrics: Arc<Metrics>,
}

/// All partitions are committed this often, so that the broker does not forget those without events: by default it keeps
/// a commit for seven days.
const RENEW_EVERY: Duration = Duration::from_secs(600);

/// Pause between two attempts to commit what must be committed.
const RETRY: Duration = Duration::from_millis(50);

// === impl Emitted ===

impl Emitted {
    pub(crate) fn new(offsets: Offsets) -> Arc<Self> {
        Arc::new(Self {
            offsets: Mutex::new(offsets),
        })
    }

    pub(crate) fn get(&self) -> Offsets {
        self.offsets.lock().clone()
    }

    /// Moves the offsets forward, never back. Events that are read again only to be learned were emitted before.
    fn raise(&self, settled: &Offsets) {
        let mut offsets = self.offsets.lock();
        for (partition, offset) in settled {
            let known = offsets.entry(*partition).or_insert(*offset);
            *known = (*known).max(*offset);
        }
    }

    fn forget(&self, partitions: &[i32]) {
        self.offsets
            .lock()
            .retain(|partition, _| !partitions.contains(partition));
    }

    /// These partitions begin anew.
    fn rewind(&self, rewound: &Offsets) {
        self.offsets.lock().extend(rewound);
    }
}

// === impl Commits ===

impl Commits {
    /// `commit` waits for the broker's answer.
    pub(crate) fn start(
        commit: impl Fn(&Offsets) -> Result<(), KafkaError> + Send + 'static,
        emitted: Arc<Emitted>,
        metrics: Arc<Metrics>,
    ) -> Result<Self> {
        let (to_thread, batches) = bounded::<Offsets>(1);
        let (report, outcomes) = bounded(1);
        let serve = move || {
            for batch in batches {
                fail::fail_point!("commits");
                if report.send(commit(&batch)).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("commits".to_owned());
        // Not joined: it may wait for a broker that is away, and the process must end in time.
        thread
            .spawn(serve)
            .context("cannot start the commits thread")?;
        Ok(Self {
            emitted,
            to_thread,
            outcomes,
            under_way: None,
            pending: Offsets::new(),
            renewed: Instant::now(),
            renew_every: RENEW_EVERY,
            dead: false,
            metrics,
        })
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

    /// Others read these partitions from now on: nothing of them is committed any more.
    pub(crate) fn forget(&mut self, partitions: &[i32]) {
        self.emitted.forget(partitions);
        self.pending
            .retain(|partition, _| !partitions.contains(partition));
    }

    /// Commits what is settled, again and again until the broker has taken it or the time is over.
    pub(crate) fn commit_all(&mut self, wait: Duration) {
        let deadline = Instant::now() + wait;
        loop {
            self.commit(deadline.saturating_duration_since(Instant::now()));
            let is_done = self.under_way.is_none() && self.pending.is_empty();
            if is_done || Instant::now() >= deadline {
                return;
            }
            thread::sleep(RETRY);
        }
    }

    /// Commits what is settled, and waits at most so long for the answer; then the commit goes on in the background. What
    /// the broker does not take is committed again the next time.
    pub(crate) fn commit(&mut self, wait: Duration) {
        let deadline = Instant::now() + wait;
        self.take_outcome(deadline);
        if self.renewed.elapsed() >= self.renew_every {
            self.renewed = Instant::now();
            self.pending = self.emitted.get();
        }
        if self.under_way.is_some() || self.pending.is_empty() {
            return;
        }
        let batch = std::mem::take(&mut self.pending);
        match self.to_thread.try_send(batch.clone()) {
            Ok(()) => {
                self.under_way = Some(batch);
                self.take_outcome(deadline);
            }
            // It takes the next batch soon.
            Err(TrySendError::Full(batch)) => self.pending = batch,
            Err(TrySendError::Disconnected(_)) => self.dead = true,
        }
    }

    /// Fails once the thread has died: nothing would be committed any more.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(!self.dead, "the commits thread failed: panicked");
        Ok(())
    }

    /// Takes the answer to the commit under way, if it comes in time.
    fn take_outcome(&mut self, deadline: Instant) {
        if self.under_way.is_none() {
            return;
        }
        let outcome = match self.outcomes.recv_deadline(deadline) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => return,
            Err(RecvTimeoutError::Disconnected) => {
                self.dead = true;
                return;
            }
        };
        let batch = self.under_way.take().unwrap_or_default();
        if let Err(error) = outcome {
            self.metrics.outputs.commit_failures.inc();
            warn!(%error, "cannot commit offsets to the group, trying again");
            for (partition, offset) in batch {
                self.pending.entry(partition).or_insert(offset);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, sync::mpsc};

    use super::*;
    use crate::serving::fixture;

    const WAIT: Duration = Duration::from_secs(30);

    /// A broker that gives these answers, and then takes everything.
    fn commits(answers: Vec<bool>, emitted: &[(i32, i64)]) -> (Commits, mpsc::Receiver<Offsets>) {
        let (sender, arrived) = mpsc::channel();
        let answers = Mutex::new(VecDeque::from(answers));
        let commit = move |offsets: &Offsets| {
            sender.send(offsets.clone()).unwrap();
            match answers.lock().pop_front() {
                Some(false) => Err(KafkaError::Group {
                    group: "g".to_owned(),
                    reason: "coordinator not available".to_owned(),
                }),
                _ => Ok(()),
            }
        };
        let emitted = Emitted::new(emitted.iter().copied().collect());
        let metrics = fixture::metrics(&fixture::bundle());
        (Commits::start(commit, emitted, metrics).unwrap(), arrived)
    }

    fn failures(commits: &Commits) -> u64 {
        let text = commits.metrics.counted();
        let mut lines = text.lines();
        let count = lines.find_map(|line| line.strip_prefix("ostar_commit_failures_total "));
        count.unwrap().parse().unwrap()
    }

    #[test]
    fn a_failed_commit_is_counted_and_made_again_with_newer_offsets_where_there_are_any() {
        let (mut commits, arrived) = commits(vec![false], &[(0, 5), (1, 5)]);
        commits.settle(&Offsets::from([(0, 10), (1, 7)]));
        commits.commit(WAIT);
        assert_eq!(arrived.recv().unwrap(), Offsets::from([(0, 10), (1, 7)]));
        assert_eq!(failures(&commits), 1);
        commits.settle(&Offsets::from([(0, 12)]));
        commits.commit(WAIT);
        assert_eq!(arrived.recv().unwrap(), Offsets::from([(0, 12), (1, 7)]));
        // Nothing is left to commit.
        commits.commit(WAIT);
        assert!(arrived.try_recv().is_err());
        assert_eq!(failures(&commits), 1);
    }

    #[test]
    fn a_partition_that_was_given_back_is_committed_before_and_never_after() {
        let (mut commits, arrived) = commits(vec![false], &[(0, 5), (1, 3)]);
        commits.settle(&Offsets::from([(0, 6), (1, 4)]));
        commits.commit_all(WAIT);
        assert_eq!(arrived.recv().unwrap(), Offsets::from([(0, 6), (1, 4)]));
        assert_eq!(arrived.recv().unwrap(), Offsets::from([(0, 6), (1, 4)]));
        commits.settle(&Offsets::from([(1, 9)]));
        commits.forget(&[1]);
        commits.renew_every = Duration::ZERO;
        commits.commit(WAIT);
        assert_eq!(arrived.recv().unwrap(), Offsets::from([(0, 6)]));
    }

    #[test]
    fn idle_partitions_are_renewed_when_that_is_due() {
        let (mut commits, arrived) = commits(Vec::new(), &[(0, 5), (1, 3)]);
        commits.settle(&Offsets::from([(0, 6)]));
        commits.commit(WAIT);
        assert_eq!(arrived.recv().unwrap(), Offsets::from([(0, 6)]));
        commits.renew_every = Duration::ZERO;
        commits.commit(WAIT);
        assert_eq!(arrived.recv().unwrap(), Offsets::from([(0, 6), (1, 3)]));
        assert!(commits.renew_every < RENEW_EVERY);
    }
}
