//! Labels in the learner: they join predictions by id, count at block borders, and survive a restart.

use ostar_bundle::Bundle;
use ostar_engine::{Generator, Inputs, Rows, argmax};
use ostar_method::{
    Candidate,
    frozen::FrozenScores,
    gate::Objective,
    learner::{
        ArrivedLabel, BlockEvent, BlockReport, LabelRequest, LabelUse, Learner, LearnerSettings,
        Negatives, RequestKind, Scores, StepPlan,
    },
    proportions::prior_correct,
};

use crate::two_classes::{bundle, draw, settings};

const WIDTH: usize = 4;
const ROWS: usize = 500;

/// One block of a stream, with ids and times.
struct Block {
    scores: FrozenScores,
    ids: Vec<String>,
    labels: Vec<u32>,
    start_ms: i64,
}

impl Block {
    fn events(&self) -> Vec<BlockEvent<'_>> {
        let ids = self.ids.iter().enumerate();
        ids.map(|(row, id)| BlockEvent {
            id: Some(id),
            time_ms: self.start_ms + 100 * row as i64,
            sent: None,
        })
        .collect()
    }

    fn label(&self, row: usize) -> ArrivedLabel {
        ArrivedLabel {
            id: self.ids[row].as_str().into(),
            class: self.labels[row],
            time_ms: self.start_ms + 100 * row as i64 + 5_000,
        }
    }

    fn row(&self, id: &str) -> usize {
        self.ids.iter().position(|known| known == id).unwrap()
    }
}

/// Blocks of a hundredth of a second a row; `spam` is the share of the second class, and `moved` how far all rows lie
/// from where they were.
fn stream(bundle: &Bundle, blocks: usize, spam: f64, moved: f32) -> Vec<Block> {
    let mut generator = Generator::new(7);
    let model = Learner::new(&bundle.deployed().unwrap(), settings())
        .unwrap()
        .model()
        .clone();
    let block = |number: usize| {
        let (mut rows, labels) = draw(ROWS, WIDTH, spam, &mut generator);
        rows.iter_mut().for_each(|value| *value += moved);
        let inputs = Inputs::Dense(Rows::new(&rows[..], WIDTH).unwrap());
        Block {
            scores: model.scores(inputs).unwrap(),
            ids: (0..ROWS)
                .map(|row| format!("event-{number}-{row}"))
                .collect(),
            labels,
            start_ms: (number * ROWS * 100) as i64,
        }
    };
    (0..blocks).map(block).collect()
}

fn asking() -> LabelUse {
    LabelUse {
        disagreements: 10,
        random: 5,
        seed: 1,
        ..LabelUse::default()
    }
}

/// A learner that uses labels so.
fn labelled(labels: LabelUse) -> LearnerSettings {
    LearnerSettings {
        labels: Some(labels),
        ..settings()
    }
}

/// Learns from a block, and takes two steps if any are due.
fn learn(learner: &mut Learner, block: &Block, labels: &[ArrivedLabel]) -> BlockReport {
    learner.plan_steps(StepPlan {
        usual: 2,
        always: false,
    });
    learner.follow(block.scores.all(), None).unwrap();
    let report = learner.close(&block.events(), labels).unwrap();
    for _ in 0..report.steps_due.min(2) {
        learner.step().unwrap();
    }
    report
}

/// Answers to a block's requests.
fn answers(blocks: &[Block], report: &BlockReport) -> Vec<ArrivedLabel> {
    let requests = &report.labels.as_ref().unwrap().requests;
    let answer = |request: &LabelRequest| {
        let block = &blocks[request.block as usize - 1];
        block.label(block.row(&request.id))
    };
    requests.iter().map(answer).collect()
}

/// How many of a block's rows have another class than the frozen model gives them.
fn changed(frozen: &[f32], corrected: &[f32]) -> usize {
    let rows = frozen.chunks_exact(2).zip(corrected.chunks_exact(2));
    rows.filter(|(before, after)| argmax(before) != argmax(after))
        .count()
}

