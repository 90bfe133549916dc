use ostar_engine::Generator;

use super::{
    LabelsOnPrior::{Preferred, Refuted, Undecided},
    *,
};

fn row(class: usize, predicted: [u32; 3]) -> LabelledRow<'static> {
    LabelledRow {
        class,
        predicted,
        change: changed(predicted),
        probabilities: &[],
        block: 1,
        age: 1,
        asked: false,
        asked_for_disagreement: true,
    }
}

/// Correction changes the class before it is half way.
fn changed([frozen, prior, _]: [u32; 3]) -> Option<Change> {
    let change = Change {
        class: prior,
        reach: 0.4,
        shift: 3.0,
    };
    (frozen != prior).then_some(change)
}

/// A block of a hundred rows of which correction changes so many.
fn block_of(changes: usize) -> Vec<Option<Change>> {
    let mut rows = vec![None; 100];
    rows[..changes].fill(changed([0, 1, 1]));
    rows
}

/// Blocks of ten labels on rows where prior says 1 and frozen 0; a share of them are 1.
fn tally(share: f64, blocks: usize) -> LabelTally {
    let mut generator = Generator::new(5);
    let mut tally = LabelTally::default();
    for _ in 0..blocks {
        tally.age();
        tally.note_changes(1, &block_of(20));
        for _ in 0..10 {
            let class = usize::from(generator.uniform() < share);
            tally.add(row(class, [0, 1, 1]));
        }
    }
    tally.judge(2);
    tally
}

#[test]
fn labels_on_disagreements_tell_which_candidate_is_right_and_others_do_not() {
    assert_eq!(LabelTally::default().weigh_prior(false), Undecided);
    assert_eq!(tally(0.8, 5).weigh_prior(false), Preferred(WHOLE));
    assert_eq!(tally(0.2, 5).weigh_prior(false), Refuted);
    let mut agreed = LabelTally::default();
    (0..100).for_each(|number| agreed.add(row(number % 2, [0, 0, 0])));
    agreed.judge(2);
    assert_eq!(agreed.weigh_prior(false), Undecided);
    assert_eq!(agreed.evidence().labels, 100.0);
}

#[test]
fn labels_of_one_class_decide_nothing() {
    let mut clicked = tally(1.0, 20);
    assert!(clicked.evidence().of_one_class);
    assert_eq!(clicked.weigh_prior(false), Undecided);
    assert!(!clicked.decide_adapted(Candidate::Frozen));
    clicked.add(row(0, [0, 0, 0]));
    clicked.judge(2);
    assert_eq!(clicked.weigh_prior(false), Preferred(WHOLE));
    assert!(clicked.decide_adapted(Candidate::Frozen));
}

#[test]
fn answers_of_one_class_decide_unless_requests_were_passed_over() {
    let mut answered = LabelTally::default();
    answered.note_changes(4, &block_of(20));
    for _ in 0..10 {
        answered.add(LabelledRow {
            asked: true,
            block: 4,
            ..row(0, [0, 1, 1])
        });
    }
    answered.judge(5);
    assert_eq!(answered.answered_block(), 4);
    assert!(!answered.evidence().of_one_class);
    assert_eq!(answered.weigh_prior(false), Refuted);
    // Whoever answers for one class alone leaves the others out.
    let mut left_out = answered.clone();
    left_out.note_passed_over(5, [3, 3, 4, 4, 4].into_iter());
    assert!(left_out.evidence().of_one_class);
    assert_eq!(left_out.weigh_prior(false), Undecided);
    // A few of long ago do not matter, and neither do those before a change.
    left_out.note_passed_over(60, [3, 3, 4, 4, 4].into_iter());
    assert!(!left_out.evidence().of_one_class);
    // Labels that nobody asked for may have been selected, however few requests were passed over.
    (0..10).for_each(|_| answered.add(row(0, [0, 1, 1])));
    assert!(answered.evidence().of_one_class);
}

/// What is said after blocks with so many right and wrong labels, of which correction changes so many rows of a hundred.
fn said(explained: bool, changes: usize, rows: &[(usize, usize)]) -> Vec<LabelsOnPrior> {
    let mut tally = LabelTally::default();
    let after_block = |((right, wrong), block): (&(usize, usize), u64)| {
        tally.age();
        tally.note_changes(block, &block_of(changes));
        let classes = [vec![1; *right], vec![0; *wrong]].concat();
        for class in classes {
            tally.add(LabelledRow {
                block,
                ..row(class, [0, 1, 1])
            });
        }
        tally.judge(block + 1);
        tally.decide_prior(explained)
    };
    rows.iter().zip(1..).map(after_block).collect()
}

