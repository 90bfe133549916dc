//! Late labels: their settings, and how they are decoded. They are joined and measured in the learner, see
//! `ostar_method::learner`.

mod decoder;
mod settings;

pub(crate) use decoder::Classes;
pub use decoder::{Label, LabelDecoder};
pub use settings::{LabelFormat, LabelSettings, RequestSettings, TakenBy};
