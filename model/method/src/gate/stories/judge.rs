//! What the stream says of two stories: shares moved (label shift) and inputs moved (covariate shift by a tilt of the logits).
//! Pure: from points to figures. The symbols are those of docs/decisions/0009.

use nalgebra::{DMatrix, DVector, SymmetricEigen};
use serde::{Deserialize, Serialize};

use super::points::Points;
use crate::proportions::LabelProportions;

/// Expectation maximisation ends when the shares move less than this, or after so many rounds.
const EM_TOLERANCE: f64 = 1e-4;
const EM_ROUNDS: usize = 100;
/// Newton's method for the tilt ends alike.
const TILT_TOLERANCE: f64 = 1e-6;
const TILT_STEPS: usize = 30;
/// An eigenvalue below this share of the largest is no component of the fit.
const SMALLEST_EIGENVALUE: f64 = 1e-3;
/// Ridge of the components' regression on the shares' direction, in rows.
const REGRESSION_RIDGE: f64 = 1e-6;

/// How far each story explains the rows since the last change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stories {
    /// Rows that were looked at.
    pub rows: u32,
    /// Independent rows that these are worth.
    pub effective_rows: f64,
    /// Shares if only the mix changed, by expectation maximisation.
    pub if_shares_moved: LabelProportions,
    /// Shares if the model's scores still hold: their mean.
    pub if_scores_hold: LabelProportions,
    /// Half the width of the 95 % interval of each of the latter.
    pub scores_error: Vec<f64>,
    /// How many deviations the rows lie from where they would if shares moved (t1).
    pub from_shares: f64,
    /// The same if inputs moved (t2).
    pub from_inputs: f64,
    /// How many deviations the two lie apart (t2 - t1): what the rows can tell at all.
    pub power: f64,
    /// Logarithm of the odds that shares moved and not inputs (llr).
    pub log_odds: f64,
    /// How far the latents are from where they would be if shares moved, in deviations of what chance makes of it (X2z);
    /// `None` without latents.
    pub latents: Option<f64>,
}

/// Rows of training that nothing was trained on: those with labels, and all of them.
#[derive(Debug)]
pub(super) struct Training<'a> {
    /// Labelled rows (h).
    pub(super) held_out: &'a Points,
    /// All rows (R); `None` if they are the labelled ones.
    pub(super) reference: Option<&'a Points>,
    /// Components of each row.
    pub(super) components: usize,
}

impl<'a> Training<'a> {
    fn reference(&self) -> &'a Points {
        self.reference.unwrap_or(self.held_out)
    }

    /// Mean calibrated probabilities (pi_s).
    pub(super) fn shares(&self, classes: usize) -> Vec<f64> {
        let mut shares = mean_probabilities(self.reference(), classes);
        shares.iter_mut().for_each(|share| *share = share.max(1e-4));
        shares
    }
}

/// Judges a window. `independent` is the share of its rows that are independent; `start` is where shares are looked for first.
pub(super) fn judge(
    window: &Points,
    training: &Training<'_>,
    shares: &[f64],
    start: Option<&LabelProportions>,
    independent: f64,
) -> Stories {
    let classes = shares.len();
    let rows = window.rows();
    let effective = (rows * independent).max(1.0);
    let reference = training.reference();
    let moved = em(window, shares, start);
    let shares_moved = ShareRatio::new(&moved, shares, reference);
    let tilt = Tilt::fit(window, reference, classes - 1, 2.0 / effective);

    let in_window = Compared::new(window, &shares_moved, &tilt);
    let in_reference = Compared::new(reference, &shares_moved, &tilt);
    let mean = average(window, |point| in_window.d[point]);
    let variance = average(window, |point| (in_window.d[point] - mean).powi(2));
    let Compared { r1, r2, d } = &in_reference;
    let if_shares = average(reference, |point| r1[point] * d[point]).max(0.0);
    let if_inputs = average(reference, |point| -r2[point] * d[point]).max(0.0);
    let difference = average(reference, |point| (r1[point] - r2[point]).powi(2));
    let deviation = (variance / effective + difference / reference.rows())
        .sqrt()
        .max(f64::MIN_POSITIVE);
    let (t1, t2) = (
        (mean - if_shares) / deviation,
        (mean + if_inputs) / deviation,
    );
    // Equal stories: neither is known, and nothing is divided by nothing.
    let (t1, t2) = if deviation < 1e-12 {
        (0.0, 0.0)
    } else {
        (t1, t2)
    };

    let latents = (training.components > 0)
        .then(|| latents_apart(window, training, &shares_moved, &moved, effective));
    let scores = mean_probabilities(window, classes);
    let error = |(class, share): (usize, &f64)| {
        let spread = average(window, |point| {
            (window.probabilities[point * classes + class] - share).powi(2)
        });
        DEVIATIONS * (spread / effective).sqrt()
    };
    Stories {
        rows: rows as u32,
        effective_rows: effective,
        scores_error: scores.iter().enumerate().map(error).collect(),
        if_shares_moved: LabelProportions::rescaled(moved),
        if_scores_hold: LabelProportions::rescaled(scores),
        from_shares: t1,
        from_inputs: t2,
        power: t2 - t1,
        log_odds: (t2 * t2 - t1 * t1) / 2.0,
        latents,
    }
}

