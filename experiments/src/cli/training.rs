//! Flags of the commands that train networks.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use crate::{method::Reweighting, protocol::Protocol};

/// How runs save and describe themselves.
#[derive(Debug, Args)]
pub(super) struct Saving {
    /// Seconds between two checkpoints of a run, which are taken at the end of an epoch. --resume continues from them.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(super) save_every: u64,
    /// File that every epoch of OSTAR's alignment is appended to: distances, costs and accuracy. Measuring takes time.
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,
}

/// What differs from OSTAR's usual training.
#[derive(Debug, Args)]
pub(super) struct Changes {
    /// Where OSTAR's proportions come from.
    #[arg(long, value_enum, default_value_t = Reweighting::Confusion)]
    proportions: Reweighting,
    /// What trains the encoder in stage SSg besides the source classifier's loss and the target's entropy.
    #[arg(long, value_enum, default_value_t = MappedRows::Stopped)]
    mapped_rows: MappedRows,
    /// Epochs in all, in place of the schedule's; the stages start when they start in the schedule.
    #[arg(long, value_name = "COUNT")]
    epochs: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MappedRows {
    /// Nothing: the loss of mapped source rows trains the target classifier alone.
    Stopped,
    /// The loss of mapped source rows, through the map, as in the paper's equation.
    ThroughMap,
}

impl Changes {
    pub(super) fn apply(&self, protocol: &mut Protocol) -> Result<()> {
        protocol.estimator = self.proportions;
        protocol.encoder_learns_through_map = self.mapped_rows == MappedRows::ThroughMap;
        if let Some(epochs) = self.epochs {
            ensure!(
                epochs >= protocol.encoder_epoch,
                "--epochs {epochs}: expected at least {}, the first epoch of SSg",
                protocol.encoder_epoch
            );
            protocol.epochs = epochs;
        }
        Ok(())
    }

    /// The name of a variant with what is changed in it.
    pub(super) fn name(&self, variant: &str) -> String {
        let mut name = variant.to_owned();
        if self.proportions != Reweighting::Confusion {
            name = format!("{name}-{}", self.proportions.name());
        }
        if self.mapped_rows == MappedRows::ThroughMap {
            name += "-through-map";
        }
        if let Some(epochs) = self.epochs {
            name += &format!("-epochs{epochs}");
        }
        name
    }
}
