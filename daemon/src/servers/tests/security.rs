//! TLS and the bearer token.

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
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tempfile::TempDir;
use tonic::{
    Code, Request,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::{
    config::ServeSettings,
    proto::{
        GetStateRequest, PauseRequest, control_client::ControlClient,
        inference_client::InferenceClient,
    },
    servers::{serve, serve_with_token},
    serving::{
        TokenFile,
        fixture::{connect, daemon, request, settings},
    },
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

    fn settings(&self) -> ServeSettings {
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

    /// What HTTPS answers.
    fn https(&self, address: SocketAddr, path: &str) -> String {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap())
            .unwrap();
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(connection, TcpStream::connect(address).unwrap());
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

fn with_token<T>(message: T, token: &str) -> Request<T> {
    let mut request = Request::new(message);
    let value = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", value);
    request
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
    let text = async |settings: &ServeSettings| {
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

#[tokio::test]
async fn requests_need_the_token_as_it_is_now() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "old").unwrap();
    let token = TokenFile::open_looking_every(&file, Duration::ZERO).unwrap();
    let mut settings = settings();
    settings.grpc.control_listen = Some("127.0.0.1:0".parse().unwrap());
    let daemon = daemon();
    let metrics = daemon.services.metrics.clone();
    let token = Some(Arc::new(token));
    let running = serve_with_token(daemon.services, &settings, None, token)
        .await
        .unwrap();
    let channel = connect(running.grpc_address).await;
    let mut client = InferenceClient::new(channel.clone());
    client
        .predict(with_token(request(&[1.0]), "old"))
        .await
        .unwrap();
    fs::write(&file, "new").unwrap();
    client
        .get_state(with_token(GetStateRequest {}, "new"))
        .await
        .unwrap();
    for refused in [
        client.predict(request(&[1.0])).await.err(),
        client
            .predict(with_token(request(&[1.0]), "old"))
            .await
            .err(),
    ] {
        assert_eq!(refused.unwrap().code(), Code::Unauthenticated);
    }
    let mut control = ControlClient::new(connect(running.control_address.unwrap()).await);
    let status = control.pause(PauseRequest {}).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    let health = HealthClient::new(channel)
        .check(HealthCheckRequest::default())
        .await;
    health.expect("health is open to all");
    let text = metrics.render().unwrap();
    assert!(
        text.contains(r#"ostar_unauthenticated_requests_total{listener="grpc"} 2"#),
        "{text}"
    );
    assert!(
        text.contains(r#"ostar_unauthenticated_requests_total{listener="control"} 1"#),
        "{text}"
    );
}
