//! The bodies of a request and of its answer, which tell the ticket how far they are.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use tonic::Status;

use super::{
    framing::Messages,
    ticket::{Ticket, TicketKind, status},
};

/// A request's body.
pub(super) struct Arriving<B = Incoming> {
    body: B,
    messages: Messages,
    ticket: Arc<Ticket>,
}

/// An answer's body.
pub(super) struct Leaving {
    body: Body,
    ticket: Arc<Ticket>,
}

impl<B> Arriving<B> {
    pub(super) fn new(body: B, ticket: Arc<Ticket>) -> Self {
        Self {
            body,
            messages: Messages::default(),
            ticket,
        }
    }
}

impl<B> http_body::Body for Arriving<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<axum::BoxError>,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if let Some(reason) = this.ticket.poll_cut(context) {
            return Poll::Ready(Some(Err(status(reason))));
        }
        if this.ticket.kind == TicketKind::Stream {
            this.ticket.asked_for_more();
        }
        let frame = match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(frame) => frame,
        };
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    let complete = match this.ticket.kind {
                        TicketKind::Whole => 0,
                        TicketKind::Stream => this.messages.take(data),
                    };
                    this.ticket.arrived(data.len(), complete);
                }
                if this.body.is_end_stream() {
                    this.ticket.complete();
                }
            }
            Some(Err(_)) | None => this.ticket.complete(),
        }
        Poll::Ready(frame.map(|frame| frame.map_err(|error| Status::from_error(error.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Arriving<B> {
    fn drop(&mut self) {
        // Whoever read it needs no more of it. A whole body counts until its answer.
        match self.ticket.kind {
            TicketKind::Whole => self.ticket.complete(),
            TicketKind::Stream => self.ticket.answered(),
        }
    }
}

impl Leaving {
    pub(super) fn new(body: Body, ticket: Arc<Ticket>) -> Self {
        Self { body, ticket }
    }
}

impl http_body::Body for Leaving {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // The server asks for more once the client has taken what there was.
        let frame = Pin::new(&mut self.body).poll_frame(context);
        self.ticket
            .sending(matches!(frame, Poll::Ready(Some(Ok(_)))));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
