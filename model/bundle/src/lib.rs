//! The files of a model: what a user brings, and how it is made of labelled rows.
//!
//! [`fit::fit`] makes a [`Bundle`] from labelled data (or a training job exports one, or [`import::import`] makes one of an
//! ONNX model): the classifier, and the labelled source rows that adaptation needs. [`Bundle::deployed`] is what the method
//! takes.

mod bundle;
pub mod fields;
pub mod fit;
pub mod import;
mod input;
pub mod onnx;
mod read_file;

pub use bundle::{Bundle, BundleFiles, Description, FORMAT_VERSION, LatentModel, SourceBuffer};
pub use input::{Input, InputKind};
pub use read_file::{
    DESCRIPTION_FILE, SMALL_FILE, TENSOR_FILE, read_file, read_text_file, read_text_stream,
};
