//! The classes of a labelled file and their order.

use std::{collections::BTreeSet, path::Path};

use ostar_bundle::InputKind;

use super::FileError;

/// Rows have a number for each class.
pub(super) fn check_width(path: &Path, width: usize, classes: &[String]) -> Result<(), FileError> {
    if width == classes.len() {
        return Ok(());
    }
    Err(FileError::new(
        path,
        format!(
            "rows have {width} numbers, expected one for each of the {} classes {}; name them in the order of the numbers \
             with --classes",
            classes.len(),
            classes.join(", ")
        ),
    ))
}

/// A list whose order is not given. Sorting the labels would be a guess, and a wrong one gives every row to another class.
pub(super) fn unknown_order(path: &Path, kind: InputKind, labels: &[String]) -> FileError {
    const SHOWN: usize = 10;
    let shown = labels[..labels.len().min(SHOWN)].join(", ");
    let more = if labels.len() > SHOWN { ", ..." } else { "" };
    FileError::new(
        path,
        format!(
            "{} are numbers without names, expected to know which class each of them is of: name the classes in the order of \
             the numbers with --classes NAME,NAME (the labels, sorted, are {shown}{more}), or give the numbers as a map of \
             classes",
            kind.as_str()
        ),
    )
}

/// Distinct names, in numeric order if all are whole numbers, else in alphabetical order.
pub(super) fn sorted_classes(names: &[String]) -> Vec<String> {
    let distinct: BTreeSet<&String> = names.iter().collect();
    let mut classes: Vec<String> = distinct.into_iter().cloned().collect();
    let number = |name: &String| name.parse::<i64>().ok();
    if classes.iter().all(|name| number(name).is_some()) {
        classes.sort_by_key(number);
    }
    classes
}
