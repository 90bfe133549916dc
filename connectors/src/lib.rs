//! Data that enters or leaves the process: Kafka, event formats, labelled files, checkpoints and late labels.

pub mod checkpoint;
pub mod clock;
mod credentials;
pub mod event;
pub mod files;
pub mod kafka;
pub mod labels;
mod problem;
pub mod samples;
pub mod settings;

/// Messages generated from `proto/ostar/v1/event.proto`.
#[expect(missing_docs, reason = "generated; the .proto file has the comments")]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/ostar.v1.rs"));
}

/// Messages generated from `proto/ostar/samples/v1/sample.proto`.
#[expect(missing_docs, reason = "generated; the .proto file has the comments")]
mod sample_proto {
    include!(concat!(env!("OUT_DIR"), "/ostar.samples.v1.rs"));
}
