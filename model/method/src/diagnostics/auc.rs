//! The area under the ROC curve, and how far it is from chance.

/// How well scores rank positives above negatives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Auc {
    /// Probability that a positive scores above a negative, with ties as one half (Mann-Whitney's U).
    pub area: f64,
    /// Distance of the area from one half, in standard errors of an area by chance. 0 if all scores are equal.
    pub standard_errors: f64,
}

impl Auc {
    /// `None` unless there are positives and negatives.
    pub fn measure(mut scored: Vec<(f32, bool)>) -> Option<Self> {
        scored.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let rows = scored.len() as f64;
        let positives = scored.iter().filter(|(_, positive)| *positive).count() as f64;
        let negatives = rows - positives;
        if positives == 0.0 || negatives == 0.0 {
            return None;
        }
        let (mut below, mut won, mut tied) = (0.0, 0.0, 0.0);
        for tie in scored.chunk_by(|a, b| a.0 == b.0) {
            let size = tie.len() as f64;
            let above = tie.iter().filter(|(_, positive)| *positive).count() as f64;
            won += above * (below + (size - above) / 2.0);
            below += size - above;
            tied += size * size * size - size;
        }
        let pairs = positives * negatives;
        let variance = pairs / 12.0 * (rows + 1.0 - tied / (rows * (rows - 1.0)));
        // Rounding leaves something of a variance that is 0.
        let standard_errors = if variance > 1e-9 * pairs {
            (won - pairs / 2.0) / variance.sqrt()
        } else {
            0.0
        };
        Some(Self {
            area: won / pairs,
            standard_errors,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_count_half_and_one_class_has_no_curve() {
        let tied = Auc::measure(vec![(0.5, true), (0.5, false)]).unwrap();
        assert_eq!((tied.area, tied.standard_errors), (0.5, 0.0));
        assert_eq!(Auc::measure(vec![(0.5, true), (0.7, true)]), None);
        assert_eq!(Auc::measure(vec![]), None);
    }

    #[test]
    fn standard_errors_are_those_of_the_rank_sum_test() {
        // Four positives above four negatives: U = 16, its mean is 8, its variance 4 * 4 * 9 / 12.
        let scored = (0..8u8).map(|score| (f32::from(score), score >= 4));
        let auc = Auc::measure(scored.collect()).unwrap();
        assert_eq!(auc.area, 1.0);
        assert!((auc.standard_errors - 8.0 / 12f64.sqrt()).abs() < 1e-12);
        // The other way round it is as far from chance.
        let reversed = (0..8u8).map(|score| (f32::from(score), score < 4));
        let reversed = Auc::measure(reversed.collect()).unwrap();
        assert_eq!(reversed.standard_errors, -auc.standard_errors);
    }
}
