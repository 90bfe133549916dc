//! A team of threads that run one function together, each on its own rows.
//!
//! Jobs are plain functions on shared state: starting one allocates nothing and needs no unsafe code. Steps follow each
//! other within microseconds, so a waiting thread spins first and sleeps only when idle.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use parking_lot::Mutex;

/// Spins before a waiting thread yields its core, and before an idle helper parks.
const SPINS: usize = 2_000;

/// A function that every member runs, with the shared state and its own membership.
pub(crate) type Job<S> = fn(&S, &Member);

/// Helper threads, and what they share with the caller, which is member 0.
pub(crate) struct Team<S: Send + Sync + 'static> {
    shared: Arc<Shared<S>>,
    helpers: Vec<JoinHandle<()>>,
}

/// One thread's membership in the team.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) rank: usize,
    exchange: Arc<Exchange>,
}

struct Shared<S> {
    state: S,
    /// The job of the current round.
    job: Mutex<Option<Job<S>>>,
    /// Counts jobs. Helpers wait for a change; closing changes it too, to wake them.
    round: AtomicUsize,
    /// Helpers that have finished the current round.
    finished: AtomicUsize,
    /// Set before the last change of `round`: helpers return.
    closing: AtomicBool,
    members: Vec<Member>,
}

/// Barrier at which members exchange partial sums in the middle of a job.
#[derive(Debug)]
struct Exchange {
    members: usize,
    arrived: AtomicUsize,
    turn: AtomicUsize,
    /// Set when a member panics, so that the others do not wait for it forever.
    broken: AtomicBool,
    /// One slot for each member, for even and for odd turns: a fast member fills its slot of the next turn while a slow
    /// one still reads this turn's.
    slots: [Vec<Mutex<Vec<f64>>>; 2],
}

// === impl Team ===

impl<S: Send + Sync + 'static> Team<S> {
    /// Starts the threads. `state` makes what the members share, and may keep their memberships in it.
    pub(crate) fn new(count: usize, state: impl FnOnce(&[Member]) -> S) -> std::io::Result<Self> {
        let members = Member::all(count);
        let shared = Arc::new(Shared {
            state: state(&members),
            job: Mutex::new(None),
            round: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            members,
        });
        let helpers = (1..count)
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

    /// Runs `job` on every member and returns when all have finished. `&mut self`: there is one job at a time.
    ///
    /// # Panics
    /// When the job panics in any member. The team cannot be used afterwards.
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
            !shared.members[0].exchange.broken.load(Ordering::Acquire),
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
            // `run` has already reported a helper's panic.
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
                if spins > SPINS {
                    thread::park();
                } else {
                    std::hint::spin_loop();
                }
            }
            seen = seen.wrapping_add(1);
            if self.closing.load(Ordering::Acquire) {
                return;
            }
            let job = *self.job.lock();
            if let Some(job) = job {
                // The panic hook has printed the message. `run` sees `broken` and panics in the caller.
                let _ = catch_unwind(AssertUnwindSafe(|| self.work(job, rank)));
            }
            self.finished.fetch_add(1, Ordering::Release);
        }
    }

    fn work(&self, job: Job<S>, rank: usize) {
        let member = &self.members[rank];
        let breaker = BreakOnUnwind(&member.exchange.broken);
        job(&self.state, member);
        // Not reached when the job panics: then `breaker` is dropped and sets `broken`.
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

impl Member {
    /// The members of a team of so many.
    pub(crate) fn all(count: usize) -> Vec<Self> {
        let slots = || (0..count).map(|_| Mutex::default()).collect();
        let exchange = Arc::new(Exchange {
            members: count,
            arrived: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            slots: [slots(), slots()],
        });
        let member = |rank| Self {
            rank,
            exchange: Arc::clone(&exchange),
        };
        (0..count).map(member).collect()
    }

    pub(crate) fn members(&self) -> usize {
        self.exchange.members
    }

    /// The part of `rows` rows that this member handles.
    pub(crate) fn rows(&self, rows: usize) -> std::ops::Range<usize> {
        let members = self.members();
        rows * self.rank / members..rows * (self.rank + 1) / members
    }

    /// Waits until every member has called this, then visits all members' `numbers` in the order of ranks. Every member
    /// combines the same numbers in the same order, so all get the same bytes.
    pub(crate) fn gather(&self, numbers: &[f64], mut visit: impl FnMut(&[f64])) {
        if self.members() == 1 {
            return visit(numbers);
        }
        let turn = self.exchange.turn.load(Ordering::Acquire);
        let slots = &self.exchange.slots[turn % 2];
        {
            let mut slot = slots[self.rank].lock();
            numbers.clone_into(&mut slot);
        }
        self.exchange.wait(turn);
        for slot in slots {
            visit(&slot.lock());
        }
    }

    /// Replaces `numbers` by their sum over all members.
    pub(crate) fn sum(&self, numbers: &mut [f64], scratch: &mut Vec<f64>) {
        numbers.clone_into(scratch);
        numbers.fill(0.0);
        self.gather(scratch, |part| {
            for (sum, number) in numbers.iter_mut().zip(part) {
                *sum += number;
            }
        });
    }
}

// === impl Exchange ===

impl Exchange {
    fn wait(&self, turn: usize) {
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.members {
            // The others see this before they can arrive again: they wait for `turn`, stored after it with Release.
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
        if spins > SPINS {
            thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_meet_in_every_turn_and_see_the_same_sums() {
        let state: Vec<Mutex<Vec<f64>>> = (0..3).map(|_| Mutex::default()).collect();
        let mut team = Team::new(3, |_| state).unwrap();
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
        let mut team = Team::new(2, |_| ()).unwrap();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            team.run(|(), member| {
                assert!(member.rank == 0, "broken on purpose");
                member.gather(&[1.0], |_| ());
            });
        }));
        assert!(outcome.is_err());
    }
}
