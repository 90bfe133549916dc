//! Alarms are as rare as was set on streams that do not change, and a jump is told soon.

use ostar_engine::{Generator, Inputs, Rows};
use ostar_method::{
    alarms::{Alarm, AlarmKind, AlarmReport, AlarmSettings, Alarms, BlockStatistics},
    learner::{BlockEvent, Learner},
    proportions::LabelProportions,
};

use crate::two_classes::{bundle, draw, settings};

/// One block every five minutes.
const WEEK: u64 = 2_016;
const SHARE: f64 = 0.3;
/// Deviation of the share of a block of 500 rows.
const DEVIATION: f64 = 0.0205;

/// Simulated statistics of blocks.
struct Stream {
    alarms: Alarms,
    random: Generator,
    /// How far a block follows the one before.
    follows: f64,
    noise: [f64; 2],
    block: u64,
}

impl Stream {
    fn new(false_per_week: f64, follows: f64, seed: u64) -> Self {
        let training = LabelProportions::new(vec![1.0 - SHARE, SHARE]).unwrap();
        Self {
            alarms: Alarms::new(AlarmSettings { false_per_week }, training),
            random: Generator::new(seed),
            follows,
            noise: [0.0; 2],
            block: 0,
        }
    }

    /// A block whose share is higher by `jump`.
    fn observe(&mut self, jump: f64) -> AlarmReport {
        let innovation = (1.0 - self.follows * self.follows).sqrt();
        for noise in &mut self.noise {
            *noise = self.follows * *noise + innovation * self.random.normal();
        }
        self.block += 1;
        let share = SHARE + jump + DEVIATION * self.noise[0];
        self.alarms.observe(BlockStatistics {
            block: self.block,
            shares: Some(&[1.0 - share, share]),
            intervals: None,
            shape: Some(0.6 * (0.15 * self.noise[1]).exp()),
        })
    }
}

#[test]
fn false_alarms_are_as_many_a_week_as_was_set_with_and_without_autocorrelation() {
    for follows in [0.0, 0.8] {
        let (mut raised, weeks) = (Vec::new(), 200);
        // Streams of ten weeks, each from its first block on.
        for seed in 0..weeks / 10 {
            let mut stream = Stream::new(1.0, follows, seed);
            for _ in 0..10 * WEEK {
                raised.extend(stream.observe(0.0).raised);
            }
        }
        let rate = raised.len() as f64 / weeks as f64;
        assert!((0.67..1.5).contains(&rate), "{follows}: {rate} a week");
        let about_shape = |alarm: &&Alarm| alarm.kind == AlarmKind::Shape;
        let of_shape = raised.iter().filter(about_shape).count() as f64 / weeks as f64;
        assert!(
            (0.3..0.8).contains(&of_shape),
            "{follows}: {of_shape} a week"
        );
    }
}

#[test]
fn a_jump_of_ten_points_is_told_within_two_windows_with_its_levels() {
    for follows in [0.0, 0.8] {
        let jumps = 50;
        let mut told = Vec::new();
        for seed in 0..jumps {
            let mut stream = Stream::new(1.0, follows, seed);
            (0..400).for_each(|_| drop(stream.observe(0.0)));
            told.extend((0..20).find_map(|_| {
                let report = stream.observe(0.1);
                let about_share = |alarm: &Alarm| alarm.kind == AlarmKind::Share(1);
                let alarm = report.raised.iter().copied().find(about_share)?;
                assert!(report.series[0].firing);
                Some(alarm)
            }));
        }
        assert_eq!(told.len() as u64, jumps, "{follows}");
        let right = |alarm: &&Alarm| {
            (395..=405).contains(&alarm.since_block)
                && (alarm.before - 0.3).abs() < 0.03
                && (alarm.after - 0.4).abs() < 0.06
        };
        let right = told.iter().filter(right).count();
        assert!(
            right as u64 >= jumps * 4 / 5,
            "{follows}: {right} of {}",
            told.len()
        );
        let words = told[0].in_words(&["ham".to_owned(), "spam".to_owned()]);
        assert!(words.starts_with("the share of spam rose from "), "{words}");
    }
}

#[test]
fn a_jump_in_a_young_stream_is_told_too() {
    for (quiet, jump, least) in [(30, 0.2, 48), (30, 0.1, 15), (100, 0.1, 35)] {
        let jumps = 50;
        let told = (0..jumps).filter(|seed| {
            let mut stream = Stream::new(1.0, 0.0, *seed);
            (0..quiet).for_each(|_| drop(stream.observe(0.0)));
            (0..20).any(|_| is_about_share(&stream.observe(jump)))
        });
        let told = told.count();
        assert!(
            told >= least,
            "{jump} after {quiet} blocks: {told} of {jumps}"
        );
    }
}

#[test]
fn a_second_jump_soon_after_the_first_is_told_too() {
    for (follows, between, least) in [(0.0, 8, 45), (0.0, 15, 48), (0.8, 8, 28), (0.8, 15, 35)] {
        let jumps = 50;
        let told = (0..jumps).filter(|seed| {
            let mut stream = Stream::new(1.0, follows, *seed);
            (0..400).for_each(|_| drop(stream.observe(0.0)));
            let first = (0..40).find(|_| is_about_share(&stream.observe(0.1)));
            assert!(first.is_some(), "{follows}, seed {seed}");
            (0..between).for_each(|_| drop(stream.observe(0.1)));
            (0..20).any(|_| is_about_share(&stream.observe(0.2)))
        });
        let told = told.count();
        assert!(
            told >= least,
            "{follows}, {between} blocks after the alarm: {told} of {jumps}"
        );
    }
}

