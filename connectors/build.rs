//! Generates Rust types from `proto/`. Uses protox, so that protoc need not be installed.

fn main() -> anyhow::Result<()> {
    println!("cargo:rerun-if-changed=proto");
    let files = ["ostar/v1/event.proto", "ostar/samples/v1/sample.proto"];
    let descriptors = protox::compile(files, ["proto"])?;
    prost_build::Config::new()
        .type_attribute(".ostar.v1.Version", "#[derive(serde::Serialize)]")
        .compile_fds(descriptors)?;
    Ok(())
}
