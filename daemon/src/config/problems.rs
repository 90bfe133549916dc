//! What is wrong with a configuration, all of it at once.

use std::fmt;

use super::tree::Origin;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) key: String,
    /// The value and what would be right, to go after the key.
    pub(super) text: String,
    /// Where the value came from; unknown for one that is not set.
    pub(super) origin: Option<Origin>,
}

/// Everything that is wrong, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Problems(pub(super) Vec<Problem>);

impl Problem {
    pub(super) fn new(key: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            text: text.into(),
            origin: None,
        }
    }

    /// From a text that starts with the key, as sections report theirs.
    pub(super) fn from_text(text: &str) -> Self {
        let (key, rest) = text.split_once(' ').unwrap_or((text, ""));
        match key.strip_suffix(':') {
            Some(key) => Self::new(key, format!(": {rest}")),
            None => Self::new(key, rest),
        }
    }
}

impl Problems {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = if self.text.starts_with(':') { "" } else { " " };
        write!(formatter, "{}{space}{}", self.key, self.text)?;
        match &self.origin {
            Some(origin) => write!(formatter, " ({origin})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => write!(formatter, "a problem in the configuration:")?,
            count => write!(formatter, "{count} problems in the configuration:")?,
        }
        for problem in &self.0 {
            write!(formatter, "\n  {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
