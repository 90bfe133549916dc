//! Class histograms of scores, and the proportions under which their mixture explains a window best.

use std::collections::BTreeMap;

use ostar_engine::Generator;

use crate::proportions::LabelProportions;

/// Rounds of expectation maximisation at most.
const ROUNDS: usize = 300;
/// Proportions are found when a round moves them less than this in all.
const TOLERANCE: f64 = 1e-6;
/// A start at exactly 0 would stay there.
const SMALLEST_START: f64 = 1e-4;

/// The distribution of score bins in each class, smoothed. Stored as counts above the smoothing: with 1,000
/// classes nearly all counts are 0, and the cost of a round grows only with those that are not.
#[derive(Debug, Clone)]
pub(crate) struct ClassHistograms {
    bins: usize,
    smoothing: f64,
    classes: Vec<ClassHistogram>,
}

#[derive(Debug, Clone)]
struct ClassHistogram {
    rows: f64,
    /// Bin and count, of bins with rows.
    counts: Vec<(u32, f64)>,
}

/// A window's rows in the bins that have any, and the classes' counts in those.
struct SeenBins {
    rows: Vec<f64>,
    counts: Vec<Vec<(u32, f64)>>,
}

/// Looks for the proportions of a window by expectation maximisation.
struct Search<'a> {
    histograms: &'a ClassHistograms,
    seen: SeenBins,
    /// Rows of the window.
    total: f64,
    densities: Vec<f64>,
}

impl ClassHistograms {
    pub(crate) fn new(
        bins: usize,
        classes: usize,
        rows: impl Iterator<Item = (u32, usize)>,
    ) -> Self {
        let mut counted = vec![BTreeMap::<u32, f64>::new(); classes];
        for (label, bin) in rows {
            *counted[label as usize].entry(bin as u32).or_default() += 1.0;
        }
        let class = |counts: BTreeMap<u32, f64>| ClassHistogram {
            rows: counts.values().sum(),
            counts: counts.into_iter().collect(),
        };
        Self {
            bins,
            // Half a row a bin for two classes. With more there are K times as many bins.
            smoothing: if classes == 2 {
                0.5
            } else {
                0.5 / classes as f64
            },
            classes: counted.into_iter().map(class).collect(),
        }
    }

    /// Held-out rows of each class.
    pub(crate) fn rows(&self) -> impl Iterator<Item = f64> {
        self.classes.iter().map(|class| class.rows)
    }

    /// Probability of each bin at these proportions.
    pub(crate) fn mixture(&self, proportions: &[f64]) -> Vec<f64> {
        let mut mixture = vec![0.0; self.bins];
        let counts = self.classes.iter().map(|class| &class.counts);
        self.mix(counts, proportions, &mut mixture);
        mixture
    }

