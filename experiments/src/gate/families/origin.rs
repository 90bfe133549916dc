//! Which world a stream belongs to: sets and parameters, all drawn from the half, the kind and a number.

use std::sync::Arc;

use anyhow::Result;
use ostar_engine::Generator;

use super::{
    columns::{columns_of, few_columns},
    gaussian::Gaussian,
    material::{Material, Pool, REFERENCE_ROWS},
    sets::{Half, RealSet, Set, Sets},
};
use crate::gate::{
    failures::{self, Failure},
    two_shifts::{self, TwoShifts},
};

/// What is asked of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Right on at least three quarters of the rows.
    Strong,
    /// Right on 55 to 70 of 100.
    Weak,
    /// Strong or weak, with 60 to 300 held-out rows.
    FewHeldOut,
    /// So many Gaussian classes.
    Classes(usize),
    /// One part of a set and another, as two inboxes: so many in [`pairs`].
    Pair(usize),
    Census,
    Defendants,
    Failure,
    TwoShifts,
}

/// Tells worlds apart; the same key is the same world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct WorldKey {
    pub(super) half: Half,
    pub(super) kind: Kind,
    pub(super) number: usize,
}

/// Where a world's rows come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Gaussian,
    Resampled(Set),
    /// Trained on parts `from..to` of a set; the stream is of parts `next..end`.
    Parts(Set, [usize; 4]),
    Given,
}

/// Sets that streams are resampled from.
const RESAMPLED: [Set; 5] = [
    Set::Mail,
    Set::Digits,
    Set::Census,
    Set::Reviews,
    Set::Adult,
];
/// Sets of two classes, of which few columns are kept.
const WEAK: [Set; 4] = [Set::Reviews, Set::Mail, Set::Adult, Set::Census];

impl WorldKey {
    pub(super) fn seed(self) -> u64 {
        let half = match self.half {
            Half::Tuning => 1,
            Half::HeldBack => 2,
        };
        let kind = match self.kind {
            Kind::Strong => 1,
            Kind::Weak => 2,
            Kind::FewHeldOut => 3,
            Kind::Census => 5,
            Kind::Defendants => 6,
            Kind::Failure => 7,
            Kind::TwoShifts => 8,
            Kind::Classes(classes) => 100 + classes as u64,
            Kind::Pair(place) => 1_000 + place as u64,
        };
        (half << 40) + (kind << 20) + self.number as u64
    }

    pub(super) fn origin(self) -> Origin {
        let is_real = self.number.is_multiple_of(2);
        let place = self.number / 2;
        match self.kind {
            Kind::Strong | Kind::FewHeldOut if is_real => {
                Origin::Resampled(RESAMPLED[place % RESAMPLED.len()])
            }
            Kind::Weak if is_real => Origin::Resampled(WEAK[place % WEAK.len()]),
            Kind::Pair(place) => {
                let (set, parts) = pairs(self.half)[place];
                Origin::Parts(set, parts)
            }
            Kind::Census if self.number.is_multiple_of(4) => {
                Origin::Parts(Set::CensusScores, [0, 1, 1, 2])
            }
            Kind::Census => Origin::Parts(Set::Census, [0, 1, 1, 2]),
            Kind::Defendants => Origin::Parts(Set::Defendants, [0, 1, 1, 2]),
            Kind::Failure | Kind::TwoShifts => Origin::Given,
            _ => Origin::Gaussian,
        }
    }
}

impl Origin {
    pub(super) fn name(self) -> String {
        match self {
            Self::Gaussian | Self::Given => "synthetic".to_owned(),
            Self::Resampled(set) | Self::Parts(set, _) => set.name().to_owned(),
        }
    }

    /// Whether a given model's scores are all there is.
    pub(super) fn is_black_box(self) -> bool {
        matches!(self, Self::Parts(Set::CensusScores, _))
    }
}

