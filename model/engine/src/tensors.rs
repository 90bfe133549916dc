//! Plain data that callers exchange with this crate: numbers in host memory, and tensors by name.

use std::{borrow::Cow, collections::BTreeMap};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::{Error, Result};

/// Borrowed numbers in single or double precision. Engines convert them to their own.
#[derive(Debug, Clone, Copy)]
pub enum Scalars<'a> {
    /// Single precision, what events and buffers carry.
    F32(&'a [f32]),
    /// Double precision, for tests that compare with a reference.
    F64(&'a [f64]),
}

/// A borrowed row-major matrix of rows of equal width.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    width: usize,
    values: Scalars<'a>,
}

/// Owned numbers in single or double precision.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Single precision: what the CPU engine exports.
    F32(Vec<f32>),
    /// Double precision: step counts, and tensors of a double-precision engine.
    F64(Vec<f64>),
}

/// A tensor in host memory.
#[derive(Debug, Clone, PartialEq)]
pub struct HostTensor {
    /// Size of each dimension, outermost first.
    pub shape: Vec<usize>,
    /// As many values as `shape` holds, row-major.
    pub values: Values,
}

/// Tensors by name, sorted by name: what engines export and import.
pub type NamedTensors = BTreeMap<String, HostTensor>;

// === impl Scalars ===

impl Scalars<'_> {
    /// How many numbers there are.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
        }
    }

    /// Whether there are no numbers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number at `index`, in double precision.
    pub fn get(&self, index: usize) -> f64 {
        match self {
            Self::F32(values) => f64::from(values[index]),
            Self::F64(values) => values[index],
        }
    }

    /// Index of the first NaN or infinity; a double beyond single precision's range counts as one.
    pub(crate) fn first_non_finite(&self) -> Option<usize> {
        match self {
            Self::F32(values) if all_finite(values) => None,
            Self::F32(values) => values.iter().position(|v| !v.is_finite()),
            Self::F64(values) => values.iter().position(|v| !(*v as f32).is_finite()),
        }
    }

    /// Writes the numbers from `start` on into `out`, in single precision.
    pub fn copy_f32(&self, start: usize, out: &mut [f32]) {
        match self {
            Self::F32(values) => out.copy_from_slice(&values[start..start + out.len()]),
            Self::F64(values) => {
                for (to, from) in out.iter_mut().zip(&values[start..]) {
                    *to = *from as f32;
                }
            }
        }
    }
}

/// No early exit: a loop without a branch compiles to vector instructions.
fn all_finite(values: &[f32]) -> bool {
    pulp::Arch::new().dispatch(|| {
        values
            .iter()
            .fold(true, |all, value| all & value.is_finite())
    })
}

impl<'a> From<&'a [f32]> for Scalars<'a> {
    fn from(values: &'a [f32]) -> Self {
        Self::F32(values)
    }
}

impl<'a> From<&'a [f64]> for Scalars<'a> {
    fn from(values: &'a [f64]) -> Self {
        Self::F64(values)
    }
}

// === impl Rows ===

impl<'a> Rows<'a> {
    /// A matrix with `width` numbers in a row. The number of values must be a multiple of `width`.
    pub fn new(values: impl Into<Scalars<'a>>, width: usize) -> Result<Self> {
        let values = values.into();
        if width == 0 || !values.len().is_multiple_of(width) {
            return Err(Error::shape(
                "matrix",
                format!("a multiple of {width} numbers, {width} a row"),
                format!("{} numbers", values.len()),
            ));
        }
        Ok(Self { width, values })
    }

    /// Values that are known to be rows of this width.
    pub fn new_unchecked(values: Scalars<'a>, width: usize) -> Self {
        Self { width, values }
    }

