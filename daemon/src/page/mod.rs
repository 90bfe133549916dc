//! The live page at `/`: what moved, how sure that is, what is served and why.
//!
//! Once a second a [`Frame`] is made of what the daemon tells its other interfaces. The last hour of it is kept in
//! a ring of bounded size, and viewers get frames by server-sent events. Each viewer has room for one waiting frame:
//! one that does not read loses frames, and nothing waits for it.

mod about;
mod assets;
mod columns;
mod frame;
mod history;
mod orders;
mod picture;
mod rates;
mod readings;
mod routes;
#[cfg(test)]
mod tests;
mod viewer;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use ostar_model::learner::Picture;
use serde::Serialize;
use tokio::{
    sync::{Semaphore, watch},
    time::{MissedTickBehavior, interval},
};
use tracing::error;

pub(crate) use self::routes::routes;
use self::{
    about::About, columns::Column, frame::Frame, history::History, rates::Rates,
    readings::Readings, viewer::Viewer,
};
use crate::serving::Services;

/// How often the page changes.
const EVERY: Duration = Duration::from_secs(1);
/// Viewers at a time: each holds a connection, and may hold a frame.
const VIEWERS: usize = 64;

/// What is shown, and to whom.
pub(crate) struct Page {
    services: Arc<Services>,
    about: About,
    columns: Vec<Column>,
    shown: Mutex<Shown>,
    places: Arc<Semaphore>,
}

struct Shown {
    rates: Rates,
    history: History,
    newest: Option<Frame>,
    picture: Option<Arc<Picture>>,
    /// `None` when the daemon stops: then the viewers' streams end.
    feeds: Option<Feeds>,
}

/// What changes, as viewers get it. A watch holds the newest value only: whoever is slow misses the others.
struct Feeds {
    frames: watch::Sender<Arc<str>>,
    pictures: watch::Sender<Arc<str>>,
}

/// What a viewer gets first.
#[derive(Serialize)]
struct Hello<'a> {
    about: &'a About,
    history: &'a History,
    frame: Option<&'a Frame>,
    picture: Option<picture::Points<'a>>,
}

/// What a viewer gets every second: a frame, and its line of the history.
#[derive(Serialize)]
struct Tick<'a> {
    #[serde(flatten)]
    frame: &'a Frame,
    values: &'a [f32],
}

/// Why somebody cannot be a viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum NoPlace {
    #[error("{VIEWERS} viewers look at this page already, close one of them")]
    Full,
    #[error("the daemon is stopping")]
    Stopping,
}

// === impl Page ===

impl Page {
    pub(crate) fn new(services: Arc<Services>) -> Arc<Self> {
        let about = About::new(&services);
        let columns = Column::all(about.classes.len());
        let nothing = || watch::Sender::new(Arc::from(""));
        let shown = Shown {
            rates: Rates::default(),
            history: History::new(&columns),
            newest: None,
            picture: None,
            feeds: Some(Feeds {
                frames: nothing(),
                pictures: nothing(),
            }),
        };
        Arc::new(Self {
            services,
            about,
            columns,
            shown: Mutex::new(shown),
            places: Arc::new(Semaphore::new(VIEWERS)),
        })
    }

    /// Looks at the daemon every second, until it stops.
    pub(crate) async fn follow(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.look(Instant::now()),
                // An error says that whoever could have stopped it is gone: the same.
                _ = stopped.wait_for(|stopped| *stopped) => break,
            }
        }
        self.shown().feeds = None;
    }

    /// Takes a frame into the history, and to the viewers if there are any.
    fn look(&self, now: Instant) {
        let readings = Readings::of(&self.services.metrics);
        let status = self.services.status.borrow().clone();
        let mut shown = self.shown();
        let rates = shown.rates.observe(now, &readings);
        let frame = Frame::new(&self.services, &self.about, &status, &readings, rates);
        let values = self.columns.iter().map(|column| column.of(&frame));
        let values: Box<[f32]> = values.collect();
        if let Some(feeds) = &shown.feeds {
            let (frame, values) = (&frame, &values);
            send(&feeds.frames, || to_json(&Tick { frame, values }));
        }
        shown.history.push(frame.time_ms, values);
        shown.newest = Some(frame);
        if let Some(picture) = status.picture
            && !shown
                .picture
                .as_ref()
                .is_some_and(|old| Arc::ptr_eq(old, &picture))
        {
            if let Some(feeds) = &shown.feeds {
                send(&feeds.pictures, || to_json(&picture::points(&picture)));
            }
            shown.picture = Some(picture);
        }
    }

    /// All that is known now, and then what changes.
    fn view(&self) -> Result<Viewer, NoPlace> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| NoPlace::Full)?;
        let shown = self.shown();
        let feeds = shown.feeds.as_ref().ok_or(NoPlace::Stopping)?;
        let hello = Hello {
            about: &self.about,
            history: &shown.history,
            frame: shown.newest.as_ref(),
            picture: shown.picture.as_deref().map(picture::points),
        };
        Ok(Viewer::new(
            to_json(&hello),
            feeds.frames.subscribe(),
            feeds.pictures.subscribe(),
            place,
        ))
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nothing is written for nobody.
fn send(feed: &watch::Sender<Arc<str>>, text: impl FnOnce() -> String) {
    if feed.receiver_count() > 0 {
        feed.send_replace(text().into());
    }
}

fn to_json(value: &impl Serialize) -> String {
    // Only maps with keys that are no texts fail, and there are none.
    serde_json::to_string(value).unwrap_or_else(|problem| {
        error!(%problem, "the page cannot be written");
        "{}".to_owned()
    })
}
