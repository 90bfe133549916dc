use super::*;
use crate::Generator;

fn row(class: usize, predicted: [u32; 3]) -> LabelledRow<'static> {
    LabelledRow {
        class,
        predicted,
        probabilities: &[],
        block: 1,
        age: 1,
        asked: false,
        asked_for_disagreement: true,
    }
}

/// Blocks of ten labels on rows where prior says 1 and frozen 0; a share of them are 1.
fn tally(share: f64, blocks: usize) -> LabelTally {
    let mut generator = Generator::new(5);
    let mut tally = LabelTally::default();
    for _ in 0..blocks {
        tally.age();
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
    assert_eq!(LabelTally::default().prefers_prior(), None);
    assert_eq!(tally(0.7, 5).prefers_prior(), Some(true));
    assert_eq!(tally(0.3, 5).prefers_prior(), Some(false));
    let mut agreed = LabelTally::default();
    (0..100).for_each(|number| agreed.add(row(number % 2, [0, 0, 0])));
    agreed.judge(2);
    assert_eq!(agreed.prefers_prior(), None);
    assert_eq!(agreed.evidence().labels, 100.0);
}

#[test]
fn labels_of_one_class_decide_nothing() {
    let mut clicked = tally(1.0, 20);
    assert!(clicked.evidence().of_one_class);
    assert_eq!(clicked.prefers_prior(), None);
    assert!(!clicked.decide_adapted(Candidate::Frozen));
    clicked.add(row(0, [0, 0, 0]));
    clicked.judge(2);
    assert_eq!(clicked.prefers_prior(), Some(true));
    assert!(clicked.decide_adapted(Candidate::Frozen));
}

#[test]
fn answers_of_one_class_decide_unless_requests_were_passed_over() {
    let mut answered = LabelTally::default();
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
    assert_eq!(answered.prefers_prior(), Some(false));
    // Whoever answers for one class alone leaves the others out.
    let mut left_out = answered.clone();
    left_out.note_passed_over(5, [3, 3, 4, 4, 4].into_iter());
    assert!(left_out.evidence().of_one_class);
    assert_eq!(left_out.prefers_prior(), None);
    // A few of long ago do not matter, and neither do those before a change.
    left_out.note_passed_over(60, [3, 3, 4, 4, 4].into_iter());
    assert!(!left_out.evidence().of_one_class);
    // Labels that nobody asked for may have been selected, however few requests were passed over.
    (0..10).for_each(|_| answered.add(row(0, [0, 1, 1])));
    assert!(answered.evidence().of_one_class);
}

#[test]
fn what_labels_said_holds_until_they_say_otherwise() {
    let believed_where = |changed: usize, rows: &[(usize, usize)]| {
        let mut tally = LabelTally::default();
        let mut said = Vec::new();
        for ((right, wrong), block) in rows.iter().zip(1..) {
            tally.age();
            let mut predicted = vec![[0, 0, 0]; 100];
            predicted[..changed].fill([0, 1, 1]);
            tally.note_predictions(&predicted);
            let mut add = |class: usize| {
                tally.add(LabelledRow {
                    block,
                    ..row(class, [0, 1, 1])
                });
            };
            (0..*right).for_each(|_| add(1));
            (0..*wrong).for_each(|_| add(0));
            tally.judge(block + 1);
            said.push(tally.decide_prior());
        }
        said
    };
    let believed = |rows: &[(usize, usize)]| believed_where(20, rows);
    let even = believed(&[(5, 5), (5, 5)]);
    assert_eq!(even, [None, None]);
    let few = believed(&[(1, 0), (1, 0), (2, 2)]);
    assert_eq!(few, [None; 3], "a chance of 0.75 needs more than one label");
    let much_at_stake = believed_where(90, &[(6, 4), (6, 4), (9, 1)]);
    assert_eq!(much_at_stake, [None, None, Some(true)]);
    let six_of_ten = believed(&[(6, 4)]);
    assert_eq!(six_of_ten, [Some(true)]);
    let four_of_ten = believed(&[(4, 6)]);
    assert_eq!(four_of_ten, [None], "against it, labels must be surer");
    let then_even = believed(&[(9, 1), (5, 5), (5, 5)]);
    assert_eq!(then_even, [Some(true); 3]);
    let then_wrong_again = believed(&[(6, 4), (4, 6)]);
    assert_eq!(then_wrong_again, [Some(true), None]);
    let against = believed(&[(1, 9), (5, 5), (6, 4)]);
    assert_eq!(against, [Some(false); 3]);
    let then_wrong = believed(&[(9, 1), (1, 9), (1, 9), (1, 9)]);
    assert_eq!(then_wrong[3], Some(false), "{then_wrong:?}");
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
    tally.note_predictions(&[[0, 1, 1]; 4]);
    tally.forget_before(7);
    assert_eq!(
        tally.changed, 1.0,
        "how much correction changes is no label"
    );
    assert_eq!(tally.decide_prior(), None);
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
    assert_eq!(tally.prefers_prior(), Some(true));
    let before = tally.clone();
    tally.add(LabelledRow {
        probabilities: &probabilities,
        ..row(1, [0; 3])
    });
    assert_eq!(tally.duels, before.duels);
    tally.set_objective(Objective::Class);
    assert_eq!(tally, LabelTally::default());
}