#[test]
fn what_labels_said_holds_until_they_say_otherwise() {
    let refuted_by_tests = |rows: &[(usize, usize)]| said(false, 20, rows);
    let few = refuted_by_tests(&[(1, 0), (1, 0), (2, 2)]);
    assert_eq!(few, [Undecided; 3], "few labels say little");
    assert_eq!(refuted_by_tests(&[(5, 5)]), [Undecided]);
    assert_eq!(refuted_by_tests(&[(7, 3)]), [Preferred(WHOLE)]);
    assert_eq!(
        refuted_by_tests(&[(4, 6)]),
        [Undecided],
        "against it, labels must be surer"
    );
    let then_even = refuted_by_tests(&[(9, 1), (5, 5), (5, 5)]);
    assert_eq!(then_even, [Preferred(WHOLE); 3]);
    let against = refuted_by_tests(&[(1, 9), (5, 5), (5, 5)]);
    assert_eq!(against, [Refuted; 3]);
    let then_wrong = refuted_by_tests(&[(9, 1), (1, 9), (1, 9), (1, 9)]);
    assert_eq!(then_wrong[3], Refuted, "{then_wrong:?}");
}

#[test]
fn where_much_is_at_stake_labels_must_be_surer() {
    assert_eq!(said(false, 20, &[(6, 4)]), [Preferred(WHOLE)]);
    assert_eq!(said(false, 90, &[(6, 4)]), [Undecided]);
    assert_eq!(said(false, 90, &[(9, 1)]), [Preferred(WHOLE)]);
}

#[test]
fn where_the_tests_pass_the_whole_correction_is_served_until_labels_refute_it() {
    assert_eq!(said(true, 20, &[(5, 5)]), [Undecided]);
    assert_eq!(said(true, 20, &[(4, 6)]), [Undecided]);
    assert_eq!(said(true, 20, &[(1, 9)]), [Refuted]);
    assert_eq!(said(true, 20, &[(9, 1)]), [Preferred(WHOLE)]);
}

#[test]
fn correction_goes_as_far_as_it_is_right() {
    let weighed = |explained| {
        let mut tally = LabelTally::default();
        let change = |reach| Change {
            class: 1,
            reach,
            shift: 6.0,
        };
        for block in 1..=4 {
            tally.age();
            let rows: Vec<Option<Change>> = (0..100)
                .map(|row| (row < 20).then(|| change(row as f32 / 20.0)))
                .collect();
            tally.note_changes(block, &rows);
            for change in rows.into_iter().flatten().step_by(2) {
                // Right where the model was least sure, wrong where correction overruled it most.
                let class = usize::from(change.reach < 0.45);
                tally.add(LabelledRow {
                    block,
                    change: Some(change),
                    ..row(class, [0, 1, 1])
                });
            }
        }
        tally.judge(5);
        tally.decide_prior(explained)
    };
    assert_eq!(weighed(false), Preferred(0.5));
    assert!(
        !weighed(true).contradicts_shares(),
        "ten of twenty are right"
    );
}

#[test]
fn the_adapted_model_must_beat_what_is_served_otherwise_and_is_closed_when_it_does_not() {
    // Adapted and prior say the same: against prior nothing is proved.
    let mut both = tally(0.9, 10);
    assert!(!both.decide_adapted(Candidate::Prior));
    assert!(both.decide_adapted(Candidate::Frozen));
    for _ in 0..10 {
        both.age();
        for _ in 0..10 {
            both.add(LabelledRow {
                block: 2,
                ..row(0, [0, 0, 1])
            });
        }
    }
    both.judge(3);
    assert!(!both.decide_adapted(Candidate::Frozen));
    let duel = both
        .report_of(Candidate::Adapted, Candidate::Frozen)
        .unwrap();
    assert!(duel.probability < DOUBT);
    assert!(!both.decide_adapted(Candidate::Frozen), "stays closed");
}

#[test]
fn a_renewed_adapted_model_starts_anew_and_prior_correction_does_not() {
    let mut tally = tally(0.1, 3);
    tally.renew_adapted(4);
    (0..12).for_each(|_| tally.add(row(1, [0, 1, 1])));
    let right = |tally: &LabelTally, challenger| {
        let duel = tally.report_of(challenger, Candidate::Frozen).unwrap();
        duel.right
    };
    assert_eq!(right(&tally, Candidate::Adapted), 0.0);
    assert!(right(&tally, Candidate::Prior) >= 12.0);
    for number in 0..13 {
        tally.add(LabelledRow {
            block: 5,
            ..row(usize::from(number > 0), [0, 1, 1])
        });
    }
    assert_eq!(right(&tally, Candidate::Adapted), 12.0);
    assert!(tally.decide_adapted(Candidate::Frozen));
    tally.renew_adapted(5);
    assert!(tally.decide_adapted(Candidate::Frozen), "it is open");
}

