//! Vectorised exp and pow: libm took 20 % of the learner's time per event.

use std::f32::consts::{LN_2, LOG2_E, SQRT_2};

use pulp::Arch;

/// Adding it (1.5 * 2^23) to a number of magnitude up to 2^22 rounds to the nearest integer, which is then in the
/// lowest mantissa bits.
const ROUNDING: f32 = 12_582_912.0;

/// The smallest exponent of a normal number.
const LEAST_EXPONENT: f32 = f32::MIN_EXP as f32 - 1.0;

/// Replaces each value v in (0, 1] by v^exponent, with a relative error of about 2e-6. Results are at least
/// [`f32::MIN_POSITIVE`] and at most 1.
pub fn raise(values: &mut [f32], exponent: f32) {
    // A plain loop: `dispatch` compiles it for each instruction set, and the compiler vectorises it.
    Arch::new().dispatch(|| {
        for value in values.iter_mut() {
            *value = exponential((exponent * logarithm(*value)).clamp(LEAST_EXPONENT, 0.0));
        }
    });
}

/// Replaces each value x <= 0 by e^x, with a relative error of about 1e-6 for x above -10. Results below
/// [`f32::MIN_POSITIVE`] become 0. NaN stays NaN.
pub(crate) fn exponentiate(values: &mut [f32]) {
    Arch::new().dispatch(|| {
        for value in values.iter_mut() {
            let power = LOG2_E * *value;
            let exponential = exponential(power.clamp(LEAST_EXPONENT, 0.0));
            *value = if power < LEAST_EXPONENT {
                0.0
            } else {
                exponential
            };
        }
    });
}

/// Replaces each positive normal number by its natural logarithm, with an error of about 1e-6.
pub fn take_logarithms(values: &mut [f32]) {
    Arch::new().dispatch(|| {
        for value in values.iter_mut() {
            *value = LN_2 * logarithm(*value);
        }
    });
}

/// Logarithm to base 2 of a positive normal number.
#[inline(always)]
fn logarithm(value: f32) -> f32 {
    let bits = value.to_bits();
    let mantissa = f32::from_bits(bits & 0x007f_ffff | 0x3f80_0000);
    let exponent = (bits >> 23) as i32 as f32 - 127.0;
    // From [1, 2) to [1/sqrt(2), sqrt(2)], where the series converges fastest.
    let (mantissa, exponent) = if mantissa > SQRT_2 {
        (0.5 * mantissa, exponent + 1.0)
    } else {
        (mantissa, exponent)
    };
    // ln(mantissa) = 2 artanh(t), and |t| < 0.172.
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let square = t * t;
    let series = 1.0 + square * (1.0 / 3.0 + square * (0.2 + square * (1.0 / 7.0 + square / 9.0)));
    exponent + 2.0 / LN_2 * t * series
}

/// 2^power, for a power between [`LEAST_EXPONENT`] and 0.
#[inline(always)]
fn exponential(power: f32) -> f32 {
    let rounded = power + ROUNDING;
    // Taylor series of 2^fraction; the fraction is at most 1/2 in magnitude.
    let x = LN_2 * (power - (rounded - ROUNDING));
    let high = 1.0 / 24.0 + x * (1.0 / 120.0 + x * (1.0 / 720.0 + x / 5040.0));
    let series = 1.0 + x * (1.0 + x * (0.5 + x * (1.0 / 6.0 + x * high)));
    // The integer part becomes the exponent bits of the result.
    let whole = rounded.to_bits().wrapping_sub(ROUNDING.to_bits());
    series * f32::from_bits(whole.wrapping_add(127) << 23)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn powers_are_the_librarys(logarithm in -27.0f64..=0.0, exponent in 0.1f32..=10.0) {
            let value = logarithm.exp() as f32;
            let mut values = [value; 11];
            raise(&mut values, exponent);
            let exact = f64::from(value).powf(f64::from(exponent));
            for power in values {
                let error = (f64::from(power) / exact.max(f64::from(f32::MIN_POSITIVE)) - 1.0).abs();
                prop_assert!(error < 1e-5, "{value} to {exponent}: {power} instead of {exact}");
            }
        }
    }

    #[test]
    fn exponentials_are_the_librarys() {
        let mut values: Vec<f32> = (0..=8_700).map(|n| n as f32 * -0.01).collect();
        let exact: Vec<f64> = values.iter().map(|x| f64::from(*x).exp()).collect();
        exponentiate(&mut values);
        for (found, exact) in values.iter().zip(exact) {
            let error = (f64::from(*found) / exact - 1.0).abs();
            assert!(
                error < 1e-5 && (exact < 4e-5 || error < 1e-6),
                "{found} instead of {exact}"
            );
        }
        let mut extreme = [0.0, -1e30, f32::NEG_INFINITY, f32::NAN];
        exponentiate(&mut extreme);
        assert_eq!(extreme[..3], [1.0, 0.0, 0.0]);
        assert!(extreme[3].is_nan());
    }

    #[test]
    fn one_stays_one_and_nothing_becomes_zero() {
        let mut values = [1.0, 1e-12];
        raise(&mut values, 10.0);
        assert_eq!(values, [1.0, f32::MIN_POSITIVE]);
    }
}
