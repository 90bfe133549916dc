//! Real sets, read once, and which of their rows or parts each half of the streams has.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use anyhow::Result;
use clap::ValueEnum;

use super::columns::{common_words, fold, shrunk};
use crate::{
    data::{
        bank::contacts,
        digits::{Digits, Intensity, Preparation},
        features::FeatureFile,
        locate,
        mail::inboxes,
        tables::Table,
    },
    task::Domain,
};

/// Streams to choose a rule on, and streams to look at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum Half {
    /// A rule may be chosen on it.
    Tuning,
    /// Looked at once, after the rule was written down.
    HeldBack,
}

impl Half {
    /// As on the command line and in results files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tuning => "tuning",
            Self::HeldBack => "held-back",
        }
    }

    /// Of numbered things, such as inboxes or rows, every second is of this half.
    pub(super) fn has(self, number: usize) -> bool {
        number.is_multiple_of(2) == (self == Self::Tuning)
    }
}

/// A real set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Set {
    Mail,
    Reviews,
    Digits,
    Bank,
    Office,
    Census,
    /// The census by the scores of a given model.
    CensusScores,
    Defendants,
    Adult,
}

/// Its rows.
#[derive(Debug)]
pub(super) struct RealSet {
    pub(super) rows: Arc<Domain>,
    pub(super) classes: usize,
    /// Natural parts, such as inboxes or tenths of the time: numbers of their rows in the order in which they came.
    pub(super) parts: Vec<Vec<usize>>,
    /// For every column that names segments the code of each row.
    pub(super) codes: Vec<Vec<u8>>,
}

/// Sets that were read, or found missing.
pub(super) struct Sets {
    folder: PathBuf,
    known: Mutex<HashMap<Set, Option<Arc<RealSet>>>>,
}

impl Set {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mail => "mail",
            Self::Reviews => "reviews",
            Self::Digits => "digits",
            Self::Bank => "bank",
            Self::Office => "office",
            Self::Census => "census",
            Self::CensusScores => "census scores",
            Self::Defendants => "defendants",
            Self::Adult => "adult",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Self::Mail => "enron_spam",
            Self::Reviews => "amazon_reviews",
            Self::Digits => "mnist",
            Self::Bank => "bank_marketing",
            Self::Office => "office_caltech10_effnetlite2",
            Self::Census | Self::CensusScores => "census",
            Self::Defendants => "defendants",
            Self::Adult => "adult",
        }
    }

    /// Rows that a half may resample: parts of its own, or every second row.
    pub(super) fn rows_of(self, set: &RealSet, half: Half) -> Vec<usize> {
        let numbered = match self {
            Self::Mail | Self::Reviews => {
                let parts = set.parts.iter().enumerate();
                let own = parts.filter(|(number, _)| half.has(*number));
                return own.flat_map(|(_, rows)| rows.clone()).collect();
            }
            // The second part is another writer's.
            Self::Digits => set.parts[0].clone(),
            _ => set.parts.concat(),
        };
        numbered.into_iter().filter(|row| half.has(*row)).collect()
    }

    fn read(self, folder: &Path) -> Result<RealSet> {
        match self {
            Self::Mail => {
                let folded = inboxes(folder)?.iter().map(fold).collect();
                Ok(RealSet::of_parts(folded, 2))
            }
            Self::Reviews => {
                let file = FeatureFile::read(&locate(folder, self.file())?)?;
                Ok(RealSet::of_parts(common_words(&all_parts(&file)?), 2))
            }
            Self::Digits => {
                let files = Digits::read(folder, Preparation::Fill, Intensity::Signed)?;
                let parts = vec![shrunk(&files.mnist), shrunk(&files.usps)];
                Ok(RealSet::of_parts(parts, 10))
            }
            Self::Bank => {
                let all = contacts(folder)?;
                let tenth = |number: usize| number * all.count() / 10;
                let parts = (0..10).map(|n| (tenth(n)..tenth(n + 1)).collect());
                Ok(RealSet {
                    parts: parts.collect(),
                    rows: Arc::new(all),
                    classes: 2,
                    codes: Vec::new(),
                })
            }
            Self::Office => {
                let file = FeatureFile::read(&locate(folder, self.file())?)?;
                Ok(RealSet::of_parts(all_parts(&file)?, file.classes()))
            }
            Self::Census | Self::CensusScores | Self::Defendants | Self::Adult => {
                let mut table = Table::read(folder, self.file())?;
                if self == Self::CensusScores {
                    let both = table.scores.iter().flat_map(|score| [1.0 - score, *score]);
                    (table.rows.rows, table.rows.width) = (both.collect(), 2);
                }
                let of = |later: bool| {
                    let rows = (0..table.later.len()).filter(|row| table.later[*row] == later);
                    rows.collect::<Vec<_>>()
                };
                Ok(RealSet {
                    parts: vec![of(false), of(true)],
                    rows: Arc::new(table.rows),
                    classes: 2,
                    codes: table.codes,
                })
            }
        }
    }
}

impl RealSet {
    fn of_parts(parts: Vec<Domain>, classes: usize) -> Self {
        let mut all = Domain {
            width: parts[0].width,
            rows: Vec::new(),
            labels: Vec::new(),
        };
        let mut numbers = Vec::new();
        for part in parts {
            numbers.push((all.count()..all.count() + part.count()).collect());
            all.rows.extend(part.rows);
            all.labels.extend(part.labels);
        }
        Self {
            rows: Arc::new(all),
            classes,
            parts: numbers,
            codes: Vec::new(),
        }
    }
}

impl Sets {
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            known: Mutex::default(),
        }
    }

    /// `None` if the file is not there.
    pub(super) fn get(&self, set: Set) -> Result<Option<Arc<RealSet>>> {
        let mut known = self.known.lock().unwrap_or_else(|held| held.into_inner());
        if let Some(set) = known.get(&set) {
            return Ok(set.clone());
        }
        let read = if locate(&self.folder, set.file()).is_ok() {
            Some(Arc::new(set.read(&self.folder)?))
        } else {
            None
        };
        known.insert(set, read.clone());
        Ok(read)
    }

    /// Files that were asked for and are not there.
    pub(super) fn missing(&self) -> Vec<String> {
        let known = self.known.lock().unwrap_or_else(|held| held.into_inner());
        let missing = known.iter().filter(|(_, read)| read.is_none());
        let mut files: Vec<String> = missing
            .map(|(set, _)| format!("{}.npz", set.file()))
            .collect();
        files.sort();
        files.dedup();
        files
    }
}

fn all_parts(file: &FeatureFile) -> Result<Vec<Domain>> {
    let names = file.names();
    let first = names[0];
    let part = |name: &str| Ok(file.task(first, name, 1.0, 0)?.target.shuffled(0));
    names.into_iter().map(part).collect()
}