/// Pairs of parts, none of them in both halves: from a lower number to a higher one, or back.
pub(super) fn pairs(half: Half) -> Vec<(Set, [usize; 4])> {
    let mut pairs = Vec::new();
    let of_parts = |set: Set, parts: usize, pairs: &mut Vec<_>| {
        for low in 0..parts {
            for high in low + 1..parts {
                let (from, to) = match half {
                    Half::Tuning => (low, high),
                    Half::HeldBack => (high, low),
                };
                pairs.push((set, [from, from + 1, to, to + 1]));
            }
        }
    };
    of_parts(Set::Mail, 6, &mut pairs);
    of_parts(Set::Reviews, 4, &mut pairs);
    of_parts(Set::Digits, 2, &mut pairs);
    let trained = match half {
        Half::Tuning => [(0, 1), (2, 4), (5, 6), (7, 8)],
        Half::HeldBack => [(1, 2), (0, 3), (4, 5), (6, 8)],
    };
    pairs.extend(trained.map(|(from, to)| (Set::Bank, [from, to, to, 10])));
    // Of the objects the other domains have fewer rows than a block.
    of_parts(Set::Office, 2, &mut pairs);
    pairs
}

impl Material {
    pub(super) fn of(
        origin: Origin,
        key: WorldKey,
        sets: &Sets,
        generator: &mut Generator,
    ) -> Result<Option<Self>> {
        match origin {
            Origin::Given => Ok(Some(given(key))),
            Origin::Gaussian => Ok(Some(gaussian(key, generator))),
            Origin::Resampled(set) => {
                let read = sets.get(set)?;
                Ok(read.map(|rows| resampled(set, &rows, key, generator)))
            }
            Origin::Parts(set, parts) => {
                let read = sets.get(set)?;
                Ok(read.map(|rows| of_parts(set, &rows, parts, key, generator)))
            }
        }
    }
}

fn given(key: WorldKey) -> Material {
    let seed = key.seed();
    let mut generator = Generator::new(seed);
    if key.kind == Kind::Failure {
        // A class on the line to another has a family of its own.
        let kinds: Vec<Failure> = failures::ALL
            .into_iter()
            .filter(|failure| *failure != Failure::AlongTheLine)
            .collect();
        let failure = kinds[key.number % kinds.len()];
        let (source, stream) = failure.generate(seed);
        let reference = failures::as_in_training(REFERENCE_ROWS, &mut generator);
        let name = failure.name().to_owned();
        return Material::given(name, [source, reference, stream], failures::CLASSES);
    }
    let shifts = TwoShifts {
        rotation_degrees: 10.0 + 50.0 * generator.uniform(),
        translation: 0.1 + 0.5 * generator.uniform(),
    };
    let name = format!(
        "rotation {:.0}, translation {:.2}",
        shifts.rotation_degrees, shifts.translation
    );
    let (source, stream, reference) = two_shifts::generate(seed, shifts, REFERENCE_ROWS);
    Material::given(name, [source, reference, stream], two_shifts::CLASSES)
}

fn gaussian(key: WorldKey, generator: &mut Generator) -> Material {
    let classes = match key.kind {
        Kind::Classes(classes) => classes,
        _ if generator.uniform() < 0.5 => 2,
        _ => 3 + generator.below(10),
    };
    let between =
        |low: f64, high: f64, generator: &mut Generator| low + (high - low) * generator.uniform();
    let is_weak = match key.kind {
        Kind::Weak => true,
        Kind::FewHeldOut => generator.uniform() < 0.3,
        _ => false,
    };
    let (accuracy, spread) = match key.kind {
        _ if is_weak => (between(0.57, 0.71, generator), 0.2),
        Kind::Classes(_) => (between(0.8, 0.97, generator), 0.1),
        _ => (between(0.8, 0.97, generator), 0.5),
    };
    let shares = shares_of(classes, spread, generator);
    let (width, rows) = match key.kind {
        // Of some worlds the classes have too few held-out rows, of others enough.
        Kind::Classes(classes) if key.number.is_multiple_of(2) => (24, 50 * classes),
        Kind::Classes(classes) => (24, 260 * classes),
        _ => (4 + generator.below(9), 2_000 + generator.below(4_000)),
    };
    let gaussian = Gaussian::of_accuracy(accuracy, &shares, width, generator);
    let name = format!("{classes} Gaussian classes");
    Material::gaussian(name, gaussian, shares, rows, generator)
}

