//! Prior correction: a classifier's probabilities for a population with other class shares.

use num_traits::AsPrimitive;

use super::LabelProportions;

/// Makes each row f(x) the normalised f(x) * p / pi, in place: exact when only the class shares moved.
/// `rows` are probabilities row after row, `prior` (pi) the class shares that the classifier was trained
/// for, `proportions` (p) those of the population at hand.
///
/// A class with a prior of 0 keeps its probability. A row that would be 0 in every class (all its mass
/// on classes that `proportions` excludes) says nothing about the others and stays as it was.
///
/// # Panics
/// When the numbers of classes differ or `rows` is no whole number of rows.
pub fn prior_correct<T>(rows: &mut [T], prior: &LabelProportions, proportions: &LabelProportions)
where
    T: AsPrimitive<f64>,
    f64: AsPrimitive<T>,
{
    let classes = prior.classes();
    assert_eq!(
        classes,
        proportions.classes(),
        "classes of prior and proportions"
    );
    assert!(
        rows.len().is_multiple_of(classes),
        "probabilities must be whole rows"
    );
    let ratios = prior_ratios(prior, proportions);
    for row in rows.chunks_exact_mut(classes) {
        let sum: f64 = row
            .iter()
            .zip(&ratios)
            .map(|(value, ratio)| value.as_() * ratio)
            .sum();
        if sum > 0.0 && sum.is_finite() {
            let scale = 1.0 / sum;
            row.iter_mut()
                .zip(&ratios)
                .for_each(|(value, ratio)| *value = (value.as_() * ratio * scale).as_());
        }
    }
}

/// p / pi by class; 1 where the prior is 0.
fn prior_ratios(prior: &LabelProportions, proportions: &LabelProportions) -> Vec<f64> {
    let ratio = |(proportion, prior): (&f64, &f64)| {
        if *prior > 0.0 {
            proportion / prior
        } else {
            1.0
        }
    };
    proportions
        .as_ref()
        .iter()
        .zip(prior.as_ref())
        .map(ratio)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_mass_on_the_present_classes_stay_as_they_were() {
        let prior = LabelProportions::new(vec![0.5, 0.5, 0.0]).unwrap();
        let present = LabelProportions::new(vec![1.0, 0.0, 0.0]).unwrap();
        let mut rows = [0.2, 0.8, 0.0, 0.0, 1.0, 0.0];
        prior_correct(&mut rows, &prior, &present);
        assert_eq!(rows, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    }
}
