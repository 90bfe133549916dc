//! A certificate for the broker, by the JDK's own tool.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail};

/// Of a key that lives as long as a test.
pub(super) const PASSWORD: &str = "changeit";

/// A key with a certificate that vouches for itself.
pub(super) struct Certificate {
    /// For the broker.
    pub(super) keystore: PathBuf,
    /// For clients.
    pub(super) authority: PathBuf,
}

impl Certificate {
    pub(super) fn new(folder: &Path) -> anyhow::Result<Self> {
        let keystore = folder.join("broker.p12");
        let authority = folder.join("authority.pem");
        let store = keystore.display().to_string();
        let common = [
            "-alias",
            "broker",
            "-keystore",
            &store,
            "-storepass",
            PASSWORD,
        ];
        keytool(
            Command::new("keytool")
                .arg("-genkeypair")
                .args(common)
                .args([
                    "-storetype",
                    "PKCS12",
                    "-keyalg",
                    "RSA",
                    "-validity",
                    "2",
                    "-dname",
                    "CN=localhost",
                    "-ext",
                    "SAN=ip:127.0.0.1,dns:localhost",
                ]),
        )?;
        keytool(
            Command::new("keytool")
                .args(["-exportcert", "-rfc"])
                .args(common)
                .arg("-file")
                .arg(&authority),
        )?;
        Ok(Self {
            keystore,
            authority,
        })
    }
}

fn keytool(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().context("keytool")?;
    match output.status.success() {
        true => Ok(()),
        false => bail!("keytool: {}", String::from_utf8_lossy(&output.stdout)),
    }
}
