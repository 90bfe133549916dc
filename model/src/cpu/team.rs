//! A team of threads that run one function together, each on its own rows.
//!
//! Jobs are plain functions on shared state, so there is nothing to allocate and no lifetime to erase.
//! Steps follow each other within microseconds, so waiting spins first and sleeps only when idle.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use parking_lot::Mutex;

/// Spins before a waiting thread yields its core, and before an idle helper goes to sleep.
const SPINS: usize = 2_000;

/// What every member runs: the shared state, and which member it is.
pub(crate) type Job<S> = fn(&S, &Member<'_>);

/// Helper threads and what they share with the caller, who is member 0.
pub(crate) struct Team<S: Send + Sync + 'static> {
    shared: Arc<Shared<S>>,
    helpers: Vec<JoinHandle<()>>,
}

/// A member's view of the team while a job runs.
pub(crate) struct Member<'a> {
    pub(crate) rank: usize,
    meeting: &'a Meeting,
}

struct Shared<S> {
    state: S,
    /// The job of the current round.
    job: Mutex<Option<Job<S>>>,
    /// Counts jobs; helpers wait for it to move. Also set to wake helpers for the end.
    round: AtomicUsize,
    /// Helpers that have finished the current round.
    finished: AtomicUsize,
    /// Tells helpers to return.
    closing: AtomicBool,
    meeting: Meeting,
}

/// Where members exchange partial sums in the middle of a job.
struct Meeting {
    members: usize,
    arrived: AtomicUsize,
    turn: AtomicUsize,
    /// Set when a member panics, so that the others do not wait for it for ever.
    broken: AtomicBool,
    /// What members bring, by parity of the turn: a fast member fills the next turn's slot while a
    /// slow one still reads this turn's.
    slots: [Vec<Mutex<Vec<f64>>>; 2],
}

// === impl Team ===

impl<S: Send + Sync + 'static> Team<S> {
    pub(crate) fn new(members: usize, state: S) -> std::io::Result<Self> {
        let slots = || (0..members).map(|_| Mutex::default()).collect();
        let shared = Arc::new(Shared {
            state,
            job: Mutex::new(None),
            round: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            meeting: Meeting {
                members,
                arrived: AtomicUsize::new(0),
                turn: AtomicUsize::new(0),
                broken: AtomicBool::new(false),
                slots: [slots(), slots()],
            },
        });
        let helpers = (1..members)
            .map(|rank| {
                let shared = Arc::clone(&shared);
                thread::Builder::new()
                    .name(format!("ostar-helper-{rank}"))
                    .spawn(move || shared.help(rank))
            })
            .collect::<std::io::Result<_>>()?;
        Ok(Self { shared, helpers })
    }

    pub(crate) fn state(&self) -> &S {
        &self.shared.state
    }

    pub(crate) fn members(&self) -> usize {
        self.shared.meeting.members
    }

    /// Runs `job` on every member and returns when all have finished. `&mut self` because there is one
    /// job at a time.
    ///
    /// # Panics
    /// When the job panicked in any member; the team cannot be used any more.
    pub(crate) fn run(&mut self, job: Job<S>) {
        let shared = &*self.shared;
        *shared.job.lock() = Some(job);
        shared.finished.store(0, Ordering::Relaxed);
        shared.round.fetch_add(1, Ordering::Release);
        for helper in &self.helpers {
            helper.thread().unpark();
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| shared.work(job, 0)));
        wait_until(|| shared.finished.load(Ordering::Acquire) == self.helpers.len());
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
        assert!(
            !shared.meeting.broken.load(Ordering::Acquire),
            "a helper thread panicked"
        );
    }
}

impl<S: Send + Sync + 'static> Drop for Team<S> {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        self.shared.round.fetch_add(1, Ordering::Release);
        for helper in self.helpers.drain(..) {
            helper.thread().unpark();
            // A helper that panicked has reported it in `run`.
            let _ = helper.join();
        }
    }
}

// === impl Shared ===

