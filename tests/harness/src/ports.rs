//! Ports for services that want theirs beforehand, or the same one again after a restart.

use std::{
    collections::HashSet,
    hash::{BuildHasher as _, RandomState},
    net::TcpListener,
    ops::Range,
    sync::{Mutex, PoisonError},
};

/// Below those that the system gives to outgoing connections and to listeners on port 0. One of those may be in use at any
/// moment: before the service listens, or while it restarts.
const RANGE: Range<u16> = 10_000..32_000;

static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);

/// A port of 127.0.0.1 that nobody listens on. It is given out once in this process; other processes draw at random too.
pub fn free_port() -> u16 {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let given = given.get_or_insert_default();
    loop {
        let drawn = RandomState::new().hash_one(given.len()) % RANGE.len() as u64;
        let port = RANGE.start + drawn as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() && given.insert(port) {
            return port;
        }
    }
}
