//! The page behind its endpoints, without a browser; `tests/browser` has one.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;
use tokio_stream::StreamExt as _;

use super::*;
use crate::{
    config::Config, control::Order, current::ServingMode, servers::serve, serving::fixture,
    status::Status,
};

/// A page of its own, which looks only when it is told to.
fn page() -> (Arc<Page>, watch::Sender<Status>) {
    let daemon = fixture::daemon();
    (Page::new(Arc::new(daemon.services), true), daemon.status)
}

async fn next(viewer: &mut Viewer) -> Option<(&'static str, Value)> {
    let (name, text) = viewer.next().await?;
    Some((name, serde_json::from_str(&text).unwrap()))
}

/// The answer to a request as it comes: status line and body, which may have no end.
struct Answer {
    status: String,
    body: BufReader<TcpStream>,
}

fn ask(address: SocketAddr, request: &str, token: Option<&str>, body: &str) -> Answer {
    let mut connection = TcpStream::connect(address).unwrap();
    let patience = Some(Duration::from_secs(30));
    connection.set_read_timeout(patience).unwrap();
    let token = token.map_or_else(String::new, |token| {
        format!("authorization: Bearer {token}\r\n")
    });
    let length = body.len();
    write!(
        connection,
        "{request} HTTP/1.1\r\nhost: ostard\r\nconnection: close\r\n{token}\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut body = BufReader::new(connection);
    let mut status = String::new();
    body.read_line(&mut status).unwrap();
    let mut header = String::new();
    while body.read_line(&mut header).unwrap() > 2 {
        status.push_str(&header.to_lowercase());
        header.clear();
    }
    Answer { status, body }
}

impl Answer {
    fn rest(mut self) -> String {
        let mut text = String::new();
        self.body.read_to_string(&mut text).unwrap();
        text
    }

    /// The next event's JSON.
    fn event(&mut self) -> Value {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(
                self.body.read_line(&mut line).unwrap() > 0,
                "the stream ended"
            );
            if let Some(data) = line.strip_prefix("data: ") {
                return serde_json::from_str(data).unwrap();
            }
        }
    }
}

fn with_token(folder: &tempfile::TempDir) -> Config {
    let file = folder.path().join("token");
    std::fs::write(&file, "secret\n").unwrap();
    let mut settings = fixture::settings();
    settings.auth.token_file = Some(file);
    settings
}

#[tokio::test]
async fn a_viewer_is_told_all_at_first_and_then_what_changes() {
    let (page, status) = page();
    page.take_frame(Instant::now());
    let mut viewer = page.view().unwrap();
    let (name, hello) = next(&mut viewer).await.unwrap();
    assert_eq!(name, "hello");
    assert_eq!(hello["about"]["model"], "mail");
    assert_eq!(hello["about"]["classes"][1]["name"], "spam");
    assert_eq!(hello["about"]["classes"][1]["training"], 0.5);
    let configuration = hello["about"]["configuration"].as_str().unwrap();
    assert!(
        configuration.contains("steps_per_block = 5 # default"),
        "{configuration}"
    );
    assert_eq!(hello["history"]["times"].as_array().unwrap().len(), 1);

    let (state, words) = (&hello["frame"]["state"], &hello["frame"]["words"]);
    let spam = &state["classes"][1];
    let end = |name: &str| spam[name].as_f64().unwrap();
    assert!(
        end("served_low") < end("served") && end("served") < end("served_high"),
        "{spam}"
    );
    assert!(end("served") < 0.3, "one in ten is spam: {spam}");
    assert_eq!(state["mode"], "frozen");
    assert_eq!(state["refresh"]["accepted"], true);
    let prior = &state["candidates"][1];
    assert!(prior["estimated"].as_f64().unwrap() > 0.5);
    assert_eq!(prior["accuracy"], Value::Null, "without labels");
    let moved = &words["answers"]["moved"];
    assert_eq!(moved["state"], "look");
    assert!(
        moved["answer"].as_str().unwrap().starts_with("ham is 9"),
        "{moved}"
    );
    assert_eq!(words["answers"]["shape"]["answer"], "Shares explain it");
    let listed = &words["classes"]["rows"][1];
    assert_eq!(
        (&listed[0]["text"], &listed[1]["text"]),
        (&"spam".into(), &"50.0 %".into())
    );
    assert_eq!(listed[2]["strong"], true);

    // The history holds what the frame says, in the columns that `about` names.
    let columns = hello["about"]["columns"].as_array().unwrap();
    let place = columns
        .iter()
        .position(|name| name == "proportion.1")
        .unwrap();
    let kept = hello["history"]["columns"][place][0].as_f64().unwrap();
    assert!((kept - end("served")).abs() < 1e-6);

    status.send_modify(|status| status.paused = true);
    page.take_frame(Instant::now());
    let (name, frame) = next(&mut viewer).await.unwrap();
    assert_eq!((name, &frame["state"]["paused"]), ("frame", &true.into()));
    assert_eq!(frame["words"]["learning"]["text"], "learning paused");
    assert_eq!(
        frame["values"][place],
        hello["history"]["columns"][place][0]
    );
}

