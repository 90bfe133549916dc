//! Watches the HTTP/2 frames of a client: whether one is incomplete, and whether too many carry nothing.
//!
//! A PING costs its sender nothing and the daemon an answer. The HTTP/2 library bounds the memory of such frames, not their
//! number. Frames that carry a request or its body pay for some: clients that measure the link send a PING with them.

use std::time::Instant;

use crate::metrics::CutReason;

/// A client may send this many frames without content at once,
const BURST: f64 = 1_000.0;
/// and so many more each second.
const PER_SECOND: f64 = 100.0;
/// Cancelled requests are honest more often: each of a busy client's callers may have given up.
const RESETS_PER_SECOND: f64 = 500.0;

/// Bytes that a client sends before its first frame.
const PREFACE: usize = 24;
const HEAD: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;

const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// Follows the frames of one connection.
#[derive(Debug)]
pub(super) struct Frames {
    preface: usize,
    head: [u8; HEAD],
    head_bytes: usize,
    /// Bytes of the current frame that have not arrived.
    rest: usize,
    kind: u8,
    /// Headers have begun and END_HEADERS has not come.
    headers_open: bool,
    idle_frames: Allowance,
    resets: Allowance,
}

/// A leaky bucket.
#[derive(Debug)]
struct Allowance {
    left: f64,
    per_second: f64,
    filled: Instant,
}

impl Frames {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            preface: PREFACE,
            head: [0; HEAD],
            head_bytes: 0,
            rest: 0,
            kind: SETTINGS,
            headers_open: false,
            idle_frames: Allowance::new(PER_SECOND, now),
            resets: Allowance::new(RESETS_PER_SECOND, now),
        }
    }

    /// Takes bytes as they arrive. `Err` if the client has sent too many frames without content.
    pub(super) fn take(&mut self, mut bytes: &[u8], now: Instant) -> Result<(), CutReason> {
        let skipped = self.preface.min(bytes.len());
        self.preface -= skipped;
        bytes = &bytes[skipped..];
        while !bytes.is_empty() {
            if self.rest > 0 {
                let skipped = self.rest.min(bytes.len());
                self.rest -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            let taken = (HEAD - self.head_bytes).min(bytes.len());
            self.head[self.head_bytes..][..taken].copy_from_slice(&bytes[..taken]);
            self.head_bytes += taken;
            bytes = &bytes[taken..];
            if self.head_bytes == HEAD {
                self.head_bytes = 0;
                self.begin(now)?;
            }
        }
        Ok(())
    }

    /// Whether the client owes the rest of something other than a body, which has its own deadline.
    pub(super) fn is_incomplete(&self) -> bool {
        let mid_frame = self.rest > 0 && self.kind != DATA;
        self.preface > 0 || self.head_bytes > 0 || mid_frame || self.headers_open
    }

    fn begin(&mut self, now: Instant) -> Result<(), CutReason> {
        let [a, b, c, kind, flags, ..] = self.head;
        self.rest = u32::from_be_bytes([0, a, b, c]) as usize;
        self.kind = kind;
        match kind {
            HEADERS | CONTINUATION => self.headers_open = flags & END_HEADERS == 0,
            DATA if self.rest > 0 => {}
            PING | SETTINGS if flags & ACK != 0 => {}
            RST_STREAM if !self.resets.take(now) => return Err(CutReason::Resets),
            DATA | PING | SETTINGS | PRIORITY if !self.idle_frames.take(now) => {
                return Err(CutReason::Pings);
            }
            _ => {}
        }
        if kind == HEADERS || kind == DATA && self.rest > 0 {
            self.idle_frames.give();
        }
        Ok(())
    }
}

impl Allowance {
    fn new(per_second: f64, now: Instant) -> Self {
        Self {
            left: BURST,
            per_second,
            filled: now,
        }
    }

    fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.filled = now;
        self.left = (self.left + passed * self.per_second).min(BURST) - 1.0;
        self.left >= 0.0
    }

    fn give(&mut self) {
        self.left = (self.left + 1.0).min(BURST);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let [_, a, b, c] = (length as u32).to_be_bytes();
        let mut frame = vec![a, b, c, kind, flags, 0, 0, 0, 1];
        frame.resize(HEAD + length, 0);
        frame
    }

    fn begun() -> (Frames, Instant) {
        let now = Instant::now();
        let mut frames = Frames::new(now);
        frames.take(&[0; PREFACE], now).unwrap();
        (frames, now)
    }

    #[test]
    fn a_flood_is_seen_however_its_bytes_are_cut() {
        for piece in [1, 7, 9, 4096] {
            for (kind, length, reason) in [
                (PING, 8, CutReason::Pings),
                (DATA, 0, CutReason::Pings),
                (SETTINGS, 0, CutReason::Pings),
                (RST_STREAM, 4, CutReason::Resets),
            ] {
                let (mut frames, now) = begun();
                let flood = frame(kind, 0, length).repeat(2_000);
                let seen = flood
                    .chunks(piece)
                    .find_map(|bytes| frames.take(bytes, now).err());
                assert_eq!(seen, Some(reason), "{kind} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn pings_beside_requests_and_few_pings_are_no_flood() {
        let (mut frames, mut now) = begun();
        for _ in 0..10_000 {
            frames.take(&frame(HEADERS, END_HEADERS, 20), now).unwrap();
            frames.take(&frame(DATA, 1, 100), now).unwrap();
            frames.take(&frame(PING, 0, 8), now).unwrap();
        }
        for _ in 0..10_000 {
            now += Duration::from_millis(20);
            frames.take(&frame(PING, 0, 8), now).unwrap();
            frames.take(&frame(PING, ACK, 8), now).unwrap();
        }
    }

    #[test]
    fn what_is_owed_is_known_at_every_byte() {
        let now = Instant::now();
        let mut frames = Frames::new(now);
        assert!(frames.is_incomplete(), "the preface");
        frames.take(&[0; PREFACE], now).unwrap();
        assert!(!frames.is_incomplete());
        for byte in frame(HEADERS, 0, 5) {
            frames.take(&[byte], now).unwrap();
            assert!(frames.is_incomplete());
        }
        frames.take(&frame(CONTINUATION, 0, 5), now).unwrap();
        assert!(frames.is_incomplete(), "END_HEADERS has not come");
        frames
            .take(&frame(CONTINUATION, END_HEADERS, 5), now)
            .unwrap();
        assert!(!frames.is_incomplete());
        let body = frame(DATA, 0, 100);
        frames.take(&body[..50], now).unwrap();
        assert!(!frames.is_incomplete(), "a body has its own deadline");
    }
}
