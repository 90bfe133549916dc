//! Runs a learner on a stream of blocks, as the daemon does.

use anyhow::{Context, Result};
use ostar_engine::{Inputs, Rows, argmax};
use ostar_method::{
    diagnostics::Decision,
    learner::{Learner, LearnerSettings, RefreshReport},
};

/// Rows of `width` numbers, and one label for each.
#[derive(Default)]
pub(crate) struct Data {
    pub(crate) width: usize,
    pub(crate) rows: Vec<f32>,
    pub(crate) labels: Vec<u32>,
}

/// Length of the stream, and settings of the learner.
#[derive(clap::Args)]
pub(crate) struct Pace {
    /// Total number of alignment steps.
    #[arg(long, default_value_t = 2000)]
    pub(crate) steps: u64,
    /// Rows that are observed together.
    #[arg(long, default_value_t = 500)]
    pub(crate) block: usize,
    /// Alignment steps after each block.
    #[arg(long, default_value_t = 50)]
    pub(crate) steps_per_block: u64,
    /// Settings that differ from the defaults, as JSON: '{"critic_steps": 10}'.
    #[arg(long, default_value = "{}")]
    pub(crate) settings: String,
}

/// How many refreshes there were, and what they decided.
#[derive(Default, Clone, Copy)]
pub(crate) struct Decisions {
    pub(crate) refreshes: usize,
    pub(crate) refused: usize,
    pub(crate) translated: usize,
}

/// Observes the target in blocks, repeatedly, with a fixed number of steps after each. `after_block` receives the
/// newest refresh.
pub(crate) fn learn(
    learner: &mut Learner,
    target: &Data,
    pace: &Pace,
    mut after_block: impl FnMut(&Learner, &RefreshReport) -> Result<()>,
) -> Result<Decisions> {
    let mut decisions = Decisions::default();
    let mut newest = None;
    let mut stream = target.rows.chunks(pace.block * target.width).cycle();
    while learner.steps() < pace.steps {
        let block = stream.next().context("the target has no rows")?;
        ostar_experiments::learn(learner, inputs(block, target.width)?)?;
        let left = pace.steps - learner.steps();
        for _ in 0..pace.steps_per_block.min(left) {
            let (_, refresh) = learner.step()?;
            if let Some(report) = refresh {
                decisions.refreshes += 1;
                decisions.refused += usize::from(report.decision != Decision::Serve);
                decisions.translated += usize::from(report.translated);
                newest = Some(report);
            }
        }
        if let Some(report) = &newest {
            after_block(learner, report)?;
        }
    }
    Ok(decisions)
}

/// The defaults, with the settings in `overrides` replaced.
pub(crate) fn settings(overrides: &str, seed: u64) -> Result<LearnerSettings> {
    let mut settings: LearnerSettings = serde_json::from_str(overrides).context("--settings")?;
    settings.seed = seed;
    Ok(settings)
}

/// Dense encoder inputs with `width` numbers in a row.
pub(crate) fn inputs(rows: &[f32], width: usize) -> Result<Inputs<'_>> {
    Ok(Inputs::Dense(Rows::new(rows, width)?))
}

/// Fraction of rows whose label is the most probable class.
pub(crate) fn accuracy(probabilities: &[f32], labels: &[u32]) -> f64 {
    let classes = probabilities.len() / labels.len();
    let rows = probabilities.chunks_exact(classes).zip(labels);
    let right = rows.filter(|(row, label)| argmax(row) == **label as usize);
    right.count() as f64 / labels.len() as f64
}

/// Sum of absolute differences.
pub(crate) fn l1(proportions: &[f64], truth: &[f64]) -> f64 {
    let differences = proportions.iter().zip(truth);
    differences.map(|(a, b)| (a - b).abs()).sum()
}

// === impl Data ===

impl Data {
    pub(crate) fn inputs(&self) -> Result<Inputs<'_>> {
        inputs(&self.rows, self.width)
    }

    pub(crate) fn matrix(&self) -> Result<Rows<'_>> {
        Ok(Rows::new(&self.rows[..], self.width)?)
    }
}
