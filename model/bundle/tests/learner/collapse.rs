//! With settings that are known to collapse, the adapted classifier falls far below the frozen one. The guard keeps
//! such a classifier from being served.

use ostar_engine::{
    Generator, Inputs, Rows,
    architecture::{CriticShape, MapShape, Norm},
};
use ostar_method::{
    diagnostics::{Decision, GuardLimits, Reason},
    learner::{
        AlignmentProportions, Learner, LearnerSettings, Rates, RefreshReport, Scores,
        TransportWeight,
    },
};

use crate::two_classes::{bundle, draw, learn};

const WIDTH: usize = 4;
const BLOCK: usize = 200;
const BLOCKS: usize = 10;
const PASSES: usize = 4;
const STEPS: usize = 10;
/// Proportion of the second class in the target; in the source it is one half.
const TARGET_PROPORTION: f64 = 0.95;

/// p_N uniform and never refreshed, and a weak transport cost. Small networks and high rates keep the test fast.
fn collapsing(guard: GuardLimits, seed: u64) -> LearnerSettings {
    LearnerSettings {
        alignment_proportions: AlignmentProportions::Uniform,
        transport: TransportWeight::Fixed { weight: 0.01 },
        rates: Rates {
            critic: 1e-3,
            map: 1e-3,
            classifier: 1e-3,
        },
        guard,
        seed,
        map: MapShape {
            blocks: 2,
            norm: Norm::Layer,
        },
        critic: CriticShape {
            hidden: vec![64, 64],
        },
        batch: 100,
        window: BLOCK * BLOCKS,
        threads: 1,
        ..LearnerSettings::default()
    }
}

/// Limits that no state exceeds: the guard refuses nothing.
fn open() -> GuardLimits {
    GuardLimits {
        map_must_help: false,
        one_class: 2.0,
        movement_ratio: 1e9,
        cross_entropy_margin: 1e9,
        smallest_singular_value: 0.0,
        ..GuardLimits::default()
    }
}

/// Accuracies of everything that was served during the stream, and all refreshes.
struct Run {
    /// Accuracy of the frozen classifier.
    frozen: f64,
    /// Accuracy of the adapted classifier, one for each snapshot.
    served: Vec<f64>,
    refreshes: Vec<RefreshReport>,
}

fn run(guard: GuardLimits, seed: u64) -> Run {
    let mut generator = Generator::new(2 + seed);
    let (stream, _) = draw(BLOCK * BLOCKS, WIDTH, TARGET_PROPORTION, &mut generator);
    let (test, labels) = draw(5000, WIDTH, TARGET_PROPORTION, &mut generator);
    let inputs = |latents| Inputs::Dense(Rows::new(latents, WIDTH).unwrap());
    let accuracy = |probabilities: &[f32]| {
        let rows = probabilities.chunks_exact(2).zip(&labels);
        let right = rows.filter(|(row, label)| (row[1] > row[0]) == (**label == 1));
        right.count() as f64 / labels.len() as f64
    };
    let mut learner =
        Learner::new(&bundle(WIDTH).deployed().unwrap(), collapsing(guard, seed)).unwrap();
    let mut scores = Scores::default();
    let (mut served, mut refreshes) = (Vec::new(), Vec::new());
    for block in stream.chunks(BLOCK * WIDTH).cycle().take(PASSES * BLOCKS) {
        learn(&mut learner, inputs(block)).unwrap();
        for _ in 0..STEPS {
            let (_, refresh) = learner.step().unwrap();
            refreshes.extend(refresh);
        }
        let snapshot = learner.snapshot();
        snapshot.score(inputs(&test[..]), &mut scores).unwrap();
        served.push(accuracy(&scores.adapted));
    }
    let frozen = accuracy(&scores.frozen);
    Run {
        frozen,
        served,
        refreshes,
    }
}

fn lowest(run: &Run) -> f64 {
    run.served.iter().copied().fold(f64::INFINITY, f64::min)
}

#[test]
fn settings_that_collapse_are_never_served_more_than_a_point_below_frozen() {
    for seed in 0..2 {
        let unguarded = run(open(), seed);
        let Run { frozen, served, .. } = &unguarded;
        assert!(
            lowest(&unguarded) < frozen - 0.1,
            "no collapse: {served:?}, {frozen}"
        );

        let guarded = run(GuardLimits::default(), seed);
        let Run { frozen, served, .. } = &guarded;
        assert!(lowest(&guarded) >= frozen - 0.01, "{served:?}, {frozen}");
        let reasons: Vec<&Reason> = guarded
            .refreshes
            .iter()
            .filter_map(|report| match &report.decision {
                Decision::Refuse(reason) => Some(reason),
                Decision::Serve => None,
            })
            .collect();
        assert!(!reasons.is_empty());
        for reason in reasons {
            assert!(
                [
                    "class_movement",
                    "held_out_loss",
                    "map_does_not_help",
                    "one_class"
                ]
                .contains(&reason.label()),
                "{reason}"
            );
        }
        assert!(guarded.refreshes.iter().any(|report| report.restored));
    }
}
