//! Classes moved as wholes, before the map learns the rest.
//!
//! Where class conditionals have moved far, a map that starts at the identity goes wrong: it fits proportions of a
//! classifier that is wrong there, and carries rows across classes to do so. Translations need neither. Clusters of
//! the window, found from the class means on, say where each class is now. Labels of source rows are known, so each
//! class can be translated there.

use ostar_engine::{
    Generator, Result, Rows, architecture::Network, engine::restarted, optimiser::RateSchedule,
};

use super::{
    adaptation::Adaptation,
    evidence::{AlignmentEvidence, RefreshSample},
    mixture::find_centres,
    settings::LearnerSettings,
    source::Part,
};
use crate::{
    diagnostics::{ClassMeans, class_means},
    proportions::LabelProportions,
};

/// Of a coordinate within classes; standardised latents have at most 1.
const LEAST_VARIANCE: f64 = 1e-2;
/// Steps of the target classifier after classes were translated: it is judged on where they are now.
const TRANSLATED_STEPS: u64 = 300;
/// Rate of the first of these steps: the classifier has far to go.
const TRANSLATED_RATE: f64 = 1e-2;

impl Adaptation {
    /// Moves classes to the clusters of the window, with a map that starts anew, and gives the evidence after it.
    /// `None`, and nothing changed, if source and target can still be told apart: the clusters are not classes
    /// then, as for mail.
    pub(crate) fn retranslate(
        &mut self,
        settings: &LearnerSettings,
        sample: &RefreshSample,
        generator: &mut Generator,
    ) -> Result<Option<AlignmentEvidence>> {
        let translations = self.source.translations().to_vec();
        let saved = self.engine.save()?;
        // Tried in place, because evidence needs the engine; undone below if it does not help.
        self.source.translate(self.propose(sample)?);
        let fresh = restarted(self.engine.export()?, Network::Map, &self.initial_map);
        self.engine.import(&fresh)?;
        // p_N of the alignment so far holds for classes elsewhere: the new estimate need not stay near it.
        let proportions = self.alignment_proportions.take();
        let moved = self.gather_evidence(settings, sample)?;
        // How much of each class the frozen classifier still recognises there is for the gate to judge.
        if moved.distance > sample.noise_floor {
            self.source.translate(translations);
            self.alignment_proportions = proportions;
            self.engine.restore(&saved)?;
            return Ok(None);
        }
        self.learn_translated(settings, &moved.proportions, generator)?;
        self.gather_evidence(settings, sample).map(Some)
    }

    /// Translations that bring each class mean to the centre of its cluster.
    fn propose(&self, sample: &RefreshSample) -> Result<Vec<f32>> {
        let Part { latents, labels } = self.source.train();
        let width = self.source.width();
        let classes = self.prior.classes();
        let means = class_means(latents, labels, classes, width)?;
        let variances = variances_within(&means, latents, labels, width);
        let mut centres: Vec<Vec<f64>> = means.iter().flatten().cloned().collect();
        // Not on `sample.target`, which judges the outcome.
        find_centres(&sample.aside, &variances, &mut centres);
        let mut translations = vec![0.0; classes * width];
        let moves = means.iter().zip(translations.chunks_exact_mut(width));
        let known = moves.filter_map(|(mean, translation)| Some((mean.as_ref()?, translation)));
        for ((mean, translation), centre) in known.zip(centres) {
            for (value, (mean, centre)) in translation.iter_mut().zip(mean.iter().zip(centre)) {
                *value = (centre - mean) as f32;
            }
        }
        Ok(translations)
    }

    /// Gives the engine the source as it is translated now, and lets the target classifier learn it.
    fn learn_translated(
        &mut self,
        settings: &LearnerSettings,
        proportions: &LabelProportions,
        generator: &mut Generator,
    ) -> Result<()> {
        self.set_translated_source()?;
        let schedule = RateSchedule::Decaying {
            steps: TRANSLATED_STEPS,
        };
        for step in 0..TRANSLATED_STEPS {
            let rate = schedule.rate(TRANSLATED_RATE, step);
            self.draw(settings, generator);
            self.classifier_step(settings, proportions, rate, generator)?;
        }
        Ok(())
    }

    /// Gives the engine the source as it is translated now.
    pub(crate) fn set_translated_source(&mut self) -> Result<()> {
        let train = self.source.train();
        let latents = self.source.translated(train);
        let rows = Rows::new(&latents[..], self.source.width())?;
        self.engine.set_source(rows, &train.labels)
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