impl<S> Shared<S> {
    fn help(&self, rank: usize) {
        let mut seen = 0;
        loop {
            let mut spins = 0;
            while self.round.load(Ordering::Acquire) == seen {
                spins += 1;
                match spins > SPINS {
                    true => thread::park(),
                    false => std::hint::spin_loop(),
                }
            }
            seen = seen.wrapping_add(1);
            if self.closing.load(Ordering::Acquire) {
                return;
            }
            let job = *self.job.lock();
            if let Some(job) = job {
                // The panic's message has been printed by the hook; `run` reports it to the caller.
                let _ = catch_unwind(AssertUnwindSafe(|| self.work(job, rank)));
            }
            self.finished.fetch_add(1, Ordering::Release);
        }
    }

    fn work(&self, job: Job<S>, rank: usize) {
        let breaker = BreakOnUnwind(&self.meeting.broken);
        job(
            &self.state,
            &Member {
                rank,
                meeting: &self.meeting,
            },
        );
        std::mem::forget(breaker);
    }
}

struct BreakOnUnwind<'a>(&'a AtomicBool);

impl Drop for BreakOnUnwind<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

// === impl Member ===

impl Member<'_> {
    pub(crate) fn members(&self) -> usize {
        self.meeting.members
    }

    /// This member's share of `rows`.
    pub(crate) fn rows(&self, rows: usize) -> std::ops::Range<usize> {
        let members = self.members();
        rows * self.rank / members..rows * (self.rank + 1) / members
    }

    /// Brings `numbers`, waits for all, and shows what each member brought, in order of rank, so that
    /// every member combines the same numbers in the same order.
    pub(crate) fn gather(&self, numbers: &[f64], mut visit: impl FnMut(&[f64])) {
        if self.members() == 1 {
            return visit(numbers);
        }
        let turn = self.meeting.turn.load(Ordering::Acquire);
        let slots = &self.meeting.slots[turn % 2];
        {
            let mut slot = slots[self.rank].lock();
            slot.clear();
            slot.extend_from_slice(numbers);
        }
        self.meeting.wait(turn);
        for slot in slots {
            visit(&slot.lock());
        }
    }

    /// Replaces `numbers` by their sum over all members.
    pub(crate) fn sum(&self, numbers: &mut [f64], scratch: &mut Vec<f64>) {
        scratch.clear();
        scratch.extend_from_slice(numbers);
        numbers.fill(0.0);
        self.gather(scratch, |brought| {
            for (sum, number) in numbers.iter_mut().zip(brought) {
                *sum += number;
            }
        });
    }
}

// === impl Meeting ===

impl Meeting {
    fn wait(&self, turn: usize) {
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.members {
            self.arrived.store(0, Ordering::Relaxed);
            self.turn.store(turn.wrapping_add(1), Ordering::Release);
            return;
        }
        wait_until(|| {
            assert!(
                !self.broken.load(Ordering::Relaxed),
                "another member of the team panicked"
            );
            self.turn.load(Ordering::Acquire) != turn
        });
    }
}

fn wait_until(mut done: impl FnMut() -> bool) {
    let mut spins = 0;
    while !done() {
        spins += 1;
        match spins > SPINS {
            true => thread::yield_now(),
            false => std::hint::spin_loop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_meet_in_every_turn_and_see_the_same_sums() {
        let state: Vec<Mutex<Vec<f64>>> = (0..3).map(|_| Mutex::default()).collect();
        let mut team = Team::new(3, state).unwrap();
        for _ in 0..100 {
            team.run(|state, member| {
                let mut scratch = Vec::new();
                let mut seen = Vec::new();
                for turn in 0..20 {
                    let mut numbers = [(member.rank * 100 + turn) as f64];
                    member.sum(&mut numbers, &mut scratch);
                    seen.push(numbers[0]);
                }
                *state[member.rank].lock() = seen;
            });
            for slot in team.state() {
                let expected: Vec<f64> = (0..20).map(|turn| f64::from(300 + 3 * turn)).collect();
                assert_eq!(*slot.lock(), expected);
            }
        }
    }

    #[test]
    fn a_panic_in_one_member_reaches_the_caller_instead_of_hanging() {
        let mut team = Team::new(2, ()).unwrap();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            team.run(|(), member| {
                assert!(member.rank == 0, "broken on purpose");
                member.gather(&[1.0], |_| ());
            });
        }));
        assert!(outcome.is_err());
    }
}