    /// How many numbers a row has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.values.len() / self.width
    }

    /// All numbers, row by row.
    pub fn values(&self) -> Scalars<'a> {
        self.values
    }

    /// At most `count` rows from the one numbered `first` on, in single precision.
    pub fn block(&self, first: usize, count: usize) -> Cow<'a, [f32]> {
        let end = self.count().min(first + count);
        let range = first * self.width..end * self.width;
        match self.values {
            Scalars::F32(values) => Cow::Borrowed(&values[range]),
            Scalars::F64(values) => values[range].iter().map(|value| *value as f32).collect(),
        }
    }

    /// Checks that rows have `width` finite numbers; an error names the first row and column that is not finite.
    pub fn check(&self, what: &'static str, width: usize) -> Result<()> {
        if self.width != width {
            return Err(Error::shape(
                what,
                format!("rows of {width} numbers"),
                format!("rows of {}", self.width),
            ));
        }
        match self.values.first_non_finite() {
            None => Ok(()),
            Some(index) => Err(Error::NonFinite {
                what,
                row: index / width,
                column: index % width,
                value: self.values.get(index),
            }),
        }
    }
}

// === impl Values ===

impl Values {
    fn kind(&self) -> Dtype {
        match self {
            Self::F32(_) => Dtype::F32,
            Self::F64(_) => Dtype::F64,
        }
    }

    /// Borrows the numbers without a conversion.
    pub fn as_scalars(&self) -> Scalars<'_> {
        match self {
            Self::F32(values) => Scalars::F32(values),
            Self::F64(values) => Scalars::F64(values),
        }
    }
}

// === impl HostTensor ===

impl HostTensor {
    /// A single-precision tensor; `values` must have as many numbers as `shape` holds.
    pub fn f32(shape: impl Into<Vec<usize>>, values: Vec<f32>) -> Self {
        Self {
            shape: shape.into(),
            values: Values::F32(values),
        }
    }

    /// A double-precision tensor; `values` must have as many numbers as `shape` holds.
    pub fn f64(shape: impl Into<Vec<usize>>, values: Vec<f64>) -> Self {
        Self {
            shape: shape.into(),
            values: Values::F64(values),
        }
    }

    /// Copies the numbers, rounded to single precision.
    pub fn to_f32(&self) -> Vec<f32> {
        match &self.values {
            Values::F32(values) => values.clone(),
            Values::F64(values) => values.iter().map(|v| *v as f32).collect(),
        }
    }

    /// Copies the numbers in double precision.
    pub fn to_f64(&self) -> Vec<f64> {
        match &self.values {
            Values::F32(values) => values.iter().map(|v| f64::from(*v)).collect(),
            Values::F64(values) => values.clone(),
        }
    }

    fn little_endian_bytes(&self) -> Vec<u8> {
        match &self.values {
            Values::F32(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Values::F64(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    }
}

/// Looks up the tensor `name` and checks its shape.
pub fn require<'t>(
    tensors: &'t NamedTensors,
    name: &str,
    shape: &[usize],
) -> Result<&'t HostTensor> {
    let tensor = tensors.get(name).ok_or_else(|| Error::MissingTensor {
        name: name.to_owned(),
        expected: shape.to_vec(),
    })?;
    if tensor.shape != shape {
        return Err(Error::TensorShape {
            name: name.to_owned(),
            expected: shape.to_vec(),
            found: tensor.shape.clone(),
        });
    }
    Ok(tensor)
}

/// Serialises tensors as safetensors, with `metadata` in the header.
pub fn to_safetensors(
    tensors: &NamedTensors,
    metadata: BTreeMap<String, String>,
) -> Result<Vec<u8>> {
    to_safetensors_with_bytes(tensors, &BTreeMap::new(), metadata)
}

/// [`to_safetensors`] with bytes beside the tensors, which [`read_bytes`] reads.
pub fn to_safetensors_with_bytes(
    tensors: &NamedTensors,
    named_bytes: &BTreeMap<String, Vec<u8>>,
    metadata: BTreeMap<String, String>,
) -> Result<Vec<u8>> {
    let tensors = tensors.iter().map(|(name, tensor)| {
        let bytes = Cow::Owned(tensor.little_endian_bytes());
        (name, tensor.values.kind(), tensor.shape.clone(), bytes)
    });
    let named_bytes = named_bytes.iter().map(|(name, bytes)| {
        let shape = vec![bytes.len()];
        (name, Dtype::U8, shape, Cow::Borrowed(&bytes[..]))
    });
    let buffers: Vec<_> = tensors.chain(named_bytes).collect();
    let views = buffers.iter().map(|(name, kind, shape, bytes)| {
        Ok((*name, TensorView::new(*kind, shape.clone(), bytes)?))
    });
    let views = views.collect::<Result<Vec<_>>>()?;
    let header = metadata.into_iter().collect();
    Ok(safetensors::serialize(views, Some(header))?)
}

/// The text at `key` in the metadata of a safetensors header.
pub fn read_metadata(bytes: &[u8], key: &str) -> Result<String> {
    let (_, header) = SafeTensors::read_metadata(bytes)?;
    let metadata = header.metadata().as_ref();
    let text = metadata.and_then(|metadata| metadata.get(key));
    text.cloned()
        .ok_or_else(|| Error::setting("header", format!("has no `{key}`, expected one")))
}

/// The bytes of this name in a safetensors buffer.
pub fn read_bytes<'b>(buffer: &'b [u8], name: &str) -> Result<&'b [u8]> {
    let file = SafeTensors::deserialize(buffer)?;
    Ok(file.tensor(name)?.data())
}

