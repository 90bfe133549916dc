//! Scores the stream's events with the newest snapshot.

use std::{sync::Arc, time::Instant};

use anyhow::{Context, Result};
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
    pub(crate) fn new(current: Arc<Current>, metrics: Arc<Metrics>, classes: usize) -> Self {
        Self {
            current,
            metrics,
            classes,
            scores: Scores::default(),
        }
    }

    /// Scores a chunk with the newest snapshot. Returns the predictions of the candidate that the mode serves, whose classes
    /// the chunk gets.
    pub(crate) fn score(&mut self, chunk: &mut ScoredChunk) -> Result<Predictions> {
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
        chunk.sent = rows.map(|row| argmax(row) as u32).collect();
        let scoring = &self.metrics.scoring;
        scoring.observe(
            ScoringPath::Stream,
            chunk.sent.iter().map(|class| *class as usize),
            chunk.frozen.clipped(),
            chunk.duration + start.elapsed(),
        );
        Ok(Predictions {
            probabilities: probabilities.to_vec(),
            version: served.version,
        })
    }
}
