//! TLS, and the `Host` of a request.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tempfile::TempDir;
use tokio::sync::watch;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::{
    config::Config,
    proto::inference_client::InferenceClient,
    servers::{serve, serve_with_secrets},
    serving::{
        Tokens,
        fixture::{connect, daemon, request, settings},
        token::LOOK_EVERY,
    },
    transport::Tls,
};

/// An authority, and PEM files of what it has signed.
struct Authority {
    folder: TempDir,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let authority = Self {
            folder: tempfile::tempdir().unwrap(),
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
        };
        authority.write("ca.pem", &authority.pem);
        authority
    }

    /// Certificate and key.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn settings(&self) -> Config {
        let (certificate, key) = self.sign("localhost");
        let mut settings = settings();
        settings.tls.certificate = Some(self.write("certificate.pem", &certificate));
        settings.tls.key = Some(self.write("key.pem", &key));
        settings
    }

    fn client_tls(&self) -> ClientTlsConfig {
        let authority = Certificate::from_pem(&self.pem);
        ClientTlsConfig::new()
            .ca_certificate(authority)
            .domain_name("localhost")
    }

    async fn connect(
        &self,
        address: SocketAddr,
        tls: ClientTlsConfig,
    ) -> Result<Channel, tonic::transport::Error> {
        let endpoint = Endpoint::from_shared(format!("https://{address}")).unwrap();
        endpoint.tls_config(tls).unwrap().connect().await
    }

    /// A connection after the handshake, with the client's certificate and key if there are any.
    fn https_stream(
        &self,
        address: SocketAddr,
        identity: Option<(String, String)>,
    ) -> Option<StreamOwned<ClientConnection, TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match identity {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let name = ServerName::try_from("localhost").unwrap();
        let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        while connection.is_handshaking() {
            connection.complete_io(&mut stream).ok()?;
        }
        Some(StreamOwned::new(connection, stream))
    }

    /// What HTTPS answers.
    fn https(&self, address: SocketAddr, path: &str) -> String {
        let mut stream = self.https_stream(address, None).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_and_http_speak_tls_and_nothing_else() {
    let authority = Authority::new();
    let running = serve(daemon().services, &authority.settings())
        .await
        .unwrap();
    let channel = authority
        .connect(running.grpc_address, authority.client_tls())
        .await
        .unwrap();
    InferenceClient::new(channel)
        .predict(request(&[1.0]))
        .await
        .unwrap();
    let mut plain = InferenceClient::new(connect(running.grpc_address).await);
    assert!(plain.predict(request(&[1.0])).await.is_err());
    let answer = authority.https(running.http_address, "/readyz");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    let stranger = Authority::new();
    let distrusted = authority
        .connect(running.grpc_address, stranger.client_tls())
        .await;
    assert!(distrusted.is_err());
    running.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn with_a_client_authority_only_its_clients_are_served() {
    let authority = Authority::new();
    let mut settings = authority.settings();
    settings.tls.client_ca = Some(authority.folder.path().join("ca.pem"));
    let running = serve(daemon().services, &settings).await.unwrap();
    let identity = |(certificate, key): (String, String)| Identity::from_pem(certificate, key);
    let known = authority
        .client_tls()
        .identity(identity(authority.sign("client")));
    let channel = authority
        .connect(running.grpc_address, known)
        .await
        .unwrap();
    InferenceClient::new(channel)
        .predict(request(&[1.0]))
        .await
        .unwrap();
    let stranger = identity(Authority::new().sign("client"));
    for tls in [
        authority.client_tls(),
        authority.client_tls().identity(stranger),
    ] {
        // The handshake's last message is the client's: it may learn of the refusal with its first request.
        if let Ok(channel) = authority.connect(running.grpc_address, tls).await {
            assert!(
                InferenceClient::new(channel)
                    .predict(request(&[1.0]))
                    .await
                    .is_err()
            );
        }
    }
}

#[tokio::test]
async fn wrong_tls_files_are_errors_with_their_key() {
    let authority = Authority::new();
    let good = authority.settings();
    let text = async |settings: &Config| {
        let error = serve(daemon().services, settings).await.err().unwrap();
        format!("{error:#}")
    };
    let mut settings = good.clone();
    settings.tls.certificate = Some("/nowhere/certificate.pem".into());
    assert!(
        text(&settings)
            .await
            .starts_with("tls.certificate: cannot read /nowhere/certificate.pem")
    );
    settings = good.clone();
    settings.tls.key = Some(authority.write("other.pem", &authority.sign("localhost").1));
    assert!(
        text(&settings).await.starts_with(
            "the certificate of tls.certificate does not belong to the key of tls.key"
        )
    );
    settings = good.clone();
    settings.tls.client_ca = Some(authority.write("empty.pem", "nothing"));
    let message = text(&settings).await;
    assert!(message.starts_with("tls.client_ca: "), "{message}");
    assert!(
        message.ends_with("empty.pem holds no certificate in PEM form"),
        "{message}"
    );
}

/// The serial number of the certificate that the listener shows now.
fn certificate_of(authority: &Authority, address: SocketAddr) -> Vec<u8> {
    let stream = authority.https_stream(address, None).unwrap();
    let shown = stream.conn.peer_certificates().unwrap();
    shown[0].to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn new_tls_files_are_taken_under_load_and_broken_ones_leave_the_old_in_use() {
    let authority = Authority::new();
    let settings = authority.settings();
    let daemon = daemon();
    let health = daemon.services.health.clone();
    let metrics = daemon.services.metrics.clone();
    let tls = Tls::load(&settings.tls).unwrap().unwrap();
    let (_stopping, stopped) = watch::channel(false);
    let often = Duration::from_millis(20);
    tokio::spawn(Arc::clone(&tls).follow(often, health.clone(), metrics.clone(), stopped));
    let tokens = Tokens::open(&settings.auth, LOOK_EVERY).unwrap();
    let running = serve_with_secrets(daemon.services, &settings, Some(tls), tokens)
        .await
        .unwrap();

    let (done, finished) = watch::channel(false);
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let endpoint = Endpoint::from_shared(format!("https://{}", running.grpc_address)).unwrap();
        let endpoint = endpoint.tls_config(authority.client_tls()).unwrap();
        let finished = finished.clone();
        clients.spawn(async move {
            let mut answered = 0;
            while !*finished.borrow() {
                // A new connection now and then.
                let mut client = InferenceClient::new(endpoint.connect().await.unwrap());
                for _ in 0..5 {
                    client.predict(request(&[1.0])).await.unwrap();
                    answered += 1;
                }
            }
            answered
        });
    }
    let address = running.http_address;
    let shown = async |authority: &Arc<Authority>| {
        let authority = Arc::clone(authority);
        let shown = move || certificate_of(&authority, address);
        tokio::task::spawn_blocking(shown).await.unwrap()
    };
    let authority = Arc::new(authority);
    let old = shown(&authority).await;
    let (certificate, key) = authority.sign("localhost");
    // One after the other, as many programs write them: for a moment they do not belong together.
    authority.write("certificate.pem", &certificate);
    wait_for(|| health.conditions().contains_key("tls")).await;
    authority.write("key.pem", &key);
    wait_for(|| !health.conditions().contains_key("tls")).await;
    let new = shown(&authority).await;
    assert_ne!(new, old, "the new certificate is shown");

    authority.write("certificate.pem", "broken");
    wait_for(|| health.conditions().contains_key("tls")).await;
    assert_eq!(shown(&authority).await, new, "the last good one stays");
    let told = &health.conditions()["tls"];
    assert!(told.starts_with("tls.certificate: "), "{told}");
    assert_eq!(health.readiness(), Ok(()), "it serves nevertheless");
    done.send(true).unwrap();
    let answered: usize = clients.join_all().await.into_iter().sum();
    assert!(
        answered > 10,
        "no request failed, and there were {answered}"
    );
    let text = metrics.counted();
    assert!(text.contains("ostar_certificate_expiry_seconds"), "{text}");
}

pub(super) async fn wait_for(condition: impl Fn() -> bool) {
    let met = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), met)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn http_asks_for_a_client_certificate_only_where_that_is_set() {
    let authority = Authority::new();
    for required in [false, true] {
        let mut settings = authority.settings();
        settings.tls.client_ca = Some(authority.folder.path().join("ca.pem"));
        settings.tls.http_client_certificates = required;
        let running = serve(daemon().services, &settings).await.unwrap();
        let address = running.http_address;
        let ask = |identity: Option<(String, String)>| -> Option<String> {
            let mut stream = authority.https_stream(address, identity)?;
            let asked = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            stream.write_all(asked).ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).ok()?;
            Some(answer)
        };
        let stranger = tokio::task::block_in_place(|| ask(None));
        let known = tokio::task::block_in_place(|| ask(Some(authority.sign("client"))));
        assert_eq!(stranger.is_some(), !required);
        assert!(known.unwrap().starts_with("HTTP/1.1 200"));
        running.stop(Duration::from_secs(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_host_is_refused_but_not_for_health() {
    let running = serve(daemon().services, &settings()).await.unwrap();
    let address = running.http_address;
    let ask = move |path: &str, host: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        let asked = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(asked.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    tokio::task::block_in_place(|| {
        for path in ["/metrics", "/", "/v2"] {
            assert_eq!(ask(path, "evil.example:8080"), "421", "{path}");
            assert_eq!(ask(path, &address.to_string()), "200", "{path}");
        }
        assert_eq!(ask("/livez", "evil.example"), "200");
    });
}