#[test]
fn a_rare_class_that_becomes_common_and_so_varies_more_is_told_once() {
    let jumps = 100;
    let mut alarms = 0;
    for seed in 0..jumps {
        let mut stream = Stream::new(1.0, 0.0, seed);
        // A share of 1 %, whose blocks vary by 0.45 points, becomes 31 %.
        let rare = |stream: &mut Stream, share: f64| {
            let deviation = (share * (1.0 - share) / 500.0).sqrt();
            stream.block += 1;
            let share = share + deviation * stream.random.normal();
            let report = stream.alarms.observe(BlockStatistics {
                block: stream.block,
                shares: Some(&[1.0 - share, share]),
                intervals: None,
                shape: None,
            });
            report.raised.len()
        };
        for _ in 0..400 {
            rare(&mut stream, 0.01);
        }
        alarms += (0..40).map(|_| rare(&mut stream, 0.31)).sum::<usize>();
    }
    // In 4,000 blocks one false alarm is expected.
    assert!((100..=106).contains(&alarms), "{alarms} alarms");
}

#[test]
fn a_share_that_varies_more_for_good_does_not_raise_alarms_for_good() {
    let mut alarms = 0;
    for seed in 0..20 {
        let mut stream = Stream::new(1.0, 0.0, seed);
        (0..400).for_each(|_| drop(stream.observe(0.0)));
        for _ in 0..WEEK {
            let more = 1.2 * DEVIATION * stream.random.normal();
            alarms += usize::from(is_about_share(&stream.observe(more)));
        }
    }
    // By chance 10, and some until the new spread is known.
    assert!(alarms <= 60, "{alarms} alarms in 20 weeks");
}

fn is_about_share(report: &AlarmReport) -> bool {
    let about_share = |alarm: &Alarm| alarm.kind == AlarmKind::Share(1);
    report.raised.iter().any(about_share)
}

#[test]
fn where_shares_cannot_be_told_the_alarm_about_them_is_silent_and_that_about_the_shape_speaks() {
    let mut stream = Stream::new(1.0, 0.0, 1);
    (0..100).for_each(|_| drop(stream.observe(0.0)));
    let (mut raised, mut stands) = (Vec::new(), Vec::new());
    for block in 101..400 {
        let report = stream.alarms.observe(BlockStatistics {
            block,
            shares: None,
            intervals: None,
            shape: Some(2.0 * (0.1 * stream.random.normal()).exp()),
        });
        raised.extend(report.raised);
        stands.push(report.series[1].firing);
    }
    assert!(
        raised.iter().all(|alarm| alarm.kind == AlarmKind::Shape),
        "{raised:?}"
    );
    let first = raised[0];
    assert!(
        first.block < 121 && first.after > 1.5 && first.before < 0.8,
        "{first:?}"
    );
    // It stands for as long as label shift is refuted, and for a while.
    assert!(stands[20..].iter().all(|stands| *stands));
    let words = first.in_words(&[]);
    assert!(
        words.starts_with("the classes changed shape since block 10"),
        "{words}"
    );
}

#[test]
fn a_stream_that_was_never_like_training_is_told_once() {
    let mut stream = Stream::new(1.0, 0.0, 4);
    let mut raised = Vec::new();
    for _ in 0..60 {
        raised.extend(stream.observe(0.2).raised);
    }
    assert_eq!(raised.len(), 1, "{raised:?}");
    assert!(
        raised[0].from_training && raised[0].block == 21,
        "{raised:?}"
    );
    let words = raised[0].in_words(&["ham".to_owned(), "spam".to_owned()]);
    assert!(
        words.ends_with("since the start, 30.0 % in training (told after block 21)"),
        "{words}"
    );
    // Alarms that are off say nothing.
    let mut off = Stream::new(0.0, 0.0, 4);
    assert_eq!(off.observe(0.2), AlarmReport::default());
}

#[test]
fn a_learner_that_restarts_before_every_block_watches_like_one_that_does_not() {
    const WIDTH: usize = 4;
    let bundle = bundle(WIDTH);
    let mut generator = Generator::new(3);
    let mut learner = Learner::new(&bundle.deployed().unwrap(), settings()).unwrap();
    let mut restarted = Learner::new(&bundle.deployed().unwrap(), settings()).unwrap();
    for block in 0..50 {
        let share = if block < 30 { 0.5 } else { 0.7 };
        let (rows, _) = draw(500, WIDTH, share, &mut generator);
        let inputs = Inputs::Dense(Rows::new(&rows[..], WIDTH).unwrap());
        let scores = learner.model().scores(inputs).unwrap();
        let event = BlockEvent {
            id: None,
            time_ms: block * 60_000,
            sent: None,
        };
        let learn = |learner: &mut Learner| {
            learner.follow(scores.all(), None).unwrap();
            learner.close(&[event; 500], &[]).unwrap()
        };
        let report = learn(&mut learner);
        let state = restarted.save().unwrap();
        restarted = Learner::load(&bundle.deployed().unwrap(), settings(), &state).unwrap();
        assert_eq!(learn(&mut restarted), report);
        assert_eq!(restarted.alarms().series, report.alarms.series);
    }
    assert!(learner.save().unwrap() == restarted.save().unwrap());
}