#[tokio::test]
async fn a_frame_says_what_the_gate_chose_and_no_share_once_the_classes_changed() {
    let gate_of = |frame: &Value, test: usize| {
        let test = &frame["gate"]["tests"][test];
        test["statistic"].as_f64().unwrap() <= test["limit"].as_f64().unwrap()
    };
    for (learn, candidate, refuted) in [
        (fixture::learned as fn(&_) -> _, "prior", false),
        (fixture::learned_elsewhere, "frozen", true),
    ] {
        let daemon = fixture::daemon_after(learn);
        let page = Page::new(Arc::new(daemon.services), true);
        page.take_frame(Instant::now());
        let (_, hello) = next(&mut page.view().unwrap()).await.unwrap();
        let frame = &hello["frame"]["state"];
        assert_eq!(frame["gate"]["candidate"], candidate);
        assert_eq!(frame["gate"]["refuted"], refuted);
        assert_eq!(frame["gate"]["since_block"], 1);
        assert_eq!((0..3).all(|test| gate_of(frame, test)), !refuted, "{frame}");
        assert_eq!(frame["gate"]["proportions_unknown"], refuted);
        let columns = hello["about"]["columns"].as_array().unwrap();
        let place = columns.iter().position(|name| name == "proportion.1");
        assert_eq!(hello["frame"]["values"][place.unwrap()].is_null(), refuted);
        let spam = &hello["frame"]["words"]["classes"]["rows"][1][2]["text"];
        let told = spam.as_str().unwrap();
        assert_eq!(told.starts_with("cannot be told"), refuted, "{told}");
        let reason = frame["gate"]["explanation"].as_str().unwrap();
        assert_eq!(
            reason.contains("label shift explains"),
            !refuted,
            "{reason}"
        );
    }
}

#[tokio::test]
async fn a_picture_is_sent_when_it_is_new() {
    let (page, status) = page();
    let picture = |x: f32| {
        Some(Arc::new(Picture {
            source: vec![[x, 0.0]],
            mapped: vec![[x, 1.0]],
            labels: vec![1],
            target: vec![[0.5, 0.25]],
            predicted: vec![0],
        }))
    };
    status.send_modify(|status| status.picture = picture(1.0));
    page.take_frame(Instant::now());
    let mut viewer = page.view().unwrap();
    let (_, hello) = next(&mut viewer).await.unwrap();
    assert_eq!(hello["picture"]["source"], serde_json::json!([100, 0]));
    page.take_frame(Instant::now());
    assert_eq!(next(&mut viewer).await.unwrap().0, "frame");
    status.send_modify(|status| status.picture = picture(2.0));
    page.take_frame(Instant::now());
    let both = [
        next(&mut viewer).await.unwrap(),
        next(&mut viewer).await.unwrap(),
    ];
    let picture = both.iter().find(|(name, _)| *name == "picture").unwrap();
    assert_eq!(picture.1["mapped"], serde_json::json!([200, 100]));
}

#[tokio::test]
async fn who_does_not_read_loses_frames_and_holds_up_nobody() {
    let (page, status) = page();
    let mut slow = page.view().unwrap();
    let mut quick = page.view().unwrap();
    next(&mut slow).await.unwrap();
    next(&mut quick).await.unwrap();
    for events in 1..=1_000 {
        status.send_modify(|status| status.events = events);
        page.take_frame(Instant::now());
        let (_, frame) = next(&mut quick).await.unwrap();
        assert_eq!(frame["state"]["events"], events);
    }
    let (_, frame) = next(&mut slow).await.unwrap();
    assert_eq!(
        frame["state"]["events"], 1_000,
        "the newest, and none of those before"
    );
    status.send_modify(|status| status.events = 1_001);
    page.take_frame(Instant::now());
    assert_eq!(next(&mut slow).await.unwrap().1["state"]["events"], 1_001);
}

