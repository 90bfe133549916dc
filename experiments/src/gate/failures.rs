//! Generated streams on which something goes wrong.

use clap::ValueEnum;
use ostar_engine::Generator;

use crate::task::Domain;

/// Classes of the generated streams.
pub const CLASSES: usize = 3;
/// Numbers of a row.
const WIDTH: usize = 6;
/// Rows to train on, rows before something goes wrong, and rows in all.
const SOURCE_ROWS: usize = 6_000;
const QUIET_ROWS: usize = 4_000;
const ROWS: usize = 12_000;
/// Distance between neighbouring class means, in deviations.
const SEPARATION: f64 = 2.2;

/// What goes wrong after a quiet start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Failure {
    /// Nothing: the control.
    NoShift,
    /// Runs of 300 rows of one class.
    OneClassBursts,
    /// Rows come sorted by class within every 400.
    CorrelatedOrder,
    /// A class disappears.
    VanishingClass,
    /// A quarter of the rows are of a class that the model does not know.
    NewClass,
    /// One number is multiplied by 1,000.
    FieldTimesThousand,
    /// Classes turn around the middle, slowly.
    SlowRotation,
    /// Every row is far away from all that was trained on.
    FarTarget,
    /// Proportions alternate every 1,000 rows.
    AlternatingRegimes,
    /// Five in a hundred rows are crafted to look like the third class.
    CraftedEvents,
    /// A class moves along the line to another: no statistic without labels can tell it from label shift.
    AlongTheLine,
}

/// All of them.
pub const ALL: [Failure; 11] = [
    Failure::NoShift,
    Failure::OneClassBursts,
    Failure::CorrelatedOrder,
    Failure::VanishingClass,
    Failure::NewClass,
    Failure::FieldTimesThousand,
    Failure::SlowRotation,
    Failure::FarTarget,
    Failure::AlternatingRegimes,
    Failure::CraftedEvents,
    Failure::AlongTheLine,
];

