//! Generates Rust types from `proto/`. Uses protox, so that protoc need not be installed.

fn main() -> anyhow::Result<()> {
    println!("cargo:rerun-if-changed=proto");
    let files = ["ostar/v1/event.proto", "ostar/samples/v1/sample.proto"];
    let descriptors = protox::compile(files, ["proto"])?;
    let mut config = prost_build::Config::new();
    // Outputs in JSON have the names of the messages' fields.
    for message in ["Prediction", "Version"] {
        config.type_attribute(
            format!(".ostar.v1.{message}"),
            "#[derive(serde::Serialize)]",
        );
    }
    let left_out = "#[serde(skip_serializing_if = \"String::is_empty\")]";
    config.field_attribute(".ostar.v1.Prediction.id", left_out);
    config.compile_fds(descriptors)?;
    Ok(())
}
