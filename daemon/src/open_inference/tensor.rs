//! Tensors, independent of gRPC and REST.

use serde::Serialize;
use tonic::Status;

use super::find;
use crate::named::named;

named! {
    /// The type of a tensor's elements. BOOL and the half-precision types are not supported: no input takes them.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Datatype {
        Fp32 = "FP32",
        Fp64 = "FP64",
        Int8 = "INT8",
        Int16 = "INT16",
        Int32 = "INT32",
        Int64 = "INT64",
        Uint8 = "UINT8",
        Uint16 = "UINT16",
        Uint32 = "UINT32",
        Uint64 = "UINT64",
        Bytes = "BYTES",
    }
}

/// Elements in row-major order. Integers of all widths are held as `i64`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Values {
    Singles(Vec<f32>),
    Doubles(Vec<f64>),
    Wholes(Vec<i64>),
    Texts(Vec<String>),
}

/// A named tensor. Its shape and the number of its elements agree.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) datatype: Datatype,
    pub(super) shape: Vec<i64>,
    pub(super) values: Values,
}

// === impl Datatype ===

impl Datatype {
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        find(&Self::NAMED, name)
            .map_err(|names| format!("datatype is {name:?}, expected one of {names}"))
    }
}

// === impl Tensor ===

impl Tensor {
    /// Fails if the shape does not fit the number of elements.
    pub(super) fn new(
        name: String,
        datatype: Datatype,
        shape: Vec<i64>,
        values: Values,
    ) -> Result<Self, Status> {
        let elements = elements(&shape).map_err(|problem| about(&name, problem))?;
        if elements != values.len() {
            let found = values.len();
            let problem = format!("shape {shape:?} has {elements} elements, found {found}");
            return Err(about(&name, problem));
        }
        Ok(Self {
            name,
            datatype,
            shape,
            values,
        })
    }
}

/// INVALID_ARGUMENT for an input tensor.
pub(super) fn about(name: &str, problem: impl std::fmt::Display) -> Status {
    Status::invalid_argument(format!("input {name:?}: {problem}"))
}

/// The number of elements of a shape. The shape comes from a client: its product may overflow.
fn elements(shape: &[i64]) -> Result<usize, String> {
    let mut product = 1_usize;
    for size in shape {
        let size = usize::try_from(*size)
            .map_err(|_| format!("shape {shape:?} has the size {size}, expected 0 or more"))?;
        product = product
            .checked_mul(size)
            .ok_or_else(|| format!("shape {shape:?} has more elements than can be counted"))?;
    }
    Ok(product)
}

// === impl Values ===