/// More than the buffers of a connection hold.
const LOOKS: u64 = 6_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_not_read_loses_frames_and_holds_up_no_other() {
    let (page, status) = page();
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = port.local_addr().unwrap();
    let router = routes(Arc::clone(&page), false).guarded;
    tokio::spawn(async move { axum::serve(port, router).await });
    let watch = move || {
        tokio::task::spawn_blocking(move || {
            let mut events = ask(address, "GET /page/events", None, "");
            events.event();
            events
        })
    };
    // Reads until the last frame; gives how many came.
    let read = |mut events: Answer| {
        let mut frames = 1;
        while events.event()["state"]["events"] != LOOKS {
            frames += 1;
        }
        frames
    };
    let (stalled, quick) = (watch().await.unwrap(), watch().await.unwrap());
    let reading = tokio::task::spawn_blocking(move || read(quick));
    for events in 1..=LOOKS {
        status.send_modify(|status| status.events = events);
        page.take_frame(Instant::now());
        tokio::task::yield_now().await;
    }
    reading.await.unwrap();
    let frames = tokio::task::spawn_blocking(move || read(stalled));
    let frames: u64 = frames.await.unwrap();
    assert!(frames < LOOKS, "nothing was lost, so nothing was stalled");
}

#[tokio::test]
async fn places_are_limited_and_free_again_when_a_viewer_goes() {
    let (page, _status) = page();
    let mut viewers: Vec<Viewer> = (0..VIEWERS).map(|_| page.view().unwrap()).collect();
    assert_eq!(page.view().err(), Some(NoPlace::Full));
    viewers.pop();
    assert!(page.view().is_ok());
}

#[tokio::test]
async fn the_page_needs_no_token_but_its_numbers_do() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = fixture::daemon();
    let running = serve(daemon.services, &with_token(&folder)).await.unwrap();
    let address = running.http_address;
    let asked = tokio::task::spawn_blocking(move || {
        let index = ask(address, "GET /", None, "");
        assert!(index.status.starts_with("HTTP/1.1 200"), "{}", index.status);
        assert!(
            index
                .status
                .contains("content-security-policy: default-src 'none'")
        );
        assert!(!index.rest().contains("spam"), "nothing of the model");
        assert!(
            ask(address, "GET /page/page.js", None, "")
                .status
                .contains("200")
        );
        assert!(
            ask(address, "GET /page/nothing.js", None, "")
                .status
                .contains("404")
        );
        for wrong in [None, Some("wrong")] {
            let refused = ask(address, "GET /page/events", wrong, "");
            assert!(refused.status.contains("401"), "{}", refused.status);
        }
        let mut events = ask(address, "GET /page/events", Some("secret"), "");
        assert_eq!(events.event()["about"]["model"], "mail");
        let (first, second) = (events.event(), events.event());
        let time = |frame: &Value| frame["state"]["time_ms"].as_u64().unwrap();
        assert!(time(&second) > time(&first));
        events
    });
    let mut events = asked.await.unwrap();
    // An open stream does not hold the daemon's end up.
    running.stop(Duration::from_secs(30)).await;
    let mut rest = String::new();
    events.body.read_to_string(&mut rest).unwrap();
}

#[tokio::test]
async fn orders_are_taken_only_where_they_are_switched_on_and_with_the_token() {
    let folder = tempfile::tempdir().unwrap();
    for switched_on in [false, true] {
        let mut daemon = fixture::daemon();
        daemon.services.config.http.orders = switched_on;
        let running = serve(daemon.services, &with_token(&folder)).await.unwrap();
        let address = running.http_address;
        let give = move |token, body| {
            tokio::task::spawn_blocking(move || {
                ask(address, "POST /page/orders", token, body).status
            })
        };
        let mode = r#"{"order": "mode", "mode": "prior"}"#;
        let anonymous = give(None, mode).await.unwrap();
        let given = give(Some("secret"), mode);
        if !switched_on {
            // A path that is an asset's, if anything.
            assert!(anonymous.contains("405"), "{anonymous}");
            assert!(given.await.unwrap().contains("405"));
            continue;
        }
        assert!(anonymous.contains("401"), "{anonymous}");
        let request = daemon.orders.recv().await.unwrap();
        assert_eq!(
            request.order,
            Order::Mode {
                mode: ServingMode::Prior
            }
        );
        request.reply.send(Err("not now".into())).unwrap();
        assert!(given.await.unwrap().contains("409"));
        let nonsense = give(Some("secret"), r#"{"order": "dance"}"#);
        assert!(nonsense.await.unwrap().contains("422"));
    }
}

#[tokio::test]
async fn without_a_token_there_are_no_orders_whatever_is_switched_on() {
    let mut daemon = fixture::daemon();
    daemon.services.config.http.orders = true;
    let running = serve(daemon.services, &fixture::settings()).await.unwrap();
    let address = running.http_address;
    let refused = tokio::task::spawn_blocking(move || {
        ask(address, "POST /page/orders", None, r#"{"order": "pause"}"#).status
    });
    assert!(refused.await.unwrap().contains("405"));
}
