//! The CPU engine allocates nothing once it is warm.

use std::time::Duration;

use ostar_engine::architecture::Norm;
use parking_lot::Mutex;

use crate::alignment::{Alignment, small_networks};
use crate::counting::allocations;

const STEPS: usize = 100;
const WARM_UP: usize = 3;
/// Odd, so that the threads have different numbers of rows.
const BATCH: usize = 33;

type Step = fn(&mut Alignment);

const STEP_KINDS: [(&str, Step); 5] = [
    ("critic step", |alignment| {
        alignment.critic_step().unwrap();
    }),
    ("map step", |alignment| {
        alignment.map_step().unwrap();
    }),
    ("classifier step", |alignment| {
        alignment.classifier_step(false).unwrap();
    }),
    ("classifier step with information maximisation", |a| {
        a.classifier_step(true).unwrap();
    }),
    ("score", |alignment| alignment.score().unwrap()),
];

/// parking_lot allocates its table of waiting threads when a thread first has to wait for a lock, once in a process.
/// The scheduler decides whether that happens in the warm-up or later, so force it here.
fn make_the_table_of_waiting_threads() {
    let lock = Mutex::new(());
    let _held = lock.lock();
    assert!(lock.try_lock_for(Duration::from_millis(1)).is_none());
}

pub(crate) fn warm_steps_allocate_nothing_on_any_thread() {
    make_the_table_of_waiting_threads();
    let noticed = allocations(|| drop(std::hint::black_box(vec![0u8; 64])));
    assert_eq!(noticed, 1, "the counter counts");

    for norm in [Norm::Batch, Norm::Layer, Norm::None] {
        for threads in [1, 2] {
            let mut alignment = Alignment::new(&small_networks(norm), BATCH, threads, 1).unwrap();
            for (name, step) in STEP_KINDS {
                for _ in 0..WARM_UP {
                    alignment.draw();
                    step(&mut alignment);
                }
                let count = allocations(|| {
                    for _ in 0..STEPS {
                        alignment.draw();
                        step(&mut alignment);
                    }
                });
                assert_eq!(count, 0, "{name}, {norm:?}, {threads} threads");
            }
        }
    }
}
