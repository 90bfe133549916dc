//! Compares a stream's rows with training's, and says in words what is wrong.

use std::fmt;

use serde::Serialize;

use super::{
    ABOVE, BELOW, FieldProfile, FieldValues, InputProfile, MISSING, Tally, UNKNOWN,
    tally::FieldTally,
};

/// Share of rows that must have gone into a cell of trouble before words name it.
const NOTABLE: f64 = 0.05;
/// How far apart logarithms of a factor may be that people would call the same: 12 %.
const SAME_FACTOR: f64 = 0.12;
/// Factors between units that pipelines confuse: thousands, percent, minutes and hours.
const UNITS: [f64; 7] = [10.0, 60.0, 100.0, 1_000.0, 3_600.0, 1e6, 1e9];

/// One field of a stream beside training.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FieldReport {
    /// Name in the events.
    pub name: String,
    /// Share of rows without a value, in the stream and in training.
    pub missing: f64,
    /// The same in training.
    pub training_missing: f64,
    /// Share of unknown tokens; `None` for numbers, and if training had too many tokens to list.
    pub unknown: Option<f64>,
    /// Share of numbers beyond training's range; `None` for tokens.
    pub beyond: Option<f64>,
    /// How much of the rows lies in other cells than training's would (total variation), whatever the shares of the
    /// classes are: 0 for the same distribution, 1 for nothing in common.
    pub distance: f64,
    /// What `distance` would be by chance.
    pub noise_floor: f64,
    /// What is most of the distance, if it is more than chance.
    pub trouble: Option<Trouble>,
    /// What a unit would have been multiplied with, if that explains the values.
    pub factor: Option<f64>,
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// More rows than in training have no value.
    Missing,
    /// Tokens that training did not have.
    Unknown,
    /// Numbers beyond training's range.
    Beyond,
    /// Values that training had, in other shares than any mixture of its classes.
    Distribution,
}

/// A distance, what chance makes of it, and how much that spreads.
pub(crate) struct Distance {
    pub(crate) distance: f64,
    pub(crate) noise_floor: f64,
    pub(crate) variance: f64,
}

impl InputProfile {
    /// Compares rows with training. `rows` is how many independent ones the tally is worth; `proportions` are shares of
    /// the classes that the stream may have: training's are tried, too, and the nearer ones count.
    pub fn compare(&self, tally: &Tally, rows: f64, proportions: &[f64]) -> Vec<FieldReport> {
        let fields = self.fields.iter().zip(&tally.fields);
        fields
            .map(|(field, tally)| self.compare_field(field, tally, rows, proportions))
            .collect()
    }

    fn compare_field(
        &self,
        field: &FieldProfile,
        tally: &FieldTally,
        rows: f64,
        proportions: &[f64],
    ) -> FieldReport {
        let shares = normalised(&tally.cells);
        let training = self.training_shares(field);
        let found = self.distance_of(field, tally, rows, proportions);
        let (unknown, beyond) = match &field.values {
            FieldValues::Numbers { .. } => (None, Some(shares[BELOW] + shares[ABOVE])),
            FieldValues::Tokens { known, .. } => (known.as_ref().map(|_| shares[UNKNOWN]), None),
        };
        let excess = found.distance - found.noise_floor;
        let is_notable = excess > 3.0 * found.variance.sqrt() && excess > NOTABLE;
        let missing = (shares[MISSING] - training[MISSING], Trouble::Missing);
        let unknown_excess = unknown.map_or(0.0, |share| share - training[UNKNOWN]);
        let causes = [
            missing,
            (unknown_excess, Trouble::Unknown),
            (beyond.unwrap_or(0.0), Trouble::Beyond),
        ];
        let worst = causes.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        let trouble = match worst {
            // A cause explains the distance if it is half of it.
            Some((share, cause)) if share > NOTABLE && share > 0.5 * excess => Some(cause),
            _ => Some(Trouble::Distribution),
        };
        let factor = factor(field, tally);
        FieldReport {
            name: field.name.clone(),
            missing: shares[MISSING],
            training_missing: training[MISSING],
            unknown,
            beyond,
            distance: found.distance,
            noise_floor: found.noise_floor,
            trouble: trouble.filter(|_| is_notable),
            factor: factor.filter(|_| is_notable && missing.0 < 0.5),
        }
    }

    /// The distance of every field.
    pub(crate) fn distances(&self, tally: &Tally, rows: f64, proportions: &[f64]) -> Vec<Distance> {
        let fields = self.fields.iter().zip(&tally.fields);
        fields
            .map(|(field, tally)| self.distance_of(field, tally, rows, proportions))
            .collect()
    }