    /// [`ClassHistograms::mixture`] of bins in which the classes have these `counts`.
    fn mix<'a>(
        &self,
        counts: impl IntoIterator<Item = &'a Vec<(u32, f64)>>,
        proportions: &[f64],
        mixture: &mut [f64],
    ) {
        mixture.fill(0.0);
        // Smoothing adds the same to every bin: summed over classes first, it costs one pass.
        let mut everywhere = 0.0;
        for ((class, proportion), counts) in self.classes.iter().zip(proportions).zip(counts) {
            let scale = proportion / self.total(class);
            everywhere += scale * self.smoothing;
            for (bin, count) in counts {
                mixture[*bin as usize] += scale * count;
            }
        }
        mixture.iter_mut().for_each(|value| *value += everywhere);
    }

    /// The proportions that make `observed` (rows by bin) more likely, after so many rounds from `start` on.
    pub(crate) fn most_likely(&self, observed: &[f64], start: &[f64], rounds: usize) -> Vec<f64> {
        let mut search = Search::new(self, observed);
        let mut proportions = search.begin(start);
        for _ in 0..rounds {
            if search.improve(&mut proportions) < TOLERANCE {
                break;
            }
        }
        proportions
    }

    /// The bins that a window has rows in, numbered anew: the likelihood depends on no others, and with 1,000 classes most
    /// bins are empty.
    fn in_seen_bins(&self, observed: &[f64]) -> SeenBins {
        const UNSEEN: u32 = u32::MAX;
        let mut numbers = vec![UNSEEN; self.bins];
        let mut rows = Vec::new();
        for (number, count) in numbers.iter_mut().zip(observed) {
            if *count > 0.0 {
                *number = rows.len() as u32;
                rows.push(*count);
            }
        }
        let class = |class: &ClassHistogram| {
            let counts = class.counts.iter();
            let renumbered = counts.map(|(bin, count)| (numbers[*bin as usize], *count));
            renumbered.filter(|(bin, _)| *bin != UNSEEN).collect()
        };
        SeenBins {
            counts: self.classes.iter().map(class).collect(),
            rows,
        }
    }

    /// The proportions that make `observed` most likely, from `start` on.
    ///
    /// Expectation maximisation creeps where classes overlap. Two rounds tell the direction and the pace, and the step after
    /// them is extrapolated (SQUAREM of Varadhan and Roland).
    pub(crate) fn fit(&self, observed: &[f64], start: &[f64]) -> LabelProportions {
        let mut search = Search::new(self, observed);
        let mut proportions = search.begin(start);
        for _ in 0..ROUNDS / 3 {
            let before = proportions.clone();
            if search.improve(&mut proportions) < TOLERANCE {
                break;
            }
            let once = proportions.clone();
            if search.improve(&mut proportions) < TOLERANCE {
                break;
            }
            if let Some(ahead) = extrapolate(&before, &once, &proportions) {
                proportions = ahead;
                search.improve(&mut proportions);
            }
        }
        LabelProportions::rescaled(proportions)
    }

    /// Half the l1 distance of a window's histogram to the mixture at its own best proportions.
    pub(crate) fn total_variation(&self, observed: &[f64], proportions: &[f64]) -> f64 {
        let total: f64 = observed.iter().sum();
        let mixture = self.mixture(proportions);
        let pairs = observed.iter().zip(&mixture);
        0.5 * pairs
            .map(|(count, expected)| (count / total - expected).abs())
            .sum::<f64>()
    }

    /// The same classes, each drawn anew with as many rows.
    pub(crate) fn redraw(&self, generator: &mut Generator) -> Self {
        let class = |class: &ClassHistogram| {
            let mut counts = BTreeMap::<u32, f64>::new();
            let total = self.total(class);
            let cumulative = cumulate(class.counts.iter().map(|(_, count)| *count));
            for _ in 0..class.rows as usize {
                let at = generator.uniform() * total;
                let bin = match cumulative.partition_point(|sum| *sum <= at) {
                    place if place < class.counts.len() => class.counts[place].0,
                    // The smoothing's part, alike in every bin.
                    _ => generator.below(self.bins) as u32,
                };
                *counts.entry(bin).or_default() += 1.0;
            }
            ClassHistogram {
                rows: class.rows,
                counts: counts.into_iter().collect(),
            }
        };
        Self {
            bins: self.bins,
            smoothing: self.smoothing,
            classes: self.classes.iter().map(class).collect(),
        }
    }

    fn total(&self, class: &ClassHistogram) -> f64 {
        class.rows + self.smoothing * self.bins as f64
    }
}

impl<'a> Search<'a> {
    fn new(histograms: &'a ClassHistograms, observed: &[f64]) -> Self {
        let seen = histograms.in_seen_bins(observed);
        Self {
            histograms,
            densities: vec![0.0; seen.rows.len()],
            seen,
            total: observed.iter().sum(),
        }
    }

    fn begin(&self, start: &[f64]) -> Vec<f64> {
        let mut proportions: Vec<f64> = start.iter().map(|p| p.max(SMALLEST_START)).collect();
        rescale(&mut proportions);
        proportions
    }

    /// One round; gives how far the proportions moved in all.
    fn improve(&mut self, proportions: &mut [f64]) -> f64 {
        let Self {
            histograms,
            seen,
            total,
            densities,
        } = self;
        histograms.mix(&seen.counts, proportions, densities);
        let mut everywhere = 0.0;
        for (density, count) in densities.iter_mut().zip(&seen.rows) {
            *density = count / *density;
            everywhere += *density;
        }
        let ratios = &*densities;
        let mut moved = 0.0;
        let classes = histograms.classes.iter().zip(&seen.counts);
        for ((class, counts), proportion) in classes.zip(proportions.iter_mut()) {
            let counts = counts.iter();
            let own: f64 = counts
                .map(|(bin, count)| count * ratios[*bin as usize])
                .sum();
            // Smoothing reaches all bins, also those that `counts` leaves out.
            let likelihood =
                (own + histograms.smoothing * everywhere) / (histograms.total(class) * *total);
            let next = *proportion * likelihood;
            moved += (next - *proportion).abs();
            *proportion = next;
        }
        rescale(proportions);
        moved
    }
}

/// Where two rounds point to; `None` if that is outside the simplex or no farther than the second round.
fn extrapolate(before: &[f64], once: &[f64], twice: &[f64]) -> Option<Vec<f64>> {
    let rounds = || before.iter().zip(once).zip(twice);
    let step = |((a, b), _): ((&f64, &f64), &f64)| b - a;
    let bend = |((a, b), c): ((&f64, &f64), &f64)| (c - b) - (b - a);
    let squared = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
    let pace = (squared(&mut rounds().map(step)) / squared(&mut rounds().map(bend))).sqrt();
    if !pace.is_finite() || pace <= 1.0 {
        return None;
    }
    let ahead = rounds().map(|at| at.0.0 + pace * (2.0 * step(at) + pace * bend(at)));
    let mut ahead: Vec<f64> = ahead.collect();
    if ahead.iter().any(|p| *p <= 0.0) {
        return None;
    }
    rescale(&mut ahead);
    Some(ahead)
}

