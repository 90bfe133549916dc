//! Scores the stream's events with what is served, and keeps what late labels are measured against.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use anyhow::{Context, Result};
use ostar_connectors::labels::LabelJoin;
use ostar_model::{argmax, learner::Scores};

use super::scored::ScoredChunk;
use crate::{
    current::{Current, Version},
    metrics::{Metrics, ScoringPath},
};

/// Scores chunks, one after the other.
pub(crate) struct Scoring {
    current: Arc<Current>,
    metrics: Arc<Metrics>,
    labels: Option<Arc<Mutex<LabelJoin>>>,
    classes: usize,
    scores: Scores,
}

/// What was served for a chunk.
#[derive(Debug, Clone)]
pub(crate) struct Predictions {
    /// Probabilities, row after row.
    pub(crate) probabilities: Vec<f32>,
    pub(crate) version: Version,
}

impl Scoring {
    pub(crate) fn new(
        current: Arc<Current>,
        metrics: Arc<Metrics>,
        labels: Option<Arc<Mutex<LabelJoin>>>,
        classes: usize,
    ) -> Self {
        Self {
            current,
            metrics,
            labels,
            classes,
            scores: Scores::default(),
        }
    }

    /// Scores a chunk with the newest snapshot; gives what its mode serves.
    pub(crate) fn score(&mut self, chunk: &ScoredChunk) -> Result<Predictions> {
        let start = Instant::now();
        let served = self.current.load();
        served
            .snapshot
            .score_frozen(&chunk.frozen, &mut self.scores)
            .context("cannot score events with what is served")?;
        let probabilities = self.scores.of(self.current.mode().candidate());
        let rows = probabilities.chunks_exact(self.classes);
        let scoring = &self.metrics.scoring;
        scoring.observe(
            ScoringPath::Stream,
            rows.map(argmax),
            chunk.duration + start.elapsed(),
        );
        if let Some(labels) = &self.labels {
            let mut labels = labels.lock().unwrap_or_else(PoisonError::into_inner);
            for (number, event) in chunk.events.iter().enumerate() {
                let Some(id) = &event.id else { continue };
                let row = number * self.classes..(number + 1) * self.classes;
                let scores = &self.scores;
                let candidates = [&scores.frozen, &scores.prior, &scores.adapted];
                let [frozen, prior, adapted] = candidates.map(|values| &values[row.clone()]);
                labels.add_prediction(id, [frozen, prior, adapted, &probabilities[row.clone()]]);
            }
        }
        Ok(Predictions {
            probabilities: probabilities.to_vec(),
            version: served.version,
        })
    }
}