#[test]
fn correction_that_is_right_up_to_a_point_is_served_up_to_there_and_after_a_restart() {
    let bundle = bundle(WIDTH);
    let blocks = stream(&bundle, 10, 0.8, 0.7);
    let settings = labelled(asking());
    let mut learner = Learner::new(&bundle.deployed().unwrap(), settings.clone()).unwrap();
    let mut due = Vec::new();
    let mut report = None;
    for block in &blocks {
        let learned = learn(&mut learner, block, &due);
        // Right where the frozen model was less sure than this, wrong where it was surer.
        let answer = |request: &LabelRequest| {
            let row = block.row(&request.id);
            let frozen = &block.scores.probabilities()[2 * row..][..2];
            let [before, after, _] = request.predicted;
            let is_unsure = frozen[before as usize] < 0.76;
            ArrivedLabel {
                class: if is_unsure { after } else { before },
                ..block.label(row)
            }
        };
        let requests = &learned.labels.as_ref().unwrap().requests;
        let asked = requests
            .iter()
            .filter(|request| request.kind == RequestKind::Disagreement);
        due = asked.map(answer).collect();
        report = Some(learned);
    }
    let verdict = report.unwrap().verdict;
    assert!(verdict.refuted, "more than the shares moved");
    assert_eq!(verdict.candidate, Candidate::Prior, "{verdict:?}");
    assert!((0.25..1.0).contains(&verdict.prior_strength), "{verdict:?}");
    let told = verdict.reason.to_string();
    assert!(told.contains("% of its strength"), "{told}");
    assert!(!verdict.proportions_known);

    let served = |learner: &Learner| {
        let (snapshot, mut scores) = (learner.snapshot(), Scores::default());
        snapshot
            .score_frozen(&blocks[9].scores, &mut scores)
            .unwrap();
        let mut whole = scores.frozen.clone();
        let training = snapshot.training_proportions();
        prior_correct(&mut whole, training, snapshot.whole_proportions());
        let changes = [&scores.prior, &whole].map(|rows| changed(&scores.frozen, rows));
        (changes, scores.prior)
    };
    let ([in_part, whole], probabilities) = served(&learner);
    assert!(0 < in_part && in_part < whole, "{in_part} {whole}");
    let state = learner.save().unwrap();
    let restarted = Learner::load(&bundle.deployed().unwrap(), settings, &state).unwrap();
    assert_eq!(served(&restarted).1, probabilities);
}

#[test]
fn a_restart_after_every_block_and_within_blocks_gives_the_bytes_of_an_undisturbed_run() {
    let bundle = bundle(WIDTH);
    let blocks = stream(&bundle, 12, 0.8, 0.7);
    let settings = labelled(asking());
    let mut learner = Learner::new(&bundle.deployed().unwrap(), settings.clone()).unwrap();
    let mut restarted = Learner::new(&bundle.deployed().unwrap(), settings.clone()).unwrap();
    let mut due = Vec::new();
    let mut asked = 0;
    for block in &blocks {
        // Half of the block is followed ahead, then the process is killed.
        restarted
            .follow(block.scores.rows(0..ROWS / 2), None)
            .unwrap();
        let state = restarted.save().unwrap();
        restarted = Learner::load(&bundle.deployed().unwrap(), settings.clone(), &state).unwrap();
        let report = learn(&mut learner, block, &due);
        let again = learn(&mut restarted, block, &due);
        assert_eq!(report, again);
        assert_eq!(learner.wanted_labels(), restarted.wanted_labels());
        due = answers(&blocks, &report);
        asked += due.len();
    }
    assert!(asked >= 100, "{asked} labels were asked for");
    assert_eq!(learner.save().unwrap(), restarted.save().unwrap());
    let counts = learn(&mut learner, &blocks[0], &[]).labels.unwrap().counts;
    assert_eq!(counts.joined, (asked - due.len()) as u64);
}

#[test]
fn a_state_of_an_open_block_is_that_of_the_border_before_it() {
    let bundle = bundle(WIDTH);
    let blocks = stream(&bundle, 3, 0.3, 0.0);
    let mut learner = Learner::new(&bundle.deployed().unwrap(), settings()).unwrap();
    learn(&mut learner, &blocks[0], &[]);
    learn(&mut learner, &blocks[1], &[]);
    let at_border = learner.save().unwrap();
    let proportions = learner.proportions().clone();
    // Shares move by groups, however the rows come.
    let group = learner.group_rows();
    let mut moves = 0;
    for row in 0..3 * group {
        let rows = blocks[2].scores.rows(row..row + 1);
        moves += usize::from(learner.follow(rows, None).unwrap());
    }
    assert_eq!(moves, 3);
    assert!(learner.save().unwrap() == at_border);
    assert_eq!(*learner.proportions_at_border(), proportions);
    assert_ne!(
        *learner.proportions(),
        proportions,
        "they follow the open block"
    );
}