impl Values {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Singles(values) => values.len(),
            Self::Doubles(values) => values.len(),
            Self::Wholes(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    /// Reads the protocol's binary form: little-endian numbers, and each text after its length in four bytes.
    pub(super) fn from_raw(datatype: Datatype, bytes: &[u8]) -> Result<Self, String> {
        Ok(match datatype {
            Datatype::Fp32 => Self::Singles(words(bytes, f32::from_le_bytes)?),
            Datatype::Fp64 => Self::Doubles(words(bytes, f64::from_le_bytes)?),
            Datatype::Int8 => Self::Wholes(words(bytes, |word| i8::from_le_bytes(word).into())?),
            Datatype::Int16 => Self::Wholes(words(bytes, |word| i16::from_le_bytes(word).into())?),
            Datatype::Int32 => Self::Wholes(words(bytes, |word| i32::from_le_bytes(word).into())?),
            Datatype::Int64 => Self::Wholes(words(bytes, i64::from_le_bytes)?),
            Datatype::Uint8 => Self::Wholes(words(bytes, |word| u8::from_le_bytes(word).into())?),
            Datatype::Uint16 => Self::Wholes(words(bytes, |word| u16::from_le_bytes(word).into())?),
            Datatype::Uint32 => Self::Wholes(words(bytes, |word| u32::from_le_bytes(word).into())?),
            Datatype::Uint64 => Self::from_unsigned(words(bytes, u64::from_le_bytes)?)?,
            Datatype::Bytes => Self::Texts(texts(bytes)?),
        })
    }

    pub(super) fn from_unsigned(numbers: Vec<u64>) -> Result<Self, String> {
        let whole = |number| {
            i64::try_from(number).map_err(|_| format!("{number} is more than {}", i64::MAX))
        };
        let numbers = numbers.into_iter().map(whole);
        Ok(Self::Wholes(numbers.collect::<Result<_, _>>()?))
    }

    pub(super) fn from_bytes(elements: Vec<Vec<u8>>) -> Result<Self, String> {
        let texts = elements.into_iter().map(String::from_utf8);
        let texts: Result<_, _> = texts.collect();
        Ok(Self::Texts(texts.map_err(|error| not_text(&error))?))
    }

    /// The inverse of [`Values::from_raw`]; integers are written as INT64.
    pub(super) fn to_raw(&self) -> Vec<u8> {
        match self {
            Self::Singles(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Self::Doubles(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Self::Wholes(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Self::Texts(values) => {
                let mut bytes = Vec::new();
                for text in values {
                    bytes.extend((text.len() as u32).to_le_bytes());
                    bytes.extend(text.as_bytes());
                }
                bytes
            }
        }
    }
}

fn words<const SIZE: usize, T>(
    bytes: &[u8],
    read: impl Fn([u8; SIZE]) -> T,
) -> Result<Vec<T>, String> {
    let (words, rest) = bytes.as_chunks::<SIZE>();
    if rest.is_empty() {
        Ok(words.iter().map(|word| read(*word)).collect())
    } else {
        Err(format!(
            "has {} bytes, expected a multiple of {SIZE}",
            bytes.len()
        ))
    }
}

fn texts(mut bytes: &[u8]) -> Result<Vec<String>, String> {
    let mut texts = Vec::new();
    while !bytes.is_empty() {
        let cut = || format!("element {} is cut off", texts.len());
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(cut)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (text, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
        let text = std::str::from_utf8(text).map_err(|error| not_text(&error))?;
        texts.push(text.to_owned());
        bytes = rest;
    }
    Ok(texts)
}

fn not_text(error: &dyn std::error::Error) -> String {
    format!("an element is not UTF-8: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_elements_are_read_as_they_were_written() {
        for (datatype, values) in [
            (Datatype::Fp32, Values::Singles(vec![1.5, -0.25])),
            (Datatype::Fp64, Values::Doubles(vec![1e300])),
            (Datatype::Int64, Values::Wholes(vec![-1, i64::MAX])),
            (
                Datatype::Bytes,
                Values::Texts(vec!["spam".into(), "".into(), "ä".into()]),
            ),
        ] {
            assert_eq!(Values::from_raw(datatype, &values.to_raw()), Ok(values));
        }
        let read = |datatype, bytes: &[u8]| Values::from_raw(datatype, bytes).unwrap();
        assert_eq!(read(Datatype::Int8, &[0xff]), Values::Wholes(vec![-1]));
        assert_eq!(read(Datatype::Uint8, &[0xff]), Values::Wholes(vec![255]));
        assert_eq!(
            read(Datatype::Int16, &[0xfe, 0xff]),
            Values::Wholes(vec![-2])
        );
    }

    #[test]
    fn raw_elements_that_are_cut_off_or_no_text_are_refused() {
        for (datatype, bytes, problem) in [
            (
                Datatype::Fp32,
                &[0, 0, 0][..],
                "has 3 bytes, expected a multiple of 4",
            ),
            (Datatype::Bytes, &[1, 0], "element 0 is cut off"),
            (
                Datatype::Bytes,
                &[255, 255, 255, 255, 65],
                "element 0 is cut off",
            ),
            (
                Datatype::Bytes,
                &[1, 0, 0, 0, 255],
                "an element is not UTF-8",
            ),
            (
                Datatype::Uint64,
                &[255; 8],
                "18446744073709551615 is more than",
            ),
        ] {
            let refused = Values::from_raw(datatype, bytes).unwrap_err();
            assert!(refused.starts_with(problem), "{refused}");
        }
    }

    #[test]
    fn a_shape_must_be_countable_and_fit_the_elements() {
        let tensor = |shape: &[i64]| {
            let values = Values::Singles(vec![0.0; 6]);
            let tensor = Tensor::new("x".into(), Datatype::Fp32, shape.to_vec(), values);
            tensor.map_err(|status| status.message().to_owned())
        };
        assert!(tensor(&[2, 3]).is_ok());
        for (shape, problem) in [
            (&[2, 4][..], "shape [2, 4] has 8 elements, found 6"),
            (
                &[-1, 6],
                "shape [-1, 6] has the size -1, expected 0 or more",
            ),
            (
                &[i64::MAX, i64::MAX],
                "has more elements than can be counted",
            ),
            (&[], "shape [] has 1 elements, found 6"),
        ] {
            let refused = tensor(shape).unwrap_err();
            assert!(refused.starts_with("input \"x\": "), "{refused}");
            assert!(refused.contains(problem), "{refused}");
        }
    }

    #[test]
    fn datatypes_are_called_what_they_are_parsed_from() {
        for (name, datatype) in Datatype::NAMED {
            assert_eq!(datatype.name(), name);
            assert_eq!(Datatype::parse(name), Ok(datatype));
        }
        assert!(Datatype::parse("BOOL").is_err());
    }
}
