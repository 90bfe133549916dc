//! An interval for each published share.

use serde::{Deserialize, Serialize};

use super::unmixing::Unmixing;

/// Two-sided 95 % of the normal distribution.
pub(crate) const DEVIATIONS: f64 = 1.959_963_985;

/// A reading this many deviations outside [0, 1] contradicts every share. Chance alone hardly ever gives one.
const CONTRADICTION: f64 = 5.0;

/// Halvings of a bracket of length 1 at most: to 1e-6.
const HALVINGS: usize = 20;

/// A 95 % confidence interval inside [0, 1].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end, at least 0.
    pub low: f64,
    /// Upper end, at most 1.
    pub high: f64,
}

impl Interval {
    /// The interval of a share about which nothing is known.
    pub const WHOLE: Self = Self {
        low: 0.0,
        high: 1.0,
    };

    /// Whether `value` is inside, ends included.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// The interval, widened as far as it must be to contain `value`.
    pub(crate) fn including(self, value: f64) -> Self {
        Self {
            low: self.low.min(value),
            high: self.high.max(value),
        }
    }
}

/// What a share was read from.
#[derive(Clone, Copy)]
pub(crate) struct ProportionReading<'a> {
    pub(crate) unmixing: &'a Unmixing,
    pub(crate) class: usize,
    /// Mean reading, which may lie outside [0, 1].
    pub(crate) mean: f64,
    /// Variance of a row's reading in the target.
    pub(crate) variance: f64,
    /// How many independent rows the mean is worth.
    pub(crate) rows: f64,
    /// The other classes' shares, up to their sum.
    pub(crate) proportions: &'a [f64],
}

impl ProportionReading<'_> {
    /// The shares x that the reading does not contradict: (mean - x)^2 <= z^2 V(x), where V(x) is the variance
    /// that the mean reading would have if x were true. (A score interval, as Wilson's for a binomial share.)
    /// Taking the variance at x instead of at the estimate is what makes it cover near 0, where an estimate
    /// that is low by chance has a low variance too.
    ///
    /// `None` when the reading contradicts every share: then the classes are not what the held-out rows say.
    pub(crate) fn interval(&self) -> Option<Interval> {
        if !self.unmixing.identifies(self.class) {
            return Some(Interval::WHOLE);
        }
        let terms = self.terms();
        let nearest = self.mean.clamp(0.0, 1.0);
        let distance = self.mean - nearest;
        let allowed = CONTRADICTION * CONTRADICTION * self.variance_at(nearest, &terms);
        if distance * distance > allowed {
            return None;
        }
        // A reading just outside by chance, as that of an absent class often is, is taken for the nearest share:
        // its interval would have no length.
        let within =
            distance * distance <= DEVIATIONS * DEVIATIONS * self.variance_at(nearest, &terms);
        let mean = if within { self.mean } else { nearest };
        let reading = Self { mean, ..*self };
        let inside = |x: f64| {
            let distance = reading.mean - x;
            distance * distance <= DEVIATIONS * DEVIATIONS * reading.variance_at(x, &terms)
        };
        Some(Interval {
            low: boundary(inside, nearest, 0.0),
            high: boundary(inside, nearest, 1.0),
        })
    }

    /// V(x): noise of the window, of which each row has its class's noise and the draw of the class itself,
    /// and noise of the held-out means, class by class. `noise`, the mean over target rows of their class's
    /// variance, is known twice, from held-out rows and from the window given x; both are pooled. A few
    /// misleading rows that happen to be missing among the held-out rows are so seen in the window.
    fn variance_at(&self, x: f64, terms: &Terms) -> f64 {
        let rest = 1.0 - x;
        let held_out = x * terms.own.noise + rest * terms.others.noise;
        let of_mean = x * x * terms.own.of_mean + rest * rest * terms.others.of_mean;
        let size = 1.0 / (x * x * terms.own.inverse_size + rest * rest * terms.others.inverse_size);
        let drawn = x * rest;
        // The rows' own noise: their spread around x less the variance of drawing the class.
        let window = (self.variance + (self.mean - x).powi(2) - drawn).max(0.0);
        let noise = (size * held_out + self.rows * window) / (size + self.rows);
        let of_mean = if held_out > 0.0 {
            // Misleading rows that only the held-out set has did move its mean: a smaller noise counts by its root.
            of_mean * (noise / held_out).max((noise / held_out).sqrt())
        } else {
            noise / size
        };
        (noise + drawn) / self.rows + of_mean
    }

    /// Sums over classes that do not depend on x: of this class, and of the others mixed as published.
    fn terms(&self) -> Terms {
        if let Some(terms) = self.terms_of_many() {
            return terms;
        }
        let others = self.proportions.iter().enumerate();
        let total: f64 = others
            .filter(|(class, _)| *class != self.class)
            .map(|(_, p)| p)
            .sum();
        let spread = 1.0 / (self.proportions.len() as f64 - 1.0).max(1.0);
        let mut terms = Terms::default();
        let counts = self.unmixing.counts();
        for (class, variance) in self.unmixing.variances(self.class).iter().enumerate() {
            let (part, weight) = if class == self.class {
                (&mut terms.own, 1.0)
            } else if total > 0.0 {
                (&mut terms.others, self.proportions[class] / total)
            } else {
                // This class is the only one present. Mixed evenly, the others still have their noise near x = 1.
                (&mut terms.others, spread)
            };
            part.noise += weight * variance;
            part.of_mean += weight * weight * variance / counts[class];
            part.inverse_size += weight * weight / counts[class];
        }
        terms
    }
}

