//! The engine's parameters as candle-nn's layers ask for them.

use std::{collections::BTreeMap, sync::Arc};

use candle_core::{DType, Device, Error, Result, Shape, Tensor, Var};
use candle_nn::{Init, VarBuilder, var_builder::SimpleBackend};

use super::device::Place;

/// Variables for the networks in training, constants for the others. Not a [`candle_nn::VarMap`]: it draws initial values
/// from a generator without a seed, has no optimiser state, and changes tensors one at a time.
pub(super) struct Parameters<'e> {
    pub(super) values: &'e BTreeMap<String, Tensor>,
    pub(super) variables: Arc<BTreeMap<String, Var>>,
}

impl<'e> Parameters<'e> {
    pub(super) fn builder(self, place: &Place) -> VarBuilder<'e> {
        VarBuilder::from_backend(Box::new(self), place.dtype, place.device.clone())
    }
}

impl SimpleBackend for Parameters<'_> {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let tensor = self.get_unchecked(name, dtype, device)?;
        if *tensor.shape() != shape {
            return Err(Error::UnexpectedShape {
                msg: format!("parameter {name}"),
                expected: shape,
                got: tensor.shape().clone(),
            });
        }
        Ok(tensor)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> Result<Tensor> {
        if let Some(variable) = self.variables.get(name) {
            return Ok(variable.as_tensor().clone());
        }
        let constant = self.values.get(name).cloned();
        constant.ok_or_else(|| Error::CannotFindTensor {
            path: name.to_owned(),
        })
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }
}
