//! Device and precision of tensors, and every transfer from and to the host.
//!
//! Copies to the host happen here and nowhere else: they are counted, and clippy refuses candle's own calls elsewhere
//! in the workspace (`disallowed-methods`).

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use candle_core::{DType, Device, Tensor};

use crate::{
    HostTensor, Result,
    engine::HostCopies,
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

/// candle's device: a GPU by its number, which needs the `cuda` feature, or the CPU.
pub fn device(gpu: Option<usize>) -> Result<Device> {
    match gpu {
        None => Ok(Device::Cpu),
        Some(number) => Ok(Device::new_cuda(number)?),
    }
}

/// Names of the machine's GPUs, in the order of their numbers.
#[cfg(feature = "cuda")]
pub(crate) fn gpus()
-> std::result::Result<Vec<String>, candle_core::cuda::cudarc::driver::DriverError> {
    use candle_core::cuda::cudarc::driver::CudaContext;
    let count = CudaContext::device_count()?;
    (0..count as usize)
        .map(|number| CudaContext::new(number)?.name())
        .collect()
}

/// A device, and the precision of all tensors on it.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) device: Device,
    pub(super) dtype: DType,
    copies: Arc<Copies>,
}

/// Copies to the host so far.
#[derive(Debug, Default)]
struct Copies {
    scalars: AtomicU64,
    tensors: AtomicU64,
}

// === impl Place ===

impl Place {
    pub(super) fn new(device: Device, precision: Precision) -> Self {
        let dtype = match precision {
            Precision::F32 => DType::F32,
            Precision::F64 => DType::F64,
        };
        if device.is_cpu() {
            // Threads inside products this small cost more than they gain, would take the cores that serve requests, and
            // candle takes as many as the machine has. Only candle asks this of `gemm`.
            gemm::set_threading_threshold(usize::MAX);
        }
        Self {
            device,
            dtype,
            copies: Arc::default(),
        }
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

    /// A tensor's numbers in host memory, in the engine's precision. Not in a step.
    #[expect(clippy::disallowed_methods, reason = "counted here")]
    pub(super) fn download(&self, tensor: &Tensor) -> Result<HostTensor> {
        self.copies.tensors.fetch_add(1, Ordering::Relaxed);
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

    /// Copies several scalars to the host in one transfer, in double precision.
    pub(super) fn scalars<const N: usize>(&self, tensors: [&Tensor; N]) -> Result<[f64; N]> {
        let mut values = [0.0; N];
        values.copy_from_slice(&self.all_scalars(&tensors)?);
        Ok(values)
    }

    /// [`Place::scalars`] of any number of them.
    #[expect(clippy::disallowed_methods, reason = "counted here")]
    pub(super) fn all_scalars<T: AsRef<Tensor>>(&self, tensors: &[T]) -> Result<Vec<f64>> {
        self.copies.scalars.fetch_add(1, Ordering::Relaxed);
        let together = Tensor::stack(tensors, 0)?.to_dtype(DType::F64)?;
        Ok(together.to_vec1()?)
    }

    pub(super) fn host_copies(&self) -> HostCopies {
        HostCopies {
            scalars: self.copies.scalars.load(Ordering::Relaxed),
            tensors: self.copies.tensors.load(Ordering::Relaxed),
        }
    }
}
