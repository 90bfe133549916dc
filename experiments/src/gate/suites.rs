//! Streams that the gate is tried on.

use std::path::Path;

use anyhow::{Context, Result};
use ostar_engine::Generator;

use super::{failures, two_shifts};
use crate::{
    data::{
        bank::contacts,
        digits::{Digits, Intensity, Preparation},
        features::FeatureFile,
        locate,
        mail::inboxes,
    },
    task::Domain,
};

/// Rows of a generated or resampled stream.
const ROWS: usize = 10_000;
/// Rows that a digits classifier is trained on.
const DIGITS_TRAINED: usize = 5_000;

/// Kinds of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Suite {
    /// Phone contacts: trained on some tenths, replayed on all after them.
    Bank,
    /// Mail: a filter of one inbox on another, 30 pairs.
    Enron,
    /// Exact label shift: inboxes, Gaussians and digits, resampled within themselves.
    Exact,
    /// Reviews: one product on another, 12 pairs, as they are and at 20 % and 80 % positive.
    Amazon,
    /// Objects: one camera on another, pairs of four.
    Office,
    /// Streams on which label shift is false, or the order is not random.
    Failures,
    /// Five Gaussian classes that turn, move and change their shares at once, after 3,000 rows.
    TwoShifts,
}

/// A source to train on and the stream after it.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Such as `inbox 1 at 30 %`.
    pub name: String,
    /// What the classifier is trained on.
    pub source: Domain,
    /// What is replayed.
    pub stream: Domain,
    /// How many classes there are.
    pub classes: usize,
}

impl Suite {
    /// As on the command line and in results files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bank => "bank",
            Self::Enron => "enron",
            Self::Exact => "exact",
            Self::Amazon => "amazon",
            Self::Office => "office",
            Self::Failures => "failures",
            Self::TwoShifts => "two-shifts",
        }
    }

    /// Calls `visit` with every stream; one at a time, because they are large.
    pub fn each(
        self,
        data: &Path,
        seed: u64,
        visit: &mut dyn FnMut(Scenario) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Bank => bank(data, visit),
            Self::Enron => enron(data, visit),
            Self::Exact => exact(data, seed, visit),
            Self::Amazon => amazon(data, seed, visit),
            Self::Office => office(data, seed, visit),
            Self::TwoShifts => {
                let usual = two_shifts::TwoShifts::USUAL;
                let (source, stream, _) = two_shifts::generate(seed, usual, 0);
                visit(Scenario {
                    name: "rotation 55, translation 0.5".to_owned(),
                    source,
                    stream,
                    classes: two_shifts::CLASSES,
                })
            }
            Self::Failures => failures::ALL.into_iter().try_for_each(|failure| {
                let (source, stream) = failure.generate(seed);
                visit(Scenario {
                    name: failure.name().to_owned(),
                    source,
                    stream,
                    classes: failures::CLASSES,
                })
            }),
        }
    }
}

type Visit<'a> = &'a mut dyn FnMut(Scenario) -> Result<()>;

fn bank(data: &Path, visit: Visit<'_>) -> Result<()> {
    let all = contacts(data)?;
    let tenth = |number: usize| number * all.count() / 10;
    for (name, first, last) in [
        ("tenth 1", 0, 1),
        ("tenths 1-4", 0, 4),
        ("tenth 4", 3, 4),
        ("tenth 8", 7, 8),
    ] {
        let rows = |from: usize, to: usize| (tenth(from)..tenth(to)).collect::<Vec<_>>();
        visit(Scenario {
            name: name.to_owned(),
            source: all.select(&rows(first, last)),
            stream: all.select(&rows(last, 10)),
            classes: 2,
        })?;
    }
    Ok(())
}

fn enron(data: &Path, visit: Visit<'_>) -> Result<()> {
    let inboxes = inboxes(data)?;
    for (source, from) in inboxes.iter().enumerate() {
        for (target, to) in inboxes.iter().enumerate() {
            if source != target {
                visit(Scenario {
                    name: format!("{}-{}", source + 1, target + 1),
                    source: from.clone(),
                    stream: to.clone(),
                    classes: 2,
                })?;
            }
        }
    }
    Ok(())
}

/// Proportion of the second class along a stream.
#[derive(Debug, Clone, Copy)]
enum Course {
    Constant(f64),
    /// Between 0.2 and 0.8, so many rows each.
    Square(usize),
    /// From 0.1 to 0.9.
    Gradual,
}

const COURSES: [(&str, Course); 8] = [
    ("10 %", Course::Constant(0.1)),
    ("30 %", Course::Constant(0.3)),
    ("50 %", Course::Constant(0.5)),
    ("70 %", Course::Constant(0.7)),
    ("90 %", Course::Constant(0.9)),
    ("square 1000", Course::Square(1_000)),
    ("square 5000", Course::Square(5_000)),
    ("gradual", Course::Gradual),
];

impl Course {
    fn at(self, row: usize) -> f64 {
        match self {
            Self::Constant(proportion) => proportion,
            Self::Square(rows) if (row / rows).is_multiple_of(2) => 0.2,
            Self::Square(_) => 0.8,
            Self::Gradual => 0.1 + 0.8 * row as f64 / ROWS as f64,
        }
    }
}

