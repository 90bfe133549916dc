//! How steep a classifier is: the Lipschitz term of the target-risk bound, estimated on sample rows.

use ostar_engine::{Error, Result, checks};

use super::count_rows;

/// Half the distance between the two points of a difference, for a coordinate of unit scale. At 1e-2 the
/// rounding of single-precision probabilities and the curvature left out are both about 1e-5.
const STEP: f32 = 1e-2;

/// The largest norm, over sample rows and classes, of the gradient of a class's probability in the
/// latent, by central differences. `score` gives the probabilities of any number of rows, row after row;
/// it is called once a sample row, with `2 * width` rows.
pub fn largest_slope(
    sample: &[f32],
    width: usize,
    mut score: impl FnMut(&[f32]) -> Result<Vec<f32>>,
) -> Result<f64> {
    let rows = count_rows("sample", sample, width)?;
    checks::at_least_one_row("sample", rows)?;
    let mut largest = 0.0f64;
    let mut probes = Vec::with_capacity(2 * width * width);
    for row in sample.chunks_exact(width) {
        probes.clear();
        for column in 0..width {
            let (below, above) = around(row[column]);
            for value in [below, above] {
                probes.extend_from_slice(row);
                let probe = probes.len() - width;
                probes[probe + column] = value;
            }
        }
        let probabilities = score(&probes)?;
        let classes = count_classes(&probabilities, 2 * width)?;
        let mut squares = vec![0.0; classes];
        for (pair, value) in probabilities.chunks_exact(2 * classes).zip(row) {
            let (below, above) = around(*value);
            let distance = f64::from(above) - f64::from(below);
            let (at_below, at_above) = pair.split_at(classes);
            for (square, (low, high)) in squares.iter_mut().zip(at_below.iter().zip(at_above)) {
                *square += ((f64::from(*high) - f64::from(*low)) / distance).powi(2);
            }
        }
        largest = squares.into_iter().fold(largest, f64::max);
    }
    Ok(largest.sqrt())
}

/// The two points of a coordinate's difference, apart whatever its size.
fn around(value: f32) -> (f32, f32) {
    let step = STEP * value.abs().max(1.0);
    (value - step, value + step)
}

fn count_classes(probabilities: &[f32], rows: usize) -> Result<usize> {
    if probabilities.is_empty() || !probabilities.len().is_multiple_of(rows) {
        return Err(Error::shape(
            "probabilities",
            format!("as many for each of {rows} rows"),
            format!("{} numbers", probabilities.len()),
        ));
    }
    let classes = probabilities.len() / rows;
    count_rows("probabilities", probabilities, classes)?;
    Ok(classes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEIGHTS: [f64; 3] = [3.0, 0.0, -4.0];

    /// A logistic classifier of two classes on three coordinates.
    fn logistic(rows: &[f32]) -> Result<Vec<f32>> {
        let probabilities = rows.chunks_exact(3).flat_map(|row| {
            let logit: f64 = row
                .iter()
                .zip(WEIGHTS)
                .map(|(x, w)| f64::from(*x) * w)
                .sum();
            let probability = 1.0 / (1.0 + (-logit).exp());
            [probability as f32, (1.0 - probability) as f32]
        });
        Ok(probabilities.collect())
    }

    #[test]
    fn a_logistic_classifier_is_steepest_at_its_boundary() {
        // The gradient p (1 - p) w has norm 5 / 4 where p is a half.
        let slope = largest_slope(&[4.0, 1.0, 0.0, 0.0, 7.0, 0.0], 3, logistic).unwrap();
        assert!((slope - 1.25).abs() < 1e-3, "{slope}");
        let probability: f64 = 1.0 / (1.0 + (-1.5f64).exp());
        let expected = 5.0 * probability * (1.0 - probability);
        let off = largest_slope(&[0.5, 0.0, 0.0], 3, logistic).unwrap();
        assert!((off - expected).abs() < 1e-3, "{off}, expected {expected}");
    }

    #[test]
    fn a_constant_classifier_is_flat_even_far_out() {
        let constant = |rows: &[f32]| Ok(vec![0.25; rows.len() / 2 * 4]);
        assert_eq!(largest_slope(&[1e30, -1e8], 2, constant).unwrap(), 0.0);
    }

    #[test]
    fn a_scorer_that_gives_too_little_or_no_number_is_refused() {
        let with = |answer: Vec<f32>| largest_slope(&[0.0, 0.0], 2, |_| Ok(answer.clone()));
        assert!(with(vec![]).is_err());
        assert!(with(vec![0.5; 7]).is_err());
        assert!(with(vec![f32::NAN; 8]).is_err());
        assert!(largest_slope(&[], 2, |_| Ok(vec![0.5; 8])).is_err());
    }
}
