//! Bearer tokens: by role, and changed while the daemon serves.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;
use tonic::{Code, Request};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use super::security::wait_for;
use crate::{
    proto::{
        GetStateRequest, PauseRequest, control_client::ControlClient,
        inference_client::InferenceClient,
    },
    servers::{serve, serve_with_secrets},
    serving::{
        Tokens,
        fixture::{connect, daemon, request, settings},
    },
};

fn with_token<T>(message: T, token: &str) -> Request<T> {
    let mut request = Request::new(message);
    let value = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", value);
    request
}

#[tokio::test]
async fn requests_need_the_token_as_it_is_now() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "old").unwrap();
    let mut settings = settings();
    settings.auth.token_file = Some(file.clone());
    let tokens = Tokens::open(&settings.auth, Duration::ZERO).unwrap();
    settings.grpc.control_listen = Some("127.0.0.1:0".parse().unwrap());
    let daemon = daemon();
    let metrics = daemon.services.metrics.clone();
    let running = serve_with_secrets(daemon.services, &settings, None, tokens)
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
    let text = metrics.counted();
    assert!(
        text.contains(r#"ostar_unauthenticated_requests_total{listener="grpc"} 2"#),
        "{text}"
    );
    assert!(
        text.contains(r#"ostar_unauthenticated_requests_total{listener="control"} 1"#),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tokens_are_rotated_under_load_without_a_failed_request_and_a_broken_file_leaves_the_old() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    // As a mounted secret is replaced: whole, by a rename.
    let write = |text: &str| {
        let next = folder.path().join("next");
        fs::write(&next, text).unwrap();
        fs::rename(&next, &file).unwrap();
    };
    write("old");
    let mut settings = settings();
    settings.auth.predict_token_file = Some(file.clone());
    let tokens = Tokens::open(&settings.auth, Duration::ZERO).unwrap();
    let daemon = daemon();
    let health = daemon.services.health.clone();
    let (_stopping, stopped) = watch::channel(false);
    tokio::spawn(Arc::clone(&tokens).follow(health.clone(), stopped));
    let running = serve_with_secrets(daemon.services, &settings, None, tokens)
        .await
        .unwrap();

    let (use_token, token) = watch::channel(Some("old"));
    let mut callers = tokio::task::JoinSet::new();
    let answered = Arc::new(AtomicUsize::new(0));
    for _ in 0..4 {
        let (token, counted) = (token.clone(), Arc::clone(&answered));
        let mut client = InferenceClient::new(connect(running.grpc_address).await);
        callers.spawn(async move {
            loop {
                let Some(token) = *token.borrow() else { return };
                client
                    .predict(with_token(request(&[1.0]), token))
                    .await
                    .unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    let hundred_more = async || {
        let goal = answered.load(Ordering::SeqCst) + 100;
        wait_for(|| answered.load(Ordering::SeqCst) >= goal).await;
    };
    hundred_more().await;
    // Both are good while callers change from one to the other.
    write("old\nnew");
    hundred_more().await;
    use_token.send(Some("new")).unwrap();
    hundred_more().await;
    write("new");
    hundred_more().await;
    let mut late = InferenceClient::new(connect(running.grpc_address).await);
    let refused = late.predict(with_token(request(&[1.0]), "old")).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);

    write(" \n");
    wait_for(|| health.conditions().contains_key("tokens")).await;
    hundred_more().await;
    let told = &health.conditions()["tokens"];
    assert!(told.contains("auth.predict_token_file"), "{told}");
    write("newest\nnew");
    wait_for(|| !health.conditions().contains_key("tokens")).await;
    use_token.send(Some("newest")).unwrap();
    hundred_more().await;
    use_token.send(None).unwrap();
    // Fails if a caller had one failed request.
    callers.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_has_its_tokens_and_strangers_learn_no_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let path = folder.path().join(name);
        fs::write(&path, name).unwrap();
        Some(path)
    };
    let mut settings = settings();
    settings.grpc.control_listen = Some("127.0.0.1:0".parse().unwrap());
    settings.auth.predict_token_file = write("predict");
    settings.auth.metrics_token_file = write("scrape");
    settings.auth.control_token_file = write("operate");
    let daemon = daemon();
    let health = daemon.services.health.clone();
    health.set_condition("kafka", "no broker answers at broker-1:9092");
    let running = serve(daemon.services, &settings).await.unwrap();
    let get = async |path: &'static str, token: Option<&'static str>| {
        let url = format!("http://{}{path}", running.http_address);
        let asked = move || {
            let mut request = ureq::get(&url).config().http_status_as_error(false).build();
            if let Some(token) = token {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            let mut answer = request.call().unwrap();
            (
                answer.status().as_u16(),
                answer.body_mut().read_to_string().unwrap(),
            )
        };
        tokio::task::spawn_blocking(asked).await.unwrap()
    };
    for (path, good, bad) in [
        ("/metrics", "scrape", "predict"),
        ("/state", "scrape", "predict"),
        ("/v2", "predict", "scrape"),
    ] {
        assert_eq!(get(path, Some(good)).await.0, 200, "{path}");
        assert_eq!(get(path, Some("operate")).await.0, 200, "{path}");
        for token in [None, Some(bad)] {
            assert_eq!(get(path, token).await.0, 401, "{path} with {token:?}");
        }
    }
    let mut client = InferenceClient::new(connect(running.grpc_address).await);
    client
        .predict(with_token(request(&[1.0]), "predict"))
        .await
        .unwrap();
    let mut control = ControlClient::new(connect(running.control_address.unwrap()).await);
    let refused = control.pause(with_token(PauseRequest {}, "predict")).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);

    for (token, is_told) in [
        (None, false),
        (Some("wrong"), false),
        (Some("scrape"), true),
    ] {
        let (status, text) = get("/readyz", token).await;
        assert_eq!(status, 200);
        assert!(text.contains("kafka: "), "{text}");
        assert_eq!(text.contains("broker-1"), is_told, "{text}");
    }
    health.fail("the ingest thread failed: no broker answers at broker-1:9092");
    for path in ["/livez", "/readyz"] {
        let (status, text) = get(path, None).await;
        assert_eq!(status, 503);
        assert!(text.starts_with("the ingest thread failed"), "{text}");
        assert!(!text.contains("broker-1"), "{text}");
    }
}
