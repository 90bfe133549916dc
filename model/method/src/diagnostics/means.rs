//! Class means of labelled latents.

use ostar_engine::{Result, checks};

use super::count_rows;

/// The mean latent of each class; `None` for a class without rows.
pub type ClassMeans = Vec<Option<Vec<f64>>>;

/// Means of `latents`, rows of `width` numbers, by their `labels`.
pub fn class_means(
    latents: &[f32],
    labels: &[u32],
    classes: usize,
    width: usize,
) -> Result<ClassMeans> {
    let rows = count_rows("latents", latents, width)?;
    checks::length("labels", labels.len(), rows)?;
    checks::labels(labels, classes)?;
    Ok(group_means(
        latents,
        labels.iter().map(|label| *label as usize),
        classes,
        width,
    ))
}

/// Means of rows by the group each belongs to, all of them below `groups`.
pub(super) fn group_means(
    latents: &[f32],
    group_of_row: impl Iterator<Item = usize>,
    groups: usize,
    width: usize,
) -> ClassMeans {
    let mut sums = vec![vec![0.0; width]; groups];
    let mut counts = vec![0usize; groups];
    for (row, group) in latents.chunks_exact(width).zip(group_of_row) {
        counts[group] += 1;
        for (sum, value) in sums[group].iter_mut().zip(row) {
            *sum += f64::from(*value);
        }
    }
    let mean = |(mut sum, count): (Vec<f64>, usize)| {
        sum.iter_mut().for_each(|value| *value /= count as f64);
        (count > 0).then_some(sum)
    };
    sums.into_iter().zip(counts).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_without_rows_has_no_mean() {
        let means = class_means(&[1.0, 2.0, 3.0, 6.0], &[2, 2], 3, 2).unwrap();
        assert_eq!(means, [None, None, Some(vec![2.0, 4.0])]);
    }

    #[test]
    fn wrong_labels_and_values_are_named() {
        let message = |latents: &[f32], labels: &[u32]| {
            let refused = class_means(latents, labels, 2, 1);
            refused.unwrap_err().to_string()
        };
        assert!(message(&[1.0, 2.0], &[0]).contains("labels"));
        assert!(message(&[1.0], &[2]).contains("label of row 0 is 2"));
        assert!(message(&[f32::NAN], &[0]).contains("latents: row 0"));
    }
}
