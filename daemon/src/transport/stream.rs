//! The bytes of a connection, above TLS: tells the connection what arrives and whether writing is blocked.

use std::{
    future::Future as _,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use super::connection::Connection;

/// Longest that a client which was told of the end may go on sending. Closed with unread bytes, the system would reset the
/// connection, and the client would see an error instead of the end, or lose answers that are still under way to it.
const LINGER: Duration = Duration::from_secs(1);

/// A stream that its connection watches.
pub(super) struct Watched<S> {
    stream: S,
    connection: Arc<Connection>,
    /// Until when what the client sends is read and ignored; set once nothing more is written.
    lingers: Option<Pin<Box<Sleep>>>,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, connection: Arc<Connection>) -> Self {
        Self {
            stream,
            connection,
            lingers: None,
        }
    }

    fn wrote<T>(&self, written: Poll<T>) -> Poll<T> {
        self.connection.blocked(written.is_pending());
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = read
            && let Err(reason) = self.connection.received(&buffer.filled()[before..])
        {
            return Poll::Ready(Err(io::Error::other(reason.name())));
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.wrote(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.lingers.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        }
        let lingers = this.lingers.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        let mut ignored = [0; 4096];
        // A client that sends without a pause is not waited for any longer than one that is silent.
        while lingers.as_mut().poll(context).is_pending() {
            let mut buffer = ReadBuf::new(&mut ignored);
            match ready!(Pin::new(&mut this.stream).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                // The client has closed its side, or is gone.
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
        time::{Instant, timeout},
    };

    use super::*;
    use crate::transport::admission::Protocol;

    async fn pair() -> (Watched<TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, server) = tokio::join!(client, listener.accept());
        let server = Watched::new(server.unwrap().0, Connection::new(Protocol::Http));
        (server, client.unwrap())
    }

    #[tokio::test]
    async fn a_client_that_still_sends_reads_the_answer_and_a_clean_end() {
        let (mut server, mut client) = pair().await;
        client.write_all(&[7; 20_000]).await.unwrap();
        let closing = tokio::spawn(async move {
            server.write_all(b"answer").await.unwrap();
            server.shutdown().await
        });
        let mut read = Vec::new();
        client.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"answer");
        // On a connection that was reset this fails.
        client.write_all(&[7; 20_000]).await.unwrap();
        drop(client);
        closing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_client_that_neither_sends_nor_closes_is_not_waited_for() {
        let (mut server, client) = pair().await;
        let begun = Instant::now();
        let closed = timeout(10 * LINGER, server.shutdown()).await;
        closed.expect("the end").unwrap();
        assert!(begun.elapsed() >= LINGER);
        drop(client);
    }
}
