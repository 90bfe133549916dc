//! What crosses the edge of the process as data: Kafka, event formats, labelled files, checkpoints.

pub mod checkpoint;
pub mod event;
pub mod files;
pub mod kafka;
pub mod labels;
pub mod settings;

/// Messages of `ostar/v1/event.proto`.
#[expect(missing_docs, reason = "generated; the .proto file has the comments")]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/ostar.v1.rs"));
}
