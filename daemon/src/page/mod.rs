//! The live page at `/`.
//!
//! Once a second it makes a [`Frame`] of the daemon's state. It keeps the figures of the last hour in a bounded ring and
//! sends each frame to the viewers as a server-sent event. Each viewer has room for one waiting frame: one that does not
//! read misses frames, and nothing waits for it.

mod about;
mod assets;
mod frame;
mod history;
mod orders;
mod picture;
mod rates;
mod routes;
#[cfg(test)]
mod tests;
mod viewer;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ostar_method::learner::Picture;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::{
    sync::{Semaphore, watch},
    time::{MissedTickBehavior, interval},
};
use tracing::error;

pub(crate) use self::routes::routes;
use self::{about::About, frame::Frame, history::History, rates::Rates, viewer::Viewer};
use crate::{serving::Services, state::describe};

const FRAME_EVERY: Duration = Duration::from_secs(1);
/// Most viewers at a time. Each holds a connection and at most one frame.
const VIEWERS: usize = 64;

/// The page's state and its viewers.
pub(crate) struct Page {
    services: Arc<Services>,
    /// Whether viewers may see ids of events: not if anybody may be a viewer.
    shows_ids: bool,
    about: About,
    state: Mutex<PageState>,
    places: Arc<Semaphore>,
}

/// Everything that a frame changes.
struct PageState {
    rates: Rates,
    history: History,
    newest: Option<Frame>,
    picture: Option<Arc<Picture>>,
    /// `None` once the daemon stops, which ends the viewers' streams.
    feeds: Option<Feeds>,
}

/// JSON for the viewers. A watch channel holds the newest value only: slow viewers miss the others.
struct Feeds {
    frames: watch::Sender<Arc<str>>,
    pictures: watch::Sender<Arc<str>>,
}

/// The first event of a viewer.
#[derive(Serialize)]
struct Hello<'a> {
    about: &'a About,
    history: &'a History,
    frame: Option<&'a Frame>,
    picture: Option<picture::Points<'a>>,
}

/// Why a viewer is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum NoPlace {
    #[error("{VIEWERS} viewers have this page open, which is the limit; close one of them")]
    Full,
    #[error("the daemon is stopping")]
    Stopping,
}

// === impl Page ===

impl Page {
    pub(crate) fn new(services: Arc<Services>, shows_ids: bool) -> Arc<Self> {
        let about = About::new(&services);
        let nothing = || watch::Sender::new(Arc::from(""));
        let state = PageState {
            rates: Rates::default(),
            history: History::new(about.columns.len()),
            newest: None,
            picture: None,
            feeds: Some(Feeds {
                frames: nothing(),
                pictures: nothing(),
            }),
        };
        Arc::new(Self {
            services,
            shows_ids,
            about,
            state: Mutex::new(state),
            places: Arc::new(Semaphore::new(VIEWERS)),
        })
    }

    /// Takes a frame every second, until the daemon stops.
    pub(crate) async fn follow(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        let mut ticks = interval(FRAME_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.take_frame(Instant::now()),
                // Fails if the sender is gone, which also means that the daemon stops.
                _ = stopped.wait_for(|stopped| *stopped) => break,
            }
        }
        self.state.lock().feeds = None;
    }

    /// Takes a frame, adds it to the history, and sends it to the viewers.
    fn take_frame(&self, now: Instant) {
        let (known, picture) = {
            let status = self.services.status.borrow();
            let known = describe(&self.services, &status, self.shows_ids);
            (known, status.picture.clone())
        };
        let mut state = self.state.lock();
        let rates = state.rates.observe(now, &known);
        let frame = Frame::new(known, &self.about, rates);
        if let Some(feeds) = &state.feeds {
            send(&feeds.frames, || to_json(&frame));
        }
        state.history.push(frame.time_ms(), frame.values.clone());
        state.newest = Some(frame);
        if let Some(picture) = picture
            && !state
                .picture
                .as_ref()
                .is_some_and(|old| Arc::ptr_eq(old, &picture))
        {
            if let Some(feeds) = &state.feeds {
                send(&feeds.pictures, || to_json(&picture::points(&picture)));
            }
            state.picture = Some(picture);
        }
    }

    /// A viewer that gets everything known now, and then what changes.
    fn view(&self) -> Result<Viewer, NoPlace> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| NoPlace::Full)?;
        let state = self.state.lock();
        let feeds = state.feeds.as_ref().ok_or(NoPlace::Stopping)?;
        let hello = Hello {
            about: &self.about,
            history: &state.history,
            frame: state.newest.as_ref(),
            picture: state.picture.as_deref().map(picture::points),
        };
        Ok(viewer::events(
            to_json(&hello),
            feeds.frames.subscribe(),
            feeds.pictures.subscribe(),
            place,
        ))
    }
}

/// Skips serialisation when nobody subscribes.
fn send(feed: &watch::Sender<Arc<str>>, text: impl FnOnce() -> String) {
    if feed.receiver_count() > 0 {
        feed.send_replace(text().into());
    }
}

fn to_json(value: &impl Serialize) -> String {
    // Fails only for maps whose keys are not strings. There are none.
    serde_json::to_string(value).unwrap_or_else(|problem| {
        error!(%problem, "cannot serialise the page");
        "{}".to_owned()
    })
}