fn exact(data: &Path, seed: u64, visit: Visit<'_>) -> Result<()> {
    for (number, inbox) in inboxes(data)?.iter().enumerate() {
        let (source, pool) = halves(inbox, seed);
        for (name, course) in COURSES {
            let name = format!("inbox {} at {name}", number + 1);
            let stream = resample(&pool, course, seed);
            let source = source.clone();
            visit(Scenario {
                name,
                source,
                stream,
                classes: 2,
            })?;
        }
    }
    for separation in [1.5, 2.5] {
        let mut generator = Generator::new(seed ^ 0x6a05);
        let classes = failures::classes(2, separation);
        let source = failures::draw(&classes, 4_000, 0.5, &mut generator);
        let pool = failures::draw(&classes, 20_000, 0.5, &mut generator);
        for (name, course) in COURSES {
            let name = format!("Gaussians {separation} at {name}");
            let stream = resample(&pool, course, seed);
            let source = source.clone();
            visit(Scenario {
                name,
                source,
                stream,
                classes: 2,
            })?;
        }
    }
    digits(data, seed, visit)
}

/// Digits of each file at other proportions, ten classes.
fn digits(data: &Path, seed: u64, visit: Visit<'_>) -> Result<()> {
    let files = Digits::read(data, Preparation::Fill, Intensity::Signed)?;
    for (name, domain) in [("MNIST", &files.mnist), ("USPS", &files.usps)] {
        let mut generator = Generator::new(seed ^ 0xd161);
        let mut numbers: Vec<usize> = (0..domain.count()).collect();
        generator.shuffle(&mut numbers);
        let trained = DIGITS_TRAINED.min(domain.count() / 2);
        let source = domain.select(&numbers[..trained]);
        let pool = &numbers[trained..];
        for (shift, weight) in [
            ("even digits at a tenth", 0.1),
            ("even digits threefold", 3.0),
        ] {
            let of_class = |class: u32| -> Vec<usize> {
                pool.iter()
                    .copied()
                    .filter(|row| domain.labels[*row] == class)
                    .collect()
            };
            let by_class: Vec<Vec<usize>> = (0..10).map(of_class).collect();
            let weights: Vec<f64> = (0..10)
                .map(|c| if c % 2 == 0 { weight } else { 1.0 })
                .collect();
            let total: f64 = weights.iter().sum();
            let mut drawn = Vec::with_capacity(ROWS);
            for _ in 0..ROWS {
                let mut at = generator.uniform() * total;
                let class = weights.iter().position(|weight| {
                    at -= weight;
                    at < 0.0
                });
                let rows = &by_class[class.unwrap_or(9)];
                drawn.push(rows[generator.below(rows.len())]);
            }
            visit(Scenario {
                name: format!("{name}, {shift}"),
                source: source.clone(),
                stream: domain.select(&drawn),
                classes: 10,
            })?;
        }
    }
    Ok(())
}

/// Two random halves: one to train on, one to draw from.
fn halves(domain: &Domain, seed: u64) -> (Domain, Domain) {
    let mut numbers: Vec<usize> = (0..domain.count()).collect();
    Generator::new(seed ^ 0x4a1f).shuffle(&mut numbers);
    let (left, right) = numbers.split_at(domain.count() / 2);
    (domain.select(left), domain.select(right))
}

/// Rows of a pool, with replacement, the second class as often as the course says.
fn resample(pool: &Domain, course: Course, seed: u64) -> Domain {
    let mut generator = Generator::new(seed ^ 0x5a3e);
    let of_class = |class: u32| -> Vec<usize> {
        (0..pool.count())
            .filter(|row| pool.labels[*row] == class)
            .collect()
    };
    let classes = [of_class(0), of_class(1)];
    let mut draw = |row: usize| {
        let rows = &classes[usize::from(generator.uniform() < course.at(row))];
        rows[generator.below(rows.len())]
    };
    let drawn: Vec<usize> = (0..ROWS).map(&mut draw).collect();
    pool.select(&drawn)
}

fn amazon(data: &Path, seed: u64, visit: Visit<'_>) -> Result<()> {
    let file = FeatureFile::read(&locate(data, "amazon_reviews")?)?;
    for source in file.names() {
        for target in file.names().into_iter().filter(|target| *target != source) {
            let task = file.task(source, target, 1.0, seed)?;
            let shuffled = task.target.shuffled(seed);
            for (name, positive) in [("as it is", None), ("20 %", Some(0.2)), ("80 %", Some(0.8))] {
                let stream = match positive {
                    None => shuffled.clone(),
                    Some(share) => shuffled.with_positive_share(share, seed),
                };
                visit(Scenario {
                    name: format!("{source}-{target} {name}"),
                    source: task.source.clone(),
                    stream,
                    classes: 2,
                })?;
            }
        }
    }
    Ok(())
}

fn office(data: &Path, seed: u64, visit: Visit<'_>) -> Result<()> {
    let path = locate(data, "office_caltech10_effnetlite2").context("the Office-Caltech suite")?;
    let file = FeatureFile::read(&path)?;
    // Streams shorter than a block decide nothing.
    for source in ["amazon", "caltech10", "webcam"] {
        for target in ["amazon", "caltech10"] {
            if source != target {
                let task = file.task(source, target, 1.0, seed)?;
                visit(Scenario {
                    name: format!("{source}-{target}"),
                    source: task.source.clone(),
                    stream: task.target.shuffled(seed),
                    classes: file.classes(),
                })?;
            }
        }
    }
    Ok(())
}