impl ProportionReading<'_> {
    /// [`ProportionReading::terms`] with many classes, without divisions in its loop. `None` with few, and where this class
    /// is the only one present.
    fn terms_of_many(&self) -> Option<Terms> {
        let inverse_counts = self.unmixing.inverse_counts()?;
        let variances = self.unmixing.variances(self.class);
        let (before, after) = (0..self.class, self.class + 1..variances.len());
        let mut sums = [0.0; 4];
        for range in [before, after] {
            let shares = &self.proportions[range.clone()];
            let part = mixed_sums(shares, &variances[range.clone()], &inverse_counts[range]);
            sums.iter_mut()
                .zip(part)
                .for_each(|(sum, part)| *sum += part);
        }
        let [total, noise, of_mean, inverse_size] = sums;
        if total <= 0.0 {
            return None;
        }
        let (own, inverse_count) = (variances[self.class], inverse_counts[self.class]);
        Some(Terms {
            own: Part {
                noise: own,
                of_mean: own * inverse_count,
                inverse_size: inverse_count,
            },
            others: Part {
                noise: noise / total,
                of_mean: of_mean / (total * total),
                inverse_size: inverse_size / (total * total),
            },
        })
    }
}

/// Sums over classes of p, p v, p^2 v / n and p^2 / n, in lanes: one sum would wait for each addition.
fn mixed_sums(shares: &[f64], variances: &[f64], inverse_counts: &[f64]) -> [f64; 4] {
    const LANES: usize = 8;
    let (shares, last_shares) = shares.as_chunks::<LANES>();
    let (variances, last_variances) = variances.as_chunks::<LANES>();
    let (inverse_counts, last_inverse_counts) = inverse_counts.as_chunks::<LANES>();
    let mut sums = [[0.0; LANES]; 4];
    let mut add = |lane: usize, share: f64, variance: f64, inverse_count: f64| {
        let of_mean = share * share * inverse_count;
        sums[0][lane] += share;
        sums[1][lane] += share * variance;
        sums[2][lane] += of_mean * variance;
        sums[3][lane] += of_mean;
    };
    pulp::Arch::new().dispatch(|| {
        for ((share, variance), inverse) in shares.iter().zip(variances).zip(inverse_counts) {
            for lane in 0..LANES {
                add(lane, share[lane], variance[lane], inverse[lane]);
            }
        }
    });
    let last = last_shares.iter().zip(last_variances);
    for ((share, variance), inverse) in last.zip(last_inverse_counts) {
        add(0, *share, *variance, *inverse);
    }
    sums.map(|lanes| lanes.iter().sum())
}

#[derive(Default)]
struct Terms {
    own: Part,
    others: Part,
}

/// Of a mixture of classes: a row's noise, the noise of its held-out mean, and one over the number of rows
/// that this mean is worth.
#[derive(Default)]
struct Part {
    noise: f64,
    of_mean: f64,
    inverse_size: f64,
}

/// Where `inside` ends between a point of it and `end`.
fn boundary(inside: impl Fn(f64) -> bool, mut within: f64, end: f64) -> f64 {
    if inside(end) {
        return end;
    }
    // `within` never leaves the interval, so that the result is too near by 1e-6 at most.
    let mut outside = end;
    for _ in 0..HALVINGS {
        let middle = 0.5 * (within + outside);
        if inside(middle) {
            within = middle;
        } else {
            outside = middle;
        }
    }
    within
}
