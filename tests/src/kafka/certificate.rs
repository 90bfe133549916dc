//! Makes a certificate for the broker with the JDK's keytool.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};

/// Password of the keystore, which exists only during a test.
pub(super) const PASSWORD: &str = "changeit";

/// A key with a self-signed certificate.
pub(super) struct Certificate {
    /// Key and certificate of the broker, PKCS12.
    pub(super) keystore: PathBuf,
    /// The certificate in PEM, which clients trust.
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
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "keytool: {said}");
    Ok(())
}
