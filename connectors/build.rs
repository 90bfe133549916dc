//! Generates Rust types from `proto/`. Uses protox, so that protoc need not be installed.

fn main() -> anyhow::Result<()> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["ostar/v1/event.proto"], ["proto"])?;
    prost_build::Config::new().compile_fds(descriptors)?;
    Ok(())
}