    fn distance_of(
        &self,
        field: &FieldProfile,
        tally: &FieldTally,
        rows: f64,
        proportions: &[f64],
    ) -> Distance {
        let shares = normalised(&tally.cells);
        let as_training = self.training_weights();
        let given = self.weights(proportions);
        let near = [as_training, given].map(|weights| {
            let expected = field.mixture(&weights);
            let apart = expected.iter().zip(&shares);
            let apart: f64 = apart
                .map(|(expected, found)| (expected - found).abs())
                .sum();
            (0.5 * apart, expected, weights)
        });
        let [training, given] = near;
        let (distance, expected, weights) = if given.0 < training.0 {
            given
        } else {
            training
        };
        // Variance of the difference of two sample shares, for one row each.
        let sampled: f64 = weights
            .iter()
            .zip(&self.class_rows)
            .map(|(weight, rows)| weight * weight / (*rows).max(1) as f64)
            .sum();
        let each = 1.0 / rows.max(1.0) + sampled;
        let (mut floor, mut variance) = (0.0, 0.0);
        for share in &expected {
            let of_cell = (share * (1.0 - share)).max(0.0) * each;
            // Mean and variance of the magnitude of a normal number.
            floor += 0.5 * (of_cell * std::f64::consts::FRAC_2_PI).sqrt();
            variance += 0.25 * of_cell * (1.0 - std::f64::consts::FRAC_2_PI);
        }
        Distance {
            distance,
            noise_floor: floor,
            // One odd row must not be a surprise where training had no spread at all.
            variance: variance.max(0.25 * each * each),
        }
    }

    pub(super) fn training_weights(&self) -> Vec<f64> {
        let rows = self.class_rows.iter().sum::<usize>().max(1) as f64;
        self.class_rows.iter().map(|n| *n as f64 / rows).collect()
    }

    /// Lowest and highest number of a field in training, in the units of events; `None` for tokens.
    pub fn range(&self, place: usize) -> Option<(f64, f64)> {
        let FieldValues::Numbers {
            deviation,
            mean,
            lowest,
            highest,
            ..
        } = &self.fields.get(place)?.values
        else {
            return None;
        };
        let raw = |value: &f32| mean + deviation * f64::from(*value);
        (lowest <= highest).then(|| (raw(lowest), raw(highest)))
    }
}

fn normalised(cells: &[f64]) -> Vec<f64> {
    let sum: f64 = cells.iter().sum();
    cells.iter().map(|count| count / sum.max(1e-300)).collect()
}

/// The unit that numbers seem to have been multiplied with: their logarithms moved as a whole.
fn factor(field: &FieldProfile, tally: &FieldTally) -> Option<f64> {
    let FieldValues::Numbers {
        logarithm: Some((training, training_spread)),
        ..
    } = &field.values
    else {
        return None;
    };
    let (stream, spread) = tally.logarithm()?;
    let moved = stream - training;
    let unit = UNITS.into_iter().flat_map(|unit| [unit, 1.0 / unit]);
    let nearest = unit.min_by(|a, b| (moved - a.ln()).abs().total_cmp(&(moved - b.ln()).abs()))?;
    // The mean of so many logarithms is not known better than this.
    let noise = 3.0 * training_spread.max(spread) / tally.magnitudes.sqrt();
    let is_near = (moved - nearest.ln()).abs() < SAME_FACTOR.max(noise).min(0.7);
    let same_spread = (spread - training_spread).abs() < 0.35 * training_spread.max(0.1);
    (is_near && same_spread).then_some(nearest)
}

impl fmt::Display for FieldReport {
    /// What is wrong, in a sentence without a full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share.clamp(0.0, 1.0));
        let name = &self.name;
        match self.trouble {
            None => write!(f, "`{name}` is as in training"),
            Some(Trouble::Missing) => write!(
                f,
                "`{name}` is missing in {} of events, in {} in training",
                percent(self.missing),
                percent(self.training_missing)
            ),
            Some(Trouble::Unknown) => write!(
                f,
                "`{name}` has values that training did not have in {} of events",
                percent(self.unknown.unwrap_or_default())
            ),
            Some(Trouble::Beyond) => write!(
                f,
                "`{name}` is beyond training's range in {} of events",
                percent(self.beyond.unwrap_or_default())
            ),
            Some(Trouble::Distribution) => write!(
                f,
                "`{name}` is distributed as in no mixture of training's classes (distance {:.2}, by chance {:.2})",
                self.distance, self.noise_floor
            ),
        }?;
        match self.factor {
            Some(factor) if factor > 1.0 => {
                write!(
                    f,
                    ", as if its unit had changed: about {factor} times training's"
                )
            }
            Some(factor) => write!(
                f,
                ", as if its unit had changed: about 1/{:.0} of training's",
                1.0 / factor
            ),
            None => Ok(()),
        }
    }
}