impl Failure {
    /// As in results files.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoShift => "no shift",
            Self::OneClassBursts => "one-class bursts",
            Self::CorrelatedOrder => "correlated order",
            Self::VanishingClass => "vanishing class",
            Self::NewClass => "new class",
            Self::FieldTimesThousand => "one field x1000",
            Self::SlowRotation => "slow rotation",
            Self::FarTarget => "far target",
            Self::AlternatingRegimes => "alternating regimes",
            Self::CraftedEvents => "crafted events",
            Self::AlongTheLine => "along the line",
        }
    }

    /// Labelled rows to train on, and the stream.
    pub fn generate(self, seed: u64) -> (Domain, Domain) {
        let mut generator = Generator::new(seed ^ 0xfa11);
        let means = classes(CLASSES, SEPARATION);
        let source = as_in_training(SOURCE_ROWS, &mut generator);
        let mut stream = Domain {
            width: WIDTH,
            rows: Vec::with_capacity(ROWS * WIDTH),
            labels: Vec::with_capacity(ROWS),
        };
        for row in 0..ROWS {
            let broken = row >= QUIET_ROWS;
            let progress = (row.saturating_sub(QUIET_ROWS)) as f64 / (ROWS - QUIET_ROWS) as f64;
            let label = if broken {
                self.label(row, &mut generator)
            } else {
                generator.below(CLASSES)
            };
            let mut values = around(&means[label], &mut generator);
            if broken {
                self.spoil(&mut values, label, progress, &means, &mut generator);
            }
            stream.rows.extend(values.iter().map(|value| *value as f32));
            stream.labels.push(label as u32);
        }
        (source, stream)
    }

    fn label(self, row: usize, generator: &mut Generator) -> usize {
        let weighted = |weights: [f64; CLASSES], generator: &mut Generator| {
            let mut at = generator.uniform() * weights.iter().sum::<f64>();
            let found = weights.iter().position(|weight| {
                at -= weight;
                at < 0.0
            });
            found.unwrap_or(CLASSES - 1)
        };
        match self {
            Self::OneClassBursts if (row / 300).is_multiple_of(4) => 2,
            Self::CorrelatedOrder => row % 400 * CLASSES / 400,
            Self::VanishingClass => weighted([0.5, 0.5, 0.0], generator),
            Self::AlternatingRegimes if (row / 1_000).is_multiple_of(2) => {
                weighted([0.8, 0.1, 0.1], generator)
            }
            Self::AlternatingRegimes => weighted([0.1, 0.1, 0.8], generator),
            // Shares differ from those of training, too: with even shares a symmetric shift would look harmless.
            Self::FieldTimesThousand => weighted([0.8, 0.1, 0.1], generator),
            Self::SlowRotation => weighted([0.6, 0.3, 0.1], generator),
            Self::FarTarget => weighted([0.2, 0.2, 0.6], generator),
            _ => generator.below(CLASSES),
        }
    }

    fn spoil(
        self,
        values: &mut [f64],
        label: usize,
        progress: f64,
        means: &[Vec<f64>],
        generator: &mut Generator,
    ) {
        match self {
            Self::NewClass if generator.uniform() < 0.25 => {
                // Its rows keep a label at random: nobody could be right.
                for (place, value) in values.iter_mut().enumerate() {
                    *value = generator.normal() + if place % 2 == 1 { 4.0 } else { 0.0 };
                }
            }
            Self::FieldTimesThousand => values[1] *= 1_000.0,
            Self::SlowRotation => {
                let (sine, cosine) = (progress * 1.6).sin_cos();
                let (x, y) = (values[0], values[1]);
                values[0] = cosine * x - sine * y;
                values[1] = sine * x + cosine * y;
            }
            Self::FarTarget => values.iter_mut().for_each(|value| *value += 3.0),
            Self::CraftedEvents if generator.uniform() < 0.05 => {
                values
                    .clone_from_slice(&means[2].iter().map(|mean| 1.5 * mean).collect::<Vec<_>>());
            }
            Self::AlongTheLine if label == 0 => {
                for ((value, to), from) in values.iter_mut().zip(&means[1]).zip(&means[0]) {
                    *value += 0.5 * (to - from);
                }
            }
            _ => {}
        }
    }
}

/// Rows before anything goes wrong, each class as often.
pub(super) fn as_in_training(rows: usize, generator: &mut Generator) -> Domain {
    let means = classes(CLASSES, SEPARATION);
    draw(&means, rows, 1.0 / CLASSES as f64, generator)
}

/// Means of classes on a circle in the first two numbers, `separation` deviations apart.
pub fn classes(count: usize, separation: f64) -> Vec<Vec<f64>> {
    let turn = std::f64::consts::TAU / count as f64;
    let radius = separation / (2.0 * (turn / 2.0).sin());
    let mean = |class: usize| {
        let (sine, cosine) = (turn * class as f64).sin_cos();
        let mut mean = vec![0.0; WIDTH];
        (mean[0], mean[1]) = (radius * cosine, radius * sine);
        mean
    };
    (0..count).map(mean).collect()
}

/// Rows of Gaussian classes; the second has `share` of the rows, the others the rest alike.
pub fn draw(means: &[Vec<f64>], rows: usize, share: f64, generator: &mut Generator) -> Domain {
    let mut domain = Domain {
        width: WIDTH,
        rows: Vec::with_capacity(rows * WIDTH),
        labels: Vec::with_capacity(rows),
    };
    for _ in 0..rows {
        let label = if generator.uniform() < share {
            1
        } else {
            let other = generator.below(means.len() - 1);
            other + usize::from(other >= 1)
        };
        let values = around(&means[label], generator);
        domain.rows.extend(values.iter().map(|value| *value as f32));
        domain.labels.push(label as u32);
    }
    domain
}

fn around(mean: &[f64], generator: &mut Generator) -> Vec<f64> {
    mean.iter().map(|mean| mean + generator.normal()).collect()
}
