//! A network between a client and its broker that can be slow, narrow, stalled or cut.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::Result;

/// How a link treats what it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quality {
    /// Everything passes at once.
    Good,
    /// Every piece takes this long.
    Slow(Duration),
    /// At most this many bytes per second and direction of a connection.
    Narrow(u32),
    /// Connections stay open, and nothing passes.
    Stalled,
    /// Connections are reset, and new ones, too.
    Cut,
}

/// Carries bytes between a port of its own and another one, until it is dropped.
pub struct Link {
    quality: Arc<Mutex<Quality>>,
    over: Arc<AtomicBool>,
}

/// How often a waiting thread looks whether the quality has changed.
const LOOK: Duration = Duration::from_millis(20);
const PIECE: usize = 16 << 10;

impl Link {
    /// Carries connections that arrive at one port of the loopback to another one.
    pub fn start(from: u16, to: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", from))?;
        listener.set_nonblocking(true)?;
        let link = Self {
            quality: Arc::new(Mutex::new(Quality::Good)),
            over: Arc::default(),
        };
        let (quality, over) = (Arc::clone(&link.quality), Arc::clone(&link.over));
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((client, _)) => carry(client, to, &quality, &over),
                    Err(_) => thread::sleep(LOOK),
                }
            }
        });
        Ok(link)
    }

    /// Changes how it treats all connections, open ones, too.
    pub fn set(&self, quality: Quality) {
        *self.quality.lock().unwrap_or_else(PoisonError::into_inner) = quality;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn now(quality: &Mutex<Quality>) -> Quality {
    *quality.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread for each direction. A broker that does not answer looks to the client as it would without the link.
fn carry(client: TcpStream, to: u16, quality: &Arc<Mutex<Quality>>, over: &Arc<AtomicBool>) {
    if now(quality) == Quality::Cut {
        return;
    }
    let Ok(broker) = TcpStream::connect(("127.0.0.1", to)) else {
        return;
    };
    let clones = (client.try_clone(), broker.try_clone());
    let (Ok(client_again), Ok(broker_again)) = clones else {
        return;
    };
    for (from, to) in [(client, broker), (broker_again, client_again)] {
        let (quality, over) = (Arc::clone(quality), Arc::clone(over));
        thread::spawn(move || pump(from, to, &quality, &over));
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, quality: &Mutex<Quality>, over: &AtomicBool) {
    let mut piece = vec![0; PIECE];
    let _ = from.set_nonblocking(false);
    let _ = from.set_read_timeout(Some(LOOK));
    while !over.load(Ordering::Relaxed) {
        match now(quality) {
            Quality::Cut => break,
            Quality::Stalled => {
                thread::sleep(LOOK);
                continue;
            }
            Quality::Good | Quality::Slow(_) | Quality::Narrow(_) => {}
        }
        let length = match from.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                continue;
            }
            Err(_) => break,
        };
        match now(quality) {
            Quality::Slow(delay) => thread::sleep(delay),
            Quality::Narrow(rate) => {
                thread::sleep(Duration::from_secs_f64(length as f64 / f64::from(rate)));
            }
            Quality::Good | Quality::Stalled | Quality::Cut => {}
        }
        if to.write_all(&piece[..length]).is_err() {
            break;
        }
    }
    // Ends the other direction as well.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
