//! `--reference` of `fit` and `import`: unlabelled rows of the training period.

use std::path::Path;

use anyhow::{Context, Result, bail};
use ostar_bundle::{Bundle, MANY_CLASSES, most_reference_rows};
use ostar_connectors::{
    event::{Decoder, EventSettings, InputRows},
    files::{FileEvents, FileSettings},
};

/// The bundle with the rows of a file, if there is one, and a line that says so.
pub(super) fn add_reference(
    bundle: Bundle,
    path: Option<&Path>,
    columns: &FileSettings,
) -> Result<(Bundle, String)> {
    let classes = bundle.classes();
    let Some(path) = path else {
        return Ok((bundle, describe_reference(0, classes)));
    };
    let refused = || format!("cannot take --reference {}", path.display());
    let rows = read(&bundle, path, columns).with_context(refused)?;
    let kept = spread(&rows, most_reference_rows(classes));
    let inputs = kept.as_ref().unwrap_or(&rows).inputs();
    let bundle = bundle.with_reference(inputs).with_context(refused)?;
    let mut line = describe_reference(bundle.reference_rows(), classes);
    if kept.is_some() {
        line += &format!(", an even spread of {}", rows.len());
    }
    Ok((bundle, line))
}

/// How many reference rows a bundle has, or what some would buy.
pub(super) fn describe_reference(rows: usize, classes: usize) -> String {
    let hint = match rows {
        0 if classes <= MANY_CLASSES => {
            "; without reference rows a shift is proven later or not at all: about 65 instead of 79 % of the gain was kept; add \
             --reference FILE to `fit` or `import`"
        }
        _ => "",
    };
    format!("reference rows: {rows}{hint}")
}

/// All rows, as events would have them.
fn read(bundle: &Bundle, path: &Path, columns: &FileSettings) -> Result<InputRows> {
    let description = bundle.description();
    let (input, classes) = (&description.input, &description.classes);
    let decoder = Decoder::new(&EventSettings::default(), input, classes.len())?;
    let mut rows = InputRows::new(input, classes.len());
    for event in FileEvents::open_inputs(path, columns, input, classes)? {
        let event = event?;
        if let Err(reject) = decoder.push_row(&event.input, &mut rows) {
            bail!("row {}: {}", event.row, reject.detail);
        }
    }
    Ok(rows)
}

/// So many rows from the first to the last; `None` if there are no more.
fn spread(rows: &InputRows, most: usize) -> Option<InputRows> {
    (rows.len() > most).then(|| {
        let mut kept = rows.emptied();
        for number in 0..most {
            let row = number * rows.len() / most;
            kept.append(rows, row..row + 1);
        }
        kept
    })
}

#[cfg(test)]
mod tests;
