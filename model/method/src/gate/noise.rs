//! How large the score test's statistic is by chance: parametric bootstraps, kept by what they depend on.

use std::{borrow::Cow, collections::BTreeMap};

use ostar_engine::Generator;

use super::mixture::{ClassHistograms, draw};

/// Draws behind a quantile for two classes; each is cheap.
const DRAWS: usize = 60;
/// Draws for three classes or more.
const DRAWS_OF_MANY: usize = 20;
/// Proportions are rounded to multiples of this for the draws. The noise hardly depends on them.
const PROPORTION_STEP: f64 = 0.05;
/// Rows are rounded to multiples of this.
const ROW_STEP: u32 = 500;
/// Rounds of a draw's fit. It starts at the truth, so that few suffice.
const ROUNDS: usize = 25;
/// With more classes than this, all quantiles share their draws of the held-out rows.
const CLASSES_DRAWN_ANEW: usize = 64;
/// Where the shared draws start.
const SHARED_SEED: u64 = 0x6e_6f_69_73_65;
/// Quantiles that are kept. A stream that moves through more pays for new ones.
const MOST_KEPT: usize = 512;

/// 95 % quantiles of the statistic under label shift alone.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScoreNoise {
    /// By rounded proportions and rounded rows.
    kept: BTreeMap<(Vec<u16>, u32), f64>,
    /// Held-out rows drawn anew, for many classes. They do not depend on proportions and take most of a quantile's time.
    redrawn: Vec<ClassHistograms>,
}

impl ScoreNoise {
    /// The quantile for a window of `rows` at these proportions. What is kept does not change the outcome:
    /// each quantile has a seed of its own.
    pub(crate) fn quantile(
        &mut self,
        histograms: &ClassHistograms,
        proportions: &[f64],
        rows: u32,
    ) -> f64 {
        // At least one step, so that every class is drawn.
        let round = |p: &f64| ((p / PROPORTION_STEP).round() as u16).max(1);
        let rounded: Vec<u16> = proportions.iter().map(round).collect();
        // Rounded down: fewer rows have more noise, which favours label shift.
        let rows = (rows / ROW_STEP).max(1) * ROW_STEP;
        let key = (rounded, rows);
        if let Some(quantile) = self.kept.get(&key) {
            return *quantile;
        }
        let total: f64 = key.0.iter().map(|steps| f64::from(*steps)).sum();
        let at: Vec<f64> = key
            .0
            .iter()
            .map(|steps| f64::from(*steps) / total)
            .collect();
        if at.len() > CLASSES_DRAWN_ANEW && self.redrawn.is_empty() {
            let mut generator = Generator::new(SHARED_SEED);
            let redraw = |_| histograms.redraw(&mut generator);
            self.redrawn = (0..DRAWS_OF_MANY).map(redraw).collect();
        }
        let quantile = bootstrap(histograms, &self.redrawn, &at, rows as usize, seed(&key));
        if self.kept.len() >= MOST_KEPT {
            // Needs no order of use. A quantile that is needed again comes out the same.
            self.kept.clear();
        }
        self.kept.insert(key, quantile);
        quantile
    }
}

/// Draws windows and held-out rows under label shift alone and gives the 95 % quantile of the statistic. Held-out rows
/// that are not in `redrawn` are drawn here.
fn bootstrap(
    histograms: &ClassHistograms,
    redrawn: &[ClassHistograms],
    proportions: &[f64],
    rows: usize,
    seed: u64,
) -> f64 {
    let mut generator = Generator::new(seed);
    let mixture = histograms.mixture(proportions);
    let draws = if proportions.len() == 2 {
        DRAWS
    } else {
        DRAWS_OF_MANY
    };
    let mut statistics: Vec<f64> = (0..draws)
        .map(|number| {
            let observed = draw(&mixture, rows, &mut generator);
            // Held-out rows are a sample too: their noise is part of the statistic.
            let redrawn = match redrawn.get(number) {
                Some(redrawn) => Cow::Borrowed(redrawn),
                None => Cow::Owned(histograms.redraw(&mut generator)),
            };
            let found = redrawn.most_likely(&observed, proportions, ROUNDS);
            redrawn.total_variation(&observed, &found)
        })
        .collect();
    statistics.sort_unstable_by(f64::total_cmp);
    // The 57th of 60, the 19th of 20.
    statistics[(0.95 * draws as f64).ceil() as usize - 1]
}

fn seed((proportions, rows): &(Vec<u16>, u32)) -> u64 {
    let start = u64::from(*rows);
    let mix = |seed: u64, steps: &u16| {
        (seed ^ u64::from(*steps))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(23)
    };
    proportions.iter().fold(start, mix)
}
