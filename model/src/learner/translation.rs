//! Classes moved as wholes, before the map learns the rest.
//!
//! Where conditionals have moved far, a map that starts at the identity is led astray: the proportions it
//! is to fit are those of a classifier that is wrong there, and it carries rows across classes to fit them.
//! The first term of the transport needs neither: clusters of the window, found from the class means on, say
//! where each class is now. Labels of source rows are known, so each class can simply be translated there.

use super::{
    adaptation::Adaptation,
    mixture::find_centres,
    settings::LearnerSettings,
    view::{Sample, View},
};
use crate::{
    Generator, Result,
    diagnostics::{ClassMeans, class_means},
};

/// Of a coordinate within classes; standardised latents have at most 1.
const LEAST_VARIANCE: f64 = 1e-2;

impl Adaptation {
    /// Moves classes to the clusters of the window and gives the new view, unless source and target can
    /// still be told apart: clusters that are no classes, as those of mail, are not to be followed.
    pub(crate) fn retranslate(
        &mut self,
        settings: &LearnerSettings,
        sample: &Sample,
        view: &View,
        generator: &mut Generator,
    ) -> Result<Option<View>> {
        let before = self.source.translations().to_vec();
        let proposed = self.propose(sample, view)?;
        self.source.translate(proposed);
        let moved = self.view(settings, sample)?;
        if moved.distance > sample.floor {
            self.source.translate(before);
            return Ok(None);
        }
        self.learn_translated(settings, &moved.proportions, generator)?;
        self.view(settings, sample).map(Some)
    }

    /// Translations that would bring each mapped class mean to the centre of its cluster.
    fn propose(&self, sample: &Sample, view: &View) -> Result<Vec<f32>> {
        let (labels, width) = (&sample.source.labels, self.source.width());
        let classes = view.proportions.classes();
        let means = class_means(&view.mapped, labels, classes, width)?;
        let variances = variances_within(&means, &view.mapped, labels, width);
        let mut centres: Vec<Vec<f64>> = means.iter().flatten().cloned().collect();
        find_centres(&sample.target, &variances, &mut centres);
        let mut translations = self.source.translations().to_vec();
        let moves = means.iter().zip(translations.chunks_exact_mut(width));
        let known = moves.filter_map(|(mean, translation)| Some((mean.as_ref()?, translation)));
        for ((mean, translation), centre) in known.zip(centres) {
            for (value, (mean, centre)) in translation.iter_mut().zip(mean.iter().zip(centre)) {
                *value += (centre - mean) as f32;
            }
        }
        Ok(translations)
    }
}

/// Variance of each coordinate around the means of the rows' classes.
fn variances_within(means: &ClassMeans, latents: &[f32], labels: &[u32], width: usize) -> Vec<f64> {
    let mut squares = vec![0.0; width];
    for (row, label) in latents.chunks_exact(width).zip(labels) {
        if let Some(mean) = &means[*label as usize] {
            for ((square, value), mean) in squares.iter_mut().zip(row).zip(mean) {
                *square += (f64::from(*value) - mean).powi(2);
            }
        }
    }
    let variance = |square: f64| (square / labels.len() as f64).max(LEAST_VARIANCE);
    squares.into_iter().map(variance).collect()
}
