//! Clients that stall, flood, or never go: they are cut, and others are served meanwhile.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use h2::client::SendRequest;
use ostar_connectors::settings::Period;
use prost::bytes::Bytes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};
use tonic::{Code, codegen::http};

use super::open_inference::rest;
use crate::{
    config::Config,
    metrics::Metrics,
    proto::{GetStateRequest, inference_client::InferenceClient},
    servers::{Servers, serve},
    serving::fixture::{connect, daemon, request, settings},
};

const DEADLINE: Duration = Duration::from_secs(20);
const PREDICT: &str = "/ostar.v1.Inference/Predict";

async fn start(settings: &Config) -> (Servers, Arc<Metrics>) {
    let daemon = daemon();
    let metrics = daemon.services.metrics.clone();
    (serve(daemon.services, settings).await.unwrap(), metrics)
}

/// The value of a series.
fn value(metrics: &Metrics, series: &str) -> f64 {
    let text = metrics.counted();
    let line = text.lines().find(|line| {
        line.strip_prefix(series)
            .is_some_and(|rest| rest.starts_with(' '))
    });
    line.map_or(0.0, |line| {
        line.rsplit(' ').next().unwrap().parse().unwrap()
    })
}

async fn reaches(metrics: &Metrics, series: &str, least: f64) {
    let reached = async {
        while value(metrics, series) < least {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let outcome = timeout(DEADLINE, reached).await;
    assert!(outcome.is_ok(), "{series} is {}", value(metrics, series));
}

pub(super) async fn http2(address: SocketAddr) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

pub(super) fn grpc_request(address: SocketAddr, path: &str) -> http::Request<()> {
    http::Request::post(format!("http://{address}{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap()
}

/// Announces a message, sends a part of it, and no more. Keeps the stream open.
async fn stalled_upload(
    client: &mut SendRequest<Bytes>,
    address: SocketAddr,
    announced: u32,
    sent: usize,
) -> (h2::client::ResponseFuture, h2::SendStream<Bytes>) {
    let (response, mut body) = client
        .send_request(grpc_request(address, PREDICT), false)
        .unwrap();
    let mut bytes = vec![0];
    bytes.extend(announced.to_be_bytes());
    bytes.resize(5 + sent, 0);
    body.send_data(bytes.into(), false).unwrap();
    (response, body)
}

async fn all_are_served(running: &Servers, times: usize) {
    let mut client = InferenceClient::new(connect(running.grpc_address).await);
    for _ in 0..times {
        client.predict(request(&[1.0])).await.unwrap();
    }
    client.get_state(GetStateRequest {}).await.unwrap();
    let (status, _) = rest::post(running.http_address, rest::INFER, &rest::body()).await;
    assert_eq!(status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_half_a_request_refuses_nobody_and_is_cut() {
    let mut settings = settings();
    settings.requests.queue_bytes = 1024;
    settings.connections.body_timeout = Period::from_millis(700);
    let (running, metrics) = start(&settings).await;
    let mut client = http2(running.grpc_address).await;
    let (response, _body) =
        stalled_upload(&mut client, running.grpc_address, 4 << 20, 2 << 20).await;
    let arriving = r#"ostar_request_bytes{state="arriving"}"#;
    reaches(&metrics, arriving, f64::from(2 << 20)).await;
    all_are_served(&running, 50).await;

    let response = timeout(DEADLINE, response).await.unwrap().unwrap();
    let status = response.headers().get("grpc-status").unwrap();
    assert_eq!(status, &(Code::DeadlineExceeded as i32).to_string()[..]);
    let cut = r#"ostar_requests_cut_total{reason="body_timeout"}"#;
    assert_eq!(value(&metrics, cut), 1.0);
    // The connection is the honest clients' as well: only the request was cut.
    let (response, mut body) = client
        .send_request(grpc_request(running.grpc_address, PREDICT), false)
        .unwrap();
    body.send_data(Bytes::from_static(&[0; 5]), true).unwrap();
    timeout(DEADLINE, response).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_stalled_uploads_take_bounded_room_and_refuse_nobody() {
    const LIMIT: usize = 4 << 20;
    let mut settings = settings();
    settings.requests.upload_bytes = LIMIT;
    let (running, metrics) = start(&settings).await;
    let mut held = Vec::new();
    for number in 0..200 {
        if number % 2 == 0 {
            let mut client = http2(running.grpc_address).await;
            let sent = 100 << 10;
            let stalled = stalled_upload(&mut client, running.grpc_address, 4 << 20, sent).await;
            held.push((Some((client, stalled)), None));
        } else {
            let mut stream = TcpStream::connect(running.http_address).await.unwrap();
            let path = rest::INFER;
            let head = format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&vec![b' '; 100 << 10]).await.unwrap();
            held.push((None, Some(stream)));
        }
    }
    let gave_way = r#"ostar_requests_cut_total{reason="gave_way"}"#;
    // 20,000 kB were sent, and 4 MiB have room.
    reaches(&metrics, gave_way, 150.0).await;
    all_are_served(&running, 50).await;
    // Shown once a second.
    let series = r#"ostar_request_bytes{state="arriving"}"#;
    reaches(&metrics, series, 1.0).await;
    let arriving = value(&metrics, series);
    assert!(arriving <= LIMIT as f64, "{arriving}");
    let refused = r#"ostar_requests_refused_total{reason="queue_bytes"}"#;
    assert_eq!(value(&metrics, refused), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rest_upload_that_stalls_is_answered_with_the_reason() {
    let mut settings = settings();
    settings.connections.body_timeout = Period::from_millis(200);
    let (running, _metrics) = start(&settings).await;
    let mut stream = TcpStream::connect(running.http_address).await.unwrap();
    let path = rest::INFER;
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{{");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    timeout(DEADLINE, read).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("connections.body_timeout"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_headers_are_cut_and_idle_connections_are_closed_later() {
    let mut settings = settings();
    settings.connections.header_timeout = Period::from_millis(200);
    settings.connections.idle_timeout = Period::from_millis(800);
    let (running, metrics) = start(&settings).await;
    let mut slow = Vec::new();
    for number in 0..100 {
        let addresses = [running.http_address, running.grpc_address];
        let mut stream = TcpStream::connect(addresses[number % 2]).await.unwrap();
        stream.write_all(b"PRI * HTTP").await.unwrap();
        slow.push(stream);
    }
    all_are_served(&running, 20).await;
    let mut idle = TcpStream::connect(running.http_address).await.unwrap();
    let get = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    idle.write_all(get).await.unwrap();
    reaches(
        &metrics,
        r#"ostar_connections_cut_total{reason="header_timeout"}"#,
        100.0,
    )
    .await;
    let mut answer = String::new();
    let read = idle.read_to_string(&mut answer);
    timeout(DEADLINE, read).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let cut = r#"ostar_connections_cut_total{reason="idle"}"#;
    reaches(&metrics, cut, 1.0).await;
    for mut stream in slow {
        let mut rest = Vec::new();
        // Closed or reset.
        let _ = timeout(DEADLINE, stream.read_to_end(&mut rest))
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_allowed_keep_nobody_out() {
    let mut settings = settings();
    settings.connections.max = 10;
    let (running, metrics) = start(&settings).await;
    let mut held = Vec::new();
    for _ in 0..50 {
        held.push(TcpStream::connect(running.grpc_address).await.unwrap());
        held.push(TcpStream::connect(running.http_address).await.unwrap());
    }
    all_are_served(&running, 20).await;
    let open = value(&metrics, r#"ostar_connections{listener="grpc"}"#);
    assert!(open <= 10.0, "{open}");
    let cut = r#"ostar_connections_cut_total{reason="too_many"}"#;
    reaches(&metrics, cut, 80.0).await;
}

/// A client's first bytes: the preface and empty settings.
fn preface() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_of_pings_and_resets_are_cut() {
    let (running, metrics) = start(&settings()).await;
    let ping = [&[0, 0, 8, 6, 0, 0, 0, 0, 0][..], &[7; 8]].concat();
    let mut stream = TcpStream::connect(running.grpc_address).await.unwrap();
    stream.write_all(&preface()).await.unwrap();
    let flood = ping.repeat(5_000);
    // The daemon may end the connection before all is sent.
    let _ = stream.write_all(&flood).await;
    let cut = r#"ostar_connections_cut_total{reason="ping_flood"}"#;
    reaches(&metrics, cut, 1.0).await;

    let mut client = http2(running.grpc_address).await;
    for _ in 0..100_000 {
        let Ok(ready) = client.ready().await else {
            break;
        };
        client = ready;
        let request = grpc_request(running.grpc_address, PREDICT);
        let Ok((_, mut body)) = client.send_request(request, false) else {
            break;
        };
        body.send_reset(h2::Reason::CANCEL);
    }
    let cut = r#"ostar_connections_cut_total{reason="reset_flood"}"#;
    reaches(&metrics, cut, 1.0).await;
    all_are_served(&running, 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_and_endless_headers_are_refused() {
    let (running, _metrics) = start(&settings()).await;
    let mut stream = TcpStream::connect(running.http_address).await.unwrap();
    let head = format!(
        "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "x".repeat(20_000)
    );
    let _ = stream.write_all(head.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = timeout(DEADLINE, stream.read_to_end(&mut answer))
        .await
        .unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
        "{answer}"
    );

    // CONTINUATION without an end: HEADERS on stream 1 without END_HEADERS, then pieces of a literal header.
    let mut stream = TcpStream::connect(running.grpc_address).await.unwrap();
    stream.write_all(&preface()).await.unwrap();
    let frame = |kind: u8, payload: &[u8]| {
        let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
        [&[a, b, c, kind, 0, 0, 0, 0, 1][..], payload].concat()
    };
    let field = [&[0, 1, b'x', 100][..], &[b'y'; 100]].concat();
    stream.write_all(&frame(1, &field)).await.unwrap();
    let ended = async {
        loop {
            let more = frame(9, &field.repeat(50));
            if stream.write_all(&more).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, ended).await.unwrap();
    all_are_served(&running, 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_its_answers_is_cut() {
    let mut settings = settings();
    settings.connections.body_timeout = Period::from_millis(300);
    let (running, metrics) = start(&settings).await;
    let mut stream = TcpStream::connect(running.http_address).await.unwrap();
    let get = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    let written = async { while stream.write_all(&get).await.is_ok() {} };
    timeout(DEADLINE, written).await.unwrap();
    let cut = r#"ostar_connections_cut_total{reason="answer_not_read"}"#;
    reaches(&metrics, cut, 1.0).await;
}
