//! Listeners beyond the loopback that ask callers for nothing: said as a condition, and without ids of events.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

use ostar_method::learner::{LabelBlock, LabelRequest, RequestKind};
use serde_json::Value;
use tonic::Request;

use crate::{
    config::Config,
    proto::{GetStateRequest, State, WatchStateRequest, inference_client::InferenceClient},
    servers::{Servers, serve},
    serving::fixture::{connect, daemon, settings},
};

/// What the state, its changes, the page and `/readyz` say.
struct Told {
    state: State,
    watched: State,
    labels: String,
    page: String,
    ready: String,
    is_condition: bool,
}

/// A daemon that wants two labels.
async fn started(settings: &Config) -> Servers {
    let daemon = daemon();
    let request = |id: &str| LabelRequest {
        id: id.into(),
        kind: RequestKind::Disagreement,
        block: 3,
        time_ms: 9,
        predicted: [0, 1, 1],
    };
    daemon.status.send_modify(|status| {
        status.wanted = [request("mail-7"), request("mail-8")].into();
        let block = status.block.as_mut().unwrap();
        block.labels = Some(LabelBlock::default());
    });
    serve(daemon.services, settings).await.unwrap()
}

async fn ask(settings: &Config, token: Option<&str>) -> Told {
    let running = started(settings).await;
    // A wildcard is no address to connect to.
    let here = |address: SocketAddr| SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()));
    let mut client = InferenceClient::new(connect(here(running.grpc_address)).await);
    let state = client.get_state(with(token, GetStateRequest {})).await;
    let states = client.watch_state(with(token, WatchStateRequest {})).await;
    let watched = states.unwrap().into_inner().message().await.unwrap();
    let http = here(running.http_address);
    let (page, ready, metrics) = tokio::task::block_in_place(|| {
        (
            until(http, "/page/events", token, "\"Labels wanted\""),
            until(http, "/readyz", token, ""),
            until(http, "/metrics", token, ""),
        )
    });
    let json = page.split_once("data:").map_or("", |(_, json)| json);
    let event: Value = serde_json::from_str(json.trim()).unwrap();
    let frames = [&event["frame"], &event];
    let frame = frames.into_iter().find(|frame| frame["words"].is_object());
    let lines = frame.unwrap()["words"]["stream"].as_array().unwrap();
    let labels = lines.iter().find(|line| line["name"] == "Labels wanted");
    running.stop(Duration::from_secs(1)).await;
    Told {
        state: state.unwrap().into_inner(),
        watched: watched.unwrap(),
        labels: labels.unwrap()["value"].as_str().unwrap().to_owned(),
        page,
        ready,
        is_condition: metrics.contains(r#"ostar_condition{condition="listeners"} 1"#),
    }
}

fn with<T>(token: Option<&str>, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        let value = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", value);
    }
    request
}

/// The first line of an answer's body that contains `wanted`; the whole body if that is empty.
fn until(address: SocketAddr, path: &str, token: Option<&str>, wanted: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let patience = Some(Duration::from_secs(30));
    stream.set_read_timeout(patience).unwrap();
    let token = token.map_or_else(String::new, |token| {
        format!("Authorization: Bearer {token}\r\n")
    });
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{token}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    if wanted.is_empty() {
        return lines.collect::<Vec<_>>().join("\n");
    }
    lines.find(|line| line.contains(wanted)).unwrap()
}

fn everywhere() -> Config {
    let mut settings = settings();
    settings.grpc.listen = "0.0.0.0:0".parse().unwrap();
    settings.http.listen = "0.0.0.0:0".parse().unwrap();
    settings
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_listener_is_a_condition_and_shows_no_ids_of_wanted_labels() {
    let told = ask(&everywhere(), None).await;
    for state in [&told.state, &told.watched] {
        assert_eq!(state.wanted_labels, []);
        assert_eq!(state.wanted_labels_withheld, 2);
        let reason = &state.conditions["listeners"];
        assert_eq!(reason, "ask with a token to see why");
    }
    assert_eq!(
        told.labels,
        "2: ids are shown only with a token, or on the loopback"
    );
    assert!(!told.page.contains("mail-7"), "{}", told.page);
    let ready = &told.ready;
    assert!(
        ready.contains("listeners: grpc.listen 0.0.0.0:0 is open"),
        "{ready}"
    );
    assert!(ready.contains("; http.listen 0.0.0.0:0 is open"), "{ready}");
    assert!(ready.contains("auth.predict_token_file"), "{ready}");
    assert!(told.is_condition);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_or_on_the_loopback_ids_are_shown_and_nothing_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "secret").unwrap();
    let mut guarded = everywhere();
    guarded.auth.predict_token_file = Some(file);
    for (settings, token) in [(guarded, Some("secret")), (settings(), None)] {
        let told = ask(&settings, token).await;
        for state in [&told.state, &told.watched] {
            assert_eq!(state.wanted_labels.len(), 2);
            assert_eq!(state.wanted_labels[0].id, "mail-7");
            assert_eq!(state.wanted_labels_withheld, 0);
        }
        assert_eq!(told.labels, "2: mail-8, mail-7");
        assert!(!told.ready.contains("listeners"), "{}", told.ready);
        assert!(!told.is_condition);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_listener_is_judged_by_its_own_address() {
    let mut settings = everywhere();
    settings.http.listen = "127.0.0.1:0".parse().unwrap();
    let told = ask(&settings, None).await;
    assert_eq!(told.state.wanted_labels_withheld, 2);
    assert_eq!(told.labels, "2: mail-8, mail-7");
    assert!(!told.ready.contains("http.listen"), "{}", told.ready);
}
