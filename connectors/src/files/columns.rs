//! Which columns of a file are what.

use std::path::Path;

use ostar_model::bundle::InputKind;

use super::{
    ColumnKind, FileError, FileSettings,
    cells::Place,
    reader::{Reader, Record},
};

/// Columns by number.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) label: Option<usize>,
    pub(super) id: Option<usize>,
    pub(super) time: Option<usize>,
    pub(super) kind: InputKind,
    pub(super) input: InputColumns,
}

/// Where the input stands.
#[derive(Debug)]
pub(super) enum InputColumns {
    /// One column of lists.
    Vector(usize),
    /// Columns of numbers.
    Numbers(Vec<usize>),
    /// Columns that may be fields.
    Fields(Vec<usize>),
}

impl Columns {
    /// Finds the columns of a file; `kind` is what the bundle takes, if there is one.
    pub(super) fn find(
        settings: &FileSettings,
        kind: Option<InputKind>,
        reader: &Reader,
    ) -> Result<Self, FileError> {
        let finder = Finder {
            settings,
            path: &reader.path,
            names: &reader.columns,
        };
        let label = finder.optional("--label", &settings.label, "label")?;
        let id = finder.optional("--id", &settings.id, "id")?;
        let time = finder.optional("--time", &settings.time, "time_ms")?;
        let kind = kind.or(settings.input).unwrap_or_else(|| finder.guess());
        let others = || {
            let taken = [label, id, time];
            let ignored = |name: &String| settings.kinds.get(name) == Some(&ColumnKind::Ignore);
            let free = move |(number, name): &(usize, &String)| {
                !taken.contains(&Some(*number)) && !ignored(name)
            };
            let free = reader.columns.iter().enumerate().filter(free);
            free.map(|(number, _)| number).collect::<Vec<_>>()
        };
        let input = match kind {
            InputKind::Fields => {
                if let Some(name) = settings
                    .kinds
                    .keys()
                    .find(|name| finder.position(name).is_none())
                {
                    return Err(finder.wrong(format!(
                        "there is no column `{name}`, which --kind or --ignore names; the columns are {}",
                        finder.listed()
                    )));
                }
                InputColumns::Fields(others())
            }
            kind => {
                let name = settings.columns.as_deref().unwrap_or(kind.as_str());
                match finder.numbers(name) {
                    Some(found) => found,
                    None if kind == InputKind::Dense && settings.columns.is_none() => {
                        InputColumns::Numbers(others())
                    }
                    None => {
                        return Err(finder.wrong(format!(
                            "there is no column `{name}` and no `{name}0`, expected the {}; the columns are \
                             {}; name them with --columns",
                            kind,
                            finder.listed()
                        )));
                    }
                }
            }
        };
        if let InputColumns::Numbers(none) | InputColumns::Fields(none) = &input
            && none.is_empty()
        {
            return Err(finder.wrong("there is no column left for the input".into()));
        }
        Ok(Self {
            label,
            id,
            time,
            kind,
            input,
        })
    }

    /// A row of numbers.
    pub(super) fn numbers(&self, record: &Record, reader: &Reader) -> Result<Vec<f32>, FileError> {
        let at = |column: usize| record.at(column, &reader.path, &reader.columns);
        match &self.input {
            InputColumns::Vector(column) => {
                let (cell, place) = at(*column);
                place.vector(cell)
            }
            InputColumns::Numbers(columns) | InputColumns::Fields(columns) => {
                let number = |column: &usize| {
                    let (cell, place) = at(*column);
                    place.number(cell)
                };
                columns.iter().map(number).collect()
            }
        }
    }

    /// Where a row's numbers begin, for errors about all of them.
    pub(super) fn place<'a>(&self, record: &Record, reader: &'a Reader) -> Place<'a> {
        let column = match &self.input {
            InputColumns::Vector(column) => *column,
            InputColumns::Numbers(columns) | InputColumns::Fields(columns) => columns[0],
        };
        Place {
            path: &reader.path,
            row: record.row,
            column: &reader.columns[column],
        }
    }
}

struct Finder<'a> {
    settings: &'a FileSettings,
    path: &'a Path,
    names: &'a [String],
}

impl Finder<'_> {
    fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// A column that must be there if it was asked for by name.
    fn optional(
        &self,
        flag: &str,
        name: &Option<String>,
        default: &str,
    ) -> Result<Option<usize>, FileError> {
        match name {
            None => Ok(self.position(default)),
            Some(name) => match self.position(name) {
                Some(position) => Ok(Some(position)),
                None => Err(self.wrong(format!(
                    "there is no column `{name}`, which {flag} names; the columns are {}",
                    self.listed()
                ))),
            },
        }
    }

    fn guess(&self) -> InputKind {
        let is_there = |kind: &InputKind| self.numbers(kind.as_str()).is_some();
        let guessed = InputKind::VECTORS.into_iter().find(is_there);
        match guessed {
            Some(kind) => kind,
            None if self.settings.columns.is_some() => InputKind::Dense,
            None => InputKind::Fields,
        }
    }

    /// The column of this name, or the columns of this name and 0, 1... or 1, 2..., in the numbers' order.
    fn numbers(&self, name: &str) -> Option<InputColumns> {
        if let Some(position) = self.position(name) {
            return Some(InputColumns::Vector(position));
        }
        let numbered = |(position, column): (usize, &String)| {
            let rest = column.strip_prefix(name)?;
            let rest = rest.strip_prefix(['_', '.', '-']).unwrap_or(rest);
            Some((rest.parse::<usize>().ok()?, position))
        };
        let mut found: Vec<_> = self.names.iter().enumerate().filter_map(numbered).collect();
        found.sort_unstable();
        let first = found.first()?.0;
        let gapless = (first..)
            .zip(&found)
            .all(|(expected, (number, _))| expected == *number);
        let columns = found.iter().map(|(_, position)| *position).collect();
        (first <= 1 && gapless).then_some(InputColumns::Numbers(columns))
    }

    fn listed(&self) -> String {
        const SHOWN: usize = 12;
        let shown: Vec<_> = self
            .names
            .iter()
            .take(SHOWN)
            .map(|name| format!("`{name}`"))
            .collect();
        let more = match self.names.len() > SHOWN {
            true => " and others",
            false => "",
        };
        shown.join(", ") + more
    }

    fn wrong(&self, problem: String) -> FileError {
        FileError::Columns {
            path: self.path.into(),
            problem,
        }
    }
}
