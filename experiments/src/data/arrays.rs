//! Reads arrays of numbers from npz files.

use std::{
    fs::File,
    io::{BufReader, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use npyz::{DType, NpyFile, TypeChar};
use zip::ZipArchive;

/// An npz file, whose arrays are read by name.
pub struct Arrays {
    path: PathBuf,
    archive: ZipArchive<BufReader<File>>,
}

/// An array's shape and numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Sizes of the axes, outermost first.
    pub shape: Vec<usize>,
    /// All numbers, the last axis varying fastest.
    pub values: Vec<f32>,
}

impl Arrays {
    /// Reads the file's table of contents; arrays are read when asked for.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let archive = ZipArchive::new(BufReader::new(file))
            .with_context(|| format!("{} is not an npz file, or damaged", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            archive,
        })
    }

    /// Array names without the `.npy` ending, in no particular order.
    pub fn names(&self) -> Vec<String> {
        let names = self.archive.file_names();
        names
            .flatten()
            .filter_map(|name| name.strip_suffix(".npy").map(str::to_owned))
            .collect()
    }

    /// An array's numbers, whatever type they are stored in; whole numbers beyond 2^24 are rounded.
    pub fn read(&mut self, name: &str) -> Result<Array> {
        let place = format!("{} of {}", name, self.path.display());
        let entry_name = format!("{name}.npy");
        let known = self.names();
        if !known.iter().any(|known| known == name) {
            let known = known.join(", ");
            bail!("{} has no array {name}, only {known}", self.path.display());
        }
        let damaged = || format!("array {place} is damaged");
        let mut entry = self.archive.by_name(&entry_name).with_context(damaged)?;
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).with_context(damaged)?;
        parse(&bytes).with_context(|| format!("cannot read array {place}"))
    }

    /// An array of class labels; numbers that are not whole, or are negative, are refused.
    pub fn labels(&mut self, name: &str) -> Result<Vec<u32>> {
        let array = self.read(name)?;
        array
            .values
            .iter()
            .map(|value| {
                ensure!(
                    *value >= 0.0 && value.fract() == 0.0,
                    "{name} contains {value}, expected whole numbers from 0"
                );
                Ok(*value as u32)
            })
            .collect()
    }
}

fn parse(bytes: &[u8]) -> Result<Array> {
    let file = NpyFile::new(bytes)?;
    let by_columns = file.order() == npyz::Order::Fortran;
    let shape: Vec<usize> = file.shape().iter().map(|size| *size as usize).collect();
    let DType::Plain(kind) = file.dtype() else {
        bail!("has fields, expected plain numbers");
    };
    macro_rules! read {
        ($number:ty) => {
            file.into_vec::<$number>()?
                .into_iter()
                .map(|value| value as f32)
                .collect()
        };
    }
    let values: Vec<f32> = match (kind.type_char(), kind.size_field()) {
        (TypeChar::Float, 2) => file
            .into_vec::<half::f16>()?
            .into_iter()
            .map(f32::from)
            .collect(),
        (TypeChar::Float, 4) => file.into_vec::<f32>()?,
        (TypeChar::Float, 8) => read!(f64),
        (TypeChar::Uint, 1) => read!(u8),
        (TypeChar::Uint, 2) => read!(u16),
        (TypeChar::Uint, 4) => read!(u32),
        (TypeChar::Int, 1) => read!(i8),
        (TypeChar::Int, 4) => read!(i32),
        (TypeChar::Int, 8) => read!(i64),
        _ => bail!("holds {kind}, expected numbers"),
    };
    let expected: usize = shape.iter().product();
    ensure!(
        values.len() == expected,
        "holds {} numbers, its shape {shape:?} says {expected}",
        values.len()
    );
    if let Some(index) = values.iter().position(|value| !value.is_finite()) {
        bail!("number {index} is {}", values[index]);
    }
    let values = match (by_columns, &shape[..]) {
        (false, _) | (true, [_]) => values,
        (true, [rows, columns]) => {
            let place = |index: usize| index % columns * rows + index / columns;
            (0..values.len())
                .map(|index| values[place(index)])
                .collect()
        }
        (true, _) => bail!("has shape {shape:?} in Fortran order, expected C order"),
    };
    Ok(Array { shape, values })
}

#[cfg(test)]
mod tests {
    use npyz::WriterBuilder;

    use super::*;

    fn bytes(order: npyz::Order, values: [u8; 6]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let options = npyz::WriteOptions::new().default_dtype().order(order);
        let mut writer = options
            .shape(&[2, 3])
            .writer(&mut bytes)
            .begin_nd()
            .unwrap();
        writer.extend(values).unwrap();
        writer.finish().unwrap();
        bytes
    }

    #[test]
    fn arrays_are_the_same_in_either_order() {
        let by_rows = parse(&bytes(npyz::Order::C, [1, 2, 3, 4, 5, 6])).unwrap();
        let by_columns = parse(&bytes(npyz::Order::Fortran, [1, 4, 2, 5, 3, 6])).unwrap();
        assert_eq!(by_rows, by_columns);
        assert_eq!(by_rows.values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(by_rows.shape, [2, 3]);
    }
}
