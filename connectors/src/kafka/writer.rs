//! Who has committed an offset: part of each commit, so that two daemons on one group notice each other.

use std::fmt;

/// The daemon that commits. Its text is the metadata of the commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// Identifies the checkpoint folder; every manifest in it has the same.
    pub id: String,
    /// Name of the bundle, for people.
    pub bundle: String,
}

const PROGRAM: &str = "ostard";

impl Writer {
    /// Reads the metadata of a commit; `None` if no daemon wrote it.
    pub fn parse(metadata: &str) -> Option<Self> {
        let rest = metadata.strip_prefix(PROGRAM)?.strip_prefix(" writer=")?;
        let (id, bundle) = rest.split_once(" bundle=")?;
        Some(Self {
            id: id.to_owned(),
            bundle: bundle.to_owned(),
        })
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, bundle } = self;
        write!(formatter, "{PROGRAM} writer={id} bundle={bundle}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_read_from_its_own_text_and_from_no_other() {
        let writer = Writer {
            id: "00ff".to_owned(),
            bundle: "spam of 2026".to_owned(),
        };
        assert_eq!(Writer::parse(&writer.to_string()), Some(writer));
        for other in ["", "somebody else", "ostard", "ostard writer=7"] {
            assert_eq!(Writer::parse(other), None, "{other}");
        }
    }
}
