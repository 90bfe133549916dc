//! Memory of what waits: events for their labels, and labels for their events. Alone in its process, because the bytes of
//! all threads are counted.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]
#![allow(unsafe_code, reason = "an allocator's methods are unsafe")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicIsize, Ordering},
};

use ostar_engine::{Generator, Inputs, Rows};
use ostar_method::{
    Deployed,
    learner::{ArrivedLabel, BlockEvent, LabelUse, Learner, LearnerSettings},
    proportions::LabelProportions,
};

const WAITING: usize = 100_000;
const BLOCK: usize = 500;
/// With ids of up to 16 bytes and two classes. Two books took 255 of an event.
const MOST_OF_AN_EVENT: isize = 153;
const MOST_OF_A_LABEL: isize = 130;

/// Counts bytes in use, in steps of 16, as allocators give them out.
struct Counting;

static IN_USE: AtomicIsize = AtomicIsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn bytes(layout: Layout) -> isize {
    layout.size().next_multiple_of(16) as isize
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(bytes(layout), Ordering::Relaxed);
        // SAFETY: the caller's promises are those of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(bytes(layout), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Certain probabilities of two classes, half of the rows each, and these classes.
fn rows(count: usize, generator: &mut Generator) -> (Vec<f32>, Vec<u32>) {
    let (mut rows, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let label = u32::from(generator.uniform() < 0.5);
        let right = 0.6 + 0.4 * generator.uniform() as f32;
        let wrong = 1.0 - right;
        rows.extend(if label == 0 { [right, wrong] } else { [wrong, right] });
        labels.push(label);
    }
    (rows, labels)
}

/// Bytes that a learner has more after a stream of which every event waits, and every block brings `early` labels of
/// events that are still to come.
fn bytes_after(labels: Option<LabelUse>, early: usize) -> isize {
    let mut generator = Generator::new(1);
    let (held_out, classes) = rows(2_000, &mut generator);
    let deployed = Deployed::black_box(&held_out, classes, LabelProportions::uniform(2)).unwrap();
    let settings = LearnerSettings {
        labels,
        ..LearnerSettings::default()
    };
    let before = IN_USE.load(Ordering::Relaxed);
    let mut learner = Learner::new(&deployed, settings).unwrap();
    for block in 0..WAITING / BLOCK {
        let (values, _) = rows(BLOCK, &mut generator);
        let inputs = Inputs::Dense(Rows::new(&values[..], 2).unwrap());
        let scores = learner.model().scores(inputs).unwrap();
        let name = |prefix: &str, row: usize| format!("{prefix}-{:06}", block * BLOCK + row);
        let ids: Vec<String> = (0..BLOCK).map(|row| name("event", row)).collect();
        let event = |id| BlockEvent {
            id: Some(id),
            time_ms: 0,
            sent: None,
        };
        let events: Vec<BlockEvent<'_>> = ids.iter().map(|id| event(id.as_str())).collect();
        let label = |row| ArrivedLabel {
            id: name("later", row).into(),
            class: 0,
            time_ms: 0,
        };
        let labels: Vec<ArrivedLabel> = (0..early).map(label).collect();
        learner.follow(scores.all(), None).unwrap();
        learner.close(&events, &labels).unwrap();
    }
    IN_USE.load(Ordering::Relaxed) - before
}

#[test]
fn a_hundred_thousand_events_and_labels_wait_in_few_bytes() {
    let nothing = bytes_after(None, 0);
    let events = bytes_after(Some(LabelUse::default()), 0) - nothing;
    let both = bytes_after(Some(LabelUse::default()), BLOCK) - nothing;
    let [of_event, of_label] = [events, both - events].map(|bytes| bytes / WAITING as isize);
    assert!(
        of_event <= MOST_OF_AN_EVENT && of_label <= MOST_OF_A_LABEL,
        "{of_event} bytes an event, {of_label} a label"
    );
}