/// Rows by bin of `rows` draws from a distribution over bins.
pub(crate) fn draw(distribution: &[f64], rows: usize, generator: &mut Generator) -> Vec<f64> {
    let cumulative = cumulate(distribution.iter().copied());
    let total = cumulative.last().copied().unwrap_or(0.0);
    let mut counts = vec![0.0; distribution.len()];
    for _ in 0..rows {
        let at = generator.uniform() * total;
        let bin = cumulative.partition_point(|sum| *sum <= at);
        // Rounding can put `at` on the total itself, which is beyond the last bin.
        counts[bin.min(distribution.len() - 1)] += 1.0;
    }
    counts
}

fn cumulate(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sum = 0.0;
    let running = values.map(|value| {
        sum += value;
        sum
    });
    running.collect()
}

fn rescale(proportions: &mut [f64]) {
    let sum: f64 = proportions.iter().sum();
    proportions.iter_mut().for_each(|value| *value /= sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two classes over four bins.
    fn histograms() -> ClassHistograms {
        let of = |label: u32, counts: [usize; 4]| {
            (0..4).flat_map(move |bin| std::iter::repeat_n((label, bin), counts[bin]))
        };
        let rows = of(0, [700, 200, 80, 20]).chain(of(1, [50, 100, 250, 600]));
        ClassHistograms::new(4, 2, rows)
    }

    #[test]
    fn the_proportions_of_a_mixture_are_found_from_any_start() {
        let histograms = histograms();
        let truth = [0.85, 0.15];
        let observed: Vec<f64> = histograms
            .mixture(&truth)
            .iter()
            .map(|p| 3000.0 * p)
            .collect();
        for start in [[0.5, 0.5], [0.01, 0.99], [1.0, 0.0]] {
            let found = histograms.fit(&observed, &start);
            assert!((found[1] - 0.15).abs() < 1e-3, "{found:?} from {start:?}");
        }
        assert!(histograms.total_variation(&observed, &truth) < 1e-12);
    }

    #[test]
    fn extrapolated_rounds_end_where_plain_ones_do_however_much_classes_overlap() {
        let mut generator = Generator::new(7);
        for classes in [2, 3, 12] {
            let bins = 3 * classes;
            // Half of each class's rows are spread over all bins.
            let rows: Vec<(u32, usize)> = (0..200 * classes)
                .map(|row| {
                    let label = row % classes;
                    let bin = if generator.uniform() < 0.5 {
                        generator.below(bins)
                    } else {
                        3 * label + generator.below(3)
                    };
                    (label as u32, bin)
                })
                .collect();
            let histograms = ClassHistograms::new(bins, classes, rows.into_iter());
            let mut truth: Vec<f64> = (0..classes).map(|class| 1.0 + class as f64).collect();
            truth[0] = 0.0;
            rescale(&mut truth);
            let observed = draw(&histograms.mixture(&truth), 3_000, &mut generator);
            let start = vec![1.0 / classes as f64; classes];
            let found = histograms.fit(&observed, &start);
            let slow = histograms.most_likely(&observed, &start, 100_000);
            for (found, slow) in found.as_ref().iter().zip(slow) {
                assert!((found - slow).abs() < 1e-3, "{classes}: {found} {slow}");
            }
        }
    }

    #[test]
    fn a_window_that_no_mixture_gives_is_far_from_all() {
        let histograms = histograms();
        let observed = [0.0, 2000.0, 0.0, 0.0];
        let best = histograms.fit(&observed, &[0.5, 0.5]);
        assert!(histograms.total_variation(&observed, best.as_ref()) > 0.5);
    }

    #[test]
    fn draws_have_the_rows_and_the_shape_asked_for() {
        let histograms = histograms();
        let mut generator = Generator::new(1);
        let counts = draw(&histograms.mixture(&[1.0, 0.0]), 10_000, &mut generator);
        assert_eq!(counts.iter().sum::<f64>(), 10_000.0);
        assert!((counts[0] - 7000.0).abs() < 200.0, "{counts:?}");
        let redrawn = histograms.redraw(&mut generator);
        assert_eq!(redrawn.rows().collect::<Vec<_>>(), [1000.0, 1000.0]);
        let distance: f64 = (redrawn.mixture(&[0.5, 0.5]).iter())
            .zip(histograms.mixture(&[0.5, 0.5]))
            .map(|(a, b)| (a - b).abs())
            .sum();
        assert!(distance > 0.0 && distance < 0.1, "{distance}");
    }
}