#[test]
fn labels_open_the_gate_where_the_classes_moved_and_correction_is_right_nevertheless() {
    let bundle = bundle(WIDTH);
    let blocks = stream(&bundle, 10, 0.9, -0.5);
    let served = |labelled: bool| {
        let settings = LearnerSettings {
            labels: labelled.then(asking),
            ..settings()
        };
        let mut learner = Learner::new(&bundle.deployed().unwrap(), settings).unwrap();
        let mut due = Vec::new();
        let mut reasons = Vec::new();
        for block in &blocks {
            let report = learn(&mut learner, block, &due);
            if labelled {
                due = answers(&blocks, &report);
            }
            reasons.push(report.verdict.reason.label());
        }
        (learner.gate().verdict().candidate, reasons)
    };
    let (candidate, reasons) = served(false);
    assert_eq!(candidate, Candidate::Frozen, "{reasons:?}");
    let (candidate, reasons) = served(true);
    assert_ne!(candidate, Candidate::Frozen, "{reasons:?}");
    assert!(reasons.contains(&"labels_prefer"), "{reasons:?}");
}

#[test]
fn random_labels_tell_the_shares_where_the_classes_moved_and_others_do_not_count() {
    let bundle = bundle(WIDTH);
    let blocks = stream(&bundle, 14, 0.9, -0.5);
    let shares = |wrong_disagreements: bool| {
        let settings = labelled(LabelUse {
            random: 20,
            ..asking()
        });
        let mut learner = Learner::new(&bundle.deployed().unwrap(), settings).unwrap();
        let mut due = Vec::new();
        let mut last = None;
        for block in &blocks {
            let report = learn(&mut learner, block, &due);
            due = answers(&blocks, &report);
            let labels = report.labels.unwrap();
            for (answer, request) in due.iter_mut().zip(&labels.requests) {
                if wrong_disagreements && request.kind == RequestKind::Disagreement {
                    answer.class = 1 - answer.class;
                }
            }
            assert_eq!(labels.shares, learner.shares_by_labels());
            last = labels.shares;
        }
        assert!(learner.gate().verdict().refuted);
        last.unwrap()
    };
    let found = shares(false);
    // The newest block has no labels yet.
    assert_eq!((found.first_block, found.last_block), (4, 13));
    assert_eq!((found.labels, found.rows), (200, 5_000));
    let spam = found.classes[1];
    assert!(spam.interval.contains(0.9), "{spam:?}");
    assert!(spam.interval.high - spam.interval.low < 0.1, "{spam:?}");
    assert_eq!(found, shares(true));
}

#[test]
fn each_label_has_one_fate_and_counts_once() {
    let bundle = bundle(WIDTH);
    let blocks = stream(&bundle, 4, 0.5, 0.0);
    let settings = labelled(LabelUse {
        capacity: 2 * ROWS,
        ..LabelUse::default()
    });
    let mut learner = Learner::new(&bundle.deployed().unwrap(), settings).unwrap();
    // Before its event, of nobody, and twice.
    let unknown = ArrivedLabel {
        id: "nobody".into(),
        class: 1,
        time_ms: 0,
    };
    let early = blocks[1].label(3);
    let report = learn(&mut learner, &blocks[0], &[early.clone(), unknown, early]);
    let counts = report.labels.unwrap().counts;
    assert_eq!((counts.joined, counts.duplicates), (0, 1));
    let twice = [blocks[0].label(7), blocks[0].label(7)];
    let counts = learn(&mut learner, &blocks[1], &twice)
        .labels
        .unwrap()
        .counts;
    assert_eq!((counts.joined, counts.duplicates), (2, 2));
    // Two blocks later its prediction is forgotten.
    learn(&mut learner, &blocks[2], &[]);
    let labels = learn(&mut learner, &blocks[3], &[blocks[0].label(9)])
        .labels
        .unwrap();
    assert_eq!(labels.counts.joined, 2);
    assert_eq!(labels.counts.unlabelled, 2 * ROWS as u64 - 2);
    assert_eq!(labels.waiting, 2 * ROWS);
    let delays = labels.delays.quantile_ms(1.0).unwrap();
    assert_eq!(delays, 10_000, "labels come 5 s after their events");
}

#[test]
fn events_without_an_id_are_counted_and_never_asked_for() {
    let bundle = bundle(WIDTH);
    let blocks = stream(&bundle, 2, 0.9, 0.0);
    let settings = labelled(asking());
    let mut learner = Learner::new(&bundle.deployed().unwrap(), settings.clone()).unwrap();
    learner.follow(blocks[0].scores.all(), None).unwrap();
    let mut events = blocks[0].events();
    events.iter_mut().skip(2).for_each(|event| event.id = None);
    let report = learner.close(&events, &[]).unwrap();
    let labels = report.labels.unwrap();
    assert_eq!(labels.counts.without_id, ROWS as u64 - 2);
    assert_eq!(labels.requests.len(), 2);
    assert!(
        labels
            .requests
            .iter()
            .all(|request| request.kind == RequestKind::Random)
    );
    assert_eq!(learner.wanted_labels(), labels.requests);
}

