//! Flags that say which column of a file is what.

use clap::Args;
use ostar_bundle::InputKind;
use ostar_connectors::files::{ColumnKind, FileSettings};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Which column of the data is what.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Columns")]
pub(super) struct FileArgs {
    /// Column of the classes [default: `label`, if there is one].
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// Column of the events' ids [default: `id`, if there is one].
    #[arg(long, value_name = "COLUMN")]
    id: Option<String>,
    /// Column of the events' times, in milliseconds since 1970 [default: `time_ms`, if there is one].
    #[arg(long, value_name = "COLUMN")]
    time: Option<String>,
    /// Column of the times at which labels were known, in milliseconds since 1970 [default: `label_time_ms`, if there is
    /// one, else the events' times].
    #[arg(long, value_name = "COLUMN")]
    label_time: Option<String>,
    /// What the rows are: probabilities, logits, latent, dense or fields [default: guessed from the columns' names].
    #[arg(long, value_name = "KIND", value_parser = word::<InputKind>)]
    input: Option<InputKind>,
    /// For numbers: a column of lists, or the prefix of numbered columns (`z` for z0, z1, ...).
    #[arg(long, value_name = "PREFIX")]
    columns: Option<String>,
    /// For named fields: the kind of a column whose guess would be wrong: number, category or text. Can be repeated.
    #[arg(long, value_name = "COLUMN=KIND", value_parser = column_kind)]
    kind: Vec<(String, ColumnKind)>,
    /// Columns that are not inputs of the model.
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    ignore: Vec<String>,
}

impl FileArgs {
    pub(super) fn settings(self) -> FileSettings {
        let ignored = self.ignore.into_iter();
        let ignored = ignored.map(|column| (column, ColumnKind::Ignore));
        FileSettings {
            label: self.label,
            id: self.id,
            time: self.time,
            label_time: self.label_time,
            input: self.input,
            columns: self.columns,
            kinds: self.kind.into_iter().chain(ignored).collect(),
        }
    }
}

fn column_kind(text: &str) -> Result<(String, ColumnKind), String> {
    let parts = text.split_once('=');
    let (column, kind) = parts.ok_or("expected column=kind, like subject=text")?;
    Ok((column.to_owned(), word(kind)?))
}

/// Reads a word as the enum variant with that name.
fn word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(Value::from(text)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        files: FileArgs,
    }

    #[test]
    fn columns_are_what_flags_say() {
        let line = "x --label spam --input fields --kind subject=text --ignore day,hour";
        let settings = Line::parse_from(line.split(' ')).files.settings();
        assert_eq!(settings.label.as_deref(), Some("spam"));
        assert_eq!(settings.input, Some(InputKind::Fields));
        assert_eq!(settings.kinds["subject"], ColumnKind::Text);
        assert_eq!(settings.kinds["hour"], ColumnKind::Ignore);
        let refused = Line::try_parse_from(["x", "--kind", "subject=words"]).unwrap_err();
        assert!(
            refused.to_string().contains("expected one of `number`"),
            "{refused}"
        );
    }
}
