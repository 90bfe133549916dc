//! What a series is usually like: its mean, its spread, and how far a value follows the one before it.

use serde::{Deserialize, Serialize};

/// Pairs of values that count, about: a week of one block every five minutes.
const MOST_PAIRS: f64 = 2_000.0;
/// Pairs without which nothing is expected.
const FEWEST_PAIRS: f64 = 10.0;
/// Pairs without which there is no alarm: two windows of 5,000 rows.
pub(super) const SETTLED_PAIRS: f64 = 20.0;
/// The same after a change, if it is known how the series varied before.
const SETTLED_AGAIN_PAIRS: f64 = 5.0;
/// Pairs after which a new level says better how the series varies than what was before it. A change soon after another
/// would otherwise look like spread.
const KNOWN_AGAIN_PAIRS: f64 = 60.0;
/// A series varies more than before if its variance is so many times as large. Less is chance while there are few values.
const MORE_VARIANCE: f64 = 2.5;
/// A share that follows the one before it more closely is taken to drift.
const CLOSEST: f64 = 0.98;
/// The most that neighbours are taken to repel each other.
const FARTHEST: f64 = -0.5;
/// A surprise of more deviations counts as one of so many: one odd block is no change.
const LARGEST_SCORE: f64 = 6.0;
/// What is farther from its prediction is taken in as if it were so many deviations away. A jump would otherwise teach a short
/// series within two or three values that such values are usual, before it is told.
const FARTHEST_TAKEN_IN: f64 = 3.0;

/// Sums over pairs of values that follow each other, for the regression of the second on the first.
///
/// Block means of a stream often resemble those before. Their spread then says less than that of as many independent
/// ones, which the regression (an AR(1) process) takes into account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Baseline {
    pairs: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
    /// The value before, as it was taken in; `None` at the start and after a gap.
    last: Option<f64>,
    /// Subtracted from all values, so that the sums lose no digits.
    origin: Option<f64>,
    /// How the series varied before its level last changed, until that is known of the new level.
    earlier: Option<Spread>,
}

/// How a series varied around its level, and whether it varies more since.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spread {
    slope: f64,
    variance: f64,
    /// Of the variance.
    freedom: f64,
    /// What the slope left of the newest value.
    residual: Option<f64>,
    /// Steps from one residual to the next, and the sum of their squares. A level that changes is one large step only.
    steps: f64,
    squares: f64,
}

/// How a value compares with those before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Surprise {
    /// Standard normal and independent of the scores before, if nothing has changed.
    pub(super) score: f64,
    /// The value as the baseline counts it.
    pub(super) taken_in: f64,
}

/// The regression that the sums give.
struct Regression {
    mean_before: f64,
    mean: f64,
    /// How far a value follows the one before.
    slope: f64,
    /// Of what the regression leaves.
    variance: f64,
    /// Degrees of freedom of the variance.
    freedom: f64,
    /// Infinite if the slope does not come from these pairs.
    spread_before: f64,
}

impl Baseline {
    /// The level has changed and is learned anew. How the series varies around it is taken to stay until that is known
    /// better: else a second change soon after the first, or after a false alarm, would become part of the new level. A
    /// series that changes once more before it is known starts from nothing: it may vary otherwise than before.
    pub(super) fn after_change(&self) -> Self {
        let known = self.regression().filter(|_| self.pairs >= SETTLED_PAIRS);
        Self {
            earlier: known.map(|regression| Spread {
                slope: regression.slope,
                variance: regression.variance,
                freedom: regression.freedom,
                residual: None,
                steps: 0.0,
                squares: 0.0,
            }),
            ..Self::default()
        }
    }

    /// Whether surprises count.
    pub(super) fn is_settled(&self) -> bool {
        let needed = match self.earlier {
            Some(_) => SETTLED_AGAIN_PAIRS,
            None => SETTLED_PAIRS,
        };
        self.pairs >= needed
    }

    /// Blocks that were taken in, the newest about 2,000 at most.
    pub(super) fn blocks(&self) -> f64 {
        self.pairs
    }

