//! The alignment as a picture: where a sample of source and stream lies, for people to look at.

use ostar_engine::{Result, argmax, engine::Head};

use super::{
    adaptation::Adaptation,
    evidence::{AlignmentEvidence, RefreshSample, spread},
};
use crate::diagnostics::Projection;

/// Most points of a cloud: as many as a picture of a hand's width can show.
const POINTS: usize = 300;

/// Three clouds in the plane of the source's first two principal components, which never changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// Source rows where the frozen encoder puts them.
    pub source: Vec<[f32; 2]>,
    /// The same rows where the alignment carries them (phi).
    pub mapped: Vec<[f32; 2]>,
    /// Classes of the source rows.
    pub labels: Vec<u32>,
    /// Rows of the stream, from the target window.
    pub target: Vec<[f32; 2]>,
    /// The most probable class of each by the target classifier, corrected to the stream's shares.
    pub predicted: Vec<u32>,
}

impl Adaptation {
    /// The picture of what a refresh looked at. Draws nothing at random, so that it does not change what is learned.
    pub(super) fn take_picture(
        &mut self,
        sample: &RefreshSample,
        evidence: &AlignmentEvidence,
    ) -> Result<Picture> {
        let width = self.source.width();
        let plane = match self.plane.take() {
            Some(plane) => plane,
            None => Projection::principal(&sample.source.latents, width)?,
        };
        let target = spread(&sample.target, width, POINTS);
        let scores = self.score(Head::Target, &target)?;
        let scores = scores.corrected(&self.prior, &evidence.proportions);
        let picture = Picture {
            source: plane.project(&spread(&sample.source.latents, width, POINTS)),
            mapped: plane.project(&spread(&evidence.mapped, width, POINTS)),
            labels: spread(&sample.source.labels, 1, POINTS),
            target: plane.project(&target),
            predicted: scores.rows().map(|row| argmax(row) as u32).collect(),
        };
        self.plane = Some(plane);
        Ok(picture)
    }
}
