//! What labels did and say, and which ones are wanted.

use ostar_method::learner::{self, BlockReport};

use crate::{
    proto::{LabelRequest, LabelState, ShareByLabels, SharesByLabels},
    status::Status,
};

/// Most wanted labels in an answer.
const MOST_WANTED: usize = 1_000;

pub(super) fn wanted(status: &Status, names: &[String]) -> Vec<LabelRequest> {
    let first = status.wanted.len().saturating_sub(MOST_WANTED);
    let wanted = status.wanted[first..].iter();
    wanted.map(|wanted| request(wanted, names)).collect()
}

fn request(request: &learner::LabelRequest, names: &[String]) -> LabelRequest {
    let [frozen, prior, adapted] = request
        .predicted
        .map(|class| names.get(class as usize).cloned().unwrap_or_default());
    LabelRequest {
        id: request.id.to_string(),
        reason: request.kind.name().to_owned(),
        block: request.block,
        time_ms: request.time_ms,
        frozen,
        prior,
        adapted,
    }
}

/// `None` if no labels are read.
pub(super) fn state(block: &BlockReport, wanted: usize) -> Option<LabelState> {
    let labels = block.labels.as_ref()?;
    let counts = &labels.counts;
    let within = |share: f64| Some(labels.delays.quantile_ms(share)? as f64 / 1_000.0);
    Some(LabelState {
        wanted: wanted as u64,
        asked: counts.asked_disagreements + counts.asked_random,
        answered: counts.answered_disagreements + counts.answered_random,
        waiting: labels.waiting as u64,
        one_of: labels.sampled,
        without_id: counts.without_id,
        negatives: counts.negatives,
        late: counts.late,
        half_within_seconds: within(0.5),
        most_within_seconds: within(0.9),
    })
}

pub(super) fn shares(shares: &learner::SharesByLabels, names: &[String]) -> SharesByLabels {
    let classes = names.iter().zip(&shares.classes);
    let classes = classes.map(|(name, found)| ShareByLabels {
        name: name.clone(),
        share: found.share,
        low: found.interval.low,
        high: found.interval.high,
    });
    SharesByLabels {
        labels: shares.labels,
        rows: shares.rows,
        first_block: shares.first_block,
        last_block: shares.last_block,
        classes: classes.collect(),
    }
}
