//! Refuses requests before they are read, while too many bytes of other requests are unanswered.
//!
//! The queue of rows can refuse a request only after all of it has arrived, behind everything that was sent before it.
//! Under overload that takes longer than answering. Bytes are counted as they arrive, so that a client that sends slowly
//! takes no more room than it has sent.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use http_body::{Frame, SizeHint};
use prost::bytes::Bytes;
use tonic::{
    Status,
    body::Body,
    codegen::{BoxFuture, Service, http},
    server::NamedService,
};

use crate::metrics::{Metrics, RefusalReason};

/// Counts the unanswered bytes of all services behind it. Clones share the count.
#[derive(Clone)]
pub(crate) struct Admission {
    unanswered: Arc<AtomicUsize>,
    limit: usize,
    metrics: Arc<Metrics>,
}

/// A service behind an [`Admission`].
#[derive(Clone)]
pub(crate) struct Admitting<S> {
    service: S,
    admission: Admission,
}

/// Unanswered bytes of one request.
struct RequestBytes {
    unanswered: Arc<AtomicUsize>,
    /// [`ANSWERED`] once nothing is counted any more. For a stream that is at its first answer.
    bytes: AtomicUsize,
}

const ANSWERED: usize = usize::MAX;

/// A request's body that counts its bytes as they arrive.
struct Counted {
    body: Body,
    counter: Arc<RequestBytes>,
}

// === impl Admission ===

impl Admission {
    pub(crate) fn new(limit: usize, metrics: Arc<Metrics>) -> Self {
        Self {
            unanswered: Arc::default(),
            limit,
            metrics,
        }
    }

    pub(crate) fn before<S>(&self, service: S) -> Admitting<S> {
        Admitting {
            service,
            admission: self.clone(),
        }
    }

    fn refuse(&self) -> Option<Status> {
        if self.unanswered.load(Ordering::Relaxed) < self.limit {
            return None;
        }
        self.metrics.serving.refused(RefusalReason::QueueBytes);
        let limit = self.limit;
        Some(Status::resource_exhausted(format!(
            "too many requests: {limit} bytes are unanswered already (requests.queue_bytes)"
        )))
    }
}

// === impl Admitting ===

impl<S> Service<http::Request<Body>> for Admitting<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if let Some(status) = self.admission.refuse() {
            return Box::pin(async move { Ok(status.into_http()) });
        }
        let counter = Arc::new(RequestBytes {
            unanswered: Arc::clone(&self.admission.unanswered),
            bytes: AtomicUsize::new(0),
        });
        // Dropped with the future, too, if the client goes away.
        let answered = GiveBack(Arc::clone(&counter));
        let answer = self
            .service
            .call(request.map(|body| Body::new(Counted { body, counter })));
        Box::pin(async move {
            let answer = answer.await;
            drop(answered);
            answer
        })
    }
}

impl<S: NamedService> NamedService for Admitting<S> {
    const NAME: &'static str = S::NAME;
}

// === impl RequestBytes ===

impl RequestBytes {
    fn add(&self, bytes: usize) {
        let count = |counted| (counted != ANSWERED).then(|| counted + bytes);
        let order = Ordering::Relaxed;
        // The sum first: `GiveBack` may run at any moment, and the sum must never drop below 0.
        self.unanswered.fetch_add(bytes, order);
        if self.bytes.fetch_update(order, order, count).is_err() {
            self.unanswered.fetch_sub(bytes, order);
        }
    }
}

/// Takes a request's bytes off the sum when it is dropped.
struct GiveBack(Arc<RequestBytes>);

impl Drop for GiveBack {
    fn drop(&mut self) {
        let bytes = self.0.bytes.swap(ANSWERED, Ordering::Relaxed);
        self.0.unanswered.fetch_sub(bytes, Ordering::Relaxed);
    }
}

// === impl Counted ===

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.counter.add(data.len());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Duration};

    use http_body::Body as _;
    use tokio::{sync::Notify, time::timeout};
    use tonic::Code;

    use super::*;
    use crate::serving::fixture;

    /// Reads requests whole and answers them when it is told to.
    #[derive(Clone, Default)]
    struct Held(Arc<Notify>);

    impl Service<http::Request<Body>> for Held {
        type Response = http::Response<Body>;
        type Error = Infallible;
        type Future = BoxFuture<Self::Response, Infallible>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<Body>) -> Self::Future {
            let release = Arc::clone(&self.0);
            let mut body = request.into_body();
            Box::pin(async move {
                while poll_fn(|context| Pin::new(&mut body).poll_frame(context))
                    .await
                    .is_some()
                {}
                release.notified().await;
                Ok(http::Response::new(Body::empty()))
            })
        }
    }

    fn request(bytes: usize) -> http::Request<Body> {
        http::Request::new(Body::new("x".repeat(bytes)))
    }

    async fn reaches(admission: &Admission, bytes: usize) {
        let reached = async {
            while admission.unanswered.load(Ordering::Relaxed) != bytes {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(10), reached).await.unwrap();
    }

    fn code(answer: Result<http::Response<Body>, Infallible>) -> Option<Code> {
        let Ok(answer) = answer;
        Status::from_header_map(answer.headers()).map(|status| status.code())
    }

    #[tokio::test]
    async fn requests_are_refused_while_the_bytes_of_others_are_unanswered_and_taken_again_after() {
        let admission = Admission::new(10, fixture::daemon().services.metrics.clone());
        let held = Held::default();
        let mut service = admission.before(held.clone());
        let first = tokio::spawn(service.call(request(9)));
        reaches(&admission, 9).await;
        let second = tokio::spawn(service.call(request(9)));
        reaches(&admission, 18).await;
        let refused = code(service.call(request(1)).await);
        assert_eq!(refused, Some(Code::ResourceExhausted));

        held.0.notify_waiters();
        assert_eq!(code(first.await.unwrap()), None);
        assert_eq!(code(second.await.unwrap()), None);
        reaches(&admission, 0).await;
        let third = tokio::spawn(service.call(request(9)));
        reaches(&admission, 9).await;
        // Its client goes away.
        third.abort();
        reaches(&admission, 0).await;
    }
}
