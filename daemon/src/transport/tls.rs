//! Certificates and keys of the listeners, which may change while the daemon runs.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use arc_swap::ArcSwap;
use ostar_bundle::{SMALL_FILE, read_file};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
    version::{TLS12, TLS13},
};
use tokio::{sync::watch, task::spawn_blocking, time::interval};
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};
use x509_parser::parse_x509_certificate;

use super::Protocol;
use crate::{config::TlsSettings, error_text::one_line, health::Health, metrics::Metrics};

/// How often the files are looked at.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(5);

/// TLS of all listeners. New connections use the newest files that were good.
pub(crate) struct Tls {
    settings: TlsSettings,
    current: ArcSwap<Loaded>,
}

/// Files as they were read, and what was made of them.
struct Loaded {
    files: Files,
    grpc: Arc<ServerConfig>,
    http: Arc<ServerConfig>,
    /// When the certificate ends, in seconds since 1970.
    expires: i64,
}

#[derive(PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Tls {
    /// `None` if no certificate is configured. Reads and checks all files now, so that a wrong file fails the start and
    /// not the first client.
    pub(crate) fn load(settings: &TlsSettings) -> Result<Option<Arc<Self>>> {
        let Some(files) = Files::read(settings)? else {
            return Ok(None);
        };
        let loaded = Loaded::new(settings, files)?;
        Ok(Some(Arc::new(Self {
            settings: settings.clone(),
            current: ArcSwap::from_pointee(loaded),
        })))
    }

    /// For one new connection.
    pub(crate) fn acceptor(&self, protocol: Protocol) -> TlsAcceptor {
        let loaded = self.current.load();
        TlsAcceptor::from(Arc::clone(match protocol {
            Protocol::Grpc => &loaded.grpc,
            Protocol::Http => &loaded.http,
        }))
    }

    /// Takes over files that have changed, until the daemon stops: looks at them once a `period`. Broken ones are reported, and
    /// the last good ones stay.
    pub(crate) async fn follow(
        self: Arc<Self>,
        period: Duration,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
        mut stopped: watch::Receiver<bool>,
    ) {
        let mut looks = interval(period);
        loop {
            metrics
                .serving
                .set_certificate_expiry(self.current.load().expires);
            tokio::select! {
                _ = looks.tick() => {}
                _ = stopped.wait_for(|stopped| *stopped) => return,
            }
            let this = Arc::clone(&self);
            let looked = spawn_blocking(move || this.look()).await;
            match looked.unwrap_or_else(|_| Ok(false)) {
                Ok(changed) => {
                    if changed {
                        info!("TLS files changed; new connections use the new ones");
                    }
                    health.clear("tls");
                }
                Err(error) => {
                    let problem = one_line(&error);
                    if !health.conditions().contains_key("tls") {
                        warn!(error = %problem, "cannot use the TLS files, the last good ones stay in use");
                    }
                    health.set_condition("tls", problem);
                }
            }
        }
    }

    /// Whether there are new files, and they are in use now.
    fn look(&self) -> Result<bool> {
        let files = Files::read(&self.settings)?.context("no certificate is configured")?;
        if files == self.current.load().files {
            return Ok(false);
        }
        let loaded = Loaded::new(&self.settings, files)?;
        self.current.store(Arc::new(loaded));
        Ok(true)
    }
}

impl Files {
    fn read(settings: &TlsSettings) -> Result<Option<Self>> {
        let (Some(certificate), Some(key)) = (&settings.certificate, &settings.key) else {
            return Ok(None);
        };
        let client_ca = settings.client_ca.as_deref();
        let client_ca = client_ca.map(|path| read("tls.client_ca", path));
        Ok(Some(Self {
            certificate: read("tls.certificate", certificate)?,
            key: read("tls.key", key)?,
            client_ca: client_ca.transpose()?,
        }))
    }
}

impl Loaded {
    fn new(settings: &TlsSettings, files: Files) -> Result<Self> {
        let certificate = named("tls.certificate", &settings.certificate);
        let chain = certificates(&certificate, &files.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&files.key).with_context(|| {
            let key = named("tls.key", &settings.key);
            format!("{key} holds no private key in PEM form")
        })?;
        let expires = expiry(&chain)
            .with_context(|| format!("{certificate} holds something else than a certificate"))?;
        let authorities = files.client_ca.as_ref().map(|pem| {
            let name = named("tls.client_ca", &settings.client_ca);
            let mut roots = RootCertStore::empty();
            for authority in certificates(&name, pem)? {
                let added = roots.add(authority);
                added
                    .with_context(|| format!("{name} holds a certificate that is no authority"))?;
            }
            anyhow::Ok(Arc::new(roots))
        });
        let authorities = authorities.transpose()?;
        let config = |protocol: &[u8], authorities: Option<&Arc<RootCertStore>>| {
            configure(&chain, key.clone_key(), authorities, protocol)
        };
        let http_authorities = authorities
            .as_ref()
            .filter(|_| settings.http_client_certificates);
        Ok(Self {
            grpc: config(b"h2", authorities.as_ref())?,
            http: config(b"http/1.1", http_authorities)?,
            files,
            expires,
        })
    }
}

fn configure(
    chain: &[CertificateDer<'static>],
    key: PrivateKeyDer<'static>,
    authorities: Option<&Arc<RootCertStore>>,
    protocol: &[u8],
) -> Result<Arc<ServerConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .context("TLS 1.2 and 1.3 cannot be had")?;
    let builder = match authorities {
        None => builder.with_no_client_auth(),
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), provider);
            let verifier = verifier
                .build()
                .context("tls.client_ca: its authorities cannot be used")?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(chain.to_vec(), key)
        .context("the certificate of tls.certificate does not belong to the key of tls.key")?;
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(Arc::new(config))
}

/// The end of the first certificate of the chain that ends.
fn expiry(chain: &[CertificateDer<'_>]) -> Result<i64> {
    let mut ends = Vec::new();
    for certificate in chain {
        let (_, parsed) = parse_x509_certificate(certificate)?;
        ends.push(parsed.validity().not_after.timestamp());
    }
    ends.into_iter().min().context("no certificate")
}

fn read(key: &str, path: &Path) -> Result<Vec<u8>> {
    read_file(path, SMALL_FILE).with_context(|| format!("{key}: cannot read {}", path.display()))
}

/// A setting and its file, for errors.
fn named(key: &str, path: &Option<PathBuf>) -> String {
    let path = path.as_deref().unwrap_or(Path::new(""));
    format!("{key}: {}", path.display())
}

fn certificates(name: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.with_context(|| format!("{name} is not a PEM file"))?;
    ensure!(
        !certificates.is_empty(),
        "{name} holds no certificate in PEM form"
    );
    Ok(certificates)
}
