//! More than can be scored, and the end.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ostar_connectors::{event::InputRows, settings::Period};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::{
    config::RequestSettings,
    proto::{WatchStateRequest, inference_client::InferenceClient},
    servers::serve,
    serving::{
        Batcher, Refusal, Services, Workers,
        fixture::{connect, daemon, latent, request, settings},
    },
};

fn rows(services: &Services, count: usize) -> InputRows {
    let mut rows = services.no_rows();
    for _ in 0..count {
        services.decoder.push_input(latent(1.0), &mut rows).unwrap();
    }
    rows
}

#[tokio::test]
async fn what_does_not_fit_into_the_queue_is_refused_at_once() {
    let services = Arc::new(daemon().services);
    let settings = RequestSettings {
        queue_rows: 5,
        max_wait: Period::from_secs(60),
        ..RequestSettings::default()
    };
    let batcher = Batcher::new(&services, &settings);
    let first = tokio::spawn({
        let (batcher, rows) = (batcher.clone(), rows(&services, 4));
        async move { batcher.score(rows, None, false).await }
    });
    let wait = async || {
        let queued = || {
            services
                .metrics
                .counted()
                .contains("ostar_request_queue_rows 4")
        };
        while !queued() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait())
        .await
        .unwrap();
    let refusal = batcher
        .score(rows(&services, 2), None, false)
        .await
        .unwrap_err();
    assert_eq!(refusal, Refusal::QueueFull { limit: 5 });
    let text = services.metrics.counted();
    assert!(
        text.contains(r#"ostar_requests_refused_total{reason="queue_full"} 1"#),
        "{text}"
    );

    let workers = Workers::start(&batcher, &settings).unwrap();
    workers.finish();
    assert!(
        first.await.unwrap().is_ok(),
        "what was accepted is answered"
    );
    assert_eq!(
        batcher.score(rows(&services, 1), None, false).await,
        Err(Refusal::Stopping)
    );
}

#[tokio::test]
async fn a_request_that_has_waited_too_long_is_refused_and_never_scored() {
    let services = Arc::new(daemon().services);
    let limit = Period::from_millis(5);
    let settings = RequestSettings {
        max_wait: limit,
        ..RequestSettings::default()
    };
    let batcher = Batcher::new(&services, &settings);
    let refusal = batcher
        .score(rows(&services, 1), None, false)
        .await
        .unwrap_err();
    assert_eq!(refusal, Refusal::WaitedTooLong { limit });
    Workers::start(&batcher, &settings).unwrap().finish();
    let text = services.metrics.counted();
    let unscored = r#"ostar_scoring_batch_rows_count{path="request"} 0"#;
    assert!(text.contains(unscored), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn finishing_answers_all_that_was_accepted_in_batches_of_the_size_that_is_set() {
    let services = Arc::new(daemon().services);
    let settings = RequestSettings {
        max_wait: Period::from_secs(60),
        max_batch_rows: 4,
        ..RequestSettings::default()
    };
    let batcher = Batcher::new(&services, &settings);
    let mut requests = JoinSet::new();
    for _ in 0..10 {
        let (batcher, rows) = (batcher.clone(), rows(&services, 2));
        requests.spawn(async move { batcher.score(rows, None, false).await.unwrap() });
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while !services
        .metrics
        .counted()
        .contains("ostar_request_queue_rows 20")
    {
        assert!(Instant::now() < deadline, "not all were queued");
        tokio::task::yield_now().await;
    }
    let workers = Workers::start(&batcher, &settings).unwrap();
    tokio::task::spawn_blocking(move || workers.finish())
        .await
        .unwrap();
    let answers = requests.join_all().await;
    assert_eq!(answers.len(), 10);
    assert!(answers.iter().all(|answer| answer.probabilities.len() == 4));
    let text = services.metrics.counted();
    assert!(
        text.contains(r#"ostar_scoring_batch_rows_bucket{path="request",le="4"} 5"#),
        "{text}"
    );
}

#[tokio::test]
async fn overload_is_resource_exhausted_for_the_client() {
    let mut settings = settings();
    // Nobody scores.
    settings.requests.threads = 0;
    settings.requests.max_wait = Period::from_millis(5);
    let running = serve(daemon().services, &settings).await.unwrap();
    let mut client = InferenceClient::new(connect(running.grpc_address).await);
    let status = client.predict(request(&[1.0])).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(
        status.message().ends_with("(requests.max_wait)"),
        "{status:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_under_load_answers_every_request_that_was_accepted() {
    let daemon = daemon();
    let metrics = daemon.services.metrics.clone();
    let running = serve(daemon.services, &settings()).await.unwrap();
    let mut clients = JoinSet::new();
    for _ in 0..4 {
        let mut client = InferenceClient::new(connect(running.grpc_address).await);
        clients.spawn(async move {
            let mut answered = 0;
            while client.predict(request(&[1.0])).await.is_ok() {
                answered += 1;
            }
            answered
        });
    }
    let answered = || {
        let text = metrics.counted();
        let mut lines = text.lines();
        let line = lines.find(|line| line.starts_with("ostar_request_rows_total "))?;
        line.rsplit(' ').next()?.parse::<u64>().ok()
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    while answered().unwrap() < 200 {
        assert!(Instant::now() < deadline, "too few requests");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    running.stop(Duration::from_secs(10)).await;
    let received = clients.join_all().await.into_iter().sum();
    assert_eq!(answered(), Some(received), "each answer arrived");
    let text = metrics.counted();
    let others = text
        .lines()
        .filter(|line| line.starts_with("ostar_requests_total"));
    let others = others.filter(|line| !line.contains(r#"code="Ok""#)).count();
    assert_eq!(others, 0, "none was refused or broken off: {text}");
}

#[tokio::test]
async fn open_streams_do_not_hold_the_end_up() {
    let daemon = daemon();
    let running = serve(daemon.services, &settings()).await.unwrap();
    let channel = connect(running.grpc_address).await;
    let mut client = InferenceClient::new(channel.clone());
    let mut states = client
        .watch_state(WatchStateRequest {})
        .await
        .unwrap()
        .into_inner();
    states.message().await.unwrap().unwrap();
    let (requests, stream) = mpsc::channel(1);
    let stream = client.predict_stream(ReceiverStream::new(stream)).await;
    let mut answers = stream.unwrap().into_inner();
    requests.send(request(&[1.0])).await.unwrap();
    answers.message().await.unwrap().unwrap();
    let mut health = HealthClient::new(channel);
    let mut statuses = health
        .watch(HealthCheckRequest::default())
        .await
        .unwrap()
        .into_inner();
    statuses.message().await.unwrap().unwrap();

    let start = Instant::now();
    running.stop(Duration::from_secs(30)).await;
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(
        answers.message().await.unwrap_err().code(),
        Code::Unavailable
    );
    while states.message().await.unwrap().is_some() {}
}
