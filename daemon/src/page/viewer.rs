//! The event stream of one viewer.

use std::{pin::Pin, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio_stream::{Stream, StreamExt, once, wrappers::WatchStream};

/// The events of one viewer, each by its name and as JSON. Ends when the daemon stops.
pub(super) type Viewer = Pin<Box<dyn Stream<Item = (&'static str, Arc<str>)> + Send>>;

/// `hello` comes first, then the newest value of each feed whenever it has changed since the viewer last read. Holds the
/// viewer's place until it is dropped.
pub(super) fn events(
    hello: String,
    frames: watch::Receiver<Arc<str>>,
    pictures: watch::Receiver<Arc<str>>,
    place: OwnedSemaphorePermit,
) -> Viewer {
    let frames = WatchStream::from_changes(frames).map(|text| ("frame", text));
    let pictures = WatchStream::from_changes(pictures).map(|text| ("picture", text));
    let hello = once(("hello", Arc::from(hello)));
    Box::pin(hello.chain(frames.merge(pictures)).map(move |event| {
        let _held = &place;
        event
    }))
}