/// Both ratios at each point, and the logarithm of the one over the other (d).
struct Compared {
    r1: Vec<f64>,
    r2: Vec<f64>,
    d: Vec<f64>,
}

impl Compared {
    fn new(points: &Points, shares: &ShareRatio, tilt: &Tilt) -> Self {
        let all = 0..points.weights.len();
        let r1: Vec<f64> = all.clone().map(|point| shares.at(points, point)).collect();
        let logs: Vec<f64> = all.map(|point| tilt.log_ratio(points, point)).collect();
        Self {
            d: r1
                .iter()
                .zip(&logs)
                .map(|(r1, log)| r1.ln() - log)
                .collect(),
            r2: logs.iter().map(|log| log.exp()).collect(),
            r1,
        }
    }
}

const DEVIATIONS: f64 = crate::proportions::DEVIATIONS;

fn average(points: &Points, value: impl Fn(usize) -> f64) -> f64 {
    let weighted = points.weights.iter().enumerate();
    let sum: f64 = weighted
        .filter(|(_, weight)| **weight > 0.0)
        .map(|(point, weight)| weight * value(point))
        .sum();
    sum / points.rows()
}

fn mean_probabilities(points: &Points, classes: usize) -> Vec<f64> {
    let mean = |class| {
        average(points, |point| {
            points.probabilities[point * classes + class]
        })
    };
    (0..classes).map(mean).collect()
}

/// pi: p <- mean over the window of the normalised f p / pi_s. Kept within what a correction may go to.
pub(super) fn em(window: &Points, shares: &[f64], start: Option<&LabelProportions>) -> Vec<f64> {
    let classes = shares.len();
    let least = if classes == 2 { 0.01 } else { 1e-3 };
    let rows = window.rows();
    let mut moved = start.map_or_else(|| shares.to_vec(), |start| start.as_ref().to_vec());
    // A share of 0 would never come back.
    moved.iter_mut().for_each(|share| *share = share.max(least));
    let mut sums = vec![0.0; classes];
    for _ in 0..EM_ROUNDS {
        sums.fill(0.0);
        let ratios: Vec<f64> = moved.iter().zip(shares).map(|(p, s)| p / s).collect();
        for (row, weight) in window
            .probabilities
            .chunks_exact(classes)
            .zip(&window.weights)
        {
            let density: f64 = row.iter().zip(&ratios).map(|(f, ratio)| f * ratio).sum();
            let scale = weight / density;
            for ((sum, f), ratio) in sums.iter_mut().zip(row).zip(&ratios) {
                *sum += scale * f * ratio;
            }
        }
        let mut by = 0.0;
        for (share, sum) in moved.iter_mut().zip(&sums) {
            by += (sum / rows - *share).abs();
            *share = sum / rows;
        }
        if by < EM_TOLERANCE {
            break;
        }
    }
    moved.iter_mut().for_each(|share| *share = share.max(least));
    let sum: f64 = moved.iter().sum();
    moved.iter_mut().for_each(|share| *share /= sum);
    moved
}

/// r1(x) = sum_k (pi_k / pi_s,k) f_k(x), divided by its mean over the reference.
struct ShareRatio {
    ratios: Vec<f64>,
    scale: f64,
}

impl ShareRatio {
    fn new(moved: &[f64], shares: &[f64], reference: &Points) -> Self {
        let ratios = moved.iter().zip(shares).map(|(p, s)| p / s).collect();
        let mut ratio = Self { ratios, scale: 1.0 };
        ratio.scale = 1.0 / average(reference, |point| ratio.at(reference, point));
        ratio
    }

