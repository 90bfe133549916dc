//! What can go wrong in this crate, one variant for each thing a caller can act on.

/// Result of this crate's fallible calls.
pub type Result<T> = std::result::Result<T, Error>;

/// Every error names the field, row or tensor that is wrong and what was expected there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting lies outside what it may be.
    #[error("{field}: {problem}")]
    InvalidSetting {
        /// The setting as it is called in code and configuration.
        field: String,
        /// What is wrong with it and what would be right.
        problem: String,
    },
    /// A matrix or vector has another size than the architecture or the call wants.
    #[error("{what}: expected {expected}, found {found}")]
    Shape {
        /// Which argument.
        what: String,
        /// The size that was wanted.
        expected: String,
        /// The size that came.
        found: String,
    },
    /// An input value is NaN or infinite. Nothing has been changed by the call.
    #[error("{what}: row {row}, column {column} is {value}, only finite numbers are accepted")]
    NonFinite {
        /// Which argument.
        what: &'static str,
        /// The first offending row, counted from 0 within the argument.
        row: usize,
        /// The first offending column of that row.
        column: usize,
        /// The value found there.
        value: f64,
    },
    /// A label is not one of the classes.
    #[error("label of row {row} is {label}, expected a class from 0 to {}", classes - 1)]
    Label {
        /// Row of the label, counted from 0.
        row: usize,
        /// The label found.
        label: u32,
        /// How many classes there are.
        classes: usize,
    },
    /// A row number points outside the resident buffer.
    #[error("{buffer} row {row} does not exist, the buffer holds {rows} rows")]
    RowOutOfRange {
        /// The buffer that is indexed.
        buffer: &'static str,
        /// The row asked for.
        row: usize,
        /// How many rows it holds.
        rows: usize,
    },
    /// A loss became NaN or infinite; the parameters are as they were before the step.
    #[error("{step} step: the loss is {loss}, the step was not applied")]
    NonFiniteLoss {
        /// Which step.
        step: &'static str,
        /// The value of its loss.
        loss: f64,
    },
    /// A tensor that should be there is not.
    #[error("tensor `{name}` is missing, expected shape {expected:?}")]
    MissingTensor {
        /// The tensor's name.
        name: String,
        /// The shape that was wanted.
        expected: Vec<usize>,
    },
    /// A tensor has a shape other than the architecture's.
    #[error("tensor `{name}`: expected shape {expected:?}, found {found:?}")]
    TensorShape {
        /// The tensor's name.
        name: String,
        /// The shape that was wanted.
        expected: Vec<usize>,
        /// The shape that came.
        found: Vec<usize>,
    },
    /// A tensor that the architecture does not know.
    #[error("tensor `{name}` does not belong to this architecture")]
    UnexpectedTensor {
        /// The tensor's name.
        name: String,
    },
    /// Serialised tensors that cannot be read.
    #[error("cannot read tensors: {0}")]
    Safetensors(#[from] safetensors::SafeTensorError),
    /// A file or folder that cannot be read or written.
    #[error("cannot {attempt} {}: {source}", path.display())]
    File {
        /// What was tried, as a verb.
        attempt: &'static str,
        /// Where.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The engine does not offer what was asked of it.
    #[error("the {engine} engine does not support {what}")]
    Unsupported {
        /// The engine asked.
        engine: &'static str,
        /// What it does not do.
        what: String,
    },
    /// candle or its device failed.
    #[cfg(feature = "candle")]
    #[error("candle: {0}")]
    Candle(#[from] candle_core::Error),
}

// === impl Error ===

impl Error {
    /// An [`Error::InvalidSetting`] for `field`.
    pub fn setting(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::InvalidSetting {
            field: field.into(),
            problem: problem.into(),
        }
    }

    /// An [`Error::Shape`] for `what`.
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
