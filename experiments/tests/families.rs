//! Families of streams: the same for whoever asks, and apart in the two halves.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

use ostar_experiments::{
    gate::families::{Families, Family, Half, Trial},
    task::proportions,
};
use tempfile::tempdir;

/// Of an odd number, so that it needs no files.
fn made(families: &Families, family: Family) -> Trial {
    let world = families.world(family, 1).unwrap().unwrap();
    families.trial(&world, family, 1, 500).unwrap()
}

#[test]
fn a_stream_is_the_same_whoever_asks_first_and_another_in_the_other_half() {
    let folder = tempdir().unwrap();
    let families = Families::new(Half::Tuning, folder.path(), None);
    let streams = [Family::None, Family::Drift, Family::LabelShift].map(|family| (family, 1));
    assert_eq!(families.by_world(&streams).len(), 1, "one world");
    let (none, shift) = (
        made(&families, Family::None),
        made(&families, Family::LabelShift),
    );
    assert_eq!(none.bundle.digest(), shift.bundle.digest(), "one model");
    assert_eq!(none.reference.unwrap().count(), 500);
    let start = |trial: &Trial| proportions(&trial.stream.labels, trial.classes);
    let distance = |left: &[f64], right: &[f64]| {
        let both = left.iter().zip(right);
        both.map(|(left, right)| (left - right).abs()).sum::<f64>()
    };
    let moved = distance(&start(&none_again(folder.path())), &start(&shift));
    assert!(moved > 0.1, "{moved}");
    assert_eq!(none_again(folder.path()).stream, none.stream);

    let held_back = Families::new(Half::HeldBack, folder.path(), None);
    let other = made(&held_back, Family::None);
    assert_ne!(other.stream, none.stream);
}

fn none_again(folder: &std::path::Path) -> Trial {
    made(&Families::new(Half::Tuning, folder, None), Family::None)
}

#[test]
fn streams_of_a_real_set_are_left_out_without_its_file() {
    let folder = tempdir().unwrap();
    let families = Families::new(Half::Tuning, folder.path(), None);
    assert!(families.world(Family::None, 0).unwrap().is_none());
    assert_eq!(families.missing(), ["enron_spam.npz"]);
}