/// Reads the tensors of a safetensors buffer. Integers and booleans become doubles.
pub fn from_safetensors(bytes: &[u8]) -> Result<NamedTensors> {
    let file = SafeTensors::deserialize(bytes)?;
    let mut tensors = NamedTensors::new();
    for (name, view) in file.tensors() {
        let values = match view.dtype() {
            Dtype::F32 => Values::F32(words(view.data()).map(f32::from_le_bytes).collect()),
            Dtype::F64 => doubles(view.data(), f64::from_le_bytes),
            Dtype::I64 => doubles(view.data(), |word| i64::from_le_bytes(word) as f64),
            Dtype::I32 => doubles(view.data(), |word| i32::from_le_bytes(word).into()),
            Dtype::U8 | Dtype::BOOL => doubles(view.data(), |[byte]| byte.into()),
            other => {
                return Err(Error::setting(
                    format!("tensor `{name}`"),
                    format!("has type {other:?}, expected F32, F64, I64, I32, U8 or BOOL"),
                ));
            }
        };
        let shape = view.shape().to_vec();
        tensors.insert(name, HostTensor { shape, values });
    }
    Ok(tensors)
}

/// The words of some bytes, without what is left at their end.
pub fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.as_chunks().0.iter().copied()
}

fn doubles<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f64) -> Values {
    Values::F64(words(bytes).map(number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn safetensors_keep_names_shapes_values_and_precision() {
        let mut tensors = NamedTensors::new();
        tensors.insert("a".into(), HostTensor::f32([2, 1], vec![1.5, -2.0]));
        tensors.insert("b".into(), HostTensor::f64([1], vec![1e-300]));
        let bytes = to_safetensors(&tensors, BTreeMap::new()).unwrap();
        assert_eq!(from_safetensors(&bytes).unwrap(), tensors);
    }

    #[test]
    fn truncated_safetensors_are_an_error() {
        let mut tensors = NamedTensors::new();
        tensors.insert("a".into(), HostTensor::f32([2], vec![1.5, -2.0]));
        let bytes = to_safetensors(&tensors, BTreeMap::new()).unwrap();
        for end in 0..bytes.len() {
            assert!(from_safetensors(&bytes[..end]).is_err(), "{end} bytes");
        }
    }

    #[test]
    fn a_non_finite_value_is_refused_with_its_row_and_column() {
        let values = [0.0f32, 1.0, 2.0, f32::NAN];
        let rows = Rows::new(&values[..], 2).unwrap();
        let message = rows.check("latents", 2).unwrap_err().to_string();
        assert_eq!(
            message,
            "latents: row 1, column 1 is NaN, only finite numbers are accepted"
        );
    }
}
