//! The chance that a share is above one half, from counts.

/// P(q > 1/2) for q with a Beta(1 + right, 1 + wrong) distribution: a flat prior and so many successes and failures.
/// The counts may be fractions.
pub(crate) fn above_half(right: f64, wrong: f64) -> f64 {
    let (a, b) = (1.0 + right, 1.0 + wrong);
    // At 1/2 the function mirrors when its parameters change places. The fraction converges for the larger one first.
    let below = if a >= b {
        lower_mass(a, b)
    } else {
        1.0 - lower_mass(b, a)
    };
    (1.0 - below).clamp(0.0, 1.0)
}

/// The regularised incomplete beta function at 1/2 for a >= b, by its continued fraction (modified Lentz).
fn lower_mass(a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    const MOST_TERMS: usize = 500;
    let x = 0.5;
    let front = (a + b) * 0.5f64.ln() - ln_beta(a, b);
    let mut c = 1.0;
    let mut d = away_from_zero(1.0 - (a + b) * x / (a + 1.0), TINY).recip();
    let mut fraction = d;
    for term in 1..MOST_TERMS {
        let m = term as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for coefficient in [even, odd] {
            d = away_from_zero(1.0 + coefficient * d, TINY).recip();
            c = away_from_zero(1.0 + coefficient / c, TINY);
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0).abs() < 1e-14 {
            break;
        }
    }
    front.exp() * fraction / a
}

fn away_from_zero(value: f64, least: f64) -> f64 {
    if value.abs() < least { least } else { value }
}

/// The logarithm of the beta function, for arguments of at least 1/2.
pub(super) fn ln_beta(a: f64, b: f64) -> f64 {
    ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b)
}

/// Lanczos' approximation, to 1e-13 for arguments of at least 1/2.
fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let mut sum = 0.999_999_999_999_809_9;
    for (number, coefficient) in COEFFICIENTS.iter().enumerate() {
        sum += coefficient / (x + number as f64 + 1.0);
    }
    let t = x + 7.5;
    0.5 * std::f64::consts::TAU.ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For whole counts: the chance that of right + wrong + 1 fair coins at most `right` are heads.
    fn by_coins(right: u32, wrong: u32) -> f64 {
        let coins = right + wrong + 1;
        let mut ways = 1.0;
        let mut sum = 0.0;
        for heads in 0..=right {
            sum += ways;
            ways *= f64::from(coins - heads) / f64::from(heads + 1);
        }
        sum / 2f64.powi(coins as i32)
    }

    #[test]
    fn whole_counts_are_those_of_fair_coins() {
        for (right, wrong) in [
            (0, 0),
            (3, 0),
            (0, 3),
            (26, 14),
            (14, 26),
            (200, 150),
            (7, 900),
        ] {
            let (found, expected) = (
                above_half(right.into(), wrong.into()),
                by_coins(right, wrong),
            );
            assert!(
                (found - expected).abs() < 1e-10,
                "{right} {wrong}: {found} {expected}"
            );
        }
    }

    #[test]
    fn fractions_lie_between_whole_counts_and_mirror() {
        let [low, middle, high] = [3.0, 3.5, 4.0].map(|right| above_half(right, 2.2));
        assert!(low < middle && middle < high);
        assert!((above_half(5.5, 1.25) + above_half(1.25, 5.5) - 1.0).abs() < 1e-12);
    }
}