    fn at(&self, points: &Points, point: usize) -> f64 {
        let classes = self.ratios.len();
        let row = &points.probabilities[point * classes..][..classes];
        let sum: f64 = row
            .iter()
            .zip(&self.ratios)
            .map(|(f, ratio)| f * ratio)
            .sum();
        self.scale * sum
    }

    /// u = d log r1 / d pi, class k against the first.
    fn direction(&self, points: &Points, point: usize, shares: &[f64], out: &mut [f64]) {
        let classes = self.ratios.len();
        let row = &points.probabilities[point * classes..][..classes];
        let density = self.at(points, point) / self.scale;
        let first = row[0] / shares[0];
        for (class, value) in out.iter_mut().enumerate() {
            *value = (row[class + 1] / shares[class + 1] - first) / density;
        }
    }
}

/// r2(x) = exp(l . phi(x) - A), fitted to the window.
struct Tilt {
    slopes: DVector<f64>,
    log_mean: f64,
}

impl Tilt {
    /// Newton's method on mean_w(l . phi) - A(l) - ridge |l|^2 / 2, which is concave.
    fn fit(window: &Points, reference: &Points, count: usize, ridge: f64) -> Self {
        let mean = |points: &Points| {
            DVector::from_fn(count, |column, _| {
                average(points, |point| points.logits[point * count + column])
            })
        };
        let target = mean(window);
        let mut best = Self::at(DVector::zeros(count), reference);
        let objective = |tilt: &Self| {
            target.dot(&tilt.slopes) - tilt.log_mean - 0.5 * ridge * tilt.slopes.norm_squared()
        };
        let mut reached = objective(&best);
        for _ in 0..TILT_STEPS {
            let (expected, covariance) = best.moments(reference, count);
            let gradient = &target - expected - ridge * &best.slopes;
            let hessian = covariance + DMatrix::identity(count, count) * ridge;
            let Some(factor) = hessian.cholesky() else {
                break;
            };
            let direction = factor.solve(&gradient);
            // Half of this is what a full step gains near the maximum.
            if gradient.dot(&direction) < TILT_TOLERANCE {
                break;
            }
            let mut step = 1.0;
            let found = (0..10).find_map(|_| {
                let next = Self::at(&best.slopes + step * &direction, reference);
                step /= 2.0;
                let value = objective(&next);
                (value > reached).then_some((next, value))
            });
            let Some((next, value)) = found else {
                break;
            };
            let gain = value - reached;
            (best, reached) = (next, value);
            if gain < TILT_TOLERANCE {
                break;
            }
        }
        best
    }

    fn at(slopes: DVector<f64>, reference: &Points) -> Self {
        let mut tilt = Self {
            slopes,
            log_mean: 0.0,
        };
        let exponents: Vec<f64> = (0..reference.weights.len())
            .map(|point| tilt.log_ratio(reference, point))
            .collect();
        let largest = exponents.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mean = average(reference, |point| (exponents[point] - largest).exp());
        tilt.log_mean = largest + mean.ln();
        tilt
    }

    /// Mean and covariance of phi under the tilt.
    fn moments(&self, reference: &Points, count: usize) -> (DVector<f64>, DMatrix<f64>) {
        let mut mean = vec![0.0; count];
        let mut second = vec![0.0; count * count];
        let mut total = 0.0;
        for (point, weight) in reference.weights.iter().enumerate() {
            let weight = weight * self.log_ratio(reference, point).exp();
            let phi = &reference.logits[point * count..][..count];
            total += weight;
            for ((left, mean), line) in phi
                .iter()
                .zip(&mut mean)
                .zip(second.chunks_exact_mut(count))
            {
                let left = weight * left;
                *mean += left;
                line.iter_mut()
                    .zip(phi)
                    .for_each(|(entry, right)| *entry += left * right);
            }
        }
        let mean = DVector::from_vec(mean) / total;
        let second = DMatrix::from_vec(count, count, second) / total;
        let covariance = second - &mean * mean.transpose();
        (mean, covariance)
    }

    fn log_ratio(&self, points: &Points, point: usize) -> f64 {
        let count = self.slopes.len();
        let phi = &points.logits[point * count..][..count];
        let sum: f64 = phi.iter().zip(self.slopes.iter()).map(|(a, b)| a * b).sum();
        sum - self.log_mean
    }
}