    /// The usual value.
    pub(super) fn mean(&self) -> Option<f64> {
        let origin = self.origin?;
        (self.pairs > 0.0).then(|| origin + self.y / self.pairs)
    }

    /// Variance of the mean of many blocks, times their number; more than the variance of one where they follow each
    /// other. `None` before there are enough.
    pub(super) fn long_run_variance(&self) -> Option<f64> {
        let regression = self.regression()?;
        Some(regression.variance / (1.0 - regression.slope).powi(2))
    }

    #[cfg(test)]
    fn take_in(&mut self, value: f64) -> Option<Surprise> {
        self.take_in_noisy(value, 0.0)
    }

    /// Takes a value in, and tells how surprising it was after those before it (Hawkins' self-starting chart on the
    /// recursive residuals of Brown, Durbin and Evans). `None` before there are enough. Values have at least this
    /// variance, whatever was seen.
    pub(super) fn take_in_noisy(&mut self, value: f64, least_variance: f64) -> Option<Surprise> {
        let origin = *self.origin.get_or_insert(value);
        let value = value - origin;
        let Some(before) = self.last else {
            self.last = Some(value);
            return None;
        };
        let pairs = self.pairs;
        let regression = match self.earlier {
            Some(spread) => self.level_with(spread, least_variance),
            None => self.regression_with(least_variance),
        };
        let Some(regression) = regression else {
            self.add(before, value);
            return None;
        };
        let taken_in = regression.within(FARTHEST_TAKEN_IN, before, value, pairs);
        self.add(before, taken_in);
        Some(Surprise {
            score: regression.score(before, value, pairs),
            taken_in: origin + taken_in,
        })
    }

    /// Values are missing: the next one does not follow the last.
    pub(super) fn interrupt(&mut self) {
        self.last = None;
    }

    fn add(&mut self, before: f64, value: f64) {
        self.last = Some(value);
        if let Some(spread) = &mut self.earlier {
            spread.note(value - spread.slope * before);
        }
        let sums = [
            (&mut self.pairs, 1.0),
            (&mut self.x, before),
            (&mut self.y, value),
            (&mut self.xx, before * before),
            (&mut self.xy, before * value),
            (&mut self.yy, value * value),
        ];
        let is_full = *sums[0].0 > MOST_PAIRS;
        let kept = if is_full { 1.0 - 1.0 / MOST_PAIRS } else { 1.0 };
        for (sum, more) in sums {
            *sum = kept * *sum + more;
        }
        if self.pairs >= KNOWN_AGAIN_PAIRS {
            self.earlier = None;
        }
    }

    fn regression(&self) -> Option<Regression> {
        self.regression_with(0.0)
    }

    /// A level of few values, which vary as the series did before, or more if they do.
    fn level_with(&self, spread: Spread, least_variance: f64) -> Option<Regression> {
        let n = self.pairs;
        if n < SETTLED_AGAIN_PAIRS - 1.0 {
            return None;
        }
        let (mean_before, mean) = (self.x / n, self.y / n);
        let (variance, freedom) = spread.larger_variance();
        Some(Regression {
            mean_before,
            mean,
            slope: spread.slope,
            variance: variance.max(least_variance),
            freedom,
            spread_before: f64::INFINITY,
        })
    }

    fn regression_with(&self, least_variance: f64) -> Option<Regression> {
        let n = self.pairs;
        if n < FEWEST_PAIRS {
            return None;
        }
        let (mean_before, mean) = (self.x / n, self.y / n);
        let spread_before = self.xx - n * mean_before * mean_before;
        let spread_before = spread_before.max(n * least_variance);
        let spread = (self.yy - n * mean * mean).max(0.0);
        let both = self.xy - n * mean_before * mean;
        // Values that do not differ at all.
        if spread_before <= f64::MIN_POSITIVE {
            return None;
        }
        let found = both / spread_before;
        // Least squares finds too little of it in short series (Kendall).
        let slope = (found + (1.0 + 3.0 * found) / n).clamp(FARTHEST, CLOSEST);
        let left = spread - 2.0 * slope * both + slope * slope * spread_before;
        Some(Regression {
            mean_before,
            mean,
            slope,
            variance: (left.max(f64::MIN_POSITIVE) / (n - 2.0)).max(least_variance),
            freedom: n - 2.0,
            spread_before,
        })
    }
}

