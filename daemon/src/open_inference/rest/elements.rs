//! A tensor's elements in JSON, flat or nested like its shape.

use serde::Deserialize;
use serde_json::Value;

use crate::open_inference::tensor::{Datatype, Values};

/// An element, or nested lists of elements in row-major order. JSON may give them before the datatype.
#[derive(Deserialize)]
pub(super) struct Elements(Value);

impl Elements {
    /// Converts the elements; fails at the first that is not of the datatype.
    pub(super) fn read_as(self, datatype: Datatype) -> Result<Values, String> {
        let wrong =
            |element: &Value| format!("data has {element}, which is no {}", datatype.name());
        Ok(match datatype {
            Datatype::Fp32 => Values::Singles(flat(self.0, wrong, |element| {
                Some(element.as_f64()? as f32)
            })?),
            Datatype::Fp64 => Values::Doubles(flat(self.0, wrong, Value::as_f64)?),
            Datatype::Bytes => Values::Texts(flat(self.0, wrong, |element| {
                element.as_str().map(str::to_owned)
            })?),
            _ => Values::Wholes(flat(self.0, wrong, Value::as_i64)?),
        })
    }
}

/// Reads the elements of all lists, one after the other. serde_json bounds the depth of nesting.
fn flat<T>(
    elements: Value,
    wrong: impl Fn(&Value) -> String,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Vec<T>, String> {
    let mut flat = Vec::new();
    // The rest of each list that is being read, the innermost last.
    let mut lists = vec![vec![elements].into_iter()];
    while let Some(list) = lists.last_mut() {
        match list.next() {
            None => drop(lists.pop()),
            Some(Value::Array(inner)) => lists.push(inner.into_iter()),
            Some(element) => flat.push(read(&element).ok_or_else(|| wrong(&element))?),
        }
    }
    Ok(flat)
}
