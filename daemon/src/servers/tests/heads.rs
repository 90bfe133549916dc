//! Requests over HTTP whose head or framing is wrong, sent as bytes.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use super::open_inference::rest::{INFER, body, post};
use crate::{
    servers::serve,
    serving::fixture::{daemon, settings},
};

/// Everything that is answered.
fn ask(address: SocketAddr, request: &str) -> String {
    tokio::task::block_in_place(|| {
        let mut stream = TcpStream::connect(address).unwrap();
        let patience = Some(Duration::from_secs(30));
        stream.set_read_timeout(patience).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_body_is_refused_with_what_is_supported() {
    let running = serve(daemon().services, &settings()).await.unwrap();
    let address = running.http_address;
    let content = body().to_string();
    let length = content.len();
    let post_as = |path: &str, coding: &str| {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\
             Content-Encoding: {coding}\r\n\r\n{content}"
        );
        ask(address, &head)
    };
    for path in [INFER, "/page/orders"] {
        for coding in ["gzip", "identity, gzip", "br"] {
            let answer = post_as(path, coding);
            assert!(answer.starts_with("HTTP/1.1 415 "), "{answer}");
            let lower = answer.to_lowercase();
            assert!(
                lower.contains("\r\naccept-encoding: identity\r\n"),
                "{answer}"
            );
            assert!(
                answer.contains("compressed bodies are not supported"),
                "{answer}"
            );
        }
    }
    for coding in ["identity", "Identity", ""] {
        let answer = post_as(INFER, coding);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_whose_chunks_cannot_be_read_is_the_callers_mistake() {
    let running = serve(daemon().services, &settings()).await.unwrap();
    let address = running.http_address;
    for chunks in [
        "fffffffffffffffff\r\n{}",
        "ffffffffffffffffff\r\n{}",
        "x\r\n{}\r\n",
        "-1\r\n{}\r\n",
        "2 {}\r\n0\r\n\r\n",
    ] {
        let head = format!(
            "POST {INFER} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Transfer-Encoding: chunked\r\n\r\n{chunks}"
        );
        let answer = ask(address, &head);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{chunks:?}: {answer}");
    }
    let (status, _) = post(address, INFER, &body()).await;
    assert_eq!(status, 200, "unharmed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_names_one_host() {
    let running = serve(daemon().services, &settings()).await.unwrap();
    let address = running.http_address;
    let get = |target: &str, hosts: &str| {
        let request = format!("GET {target} HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n");
        ask(address, &request)
    };
    for target in ["/metrics", "/livez", "/nothing"] {
        for hosts in [
            "Host: localhost\r\nHost: localhost\r\n",
            "Host: localhost\r\nHost: evil.example\r\n",
            "Host: evil.example\r\nX: y\r\nhost: localhost\r\n",
            "Host: ev\u{e4}l.example\r\n",
        ] {
            let answer = get(target, hosts);
            assert!(answer.starts_with("HTTP/1.1 400 "), "{hosts:?}: {answer}");
        }
    }
    let differ = get("http://evil.example/livez", "Host: localhost\r\n");
    assert!(differ.starts_with("HTTP/1.1 400 "), "{differ}");
    for (target, hosts) in [
        ("http://localhost:8080/livez", "Host: LOCALHOST:8080\r\n"),
        ("http://[::1]:8080/livez", "Host: [::1]:8080\r\n"),
        ("/livez", "Host: localhost:8080\r\n"),
    ] {
        let answer = get(target, hosts);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{target}: {answer}");
    }
    let evil = get("http://evil.example/metrics", "Host: evil.example\r\n");
    assert!(evil.starts_with("HTTP/1.1 421 "), "{evil}");
}
