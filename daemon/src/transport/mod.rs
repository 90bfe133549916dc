//! Connections of every listener: one accept loop, one set of limits, one count of bytes, whatever is spoken on top.
//!
//! - [`listener`] accepts, and cuts an idle connection when there are too many.
//! - [`connection`] is one connection: TLS, HTTP/1 or HTTP/2, and since when it owes the rest of something.
//! - [`stream`] and [`frames`] see the bytes that come in, and count HTTP/2 frames that are pure cost.
//! - [`ticket`] is one request; [`uploads`] adds up the bytes of all that are arriving or unanswered.
//! - [`tls`] holds the certificate, which may change.
//! - [`watchdog`] looks at all of them, and cuts those that have made no progress for too long.

mod admission;
mod bodies;
mod connection;
mod frames;
mod framing;
mod handles;
mod listener;
mod stream;
mod ticket;
mod tls;
mod uploads;
mod watchdog;

pub(crate) use self::{
    admission::Protocol,
    handles::usable_connections,
    listener::{Endpoint, serve},
    tls::{LOOK_EVERY, Tls},
    uploads::Uploads,
    watchdog::{Connections, watch},
};