#[test]
fn an_event_without_a_click_becomes_negative_once_and_a_later_click_changes_nothing() {
    let bundle = bundle(WIDTH);
    // A block takes 50 s.
    let blocks = stream(&bundle, 4, 0.5, 0.0);
    let settings = LearnerSettings {
        objective: Objective::Probability,
        ..labelled(LabelUse {
            negatives: Some(Negatives {
                after_ms: 60_000,
                class: 0,
            }),
            ..LabelUse::default()
        })
    };
    let mut learner = Learner::new(&bundle.deployed().unwrap(), settings).unwrap();
    learn(&mut learner, &blocks[0], &[]);
    let click = ArrivedLabel {
        class: 1,
        ..blocks[0].label(0)
    };
    // At 99.9 s what happened before 39.9 s has waited long enough: rows 0 to 399, of which one was clicked.
    let labels = learn(&mut learner, &blocks[1], &[click]).labels.unwrap();
    assert_eq!(labels.counts.negatives, 399);
    assert_eq!(labels.counts.joined, 400);
    assert_eq!(labels.negative_ids.len(), 399);
    let late = ArrivedLabel {
        class: 1,
        ..blocks[0].label(5)
    };
    let report = learn(&mut learner, &blocks[2], &[late.clone(), late]);
    let labels = report.labels.unwrap();
    assert_eq!(labels.counts.late, 2);
    assert_eq!(labels.counts.negatives, 399 + 500);
    assert_eq!(labels.counts.joined, 900);
    let evidence = report.verdict.labels.unwrap();
    assert!(!evidence.of_one_class);
}

/// Log loss of a candidate on a block, in nats a row.
fn log_loss(probabilities: &[f32], labels: &[u32]) -> f64 {
    let rows = probabilities.chunks_exact(2).zip(labels);
    let losses = rows.map(|(row, label)| -f64::from(row[*label as usize].max(1e-7)).ln());
    losses.sum::<f64>() / labels.len() as f64
}

#[test]
fn probabilities_are_corrected_where_the_share_clearly_moved_and_left_as_they_are_where_it_did_not()
{
    let bundle = bundle(WIDTH);
    // Without labels.
    for (spam, moves) in [(0.9, true), (0.5, false)] {
        let settings = LearnerSettings {
            objective: Objective::Probability,
            ..settings()
        };
        let mut learner = Learner::new(&bundle.deployed().unwrap(), settings).unwrap();
        let (mut gains, mut served) = (Vec::new(), 0);
        for (number, block) in stream(&bundle, 14, spam, 0.0).iter().enumerate() {
            let snapshot = learner.snapshot();
            let mut scores = Scores::default();
            let rows = block.scores.rows(0..ROWS);
            snapshot.score_rows(rows, &mut scores).unwrap();
            if number >= 4 {
                let [frozen, auto] = [&scores.frozen[..], scores.of(snapshot.candidate)]
                    .map(|probabilities| log_loss(probabilities, &block.labels));
                gains.push(frozen - auto);
                served += usize::from(snapshot.candidate == Candidate::Prior);
            }
            learn(&mut learner, block, &[]);
        }
        let mean = gains.iter().sum::<f64>() / gains.len() as f64;
        if moves {
            assert!(served >= 8 && mean > 0.02, "{served} served, gains {mean}");
        } else {
            assert!(mean > -1e-3, "gains {mean}");
        }
    }
}

#[test]
fn labels_that_were_asked_for_where_candidates_disagree_measure_nobody() {
    let bundle = bundle(WIDTH);
    let blocks = stream(&bundle, 12, 0.9, -0.5);
    for requested in [false, true] {
        let settings = labelled(LabelUse {
            requested,
            ..asking()
        });
        let mut learner = Learner::new(&bundle.deployed().unwrap(), settings).unwrap();
        let (mut due, mut last) = (Vec::new(), None);
        for block in &blocks {
            let report = learn(&mut learner, block, &due);
            due = answers(&blocks, &report);
            last = report.labels;
        }
        let labels = last.unwrap();
        let counts = labels.counts;
        assert!(counts.answered_disagreements > 0 && counts.answered_random > 0);
        let all = counts.answered_disagreements + counts.answered_random;
        let measured = if requested {
            counts.answered_random
        } else {
            all
        };
        assert_eq!(
            labels.measured.total.unwrap().labels,
            measured,
            "{requested}"
        );
    }
}
