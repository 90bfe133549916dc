//! Every configuration of docs/KAFKA_SECURITY.md is accepted by librdkafka.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};
use ostar_tests::{
    daemon::{Daemon, Settings},
    gaussians,
    kafka::Kafka,
};

use crate::{PROGRAM, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[(
    "every_flavour_of_the_security_page_makes_a_client",
    |_: &Kafka| every_flavour(),
)];

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/KAFKA_SECURITY.md");
/// Folder of the files that the page's examples name.
const FILES: &str = "/etc/ostard/kafka";
/// An address that refuses connections: nothing listens on the port of tcpmux.
const CLOSED_PORT: &str = "127.0.0.1:1";

fn every_flavour() -> Result<()> {
    let folder = tempfile::tempdir()?;
    write_files(folder.path())?;
    let bundle = folder.path().join("bundle");
    gaussians::write_bundle(&bundle)?;
    let page = fs::read_to_string(PAGE).context(PAGE)?;
    let blocks = page.split("```toml\n").skip(1);
    let blocks: Vec<&str> = blocks
        .filter_map(|block| block.split("```").next())
        .collect();
    ensure!(blocks.len() >= 5, "{} blocks", blocks.len());
    let files = folder.path().display().to_string();
    let start = |(number, block): (usize, &&str)| {
        let state = folder.path().join(format!("state-{number}"));
        let settings = Settings::new(CLOSED_PORT, "mails", &bundle, &state);
        Daemon::start(
            PROGRAM,
            &with_block(settings, &block.replace(FILES, &files))?,
        )
    };
    // All at once: each needs seconds to find that no broker answers.
    let daemons: Vec<Daemon> = blocks
        .iter()
        .enumerate()
        .map(start)
        .collect::<Result<_>>()?;
    for (daemon, block) in daemons.into_iter().zip(blocks) {
        // With a wrong option the daemon ends before it tries to connect.
        daemon
            .logged("cannot reach the topic yet, trying again")
            .context(block.to_owned())?;
        daemon.stop_cleanly()?;
    }
    Ok(())
}

/// Adds a TOML block to the settings. The page's blocks have only sections and strings, one to a line.
fn with_block(mut settings: Settings, block: &str) -> Result<Settings> {
    let mut section = "";
    for line in block.lines().filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
            continue;
        }
        let (option, value) = line.split_once(" = ").context(line.to_owned())?;
        let option = option.trim_matches('"').replace('.', "_");
        settings = settings.with(&format!("{section}.{option}"), value.trim_matches('"'));
    }
    Ok(settings)
}

fn write_files(folder: &Path) -> Result<()> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = made.cert.pem();
    let key = made.signing_key.serialize_pem();
    let files = [
        ("ca.crt", certificate.as_str()),
        ("user.crt", certificate.as_str()),
        ("user.key", key.as_str()),
        ("username", "ostard\n"),
        ("password", "correct-horse\n"),
    ];
    for (name, content) in files {
        fs::write(folder.join(name), content)?;
    }
    Ok(())
}
