//! The labelled source buffer: what batches are drawn from, and the fifth that is held out.

use ostar_engine::{Error, Generator, Result, Rows, checks};
use serde::{Deserialize, Serialize};

use crate::proportions::LabelProportions;

/// How source batches are drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SourceSampling {
    /// Every row has the same chance.
    Uniform,
    /// Every class alike, then every row of the class: rare classes are in every batch.
    #[default]
    ClassBalanced,
}

/// Labelled latents in two parts, split as the bundle says.
#[derive(Debug, Clone)]
pub(crate) struct TrainingSource {
    width: usize,
    classes: usize,
    train: Part,
    held_out: Part,
    /// Rows of `train`, class by class.
    by_class: Vec<Vec<u32>>,
    /// What is added to the latents of each class before they enter the map, class after class.
    translations: Vec<f32>,
}

/// Latents, row after row, and their labels.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Part {
    pub(crate) latents: Vec<f32>,
    pub(crate) labels: Vec<u32>,
}

impl TrainingSource {
    /// Splits `latents`; every class must have a row in both parts.
    pub(crate) fn new(
        latents: Rows<'_>,
        labels: &[u32],
        held_out: &[bool],
        classes: usize,
    ) -> Result<Self> {
        let width = latents.width();
        latents.check("source latents", width)?;
        checks::length("source labels", labels.len(), latents.count())?;
        checks::length("source held_out", held_out.len(), latents.count())?;
        checks::labels(labels, classes)?;
        let mut parts = [Part::default(), Part::default()];
        let mut row = vec![0.0; width];
        for (number, (label, held_out)) in labels.iter().zip(held_out).enumerate() {
            latents.values().copy_f32(number * width, &mut row);
            let part = &mut parts[usize::from(*held_out)];
            part.latents.extend_from_slice(&row);
            part.labels.push(*label);
        }
        for (part, name) in parts.iter().zip(["to train on", "held out"]) {
            let missing = (0..classes).find(|class| !part.labels.contains(&(*class as u32)));
            if let Some(class) = missing {
                return Err(Error::setting(
                    "source buffer",
                    format!("has no row of class {class} {name}, expected at least one"),
                ));
            }
        }
        let [train, held_out] = parts;
        let mut by_class = vec![Vec::new(); classes];
        for (row, label) in train.labels.iter().enumerate() {
            by_class[*label as usize].push(row as u32);
        }
        Ok(Self {
            width,
            classes,
            train,
            held_out,
            by_class,
            translations: vec![0.0; classes * width],
        })
    }

    pub(crate) fn train(&self) -> &Part {
        &self.train
    }

    pub(crate) fn held_out(&self) -> &Part {
        &self.held_out
    }

    /// What is added to the latents of each class before they enter the map, class after class.
    pub(crate) fn translations(&self) -> &[f32] {
        &self.translations
    }

    /// Replaces the translations of all classes.
    pub(crate) fn translate(&mut self, translations: Vec<f32>) {
        debug_assert_eq!(translations.len(), self.translations.len());
        self.translations = translations;
    }

    /// Latents of `part`, each translated as its class is.
    pub(crate) fn translated(&self, part: &Part) -> Vec<f32> {
        let mut latents = part.latents.clone();
        for (row, label) in latents.chunks_exact_mut(self.width).zip(&part.labels) {
            let translation = &self.translations[*label as usize * self.width..][..self.width];
            row.iter_mut().zip(translation).for_each(|(a, b)| *a += b);
        }
        latents
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Class shares of the distribution that batches are drawn from.
    pub(crate) fn drawn_proportions(&self, sampling: SourceSampling) -> LabelProportions {
        match sampling {
            SourceSampling::ClassBalanced => LabelProportions::uniform(self.classes),
            SourceSampling::Uniform => {
                let counts: Vec<f64> = self.by_class.iter().map(|rows| rows.len() as f64).collect();
                LabelProportions::from_counts(&counts).expect("every class has a row to train on")
            }
        }
    }

    /// Fills `batch` with numbers of rows of [`TrainingSource::train`], with replacement.
    pub(crate) fn draw(
        &self,
        sampling: SourceSampling,
        generator: &mut Generator,
        batch: &mut [u32],
    ) {
        for row in batch {
            *row = match sampling {
                SourceSampling::Uniform => generator.below(self.train.labels.len()) as u32,
                SourceSampling::ClassBalanced => {
                    let rows = &self.by_class[generator.below(self.classes)];
                    rows[generator.below(rows.len())]
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One number a row, every fifth row held out.
    fn source(labels: &[u32]) -> Result<TrainingSource> {
        let latents: Vec<f32> = (0..labels.len()).map(|row| row as f32).collect();
        let held_out: Vec<bool> = (0..labels.len()).map(|row| row % 5 == 1).collect();
        TrainingSource::new(Rows::new(&latents[..], 1)?, labels, &held_out, 2)
    }

    #[test]
    fn a_class_that_lacks_a_row_in_either_part_is_named() {
        for (labels, expected) in [
            (vec![0, 0, 0, 1], "class 1 held out"),
            (vec![0, 1, 0], "class 1 to train on"),
            (vec![0], "class 1 to train on"),
        ] {
            let message = source(&labels).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn every_row_is_translated_as_its_class_is() {
        let mut source = source(&[0, 0, 1, 1, 0, 1, 1]).unwrap();
        assert_eq!(source.translated(source.train()), source.train().latents);
        source.translate(vec![10.0, -10.0]);
        let train = [10.0, -8.0, -7.0, 14.0, -5.0];
        assert_eq!(source.translated(source.train()), train);
        assert_eq!(source.translated(source.held_out()), [11.0, -4.0]);
    }

    #[test]
    fn balanced_batches_draw_a_rare_class_as_often_as_a_common_one() {
        let labels: Vec<u32> = (0..1000).map(|row| u32::from(row < 10)).collect();
        let source = source(&labels).unwrap();
        let rare = |sampling| {
            let mut batch = vec![0; 10_000];
            source.draw(sampling, &mut Generator::new(1), &mut batch);
            let labels = &source.train().labels;
            batch
                .iter()
                .filter(|row| labels[**row as usize] == 1)
                .count()
        };
        let balanced = rare(SourceSampling::ClassBalanced);
        assert!((4700..5300).contains(&balanced), "{balanced}");
        let uniform = rare(SourceSampling::Uniform);
        assert!((50..150).contains(&uniform), "{uniform}");
    }
}
