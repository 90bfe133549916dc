//! The methods of the paper's tables.

use std::{fmt, str::FromStr};

use anyhow::{Result, bail};

/// How a classifier of the source is adapted to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// No adaptation: the classifier that was trained on the source.
    Source,
    /// Invariant latents, by a domain discriminator.
    Dann,
    /// Invariant latents, by a Wasserstein critic that takes 1 + beta times the target.
    Wasserstein {
        /// 0, 1 or 2 in the tables.
        beta: u32,
    },
    /// Invariant latents of a reweighted source.
    Reweighted(Reweighting),
    /// OSTAR, up to one of its stages.
    Ostar(Stage),
}

/// Where a reweighted source's proportions come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Reweighting {
    /// The source classifier's confusion matrix (IW-WD).
    Confusion,
    /// Ward clusters matched with classes (MARSc).
    Ward,
    /// A Gaussian mixture matched with classes (MARSg).
    Mixture,
    /// The target's labels (DI-Oracle).
    Truth,
}

/// Which of its losses OSTAR trains with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Map and classifier by CAL, in all epochs.
    Alignment,
    /// CAL with information maximisation in the target classifier (SS).
    Classifier,
    /// SS first, then with the encoder in training, too (SSg).
    Encoder,
}

impl Reweighting {
    /// Name on the command line and in results files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Confusion => "confusion",
            Self::Ward => "ward",
            Self::Mixture => "mixture",
            Self::Truth => "truth",
        }
    }
}

impl Method {
    /// In the order of the paper's tables.
    pub const ALL: [Self; 12] = [
        Self::Source,
        Self::Dann,
        Self::Wasserstein { beta: 0 },
        Self::Wasserstein { beta: 1 },
        Self::Wasserstein { beta: 2 },
        Self::Reweighted(Reweighting::Mixture),
        Self::Reweighted(Reweighting::Ward),
        Self::Reweighted(Reweighting::Confusion),
        Self::Reweighted(Reweighting::Truth),
        Self::Ostar(Stage::Alignment),
        Self::Ostar(Stage::Classifier),
        Self::Ostar(Stage::Encoder),
    ];

    /// Name on the command line and in results files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Dann => "dann",
            Self::Wasserstein { beta: 0 } => "wd0",
            Self::Wasserstein { beta: 1 } => "wd1",
            Self::Wasserstein { .. } => "wd2",
            Self::Reweighted(Reweighting::Mixture) => "marsg",
            Self::Reweighted(Reweighting::Ward) => "marsc",
            Self::Reweighted(Reweighting::Confusion) => "iw-wd",
            Self::Reweighted(Reweighting::Truth) => "di-oracle",
            Self::Ostar(Stage::Alignment) => "ostar",
            Self::Ostar(Stage::Classifier) => "ostar+ss",
            Self::Ostar(Stage::Encoder) => "ostar+im",
        }
    }

    /// Name in the paper's tables.
    pub fn title(self) -> &'static str {
        match self {
            Self::Source => "Source",
            Self::Dann => "DANN",
            Self::Wasserstein { beta: 0 } => "WD_beta=0",
            Self::Wasserstein { beta: 1 } => "WD_beta=1",
            Self::Wasserstein { .. } => "WD_beta=2",
            Self::Reweighted(Reweighting::Mixture) => "MARSg",
            Self::Reweighted(Reweighting::Ward) => "MARSc",
            Self::Reweighted(Reweighting::Confusion) => "IW-WD",
            Self::Reweighted(Reweighting::Truth) => "DI-Oracle",
            Self::Ostar(Stage::Alignment) => "OSTAR",
            Self::Ostar(Stage::Classifier) => "OSTAR+SS",
            Self::Ostar(Stage::Encoder) => "OSTAR+IM",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Method {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        match Self::ALL.into_iter().find(|method| method.name() == name) {
            Some(method) => Ok(method),
            None => {
                let known = Self::ALL.map(Self::name).join(", ");
                bail!("unknown method {name:?}, expected one of {known}")
            }
        }
    }
}
