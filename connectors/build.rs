//! Generates the messages of `proto/`; protox parses them, so that no protoc has to be installed.

fn main() -> anyhow::Result<()> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["ostar/v1/event.proto"], ["proto"])?;
    prost_build::Config::new().compile_fds(descriptors)?;
    Ok(())
}
