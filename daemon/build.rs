//! Generates the services of `proto/`; protox parses them, so that no protoc has to be installed.

use std::{env, fs, path::PathBuf};

use prost::Message;

/// Messages that the connectors crate generates.
const SHARED: [&str; 8] = [
    "Event",
    "Input",
    "Vector",
    "Fields",
    "Value",
    "Prediction",
    "Label",
    "Version",
];

/// The state and its parts. Their JSON is that of `GET /state`, the live page and `ostard state`.
const STATE: &[&str] = &[
    "State",
    "ClassProportions",
    "CandidateState",
    "GateState",
    "GateTest",
    "GateDecision",
    "LabelEvidence",
    "LabelDuel",
    "LabelRequest",
    "LabelState",
    "SharesByLabels",
    "ShareByLabels",
    "Shift",
    "ClassMovement",
    "Refresh",
    "Losses",
    "Alarms",
    "AlarmSeries",
    "Alarm",
    "InputField",
    "StreamState",
    "PartitionLag",
];

fn main() -> anyhow::Result<()> {
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rerun-if-changed=../connectors/proto");
    let descriptors = protox::compile(
        [
            "ostar/v1/inference.proto",
            "ostar/v1/control.proto",
            "inference/open_inference.proto",
        ],
        ["proto", "../connectors/proto"],
    )?;
    let folder = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(folder.join("descriptors.bin"), descriptors.encode_to_vec())?;
    // REST answers what gRPC answers, in JSON.
    let mut builder = tonic_prost_build::configure()
        .type_attribute(
            ".inference.ServerMetadataResponse",
            "#[derive(serde::Serialize)]",
        )
        .type_attribute(
            ".inference.ModelMetadataResponse",
            "#[derive(serde::Serialize)]",
        );
    builder = builder.btree_map(".ostar.v1.State").field_attribute(
        ".ostar.v1.State.mode",
        "#[serde(serialize_with = \"mode_by_name\")]",
    );
    builder = builder.btree_map(".ostar.v1.StreamState");
    for name in STATE {
        builder =
            builder.type_attribute(format!(".ostar.v1.{name}"), "#[derive(serde::Serialize)]");
    }
    for name in SHARED {
        builder = builder.extern_path(
            format!(".ostar.v1.{name}"),
            format!("::ostar_connectors::proto::{name}"),
        );
    }
    builder.compile_fds(descriptors)?;
    Ok(())
}
