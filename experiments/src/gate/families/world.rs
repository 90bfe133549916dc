//! Worlds: a model, what it was trained on, and rows for streams that it has not seen.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    path::Path,
    sync::Arc,
};

use anyhow::Result;
use ostar_bundle::{
    Bundle,
    fit::{FitSettings, Labelled, LabelledRows, fit},
};
use ostar_engine::{Generator, Rows, argmax};
use ostar_method::proportions::LabelProportions;

use super::{
    gaussian::Gaussian,
    material::{Material, Pool},
    origin::{Kind, WorldKey},
    sets::{RealSet, Sets},
};
use crate::{stream::fit_classes, task::Domain};

/// A trained model with rows to make streams of.
pub struct World {
    /// Set and what was drawn of it, such as `digits of 3 classes`.
    pub(super) name: String,
    pub(super) set: String,
    pub(super) classes: usize,
    /// Shares of the training rows.
    pub(super) shares: Vec<f64>,
    pub(super) model: Bundle,
    /// Accuracy on the held-out rows, in percent.
    pub(super) accuracy: f64,
    /// Whether events carry a given model's probabilities.
    pub(super) is_black_box: bool,
    pub(super) gaussian: Option<Gaussian>,
    /// Rows of the training period that the model was not trained on.
    pub(super) reference: Pool,
    /// What streams are drawn from: first what the model was made for, then another source.
    pub(super) pools: Vec<Pool>,
    /// For every column that names segments the code of each row of the set.
    pub(super) real: Option<Arc<RealSet>>,
}

impl World {
    /// `None` if the set's file is not there. Models are kept in the folder `models`, if there is one.
    pub(super) fn build(key: WorldKey, sets: &Sets, models: Option<&Path>) -> Result<Option<Self>> {
        let mut generator = Generator::new(key.seed());
        let origin = key.origin();
        let held_out = (key.kind == Kind::FewHeldOut).then(|| 60 + generator.below(241));
        let Some(material) = Material::of(origin, key, sets, &mut generator)? else {
            return Ok(None);
        };
        let mut settings = FitSettings {
            seed: key.seed(),
            ..FitSettings::default()
        };
        if let Some(rows) = held_out {
            settings.held_out_share = rows as f64 / material.source.count() as f64;
        }
        let is_black_box = origin.is_black_box();
        let model = if is_black_box {
            box_of(
                &material.source.rows,
                &material.source.labels,
                material.classes,
                None,
            )?
        } else {
            trained(&material, &settings, models)?
        };
        let held_out = model.held_out()?;
        let right = held_out.probabilities.rows().zip(&held_out.labels);
        let right = right.filter(|(row, label)| argmax_of(row) == **label as usize);
        Ok(Some(Self {
            accuracy: 100.0 * right.count() as f64 / held_out.labels.len() as f64,
            name: material.name,
            set: origin.name(),
            classes: material.classes,
            shares: material.shares,
            model,
            is_black_box,
            gaussian: material.gaussian,
            reference: material.reference,
            pools: material.pools,
            real: material.real,
        }))
    }

    /// The same model as a black box, its logits multiplied by `scale`.
    pub(super) fn black_box(&self, scale: f64) -> Result<Bundle> {
        let held_out = self.model.held_out()?;
        let mut rows: Vec<f32> = held_out
            .probabilities
            .rows()
            .flatten()
            .map(|p| *p as f32)
            .collect();
        sharpen(&mut rows, self.classes, scale);
        let shares = &self.model.description().training_proportions;
        box_of(&rows, &held_out.labels, self.classes, Some(shares.clone()))
    }

    /// The same network with its logits multiplied, and the temperature from before: as if an exporter had left it out.
    pub(super) fn overconfident(&self, scale: f64) -> Result<Bundle> {
        let mut weights = self.model.weights().clone();
        for (name, tensor) in &mut weights {
            if name.starts_with("f_s.") {
                let scaled = tensor.to_f32().iter().map(|v| v * scale as f32).collect();
                *tensor = ostar_engine::HostTensor::f32(tensor.shape.clone(), scaled);
            }
        }
        let description = self.model.description().clone();
        Ok(Bundle::new(
            description,
            weights,
            self.model.source().clone(),
        )?)
    }

    /// What a model makes of rows: a row of probabilities each.
    pub(super) fn probabilities(&self, domain: &Domain) -> Result<Vec<f32>> {
        let scores = self.model.frozen()?.scores(domain.inputs()?)?;
        Ok(scores.probabilities().to_vec())
    }

    /// Rows as a black box's events carry them.
    pub(super) fn scored(&self, domain: &Domain, scale: f64) -> Result<Domain> {
        let mut rows = self.probabilities(domain)?;
        sharpen(&mut rows, self.classes, scale);
        Ok(Domain {
            width: self.classes,
            rows,
            labels: domain.labels.clone(),
        })
    }
}

/// A model of this source that was kept, or a new one.
fn trained(material: &Material, settings: &FitSettings, models: Option<&Path>) -> Result<Bundle> {
    let fit = || fit_classes(&material.source, material.classes, settings);
    let Some(models) = models else {
        return fit();
    };
    let mut hasher = DefaultHasher::new();
    let values = material.source.rows.iter().map(|value| value.to_bits());
    values.for_each(|bits| bits.hash(&mut hasher));
    material.source.labels.hash(&mut hasher);
    (settings.seed, settings.held_out_share.to_bits()).hash(&mut hasher);
    let folder = models.join(format!("{:016x}", hasher.finish()));
    if folder.join("bundle.json").is_file() {
        return Ok(Bundle::load(&folder)?);
    }
    let bundle = fit()?;
    bundle.save(&folder)?;
    Ok(bundle)
}

fn argmax_of(row: &[f64]) -> usize {
    let row: Vec<f32> = row.iter().map(|value| *value as f32).collect();
    argmax(&row)
}

fn box_of(
    rows: &[f32],
    labels: &[u32],
    classes: usize,
    training_proportions: Option<LabelProportions>,
) -> Result<Bundle> {
    let names: Vec<String> = (0..classes).map(|class| class.to_string()).collect();
    let labelled = Labelled {
        classes: &names,
        labels,
        rows: LabelledRows::Probabilities(Rows::new(rows, classes)?),
    };
    let settings = FitSettings {
        training_proportions,
        ..FitSettings::default()
    };
    Ok(fit(labelled, &settings, &mut |_| ())?)
}

/// Multiplies logits in place.
fn sharpen(probabilities: &mut [f32], classes: usize, scale: f64) {
    if scale == 1.0 {
        return;
    }
    for row in probabilities.chunks_exact_mut(classes) {
        let mut sum = 0.0;
        for value in row.iter_mut() {
            *value = f64::from(*value).max(1e-12).powf(scale) as f32;
            sum += *value;
        }
        row.iter_mut().for_each(|value| *value /= sum);
    }
}
