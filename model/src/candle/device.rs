//! Device and precision of tensors, and transfers from and to the host.

use candle_core::{DType, Device, Tensor};

use crate::{
    Error, HostTensor, Result,
    tensors::{Scalars, Values},
};

/// Precision that a [`super::CandleEngine`] computes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// Single precision, for training.
    F32,
    /// Double precision, for tests that take this engine as the reference.
    F64,
}

/// The device called `name`: `cpu`, or `cuda:N` in a build with the `cuda` feature (type-checked, not yet run on a
/// GPU).
pub fn device(name: &str) -> Result<Device> {
    if name == "cpu" {
        return Ok(Device::Cpu);
    }
    let ordinal = name.strip_prefix("cuda:").and_then(|n| n.parse().ok());
    match ordinal {
        Some(ordinal) if cfg!(feature = "cuda") => Ok(Device::new_cuda(ordinal)?),
        Some(_) => Err(Error::Unsupported {
            engine: "candle",
            what: format!("device `{name}` in a build without the `cuda` feature"),
        }),
        None => Err(Error::setting(
            "device",
            format!(
                "is `{name}`, expected `cpu` or `cuda:N` with N a whole number, such as `cuda:0`"
            ),
        )),
    }
}

/// A device, and the precision of all tensors on it.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) device: Device,
    pub(super) dtype: DType,
}

// === impl Place ===

impl Place {
    pub(super) fn new(device: Device, precision: Precision) -> Self {
        let dtype = match precision {
            Precision::F32 => DType::F32,
            Precision::F64 => DType::F64,
        };
        Self { device, dtype }
    }

    pub(super) fn upload(&self, values: Scalars<'_>, shape: &[usize]) -> Result<Tensor> {
        let tensor = match values {
            Scalars::F32(values) => Tensor::from_slice(values, shape, &self.device),
            Scalars::F64(values) => Tensor::from_slice(values, shape, &self.device),
        }?;
        Ok(tensor.to_dtype(self.dtype)?)
    }

    /// A column vector, ready to be broadcast over rows.
    pub(super) fn column(&self, values: &[f64]) -> Result<Tensor> {
        self.upload(Scalars::F64(values), &[values.len(), 1])
    }

    pub(super) fn indices(&self, indices: &[u32]) -> Result<Tensor> {
        Ok(Tensor::from_slice(indices, indices.len(), &self.device)?)
    }

    pub(super) fn zeros(&self, shape: &[usize]) -> Result<Tensor> {
        Ok(Tensor::zeros(shape, self.dtype, &self.device)?)
    }

    /// A tensor's numbers in host memory, in the engine's precision.
    pub(super) fn download(&self, tensor: &Tensor) -> Result<HostTensor> {
        let flat = tensor.flatten_all()?;
        let values = match self.dtype {
            DType::F64 => Values::F64(flat.to_vec1()?),
            _ => Values::F32(flat.to_vec1()?),
        };
        Ok(HostTensor {
            shape: tensor.dims().to_vec(),
            values,
        })
    }
}

/// Copies several scalars to the host in one transfer, in double precision.
pub(super) fn scalars<const N: usize>(tensors: [&Tensor; N]) -> Result<[f64; N]> {
    let together = Tensor::stack(&tensors, 0)?.to_dtype(DType::F64)?;
    let mut values = [0.0; N];
    values.copy_from_slice(&together.to_vec1::<f64>()?);
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_devices_are_refused_with_what_is_accepted() {
        assert!(device("cpu").unwrap().is_cpu());
        for name in ["", "gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "CPU"] {
            let message = device(name).unwrap_err().to_string();
            assert!(message.contains("expected `cpu` or `cuda:N`"), "{message}");
        }
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn cuda_without_its_feature_names_the_feature() {
        assert_eq!(
            device("cuda:1").unwrap_err().to_string(),
            "the candle engine does not support device `cuda:1` in a build without the `cuda` feature"
        );
    }
}
