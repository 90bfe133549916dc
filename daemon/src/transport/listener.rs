//! The accept loop that all listeners share.

use std::{io, net::TcpListener, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use axum::Router;
use hyper::{
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustix::net::sockopt;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{self, TcpStream},
    sync::watch,
    task::JoinSet,
    time::sleep,
};
use tracing::{debug, error, warn};

use super::{
    admission::{Admission, Protocol},
    stream::Watched,
    tls::Tls,
    uploads::Uploads,
    watchdog::{Admitted, Connections},
};
use crate::metrics::CutReason;

/// Interval of pings over HTTP/2 and of TCP probes, and how long an answer may take. Without them, watches of clients that
/// vanished would stay for ever.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(20);
/// Bytes that a client may send ahead of the reader, per request and per connection. The second one times
/// `connections.max` bounds what lies in buffers that nobody reads.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024;
/// The least that HTTP/1 takes for its buffer.
const LEAST_BUFFER: usize = 8 * 1024;
/// Pause after an error of `accept` that may pass, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a listener is started with.
pub(crate) struct Endpoint {
    pub(crate) protocol: Protocol,
    pub(crate) router: Router,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) uploads: Arc<Uploads>,
    /// True or closed once the listener is to stop.
    pub(crate) stopped: watch::Receiver<bool>,
}

/// Accepts until it is stopped, and then waits until every accepted request is answered. Fails if the port does.
pub(crate) async fn serve(port: TcpListener, endpoint: Endpoint) -> Result<()> {
    let port = net::TcpListener::from_std(port).context("cannot listen")?;
    let endpoint = Arc::new(endpoint);
    let mut stopped = endpoint.stopped.clone();
    // Connections hear of the end after the port is closed: a client reconnects as soon as it hears, and whoever still waits in
    // the port's queue when it closes is reset with the request that it has sent.
    let (end, ended) = watch::channel(false);
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            // Fails if the sender is gone, which also means that the daemon stops.
            _ = stopped.wait_for(|stopped| *stopped) => break,
            Some(ended) = tasks.join_next() => {
                report(ended);
                continue;
            }
            accepted = port.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => endpoint.admit(stream, &ended, &mut tasks),
            Err(problem) => endpoint.refused(problem).await?,
        }
    }
    let port = port.into_std().context("cannot close the port")?;
    while let Ok((stream, _)) = port.accept() {
        stream.set_nonblocking(true)?;
        endpoint.admit(TcpStream::from_std(stream)?, &ended, &mut tasks);
    }
    drop(port);
    end.send_replace(true);
    while let Some(ended) = tasks.join_next().await {
        report(ended);
    }
    Ok(())
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(problem) = ended
        && problem.is_panic()
    {
        error!(%problem, "a connection's task panicked");
    }
}

impl Endpoint {
    /// Starts the connection's task, if there is room for one more.
    fn admit(
        self: &Arc<Self>,
        stream: TcpStream,
        ended: &watch::Receiver<bool>,
        tasks: &mut JoinSet<()>,
    ) {
        if let Some(admitted) = self.connections.admit(self.protocol) {
            tasks.spawn(Arc::clone(self).connected(stream, admitted, ended.clone()));
        }
    }

    /// `Err` if the port will never accept again.
    async fn refused(&self, problem: io::Error) -> Result<()> {
        use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
        if matches!(
            problem.kind(),
            ConnectionAborted | ConnectionReset | Interrupted
        ) {
            return Ok(());
        }
        let number = problem
            .raw_os_error()
            .map(rustix::io::Errno::from_raw_os_error);
        use rustix::io::Errno;
        match number {
            Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                warn!(%problem, listener = self.connections.listener.name(), "cannot accept a connection");
                self.connections
                    .metrics
                    .serving
                    .cut_connection(CutReason::Handles);
                self.connections.give_way();
                sleep(ACCEPT_PAUSE).await;
                Ok(())
            }
            // Errors of the network, which accept passes on for the new connection.
            Some(
                Errno::NETDOWN
                | Errno::PROTO
                | Errno::NOPROTOOPT
                | Errno::HOSTDOWN
                | Errno::NONET
                | Errno::HOSTUNREACH
                | Errno::OPNOTSUPP
                | Errno::NETUNREACH
                | Errno::PERM,
            ) => Ok(()),
            _ => Err(problem).context("the port failed"),
        }
    }

    async fn connected(
        self: Arc<Self>,
        stream: TcpStream,
        admitted: Admitted,
        ended: watch::Receiver<bool>,
    ) {
        // Best effort: a client that is gone already is noticed at the first read.
        let _ = stream.set_nodelay(true);
        let _ = sockopt::set_socket_keepalive(&stream, true);
        let _ = sockopt::set_tcp_keepidle(&stream, KEEP_ALIVE);
        let _ = sockopt::set_tcp_keepintvl(&stream, KEEP_ALIVE_ANSWER / 4);
        let Some(tls) = &self.tls else {
            return self.speak(stream, &admitted, ended).await;
        };
        let handshake = tls.acceptor(self.protocol).accept(stream);
        let stream = tokio::select! {
            stream = handshake => stream,
            // The watchdog gives it as long as a header.
            () = admitted.connection.wait_for_cut() => return,
        };
        match stream {
            Ok(stream) => self.speak(stream, &admitted, ended).await,
            Err(problem) => {
                debug!(%problem, "TLS handshake failed");
                admitted.connection.cut(CutReason::Handshake);
            }
        }
    }

    async fn speak<S>(&self, stream: S, admitted: &Admitted, ended: watch::Receiver<bool>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let connection = &admitted.connection;
        let stream = TokioIo::new(Watched::new(stream, Arc::clone(connection)));
        let admission = Admission {
            router: self.router.clone(),
            protocol: self.protocol,
            connection: Arc::clone(connection),
            uploads: Arc::clone(&self.uploads),
        };
        let service = service_fn(move |request| admission.answer(request));
        match self.protocol {
            Protocol::Grpc => {
                let server = self.http2().serve_connection(stream, service);
                connection.drive(server, ended).await;
            }
            Protocol::Http => {
                let server = self.http1().serve_connection(stream, service);
                connection.drive(server, ended).await;
            }
        }
    }

    fn http2(&self) -> http2::Builder<TokioExecutor> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.connections.settings.max_streams)
            .max_header_list_size(self.connections.settings.max_header_bytes)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_ANSWER);
        builder
    }

    fn http1(&self) -> http1::Builder {
        let header = self.connections.settings.max_header_bytes as usize;
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            // The watchdog tells a slow header from an idle connection; this one does not.
            .header_read_timeout(None)
            .max_header_size(header)
            .max_buf_size(header.max(LEAST_BUFFER));
        builder
    }
}
