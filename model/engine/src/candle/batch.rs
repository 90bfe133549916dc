//! The source and target buffers on the device, and batches gathered from them.

use candle_core::Tensor;

use super::{CandleEngine, device::Place};
use crate::{Result, Rows, checks, engine::Batch, weights};

/// Source and target latents that batches are drawn from.
#[derive(Debug)]
pub(super) struct Buffers {
    source: Tensor,
    /// On the host, where class counts are taken.
    labels: Vec<u32>,
    target: Tensor,
}

/// The rows of one batch.
pub(super) struct BatchRows {
    pub(super) source: Tensor,
    pub(super) target: Tensor,
    pub(super) labels: Vec<u32>,
    /// How many source rows each class has.
    pub(super) counts: Vec<f64>,
}

// === impl Buffers ===

impl Buffers {
    pub(super) fn empty(latent: usize, place: &Place) -> Result<Self> {
        Ok(Self {
            source: place.zeros(&[0, latent])?,
            labels: Vec::new(),
            target: place.zeros(&[0, latent])?,
        })
    }

    pub(super) fn set_source(
        &mut self,
        latents: Rows<'_>,
        labels: &[u32],
        place: &Place,
    ) -> Result<()> {
        self.source = place.upload(latents.values(), &[latents.count(), latents.width()])?;
        self.labels = labels.to_vec();
        Ok(())
    }

    pub(super) fn set_target(
        &mut self,
        first: usize,
        latents: Rows<'_>,
        place: &Place,
    ) -> Result<()> {
        checks::target_start(first, self.target.dim(0)?)?;
        let (count, width) = (latents.count(), latents.width());
        if count == 0 {
            return Ok(());
        }
        let new_rows = place.upload(latents.values(), &[count, width])?;
        let held = self.target.dim(0)?;
        if first + count > held {
            let grown = place.zeros(&[first + count, width])?;
            if held > 0 {
                grown.slice_set(&self.target, 0, 0)?;
            }
            self.target = grown;
        }
        self.target.slice_set(&new_rows, 0, first)?;
        Ok(())
    }

    pub(super) fn read_target(&self, place: &Place) -> Result<Vec<f32>> {
        if self.target.dim(0)? == 0 {
            return Ok(Vec::new());
        }
        Ok(place.download(&self.target)?.to_f32())
    }
}

// === impl CandleEngine ===

impl CandleEngine {
    /// Checks a batch and gathers its rows.
    pub(super) fn gather(&self, batch: &Batch<'_>) -> Result<BatchRows> {
        let buffers = &self.buffers;
        checks::batch(batch, buffers.labels.len(), buffers.target.dim(0)?)?;
        let labels: Vec<u32> = batch
            .source
            .iter()
            .map(|row| buffers.labels[*row as usize])
            .collect();
        let mut counts = vec![0.0; self.architecture.classes];
        weights::class_counts(labels.iter().copied(), &mut counts);
        let select = |buffer: &Tensor, rows: &[u32]| -> Result<Tensor> {
            Ok(buffer.index_select(&self.place.indices(rows)?, 0)?)
        };
        Ok(BatchRows {
            source: select(&buffers.source, batch.source)?,
            target: select(&buffers.target, batch.target)?,
            labels,
            counts,
        })
    }
}

// === impl BatchRows ===

impl BatchRows {
    /// The entry of each source row's class.
    pub(super) fn by_label(&self, per_class: &[f64]) -> Vec<f64> {
        self.labels
            .iter()
            .map(|label| per_class[*label as usize])
            .collect()
    }

    /// omega of each source row, as a column.
    pub(super) fn source_weights(
        &self,
        proportions: &[f64],
        engine: &CandleEngine,
    ) -> Result<Tensor> {
        checks::per_class("proportion", proportions, self.counts.len())?;
        let mut omega = vec![0.0; self.counts.len()];
        weights::source_weights(proportions, &self.counts, &mut omega)?;
        engine.place.column(&self.by_label(&omega))
    }
}
