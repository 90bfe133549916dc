//! Tensors that a graph holds: initialisers, and what nodes make of them alone.

use ostar_engine::tensors::words;
use tract_onnx::pb::{TensorProto, tensor_proto::DataType};

/// Most numbers of all constants together: 1 GiB in single precision.
const MOST_NUMBERS: usize = 1 << 28;

/// A constant of floating-point numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Constant {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f32>,
}

impl Constant {
    /// `None` for other types than floating-point numbers, and for sizes that do not fit.
    pub(crate) fn of(tensor: &TensorProto) -> Option<Self> {
        let shape = shape_of(tensor)?;
        let kind = DataType::from_i32(tensor.data_type)?;
        let (listed, raw) = (tensor.raw_data.is_empty(), &tensor.raw_data);
        let narrow = |value: f64| value as f32;
        let values: Vec<f32> = match kind {
            DataType::Float if listed => tensor.float_data.clone(),
            DataType::Float => words(raw).map(f32::from_le_bytes).collect(),
            DataType::Double if listed => tensor.double_data.iter().copied().map(narrow).collect(),
            DataType::Double => words(raw).map(f64::from_le_bytes).map(narrow).collect(),
            _ => return None,
        };
        (values.len() == shape.iter().product::<usize>()).then_some(Self { shape, values })
    }

    /// The transpose of a matrix.
    pub(crate) fn transposed(&self) -> Option<Self> {
        let [rows, columns] = self.shape[..] else {
            return None;
        };
        let places =
            (0..columns).flat_map(|column| (0..rows).map(move |row| row * columns + column));
        Some(Self {
            shape: vec![columns, rows],
            values: places.map(|place| self.values[place]).collect(),
        })
    }
}

/// Sizes of a tensor; `None` if one is negative or their product too large.
fn shape_of(tensor: &TensorProto) -> Option<Vec<usize>> {
    let shape: Vec<usize> = tensor
        .dims
        .iter()
        .map(|size| usize::try_from(*size).ok())
        .collect::<Option<_>>()?;
    let count = shape
        .iter()
        .try_fold(1_usize, |product, size| product.checked_mul(*size));
    (count? <= MOST_NUMBERS).then_some(shape)
}

/// Refuses a tensor whose data are not all there: what reads them trusts their sizes.
pub(crate) fn check(tensor: &TensorProto) -> Result<(), String> {
    let name = &tensor.name;
    if tensor.data_location == Some(1) || !tensor.external_data.is_empty() {
        return Err(format!(
            "tensor `{name}` is in a file of its own, expected one file: export with external_data=False"
        ));
    }
    let shape = shape_of(tensor).ok_or_else(|| {
        format!(
            "tensor `{name}` has sizes {:?}, which cannot be",
            tensor.dims
        )
    })?;
    let count: usize = shape.iter().product();
    let kind = DataType::from_i32(tensor.data_type);
    let (bytes, listed) = match kind {
        Some(DataType::Float) => (4, tensor.float_data.len()),
        Some(DataType::Double) => (8, tensor.double_data.len()),
        Some(DataType::Int64) => (8, tensor.int64_data.len()),
        Some(DataType::Int32) => (4, tensor.int32_data.len()),
        Some(DataType::Uint64) => (8, tensor.uint64_data.len()),
        Some(DataType::Uint32) => (4, tensor.uint64_data.len()),
        Some(DataType::Bool | DataType::Int8 | DataType::Uint8) => (1, tensor.int32_data.len()),
        Some(DataType::Int16 | DataType::Uint16 | DataType::Float16) => {
            (2, tensor.int32_data.len())
        }
        Some(DataType::String) => (usize::MAX, tensor.string_data.len()),
        _ => {
            return Err(format!(
                "tensor `{name}` is of type {}, expected numbers or texts",
                tensor.data_type
            ));
        }
    };
    let has = if tensor.raw_data.is_empty() {
        listed == count
    } else {
        bytes.checked_mul(count) == Some(tensor.raw_data.len())
    };
    if has {
        Ok(())
    } else {
        Err(format!(
            "tensor `{name}` does not have the data of its sizes {shape:?}"
        ))
    }
}

/// A constant of single-precision numbers.
pub(crate) fn floats(name: &str, shape: &[usize], values: Vec<f32>) -> TensorProto {
    TensorProto {
        float_data: values,
        ..empty(name, shape, DataType::Float)
    }
}

/// A constant of whole numbers.
pub(crate) fn integers(name: &str, shape: &[usize], values: Vec<i64>) -> TensorProto {
    TensorProto {
        int64_data: values,
        ..empty(name, shape, DataType::Int64)
    }
}

fn empty(name: &str, shape: &[usize], kind: DataType) -> TensorProto {
    TensorProto {
        name: name.into(),
        dims: shape.iter().map(|size| *size as i64).collect(),
        data_type: kind as i32,
        ..TensorProto::default()
    }
}