#[test]
fn what_labels_said_before_a_change_and_labels_of_events_before_it_count_no_longer() {
    let mut tally = tally(0.7, 5);
    tally.note_changes(6, &block_of(100));
    tally.forget_before(7);
    assert_eq!(
        tally.changed, 1.0,
        "how much correction changes is no label"
    );
    assert_eq!(tally.decide_prior(false), Undecided);
    (0..20).for_each(|number| tally.add(row(number % 2, [0, 1, 1])));
    assert_eq!(tally.evidence().labels, 0.0);
    tally.add(LabelledRow {
        block: 7,
        ..row(1, [0, 1, 1])
    });
    assert_eq!(tally.evidence().labels, 1.0);
}

#[test]
fn a_label_of_long_ago_counts_as_if_it_had_come_then() {
    let mut late = LabelTally::default();
    late.add(LabelledRow {
        age: 500,
        ..row(1, [0, 1, 1])
    });
    let duel = late.report_of(Candidate::Prior, Candidate::Frozen).unwrap();
    assert!(duel.right < 1e-10, "{duel:?}");
}

#[test]
fn probabilities_are_compared_by_log_loss_on_rows_that_were_not_chosen() {
    let mut tally = LabelTally::default();
    tally.set_objective(Objective::Probability);
    let mut generator = Generator::new(7);
    // Both predict class 0 always; the corrected one knows that 1 in 10 is of class 1.
    let probabilities = [0.98, 0.02, 0.9, 0.1, 0.9, 0.1];
    for _ in 0..20 {
        tally.age();
        for _ in 0..200 {
            tally.add(LabelledRow {
                probabilities: &probabilities,
                asked_for_disagreement: false,
                ..row(usize::from(generator.uniform() < 0.1), [0; 3])
            });
        }
    }
    assert_eq!(tally.weigh_prior(false), Preferred(WHOLE));
    let before = tally.clone();
    tally.add(LabelledRow {
        probabilities: &probabilities,
        ..row(1, [0; 3])
    });
    assert_eq!(tally.duels, before.duels);
    tally.set_objective(Objective::Class);
    assert_eq!(tally, LabelTally::default());
}

/// Labels of rows that the frozen model gives 2 % of class 1 and the others 10 %. `share` of them are of class 1.
fn log_losses(tally: &mut LabelTally, blocks: usize, share: f64) {
    let mut generator = Generator::new(7);
    for _ in 0..blocks {
        tally.age();
        for _ in 0..200 {
            tally.add(LabelledRow {
                probabilities: &[0.98, 0.02, 0.9, 0.1, 0.9, 0.1],
                asked_for_disagreement: false,
                ..row(usize::from(generator.uniform() < share), [0; 3])
            });
        }
    }
}

#[test]
fn probabilities_that_labels_lean_against_are_not_served_even_before_there_is_proof() {
    let mut tally = LabelTally::default();
    tally.set_objective(Objective::Probability);
    assert_eq!(tally.weigh_prior(true), Undecided);
    log_losses(&mut tally, 1, 0.04);
    let duel = tally
        .report_of(Candidate::Prior, Candidate::Frozen)
        .unwrap();
    assert!(
        duel.incumbent_wealth < PROOF && duel.mean_gain < 0.0,
        "{duel:?}"
    );
    assert_eq!(tally.weigh_prior(true), Refuted);
    assert_eq!(tally.weigh_prior(false), Undecided);
}

#[test]
fn what_was_proved_by_log_loss_is_not_served_while_it_loses() {
    let mut tally = LabelTally::default();
    tally.set_objective(Objective::Probability);
    log_losses(&mut tally, 20, 0.1);
    assert_eq!(tally.weigh_prior(false), Preferred(WHOLE));
    assert!(tally.decide_adapted(Candidate::Frozen));
    // Bets have gained so much that they are still worth more than proof.
    log_losses(&mut tally, 14, 0.0);
    let duel = tally
        .report_of(Candidate::Adapted, Candidate::Frozen)
        .unwrap();
    assert!(duel.mean_gain < 0.0, "{duel:?}");
    assert_ne!(tally.weigh_prior(false), Preferred(WHOLE));
    assert!(!tally.decide_adapted(Candidate::Frozen));
}
