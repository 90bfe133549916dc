//! Scores the stream's events with the newest snapshot, and remembers the predictions that late labels are joined with.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use anyhow::{Context, Result};
use ostar_connectors::labels::LabelJoin;
use ostar_engine::argmax;
use ostar_method::learner::Scores;

use super::scored::ScoredChunk;
use crate::{
    current::{Current, Version},
    metrics::{Metrics, ScoringPath},
};

/// Scores chunks with whatever is served at the time.
pub(crate) struct Scoring {
    current: Arc<Current>,
    metrics: Arc<Metrics>,
    labels: Option<Arc<Mutex<LabelJoin>>>,
    classes: usize,
    scores: Scores,
}

/// The served candidate's predictions for a chunk.
#[derive(Debug, Clone)]
pub(crate) struct Predictions {
    /// One per class, row after row.
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

    /// Scores a chunk with the newest snapshot. Returns the predictions of the candidate that the mode serves.
    pub(crate) fn score(&mut self, chunk: &ScoredChunk) -> Result<Predictions> {
        let start = Instant::now();
        let served = self.current.load();
        served
            .snapshot
            .score_frozen(&chunk.frozen, &mut self.scores)
            .context("cannot score events with the newest snapshot")?;
        let probabilities = self
            .scores
            .of(self.current.mode().candidate(served.snapshot.candidate));
        let rows = probabilities.chunks_exact(self.classes);
        let scoring = &self.metrics.scoring;
        scoring.observe(
            ScoringPath::Stream,
            rows.map(argmax),
            chunk.frozen.clipped(),
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
