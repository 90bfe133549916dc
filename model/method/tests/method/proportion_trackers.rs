//! Compares the adaptive tracker with every fixed half-life in hindsight, and tests what is saved of a tracker.
//! `cargo test --test proportion_trackers -- --nocapture` prints the table.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use ostar_engine::Generator;
use ostar_method::proportions::{
    Estimator, LabelProportions, ProportionEstimator, Tracker, TrackerSettings,
};

use crate::gaussians::Gaussians;

const BLOCKS: usize = 400;
const BLOCK_ROWS: usize = 250;
const HALF_LIVES: [f64; 10] = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

fn problem() -> Gaussians {
    Gaussians {
        prior: LabelProportions::uniform(3),
        separation: 2.5,
        sharpness: 1.3,
    }
}

fn estimator(problem: &Gaussians, generator: &mut Generator) -> ProportionEstimator {
    let (held_out, labels) = problem.draw_held_out(3000, generator);
    let prior = problem.prior.clone();
    ProportionEstimator::new(Estimator::default(), held_out, labels, prior).unwrap()
}

/// True proportions at a position from 0 to 1 between two mixtures.
fn between(position: f64) -> LabelProportions {
    let (first, second) = ([0.7, 0.2, 0.1], [0.1, 0.3, 0.6]);
    let mixed = first
        .iter()
        .zip(second)
        .map(|(a, b)| (1.0 - position) * a + position * b);
    LabelProportions::from_counts(&mixed.collect::<Vec<f64>>()).unwrap()
}

/// True proportions at a block.
type Stream = (&'static str, fn(usize) -> f64);

const STREAMS: [Stream; 5] = [
    ("square, period 200", |block| (block / 100 % 2) as f64),
    ("square, period 50", |block| (block / 25 % 2) as f64),
    ("sinusoidal, period 150", |block| {
        0.5 - 0.5 * (std::f64::consts::TAU * block as f64 / 150.0).cos()
    }),
    ("monotone", |block| block as f64 / BLOCKS as f64),
    ("constant", |_| 0.3),
];

/// Mean l1 error of each tracker over a stream. All trackers see the same evidence.
fn errors(stream: Stream, settings: &[TrackerSettings]) -> Vec<f64> {
    let problem = problem();
    let mut generator = Generator::new(11);
    let estimator = estimator(&problem, &mut generator);
    let new = |settings: &TrackerSettings| Tracker::new(settings).unwrap();
    let mut trackers: Vec<Tracker> = settings.iter().map(new).collect();
    let mut errors = vec![0.0; trackers.len()];
    for block in 0..BLOCKS {
        let truth = between(stream.1(block));
        let (rows, _) = problem.draw(BLOCK_ROWS, &truth, &mut generator);
        let evidence = estimator.evidence(&rows, None).unwrap();
        for (tracker, error) in trackers.iter_mut().zip(&mut errors) {
            let estimate = tracker.update(&evidence).unwrap();
            *error += estimate.proportions.l1_distance(&truth) / BLOCKS as f64;
        }
    }
    errors
}

#[test]
fn the_adaptive_tracker_is_near_the_best_half_life_in_hindsight() {
    let mut settings = vec![TrackerSettings::default(), TrackerSettings::Cumulative];
    settings.extend(HALF_LIVES.map(|blocks| TrackerSettings::HalfLife { blocks }));
    println!("mean l1 error    adaptive  cumulative  best half-life   adaptive / best");
    for stream in STREAMS {
        let errors = errors(stream, &settings);
        let fixed = HALF_LIVES.iter().zip(&errors[2..]);
        let (half_life, best) = fixed.min_by(|a, b| a.1.total_cmp(b.1)).unwrap();
        let (adaptive, cumulative) = (errors[0], errors[1]);
        let ratio = adaptive / best;
        println!(
            "{:24} {adaptive:.4}  {cumulative:.4}      {best:.4} (at {half_life})   {ratio:.2}",
            stream.0
        );
        assert!(ratio <= 1.2, "{}: {ratio}", stream.0);
    }
}

#[test]
fn a_tracker_restored_from_its_saved_state_goes_on_bit_for_bit() {
    let problem = problem();
    let mut generator = Generator::new(12);
    let estimator = estimator(&problem, &mut generator);
    let mut tracker = Tracker::new(&TrackerSettings::default()).unwrap();
    for block in 0..20 {
        let (rows, _) = problem.draw(100, &between(f64::from(block) / 20.0), &mut generator);
        let mut restored: Tracker =
            serde_json::from_str(&serde_json::to_string(&tracker).unwrap()).unwrap();
        let evidence = estimator.evidence(&rows, None).unwrap();
        let again = estimator.evidence(&rows, None).unwrap();
        assert_eq!(
            tracker.update(&evidence).unwrap(),
            restored.update(&again).unwrap()
        );
        assert_eq!(tracker, restored);
    }
}

#[test]
fn the_cumulative_tracker_is_the_mean_over_all_rows() {
    let problem = problem();
    let mut generator = Generator::new(13);
    let (held_out, labels) = problem.draw_held_out(500, &mut generator);
    let prior = problem.prior.clone();
    let estimator =
        ProportionEstimator::new(Estimator::Confusion, held_out, labels, prior).unwrap();
    let mut tracker = Tracker::new(&TrackerSettings::Cumulative).unwrap();
    let (mut estimate, mut sums) = (None, vec![0.0; 3]);
    for rows in [100, 50, 250] {
        let (rows, _) = problem.draw(rows, &between(0.4), &mut generator);
        let mean = rows.mean();
        sums.iter_mut()
            .zip(mean)
            .for_each(|(s, q)| *s += q * rows.count() as f64);
        estimate = Some(
            tracker
                .update(&estimator.evidence(&rows, None).unwrap())
                .unwrap(),
        );
    }
    let marginal: Vec<f64> = sums.iter().map(|sum| sum / 400.0).collect();
    let at_once = estimator.confusion().solve(&marginal).unwrap();
    let estimate = estimate.unwrap();
    assert!(estimate.proportions.l1_distance(&at_once) < 1e-12);
    assert!((estimate.effective_rows - 400.0).abs() < 1e-9);
}

#[test]
fn half_lives_that_are_not_above_zero_are_refused_by_name() {
    let message = |settings| Tracker::new(&settings).unwrap_err().to_string();
    let half_life = message(TrackerSettings::HalfLife { blocks: 0.0 });
    assert!(
        half_life.starts_with("tracker.half_life.blocks: is 0"),
        "{half_life}"
    );
    let adaptive = message(TrackerSettings::Adaptive {
        half_lives: vec![1.0, f64::NAN],
    });
    assert!(
        adaptive.starts_with("tracker.adaptive.half_lives: is NaN"),
        "{adaptive}"
    );
}
