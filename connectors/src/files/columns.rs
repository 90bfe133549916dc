//! Finds the columns of label, id, times and input.

use std::path::Path;

use ostar_bundle::InputKind;

use super::{
    ColumnKind, FileError, FileSettings,
    cells::Place,
    reader::{Reader, Record},
};
use crate::problem::listed;

#[derive(Debug)]
pub(super) struct Columns {
    pub(super) label: Option<usize>,
    pub(super) id: Option<usize>,
    pub(super) time: Option<usize>,
    pub(super) label_time: Option<usize>,
    pub(super) kind: InputKind,
    pub(super) input: InputColumns,
    /// The class of each number, where the columns' names have it: `probabilities.spam`.
    pub(super) classes: Option<Vec<String>>,
}

#[derive(Debug)]
pub(super) enum InputColumns {
    /// One column, a list of numbers per cell.
    Vector(usize),
    /// Several columns, one number per cell, in the order of the vector.
    Numbers(Vec<usize>),
    /// All columns that are not label, id, times or ignored.
    Fields(Vec<usize>),
}

impl Columns {
    /// Finds the columns of a file. `kind` is the bundle's, if there is one; it comes before the settings'. `classes` are the
    /// bundle's, or those that were given: columns that are named by classes are put in this order.
    pub(super) fn find(
        settings: &FileSettings,
        kind: Option<InputKind>,
        classes: Option<&[String]>,
        reader: &Reader,
    ) -> Result<Self, FileError> {
        let finder = Finder {
            settings,
            classes,
            path: &reader.path,
            names: &reader.columns,
        };
        let label = finder.optional("--label", &settings.label, "label")?;
        let id = finder.optional("--id", &settings.id, "id")?;
        let time = finder.optional("--time", &settings.time, "time_ms")?;
        let label_time = finder.optional("--label-time", &settings.label_time, "label_time_ms")?;
        let kind = kind.or(settings.input).unwrap_or_else(|| finder.guess());
        let (input, classes) = finder.input(kind, [label, id, time, label_time])?;
        Ok(Self {
            label,
            id,
            time,
            label_time,
            kind,
            input,
            classes,
        })
    }

    /// The input of a row as a vector.
    pub(super) fn vector(&self, record: &Record, reader: &Reader) -> Result<Vec<f32>, FileError> {
        match &self.input {
            InputColumns::Vector(column) => {
                let (cell, place) = reader.at(record, *column);
                place.vector(cell)
            }
            InputColumns::Numbers(columns) | InputColumns::Fields(columns) => {
                let number = |column: &usize| {
                    let (cell, place) = reader.at(record, *column);
                    place.number(cell)
                };
                columns.iter().map(number).collect()
            }
        }
    }

    /// Position of the first number of a row, for errors about the whole vector.
    pub(super) fn place<'a>(&self, record: &Record, reader: &'a Reader) -> Place<'a> {
        let column = match &self.input {
            InputColumns::Vector(column) => *column,
            InputColumns::Numbers(columns) | InputColumns::Fields(columns) => columns[0],
        };
        reader.place(record, column)
    }
}

struct Finder<'a> {
    settings: &'a FileSettings,
    classes: Option<&'a [String]>,
    path: &'a Path,
    names: &'a [String],
}

impl Finder<'_> {
    fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// The column that a flag names, or else the default one if the file has it.
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
                    listed(self.names.iter())
                ))),
            },
        }
    }

    /// The columns of an input of this kind, and the classes in their names; `taken` are those of label, id and times.
    fn input(
        &self,
        kind: InputKind,
        taken: [Option<usize>; 4],
    ) -> Result<(InputColumns, Option<Vec<String>>), FileError> {
        let mut classes = None;
        let input = match kind {
            InputKind::Fields => {
                self.check_kinds()?;
                InputColumns::Fields(self.others(taken))
            }
            _ => {
                let prefix = self.settings.columns.as_deref();
                let name = prefix.unwrap_or(kind.as_str());
                match self.vector(name) {
                    Some(found) => found,
                    None if kind == InputKind::Dense && prefix.is_none() => {
                        InputColumns::Numbers(self.others(taken))
                    }
                    None if kind.is_black_box() && !self.named(name).is_empty() => {
                        let (names, columns) = self.in_order(self.named(name))?.into_iter().unzip();
                        classes = Some(names);
                        InputColumns::Numbers(columns)
                    }
                    None => {
                        return Err(self.wrong(format!(
                            "there is no column `{name}` and no `{name}0`, expected the input's numbers; the columns \
                             are {}; name them with --columns",
                            listed(self.names.iter())
                        )));
                    }
                }
            }
        };
        if let InputColumns::Numbers(none) | InputColumns::Fields(none) = &input
            && none.is_empty()
        {
            return Err(self.wrong(
                "there is no column left for the input; check --label, --id, --time and --ignore"
                    .into(),
            ));
        }
        Ok((input, classes))
    }

    /// Columns whose names are this one, a dot and a class: what a map of classes to numbers becomes.
    fn named(&self, name: &str) -> Vec<(String, usize)> {
        let class = |(position, column): (usize, &String)| {
            let class = column.strip_prefix(name)?.strip_prefix('.')?;
            Some((class.to_owned(), position))
        };
        self.names.iter().enumerate().filter_map(class).collect()
    }

    /// Columns of classes in the order of those that are known.
    fn in_order(&self, named: Vec<(String, usize)>) -> Result<Vec<(String, usize)>, FileError> {
        let Some(classes) = self.classes else {
            return Ok(named);
        };
        let find = |class: &String| named.iter().find(|(name, _)| name == class).cloned();
        let found: Vec<_> = classes.iter().filter_map(find).collect();
        if found.len() == classes.len() && found.len() == named.len() {
            return Ok(found);
        }
        let names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
        Err(self.wrong(format!(
            "the columns of the input name the classes {}, expected {}",
            names.join(", "),
            classes.join(", ")
        )))
    }

    /// Columns that are neither taken nor ignored.
    fn others(&self, taken: [Option<usize>; 4]) -> Vec<usize> {
        let ignored = |name: &String| self.settings.kinds.get(name) == Some(&ColumnKind::Ignore);
        let free =
            |(index, name): &(usize, &String)| !taken.contains(&Some(*index)) && !ignored(name);
        let columns = self.names.iter().enumerate().filter(free);
        columns.map(|(index, _)| index).collect()
    }

    /// Refuses kinds of columns that the file does not have.
    fn check_kinds(&self) -> Result<(), FileError> {
        let mut named = self.settings.kinds.keys();
        match named.find(|name| self.position(name).is_none()) {
            None => Ok(()),
            Some(name) => Err(self.wrong(format!(
                "there is no column `{name}`, which --kind or --ignore names; the columns are {}",
                listed(self.names.iter())
            ))),
        }
    }

    /// The kind whose name a column or a series of columns has, else fields.
    fn guess(&self) -> InputKind {
        let is_there = |kind: &InputKind| {
            let name = kind.as_str();
            self.vector(name).is_some() || (kind.is_black_box() && self.named(name).len() > 1)
        };
        let guessed = InputKind::VECTORS.into_iter().find(is_there);
        match guessed {
            Some(kind) => kind,
            None if self.settings.columns.is_some() => InputKind::Dense,
            None => InputKind::Fields,
        }
    }

    /// The column of this name, or the columns of this name with 0, 1... or 1, 2... appended, in numeric order.
    fn vector(&self, name: &str) -> Option<InputColumns> {
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

    fn wrong(&self, problem: String) -> FileError {
        FileError::new(self.path, problem)
    }
}