impl Spread {
    fn note(&mut self, residual: f64) {
        if let Some(before) = self.residual.replace(residual) {
            self.steps += 1.0;
            self.squares += (residual - before).powi(2);
        }
    }

    /// The variance before, or that of the steps since if it is clearly larger, with its degrees of freedom: a rare class
    /// that becomes common varies more.
    fn larger_variance(&self) -> (f64, f64) {
        // Steps overlap, so that three of them tell as much as two independent values.
        let freedom = (2.0 / 3.0 * self.steps).max(1.0);
        let since = 0.5 * self.squares / self.steps.max(1.0);
        if since > MORE_VARIANCE * self.variance {
            (since, freedom)
        } else {
            (self.variance, self.freedom)
        }
    }
}

impl Regression {
    fn predict(&self, before: f64) -> f64 {
        self.mean + self.slope * (before - self.mean_before)
    }

    /// Deviation of a value from its prediction.
    fn deviation(&self, before: f64, pairs: f64) -> f64 {
        let apart = before - self.mean_before;
        let uncertain = 1.0 + 1.0 / pairs + apart * apart / self.spread_before;
        (self.variance * uncertain).sqrt()
    }

    fn score(&self, before: f64, value: f64, pairs: f64) -> f64 {
        let student = (value - self.predict(before)) / self.deviation(before, pairs);
        normal_score(student, self.freedom).clamp(-LARGEST_SCORE, LARGEST_SCORE)
    }

    /// The value, or what is `most` deviations from its prediction if that is nearer.
    fn within(&self, most: f64, before: f64, value: f64, pairs: f64) -> f64 {
        let (predicted, room) = (self.predict(before), most * self.deviation(before, pairs));
        value.clamp(predicted - room, predicted + room)
    }
}

/// The normal value that is as extreme as Student's `t` (Wallace's approximation).
fn normal_score(t: f64, freedom: f64) -> f64 {
    let size = (freedom * (t * t / freedom).ln_1p()).sqrt();
    (8.0 * freedom + 1.0) / (8.0 * freedom + 3.0) * size.copysign(t)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostar_engine::Generator;

    #[test]
    fn scores_of_a_series_that_does_not_change_are_standard_normal_however_it_follows_itself() {
        for follows in [0.0f64, 0.8] {
            let mut random = Generator::new(3);
            let mut noise = 0.0;
            let mut baseline = Baseline::default();
            let (mut count, mut sum, mut squares, mut products, mut before) =
                (0.0, 0.0, 0.0, 0.0, 0.0);
            for _ in 0..4_000 {
                noise = follows * noise + random.normal();
                if let Some(Surprise { score, .. }) = baseline.take_in(0.3 + 0.01 * noise) {
                    count += 1.0;
                    sum += score;
                    squares += score * score;
                    products += score * before;
                    before = score;
                }
            }
            assert!(
                (sum / count).abs() < 0.06,
                "{follows}: mean {}",
                sum / count
            );
            assert!(
                (squares / count - 1.0).abs() < 0.08,
                "{follows}: {}",
                squares / count
            );
            assert!(
                (products / count).abs() < 0.06,
                "{follows}: {}",
                products / count
            );
            let expected = (0.01 / (1.0 - follows)).powi(2);
            let ratio = baseline.long_run_variance().unwrap() / expected;
            assert!((0.7..1.4).contains(&ratio), "{follows}: {ratio}");
            assert!((baseline.mean().unwrap() - 0.3).abs() < 0.01);
        }
    }

    #[test]
    fn a_series_without_any_spread_expects_nothing() {
        let mut baseline = Baseline::default();
        for _ in 0..30 {
            assert_eq!(baseline.take_in(0.5), None);
        }
        assert_eq!(baseline.mean(), Some(0.5));
        assert_eq!(baseline.long_run_variance(), None);
    }
}