/// Shares whose logarithms differ by chance.
fn shares_of(classes: usize, spread: f64, generator: &mut Generator) -> Vec<f64> {
    let weights: Vec<f64> = (0..classes)
        .map(|_| (spread * generator.normal()).exp())
        .collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

/// Rows of one distribution: a draw of the half's rows, all columns or few, at the set's shares or others.
fn resampled(set: Set, real: &Arc<RealSet>, key: WorldKey, generator: &mut Generator) -> Material {
    let mut numbers = set.rows_of(real, key.half);
    let mut rows = Arc::clone(&real.rows);
    let mut classes = real.classes;
    let mut name = set.name().to_owned();
    if classes > 2 {
        let mut kept: Vec<u32> = (0..classes as u32).collect();
        generator.shuffle(&mut kept);
        kept.truncate(2 + generator.below(classes - 1));
        numbers.retain(|row| kept.contains(&rows.labels[*row]));
        let mut own = rows.select(&numbers);
        for label in &mut own.labels {
            *label = kept.iter().position(|class| class == label).unwrap_or(0) as u32;
        }
        (numbers, rows, classes) = ((0..own.count()).collect(), Arc::new(own), kept.len());
        name = format!("{name} of {classes} classes");
    }
    let is_weak = key.kind == Kind::Weak;
    // A weak model of uneven shares says one class and no more.
    let spread = if is_weak { 0.2 } else { 0.5 };
    let shares = shares_of(classes, spread, generator);
    if is_weak {
        let target = 0.56 + 0.1 * generator.uniform();
        let columns = few_columns(&rows, &numbers, target, generator);
        name = format!("{name}, {} columns", columns.len());
        let own = columns_of(&rows.select(&numbers), &columns);
        (numbers, rows) = ((0..own.count()).collect(), Arc::new(own));
    }
    let source_rows = 2_000 + generator.below(3_000);
    let mut material = Material::real(name, rows, numbers, shares, source_rows, generator);
    if classes == 2 && !is_weak {
        // Codes belong to rows of the whole set.
        material.real = Some(Arc::clone(real));
    }
    material
}

/// Trained on some parts of a set; what is left of them, and other parts, to draw from.
fn of_parts(
    set: Set,
    real: &Arc<RealSet>,
    [from, to, next, end]: [usize; 4],
    key: WorldKey,
    generator: &mut Generator,
) -> Material {
    let own = |rows: &[Vec<usize>]| -> Vec<usize> {
        let halved = matches!(set, Set::Census | Set::CensusScores);
        let all = rows.iter().flatten().copied();
        all.filter(|row| !halved || key.half.has(*row)).collect()
    };
    let trained = own(&real.parts[from..to]);
    let stream = own(&real.parts[next..end]);
    let mut shares = vec![0.0; real.classes];
    for row in &trained {
        shares[real.rows.labels[*row] as usize] += 1.0 / trained.len() as f64;
    }
    let most = match set {
        Set::CensusScores => 500 + generator.below(2_500),
        _ => 2_500 + generator.below(2_500),
    };
    let name = format!("{} {from}..{to} to {next}..{end}", set.name());
    let rows = Arc::clone(&real.rows);
    let mut material = Material::real(name, Arc::clone(&rows), trained, shares, most, generator);
    material.pools.push(Pool {
        rows,
        numbers: stream,
    });
    material.real = Some(Arc::clone(real));
    material
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_pair_and_no_seed_is_of_both_halves() {
        let held_back = pairs(Half::HeldBack);
        assert_eq!(pairs(Half::Tuning).len(), held_back.len());
        for pair in pairs(Half::Tuning) {
            assert!(!held_back.contains(&pair), "{pair:?}");
        }
        let seed = |half| {
            let key = WorldKey {
                half,
                kind: Kind::Strong,
                number: 7,
            };
            key.seed()
        };
        assert_ne!(seed(Half::Tuning), seed(Half::HeldBack));
    }
}