/// X2z: the components of the latents, less what the estimated shares explain of them, against where labelled rows with
/// these shares would put them.
fn latents_apart(
    window: &Points,
    training: &Training<'_>,
    ratio: &ShareRatio,
    moved: &[f64],
    effective: f64,
) -> f64 {
    let count = training.components;
    let classes = moved.len();
    let held_out = training.held_out;
    let shares = training.shares(classes);
    let regression = regress(window, ratio, &shares, count);
    let fitted = |points: &Points| {
        let mut fitted = vec![0.0; count * points.weights.len()];
        let mut u = vec![0.0; classes - 1];
        for (point, fitted) in fitted.chunks_exact_mut(count).enumerate() {
            ratio.direction(points, point, &shares, &mut u);
            for (u, row) in u.iter().zip(&regression) {
                fitted
                    .iter_mut()
                    .zip(row)
                    .for_each(|(sum, b)| *sum += u * b);
            }
        }
        fitted
    };
    let (in_window, window_covariance) = window.moments(count, |_| 1.0, &fitted(window));
    let mut covariance = window_covariance / effective;
    let mut apart = in_window;

    // w_y: what a labelled row of class y counts for in the window.
    let mut of_class = vec![0.0; classes];
    for (weight, label) in held_out.weights.iter().zip(&held_out.labels) {
        of_class[*label as usize] += weight;
    }
    let held_out_rows = held_out.rows();
    let row_weight = |point: usize| {
        let class = held_out.labels[point] as usize;
        moved[class] * held_out_rows / of_class[class]
    };
    let held_out_fitted = fitted(held_out);
    match training.reference {
        None => {
            let (mean, spread) = held_out.moments(count, row_weight, &held_out_fitted);
            apart -= mean;
            covariance += spread / held_out.rows();
        }
        Some(reference) => {
            let r1 = |point: usize| ratio.at(reference, point);
            let (mean, spread) = reference.moments(count, r1, &fitted(reference));
            apart -= mean;
            covariance += spread / reference.rows();
            let rest = |point: usize| row_weight(point) - ratio.at(held_out, point);
            let (mean, spread) = held_out.moments(count, rest, &held_out_fitted);
            apart -= mean;
            covariance += spread / held_out.rows();
        }
    }
    let decomposed = SymmetricEigen::new(covariance);
    let largest = decomposed.eigenvalues.max();
    let (mut squares, mut kept) = (0.0, 0.0);
    for (place, value) in decomposed.eigenvalues.iter().enumerate() {
        if *value > SMALLEST_EIGENVALUE * largest {
            let along = decomposed.eigenvectors.column(place).dot(&apart);
            squares += along * along / value;
            kept += 1.0;
        }
    }
    (squares - kept) / (2.0 * f64::max(kept, 1.0)).sqrt()
}

/// B: the window's regression of its components on the shares' direction.
fn regress(window: &Points, ratio: &ShareRatio, shares: &[f64], count: usize) -> Vec<Vec<f64>> {
    let width = shares.len() - 1;
    let rows = window.rows();
    let mut directions = DMatrix::zeros(width, width);
    let mut crossed = DMatrix::zeros(width, count);
    let (mut mean_u, mut mean_g) = (DVector::zeros(width), DVector::zeros(count));
    let mut u = DVector::zeros(width);
    for (point, weight) in window.weights.iter().enumerate() {
        if *weight == 0.0 {
            continue;
        }
        ratio.direction(window, point, shares, u.as_mut_slice());
        let sum = &window.components[point * count..][..count];
        directions.ger(*weight, &u, &u, 1.0);
        mean_u.axpy(*weight, &u, 1.0);
        for (column, sum) in sum.iter().enumerate() {
            crossed.column_mut(column).axpy(*sum, &u, 1.0);
            mean_g[column] += sum;
        }
    }
    mean_u /= rows;
    mean_g /= rows;
    directions.ger(-rows, &mean_u, &mean_u, 1.0);
    crossed.ger(-rows, &mean_u, &mean_g, 1.0);
    directions += DMatrix::identity(width, width) * (REGRESSION_RIDGE * rows);
    let solved = match directions.cholesky() {
        Some(factor) => factor.solve(&crossed),
        None => DMatrix::zeros(width, count),
    };
    solved
        .row_iter()
        .map(|row| row.iter().copied().collect())
        .collect()
}
