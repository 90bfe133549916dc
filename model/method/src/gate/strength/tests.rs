use ostar_engine::{Generator, argmax};

use super::*;
use crate::proportions::{LabelProportions, prior_correct};

fn change(reach: f32) -> Change {
    Change {
        class: 1,
        reach,
        shift: 3.0,
    }
}

/// Ten labels a block on changes that are right where their reach is below `extent`, with a slope of one.
fn judged(extent: f64, blocks: u64) -> Strengths {
    let mut generator = Generator::new(11);
    let mut strengths = Strengths::default();
    for block in 1..=blocks {
        strengths.age(0.95);
        let rows: Vec<Option<Change>> = (0..100)
            .map(|row| (row % 2 == 0).then(|| change(row as f32 / 100.0)))
            .collect();
        strengths.note_changes(block, &rows);
        for _ in 0..10 {
            let change = rows[2 * generator.below(50)].unwrap();
            let odds = f64::from(change.shift) * (extent - f64::from(change.reach));
            let is_right = generator.uniform() < ln_logistic(odds).exp();
            strengths.add(block, 1.0, change, is_right);
        }
    }
    strengths.judge(blocks + 1);
    strengths
}

fn best(strengths: &Strengths) -> Judged {
    let judged = strengths.judged().iter().copied();
    judged.max_by(|a, b| a.gain.total_cmp(&b.gain)).unwrap()
}

#[test]
fn a_change_is_made_from_its_reach_on_as_correction_makes_it() {
    let training = LabelProportions::new(vec![0.6, 0.4]).unwrap();
    let stream = LabelProportions::new(vec![0.1, 0.9]).unwrap();
    let mut generator = Generator::new(3);
    let mut changes = 0;
    for _ in 0..200 {
        let first = generator.uniform() as f32;
        let frozen = [first, 1.0 - first];
        let mut whole = frozen;
        prior_correct(&mut whole, &training, &stream);
        let classes = [argmax(&frozen) as u32, argmax(&whole) as u32];
        let change = Change::new(&frozen, &whole, classes);
        for strength in [0.2, 0.5, 0.8] {
            let mut corrected = frozen;
            let tempered = training.towards(&stream, strength);
            prior_correct(&mut corrected, &training, &tempered);
            let is_changed = argmax(&corrected) != argmax(&frozen);
            let expected = change.is_some_and(|change| Change::is_made_at(change.reach, strength));
            assert_eq!(is_changed, expected, "{frozen:?} {strength} {change:?}");
        }
        changes += u32::from(change.is_some());
    }
    assert!(changes > 20, "{changes}");
}

#[test]
fn labels_find_the_strength_that_gains_most() {
    for (extent, expected) in [(1.5, 1.0), (0.5, 0.5)] {
        let found = best(&judged(extent, 40));
        assert_eq!(found.strength, expected, "{extent}: {found:?}");
        assert!(found.chance > 0.9 && found.gain > 0.0, "{found:?}");
    }
    let backwards = judged(-0.5, 40);
    assert!(backwards.judged().iter().all(|one| one.chance < 0.1));
}

#[test]
fn few_labels_leave_it_open_and_none_say_nothing() {
    assert!(Strengths::default().judged().is_empty());
    let mut one = Strengths::default();
    one.note_changes(1, &[Some(change(0.5))]);
    one.add(1, 1.0, change(0.5), true);
    one.judge(2);
    assert!(
        one.judged().iter().all(|level| level.chance < 0.9),
        "{one:?}"
    );
    // What was said long ago says little of now.
    let mut old = judged(1.5, 40);
    let sure = old.judged()[3].chance;
    old.judge(140);
    assert!(sure > 0.95 && old.judged()[3].chance < 0.7, "{old:?}");
}

#[test]
fn counts_contradict_a_model_that_is_wrong() {
    // Wrong where the frozen model was least sure, right beyond: no logistic curve is like that.
    let mut strengths = Strengths::default();
    for block in 1..=10 {
        strengths.age(0.95);
        let rows: Vec<Option<Change>> = (0..100)
            .map(|row| Some(change(row as f32 / 100.0)))
            .collect();
        strengths.note_changes(block, &rows);
        for change in rows.into_iter().flatten() {
            strengths.add(block, 1.0, change, change.reach > 0.3);
        }
    }
    strengths.judge(11);
    let contradicted = strengths.judged().iter().map(|one| one.is_contradicted);
    assert!(contradicted.eq([true, true, false, false]), "{strengths:?}");
}

#[test]
fn a_block_that_changes_many_more_rows_is_beyond_what_labels_vouch_for() {
    let mut strengths = judged(1.5, 10);
    assert!(strengths.judged().iter().all(|one| !one.is_beyond_labels));
    strengths.note_changes(11, &[Some(change(0.6)); 100]);
    strengths.judge(12);
    let beyond: Vec<bool> = strengths
        .judged()
        .iter()
        .map(|one| one.is_beyond_labels)
        .collect();
    // Reach 0.6: the two weaker strengths change none of these rows.
    assert_eq!(beyond, [false, false, true, false]);
    strengths.note_changes(12, &[None; 100]);
    strengths.judge(13);
    assert!(strengths.judged().iter().all(|one| !one.is_beyond_labels));
}

#[test]
fn memory_is_bounded_and_forgetting_keeps_what_is_no_label() {
    let mut strengths = judged(1.5, 60);
    assert_eq!(strengths.labelled.len(), MOST_BLOCKS);
    assert_eq!(strengths.seen.len(), MOST_BLOCKS);
    let rows = strengths.seen.iter().map(|seen| seen.rows.len());
    assert!(rows.sum::<usize>() <= RECENT_BLOCKS * MOST_ROWS);
    strengths.forget_labels();
    strengths.judge(61);
    assert_eq!((strengths.labels(), strengths.judged().len()), (0.0, 0));
    assert_eq!(strengths.seen.len(), MOST_BLOCKS);
}

#[test]
fn any_probabilities_give_finite_numbers() {
    for (frozen, whole) in [
        ([1.0, 0.0], [0.0, 1.0]),
        ([0.5, 0.5], [0.5, 0.5]),
        ([0.0, 0.0], [0.0, f32::MIN_POSITIVE]),
    ] {
        let change = Change::new(&frozen, &whole, [0, 1]).unwrap();
        assert!(change.reach.is_finite() && (0.0..=1.0).contains(&change.reach));
        let mut strengths = Strengths::default();
        strengths.note_changes(1, &[Some(change)]);
        strengths.add(1, 1.0, change, true);
        strengths.judge(2);
        let finite = |one: &Judged| one.chance.is_finite() && one.gain.is_finite();
        assert!(strengths.judged().iter().all(finite), "{change:?}");
    }
}
