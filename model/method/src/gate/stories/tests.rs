use ostar_engine::{Generator, Rows};

use super::*;
use crate::gate::shape::Binning;

/// Two classes whose one score is N(+-separation / 2, 1), as a calibrated black box sees them.
struct World {
    separation: f64,
    generator: Generator,
}

/// How a stream moves.
#[derive(Clone, Copy)]
enum Move {
    /// Share of the second class; each class as it was.
    Shares(f64),
    /// Rows come more often the higher their score, by an exponential of it.
    Inputs(f64),
}

impl World {
    fn new(separation: f64, seed: u64) -> Self {
        Self {
            separation,
            generator: Generator::new(seed),
        }
    }

    fn row(&mut self, share: f64) -> (f64, u32) {
        let label = u32::from(self.generator.uniform() < share);
        let mean = self.separation * (f64::from(label) - 0.5);
        (mean + self.generator.normal(), label)
    }

    fn rows(&mut self, count: usize, moved: Move) -> (Probabilities, Vec<u32>) {
        let (mut values, mut labels) = (Vec::new(), Vec::new());
        while labels.len() < count {
            let (x, label) = match moved {
                Move::Shares(share) => self.row(share),
                Move::Inputs(tilt) => {
                    // Both classes' rows move by the tilt, and each score means what it meant.
                    let odds = (tilt * self.separation).exp();
                    let x = self.row(odds / (1.0 + odds)).0 + tilt;
                    let p = 1.0 / (1.0 + (-self.separation * x).exp());
                    (x, u32::from(self.generator.uniform() < p))
                }
            };
            let p = 1.0 / (1.0 + (-self.separation * x).exp());
            values.extend([1.0 - p, p]);
            labels.push(label);
        }
        let rows = Rows::new(&values[..], 2).unwrap();
        (Probabilities::new("test", rows).unwrap(), labels)
    }

    fn held_out(&mut self, count: usize) -> HeldOut {
        let (probabilities, labels) = self.rows(count, Move::Shares(0.5));
        HeldOut {
            latents: Vec::new(),
            probabilities,
            labels,
        }
    }
}

/// The stories after `blocks` of 500.
fn after(
    world: &mut World,
    held_out: &HeldOut,
    moved: Move,
    blocks: usize,
    reference: bool,
) -> Stories {
    let reference = reference.then(|| ReferenceRows {
        latents: Vec::new(),
        probabilities: world.rows(20_000, Move::Shares(0.5)).0,
    });
    let tests = StoryTests::new(held_out, reference.as_ref());
    let binning = Binning::new(held_out).unwrap();
    let mut window = StoryWindow::default();
    for _ in 0..blocks {
        let (probabilities, _) = world.rows(500, moved);
        let coarse = binning.histogram(&[], &probabilities).bins;
        tests.take_in(&mut window, &[], &probabilities, &coarse);
    }
    let even = LabelProportions::uniform(2);
    let correction = Correction {
        training: &even,
        target: &even,
    };
    tests.judge(&mut window, &even, &correction).unwrap().0
}

#[test]
fn moved_shares_and_moved_inputs_are_told_apart_where_rows_can_tell() {
    for seed in 0..5 {
        let mut world = World::new(2.0, seed);
        let held_out = world.held_out(2_000);
        let shares = after(&mut world, &held_out, Move::Shares(0.85), 6, true);
        assert!(shares.log_odds > 3.0 && shares.power > 2.0, "{shares:?}");
        assert!(shares.from_shares.abs() < 3.0, "{shares:?}");
        assert!(
            (shares.if_shares_moved[1] - 0.85).abs() < 0.03,
            "{shares:?}"
        );
        let inputs = after(&mut world, &held_out, Move::Inputs(0.5), 6, true);
        assert!(inputs.log_odds < -3.0, "{inputs:?}");
        assert!(inputs.from_inputs.abs() < 3.0, "{inputs:?}");
    }
}

