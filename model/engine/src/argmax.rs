//! The class a classifier decides for.

use num_traits::Float;

/// Number of the largest value: the most probable class of a row of probabilities.
///
/// The first of equals wins. NaN never wins. Without a value above negative infinity (an empty row, or nothing but
/// NaN) the answer is 0.
pub fn argmax<T: Float>(values: &[T]) -> usize {
    // Branch-free: the branch is unpredictable, and this runs for every event.
    let (mut best, mut highest) = (0, T::neg_infinity());
    for (number, value) in values.iter().enumerate() {
        let is_higher = *value > highest;
        best = if is_higher { number } else { best };
        highest = if is_higher { *value } else { highest };
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_wins_and_of_equals_the_first() {
        assert_eq!(argmax(&[0.1f32, 0.7, 0.2]), 1);
        assert_eq!(argmax(&[0.2f64, 0.4, 0.4]), 1);
        assert_eq!(argmax(&[-3.0f64, -1.0, -2.0]), 1);
    }

    #[test]
    fn nan_never_wins() {
        assert_eq!(argmax(&[f32::NAN, 0.3, 0.7]), 2);
        assert_eq!(argmax(&[0.3, f64::NAN, 0.2]), 0);
    }

    #[test]
    fn a_row_without_a_largest_value_gives_0() {
        assert_eq!(argmax::<f32>(&[]), 0);
        assert_eq!(argmax(&[f32::NAN; 3]), 0);
        assert_eq!(argmax(&[f64::NEG_INFINITY; 2]), 0);
    }
}
