//! The event stream of one viewer.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::response::sse::Event;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio_stream::{Stream, StreamExt, once, wrappers::WatchStream};

/// Name and JSON of a server-sent event.
type Named = (&'static str, Arc<str>);

/// The events of one viewer. The stream ends when the daemon stops.
pub(super) struct Viewer {
    events: Pin<Box<dyn Stream<Item = Named> + Send>>,
    /// Frees the viewer's place when it is dropped.
    _place: OwnedSemaphorePermit,
}

impl Viewer {
    /// `hello` comes first, then the newest value of each feed whenever it has changed since the viewer last read.
    pub(super) fn new(
        hello: String,
        frames: watch::Receiver<Arc<str>>,
        pictures: watch::Receiver<Arc<str>>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let frames = WatchStream::from_changes(frames).map(|text| ("frame", text));
        let pictures = WatchStream::from_changes(pictures).map(|text| ("picture", text));
        let hello = once(("hello", Arc::from(hello)));
        Self {
            events: Box::pin(hello.chain(frames.merge(pictures))),
            _place: place,
        }
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Named>> {
        self.events.as_mut().poll_next(context)
    }
}

impl Stream for Viewer {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.poll(context);
        next.map(|next| next.map(|(name, text)| Ok(Event::default().event(name).data(text))))
    }
}
