//! Errors of this crate: one variant for each thing that a caller can act on.

/// Result of this crate's fallible calls.
pub type Result<T> = std::result::Result<T, Error>;

/// Every error names the field, row or tensor that is wrong and what was expected there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is outside its allowed range.
    #[error("{field}: {problem}")]
    InvalidSetting {
        /// The setting as it is called in code and configuration.
        field: String,
        /// The value found and what was expected.
        problem: String,
    },
    /// A matrix or vector does not have the size that the architecture or the call requires.
    #[error("{what}: expected {expected}, found {found}")]
    Shape {
        /// The argument, as the method names it.
        what: String,
        /// The required size, in words.
        expected: String,
        /// The size of the argument.
        found: String,
    },
    /// An input value is NaN or infinite. The call has changed nothing.
    #[error("{what}: row {row}, column {column} is {value}, only finite numbers are accepted")]
    NonFinite {
        /// The argument, as the method names it.
        what: &'static str,
        /// The first offending row, counted from 0 within the argument.
        row: usize,
        /// The first offending column of that row.
        column: usize,
        /// NaN or an infinity.
        value: f64,
    },
    /// A label is not one of the classes.
    #[error("label of row {row} is {label}, expected a class from 0 to {}", classes - 1)]
    Label {
        /// Row of the label, counted from 0.
        row: usize,
        /// A number that is not below `classes`.
        label: u32,
        /// How many classes there are.
        classes: usize,
    },
    /// A row number is not in the engine's buffer.
    #[error("{buffer} row {row} does not exist, the buffer holds {rows} rows")]
    RowOutOfRange {
        /// `source` or `target`.
        buffer: &'static str,
        /// The row number that the caller gave.
        row: usize,
        /// How many rows the buffer holds.
        rows: usize,
    },
    /// A loss is NaN or infinite. The step was not applied.
    #[error("{step} step: the loss is {loss}, the step was not applied")]
    NonFiniteLoss {
        /// Name of the step, such as `critic`.
        step: &'static str,
        /// NaN or an infinity.
        loss: f64,
    },
    /// A tensor is missing from an import.
    #[error("tensor `{name}` is missing, expected shape {expected:?}")]
    MissingTensor {
        /// Full name, such as `critic.fc1.weight`.
        name: String,
        /// The architecture's shape.
        expected: Vec<usize>,
    },
    /// A tensor has a shape other than the architecture's.
    #[error("tensor `{name}`: expected shape {expected:?}, found {found:?}")]
    TensorShape {
        /// Full name, such as `critic.fc1.weight`.
        name: String,
        /// The architecture's shape.
        expected: Vec<usize>,
        /// The shape in the import.
        found: Vec<usize>,
    },
    /// An import has a tensor that the architecture does not have.
    #[error("tensor `{name}` does not belong to this architecture")]
    UnexpectedTensor {
        /// Full name, such as `critic.fc9.weight`.
        name: String,
    },
    /// Bytes are not valid safetensors.
    #[error("cannot read tensors: {0}")]
    Safetensors(#[from] safetensors::SafeTensorError),
    /// A file or folder cannot be read or written.
    #[error("cannot {attempt} {}: {source}", path.display())]
    File {
        /// What was tried, as a verb: `read`, `write`.
        attempt: &'static str,
        /// The file or folder.
        path: std::path::PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The engine was built without the requested feature.
    #[error("the {engine} engine does not support {what}")]
    Unsupported {
        /// Name of the engine, such as `candle`.
        engine: &'static str,
        /// The request that it cannot serve.
        what: String,
    },
    /// An operation of the engine cuts the gradient of a parameter off. The step was not applied.
    #[error("parameter `{name}` got no gradient: an operation between it and the loss has none")]
    NoGradient {
        /// Full name, such as `critic.fc1.weight`.
        name: String,
    },
    /// candle or its device returned an error.
    #[cfg(feature = "candle")]
    #[error("candle: {0}")]
    Candle(#[from] candle_core::Error),
}

// === impl Error ===

impl Error {
    /// Makes an [`Error::InvalidSetting`] for `field`.
    pub fn setting(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::InvalidSetting {
            field: field.into(),
            problem: problem.into(),
        }
    }

    /// Makes an [`Error::Shape`] for the argument `what`.
    pub fn shape(
        what: impl Into<String>,
        expected: impl std::fmt::Display,
        found: impl std::fmt::Display,
    ) -> Self {
        Self::Shape {
            what: what.into(),
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }
}