#[test]
fn a_weak_model_and_an_unmoved_stream_prove_nothing() {
    for seed in 0..5 {
        let mut weak = World::new(0.3, seed);
        let held_out = weak.held_out(1_000);
        let stories = after(&mut weak, &held_out, Move::Shares(0.7), 6, true);
        assert!(stories.log_odds < 3.0, "{stories:?}");
        let mut world = World::new(2.0, seed);
        let held_out = world.held_out(1_000);
        let stories = after(&mut world, &held_out, Move::Shares(0.5), 6, false);
        assert!(stories.log_odds < 3.0 && stories.power < 2.0, "{stories:?}");
    }
}

#[test]
fn near_copies_of_rows_count_once() {
    let mut world = World::new(2.0, 7);
    let held_out = world.held_out(1_000);
    let tests = StoryTests::new(&held_out, None);
    let binning = Binning::new(&held_out).unwrap();
    for copies in [1, 10, 50] {
        let mut window = StoryWindow::default();
        for _ in 0..6 {
            let (rows, _) = world.rows(500 / copies, Move::Shares(0.5));
            let repeated = rows.rows().flat_map(|row| row.repeat(copies));
            let repeated: Vec<f64> = repeated.collect();
            let rows = Probabilities::from_checked(repeated, 2);
            let coarse = binning.histogram(&[], &rows).bins;
            tests.take_in(&mut window, &[], &rows, &coarse);
        }
        let independent = window.independent();
        let expected = 1.0 / copies as f64;
        assert!(
            (0.5..2.5).contains(&(independent / expected)),
            "{copies} copies: {independent}"
        );
        assert_eq!(window.since_jump(), 3_000, "{copies} copies");
    }
}

#[test]
fn what_is_no_number_is_no_evidence() {
    let even = LabelProportions::uniform(2);
    let correction = Correction {
        training: &even,
        target: &even,
    };
    let constant = vec![0.5; 200];
    let certain: Vec<f64> = (0..100)
        .flat_map(|row| if row % 2 == 0 { [1.0, 0.0] } else { [0.0, 1.0] })
        .collect();
    let labels: Vec<u32> = (0..100).map(|row| row % 2).collect();
    for (name, values, judged) in [("constant", constant, false), ("0 and 1", certain, true)] {
        let held_out = HeldOut {
            latents: Vec::new(),
            probabilities: Probabilities::from_checked(values.clone(), 2),
            labels: labels.clone(),
        };
        let tests = StoryTests::new(&held_out, None);
        let binning = Binning::new(&held_out).unwrap();
        let mut window = StoryWindow::default();
        for _ in 0..3 {
            let rows = Probabilities::from_checked(values.clone(), 2);
            let coarse = binning.histogram(&[], &rows).bins;
            tests.take_in(&mut window, &[], &rows, &coarse);
        }
        let stories = tests.judge(&mut window, &even, &correction);
        assert_eq!(stories.is_some(), judged, "{name}");
        if let Some((stories, _)) = stories {
            let numbers = [
                stories.from_shares,
                stories.from_inputs,
                stories.power,
                stories.log_odds,
            ];
            assert!(
                numbers.iter().all(|number| number.is_finite()),
                "{name}: {stories:?}"
            );
        }
    }
}

#[test]
fn correction_that_comes_too_late_has_lost_and_timely_correction_has_gained() {
    let mut world = World::new(2.0, 3);
    let held_out = world.held_out(2_000);
    let tests = StoryTests::new(&held_out, None);
    let training = LabelProportions::uniform(2);
    let (rows, _) = world.rows(500, Move::Shares(0.85));
    let chosen = |share: f64| {
        let shares = LabelProportions::new(vec![1.0 - share, share]).unwrap();
        vec![(50, Some(shares)); 10]
    };
    let gain = |share| tests.gain(&rows, &training, &chosen(share));
    assert!(gain(0.85) > 1.0, "{}", gain(0.85));
    assert!(gain(0.15) < -2.0, "{}", gain(0.15));
    assert_eq!(tests.gain(&rows, &training, &vec![(50, None); 10]), 0.0);
}
