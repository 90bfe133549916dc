//! OSTAR: learns without labels how the classes of a deployed classifier have shifted, and adapts to it.
//!
//! A classifier was trained on labelled *source* data and now sees unlabelled *target* data, in which both the classes'
//! proportions and their distributions have changed. OSTAR (ICLR 2022) learns a map that moves source latents to where
//! the same classes are now, trains a new classifier on the mapped points, which still have labels, and estimates the
//! new proportions. This crate is that method as a library: rows in, verdicts out. It reads and writes no files.
//!
//! A [`Deployed`] model is what a [`learner::Learner`] is made for. The learner observes blocks of unlabelled rows, tracks
//! the label proportions ([`proportions`]), takes alignment steps on an engine of `ostar-engine`, and decides by
//! [`diagnostics`] and the [`gate`] what may be served. [`learner::Snapshot`] is what is served.
//!
//! # Example
//!
//! A filter, a stream, a verdict (`cargo run -p ostar-method --example stream`):
//!
//! ```
#![doc = include_str!("../examples/stream.rs")]
//! ```

pub mod alarms;
mod candidate;
pub mod deployed;
pub mod diagnostics;
pub mod frozen;
pub mod gate;
pub mod learner;
pub mod profile;
pub mod proportions;

pub use candidate::Candidate;
pub use deployed::Deployed;
