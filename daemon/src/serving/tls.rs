//! Certificates and keys of the listeners.

use std::{fs, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, ensure};
use axum_server::tls_rustls::RustlsConfig;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use crate::config::TlsSettings;

/// Ends connections whose client does not finish the handshake. The HTTP server has the same limit built in.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// TLS configuration for both kinds of servers.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) grpc: ServerTlsConfig,
    pub(crate) http: RustlsConfig,
}

impl Tls {
    /// `None` if no certificate is configured. Reads and checks all files now, so that a wrong file fails the start and
    /// not the first client.
    pub(crate) fn load(settings: &TlsSettings) -> anyhow::Result<Option<Self>> {
        let (Some(certificate), Some(key)) = (&settings.certificate, &settings.key) else {
            return Ok(None);
        };
        // Fails if a provider is installed already, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let certificate_pem = read("tls.certificate", certificate)?;
        let key_pem = read("tls.key", key)?;
        let chain = certificates("tls.certificate", certificate, &certificate_pem)?;
        let private_key = PrivateKeyDer::from_pem_slice(&key_pem).with_context(|| {
            format!(
                "tls.key: {} holds no private key in PEM form",
                key.display()
            )
        })?;
        let mut http = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(chain, private_key)
            .context("the certificate of tls.certificate does not belong to the key of tls.key")?;
        http.alpn_protocols = vec![b"http/1.1".to_vec()];

        let mut grpc =
            ServerTlsConfig::new().identity(Identity::from_pem(&certificate_pem, &key_pem));
        grpc = grpc.timeout(HANDSHAKE);
        if let Some(path) = &settings.client_ca {
            let pem = read("tls.client_ca", path)?;
            certificates("tls.client_ca", path, &pem)?;
            grpc = grpc.client_ca_root(Certificate::from_pem(pem));
        }
        let http = RustlsConfig::from_config(Arc::new(http));
        Ok(Some(Self { grpc, http }))
    }
}

fn read(key: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("{key}: cannot read {}", path.display()))
}

fn certificates(
    key: &str,
    path: &Path,
    pem: &[u8],
) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates =
        certificates.with_context(|| format!("{key}: {} is not a PEM file", path.display()))?;
    ensure!(
        !certificates.is_empty(),
        "{key}: {} holds no certificate in PEM form",
        path.display()
    );
    Ok(certificates)
}
