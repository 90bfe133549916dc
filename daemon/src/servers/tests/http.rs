//! HTTP.

use std::{fs, net::SocketAddr, time::Duration};

use crate::{
    servers::serve,
    serving::fixture::{daemon, settings},
};

/// Status, content type and text.
async fn get(address: SocketAddr, path: &str, token: Option<&str>) -> (u16, String, String) {
    let url = format!("http://{address}{path}");
    let authorization = token.map(|token| format!("Bearer {token}"));
    let asked = tokio::task::spawn_blocking(move || {
        let mut request = ureq::get(&url).config().http_status_as_error(false).build();
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        let mut response = request.call().unwrap();
        let kind = response.headers().get("content-type");
        let kind = kind.map_or(String::new(), |kind| kind.to_str().unwrap().to_owned());
        let text = response.body_mut().read_to_string().unwrap();
        (response.status().as_u16(), kind, text)
    });
    asked.await.unwrap()
}

#[tokio::test]
async fn health_is_200_or_503_with_the_reason() {
    let daemon = daemon();
    let health = daemon.services.health.clone();
    let running = serve(daemon.services, &settings()).await.unwrap();
    let address = running.http_address;
    for path in ["/livez", "/readyz", "/startupz"] {
        let (status, _, text) = get(address, path, None).await;
        assert_eq!((status, &text[..]), (200, "ok\n"), "{path}");
    }
    health.obstruct("kafka", "no broker for 30s");
    let (status, _, text) = get(address, "/readyz", None).await;
    assert_eq!((status, &text[..]), (503, "kafka: no broker for 30s\n"));
    assert_eq!(get(address, "/livez", None).await.0, 200);
    health.fail("learner: panicked");
    let (status, _, text) = get(address, "/livez", None).await;
    assert_eq!((status, &text[..]), (503, "learner: panicked\n"));
    assert_eq!(get(address, "/nothing", None).await.0, 404);
}

#[tokio::test]
async fn metrics_show_how_things_are_at_the_scrape() {
    let daemon = daemon();
    let status = daemon.status;
    let running = serve(daemon.services, &settings()).await.unwrap();
    status.send_modify(|status| status.paused = true);
    let (code, kind, text) = get(running.http_address, "/metrics", None).await;
    assert_eq!(
        (code, &kind[..]),
        (200, "text/plain; version=0.0.4; charset=utf-8")
    );
    for line in [
        "ostar_model_version_epoch 3",
        "ostar_model_version_step 42",
        "ostar_paused 1",
        "ostar_ready 1",
        r#"ostar_serving_mode{mode="frozen"} 1"#,
        r#"ostar_serving_mode{mode="prior"} 0"#,
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} in {text}");
    }
}

#[tokio::test]
async fn metrics_ask_for_the_token_unless_told_otherwise_and_health_never_does() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "secret\n").unwrap();
    for open in [false, true] {
        let mut settings = settings();
        settings.auth.token_file = Some(file.clone());
        settings.http.metrics_without_token = open;
        let running = serve(daemon().services, &settings).await.unwrap();
        let address = running.http_address;
        let status = get(address, "/metrics", None).await.0;
        assert_eq!(status, if open { 200 } else { 401 });
        assert_eq!(get(address, "/metrics", Some("secret")).await.0, 200);
        assert_eq!(get(address, "/page/events", Some("wrong")).await.0, 401);
        assert_eq!(get(address, "/readyz", None).await.0, 200);
        running.stop(Duration::from_secs(5)).await;
    }
}

#[tokio::test]
async fn a_port_in_use_is_an_error_with_key_address_and_fix() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let mut settings = settings();
    settings.http.listen = address;
    let error = serve(daemon().services, &settings).await.err().unwrap();
    let text = format!("{error:#}");
    let wanted = format!(
        "http.listen: cannot listen on {address}; stop the program that listens there, or set http.listen to a free address: "
    );
    assert!(text.starts_with(&wanted), "{text}");
    assert!(text.contains("in use"), "{text}");
}
