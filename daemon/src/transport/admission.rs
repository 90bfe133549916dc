//! Every request of every listener passes here before anything reads it.

use std::{convert::Infallible, future::Future, sync::Arc};

use axum::{
    Router,
    body::Body,
    http::{Request, Response, StatusCode},
};
use tonic::{Status, codegen::Service as _};

use super::{
    bodies::{Arriving, Leaving},
    connection::Connection,
    ticket::TicketKind,
    uploads::Uploads,
};
use crate::error_text;

/// What a listener speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// gRPC over HTTP/2.
    Grpc,
    /// HTTP/1.1.
    Http,
}

/// Methods of gRPC whose clients send messages for as long as they like.
const STREAMS: [&str; 2] = ["/PredictStream", "/ServerReflectionInfo"];

/// Requests that are scored, and wait in the queue for that. Others are always taken: an operator must be able to ask an
/// overloaded daemon how it is.
const SCORED: [&str; 4] = ["/Predict", "/PredictStream", "/ModelInfer", "/infer"];

/// The requests of one connection.
pub(super) struct Admission {
    pub(super) router: Router,
    pub(super) protocol: Protocol,
    pub(super) connection: Arc<Connection>,
    pub(super) uploads: Arc<Uploads>,
}

impl Admission {
    /// Counts the request, refuses it before it is read if too many wait, and answers it.
    pub(super) fn answer<B>(
        &self,
        request: Request<B>,
    ) -> impl Future<Output = Result<Response<Leaving>, Infallible>> + Send + use<B>
    where
        B: http_body::Body<Data = axum::body::Bytes> + Send + Unpin + 'static,
        B::Error: Into<axum::BoxError>,
    {
        let path = request.uri().path();
        let is_one_of = |names: &[&str]| names.iter().any(|name| path.ends_with(name));
        let kind = if self.protocol == Protocol::Grpc && is_one_of(&STREAMS) {
            TicketKind::Stream
        } else {
            TicketKind::Whole
        };
        let refused = is_one_of(&SCORED).then(|| self.uploads.refuse()).flatten();
        let ticket = self.uploads.open(&self.connection, kind);
        if request.body().is_end_stream() {
            ticket.complete();
        }
        let protocol = self.protocol;
        let answer = match refused {
            Some(status) => Err(refusal(protocol, &status)),
            None => {
                let body = |body| Body::new(Arriving::new(body, Arc::clone(&ticket)));
                Ok(self.router.clone().call(request.map(body)))
            }
        };
        async move {
            let answer = match answer {
                Ok(answer) => answer.await?,
                Err(refused) => refused,
            };
            if kind == TicketKind::Whole {
                ticket.answered();
            }
            Ok(answer.map(|body| Leaving::new(body, ticket)))
        }
    }
}

fn refusal(protocol: Protocol, status: &Status) -> Response<Body> {
    match protocol {
        Protocol::Grpc => status.clone().into_http(),
        Protocol::Http => error_text::refusal(StatusCode::TOO_MANY_REQUESTS, status.message()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::{body::Bytes, routing::post};
    use tokio::{sync::Notify, time::timeout};
    use tonic::Code;

    use super::*;
    use crate::{config::RequestSettings, serving::fixture};

    const PATH: &str = "/ostar.v1.Inference/Predict";

    /// Reads requests whole and answers them when it is told to.
    fn admission(release: Arc<Notify>) -> Admission {
        let held = move |body: Bytes| async move {
            drop(body);
            release.notified().await;
        };
        let settings = RequestSettings {
            queue_bytes: 10,
            upload_bytes: 20,
            ..RequestSettings::default()
        };
        Admission {
            router: Router::new().route(PATH, post(held)),
            protocol: Protocol::Grpc,
            connection: Connection::new(Protocol::Grpc),
            uploads: Uploads::new(&settings, fixture::daemon().services.metrics.clone()),
        }
    }

    fn request(body: Body) -> Request<Body> {
        Request::post(PATH).body(body).unwrap()
    }

    fn whole(bytes: usize) -> Request<Body> {
        request(Body::from("x".repeat(bytes)))
    }

    async fn reaches(admission: &Admission, sums: (usize, usize)) {
        let reached = async {
            while admission.uploads.sums() != sums {
                tokio::task::yield_now().await;
            }
        };
        let outcome = timeout(Duration::from_secs(10), reached).await;
        assert!(outcome.is_ok(), "{:?}", admission.uploads.sums());
    }

    fn code(answer: Result<Response<Leaving>, Infallible>) -> Option<Code> {
        let Ok(answer) = answer;
        Status::from_header_map(answer.headers()).map(|status| status.code())
    }

    #[tokio::test]
    async fn requests_are_refused_while_the_bytes_of_others_are_unanswered_and_taken_again_after() {
        let release = Arc::new(Notify::new());
        let admission = admission(release.clone());
        let first = tokio::spawn(admission.answer(whole(9)));
        reaches(&admission, (0, 9)).await;
        let second = tokio::spawn(admission.answer(whole(9)));
        reaches(&admission, (0, 18)).await;
        let refused = code(admission.answer(whole(1)).await);
        assert_eq!(refused, Some(Code::ResourceExhausted));

        release.notify_waiters();
        assert_eq!(code(first.await.unwrap()), None);
        assert_eq!(code(second.await.unwrap()), None);
        reaches(&admission, (0, 0)).await;
        let third = tokio::spawn(admission.answer(whole(9)));
        reaches(&admission, (0, 9)).await;
        // Its client goes away.
        third.abort();
        reaches(&admission, (0, 0)).await;
    }

    /// A body that stalls after its first bytes.
    fn stalled(bytes: usize) -> Request<Body> {
        let first = tokio_stream::once(Ok::<_, Infallible>(Bytes::from(vec![0; bytes])));
        let rest = tokio_stream::pending();
        request(Body::from_stream(tokio_stream::StreamExt::chain(
            first, rest,
        )))
    }

    #[tokio::test]
    async fn the_oldest_upload_gives_way_and_those_that_arrive_hold_nobody_back() {
        let release = Arc::new(Notify::new());
        let admission = admission(release.clone());
        let oldest = tokio::spawn(admission.answer(stalled(15)));
        reaches(&admission, (15, 0)).await;
        let younger = tokio::spawn(admission.answer(stalled(4)));
        reaches(&admission, (19, 0)).await;
        let honest = tokio::spawn(admission.answer(whole(9)));
        // 28 bytes have no room: the oldest gave way.
        reaches(&admission, (4, 9)).await;
        let cut = timeout(Duration::from_secs(10), oldest).await.unwrap();
        // The handler could not read its body.
        assert_eq!(cut.unwrap().unwrap().status(), StatusCode::BAD_REQUEST);
        assert!(!younger.is_finished());
        release.notify_waiters();
        assert_eq!(code(honest.await.unwrap()), None);
        reaches(&admission, (4, 0)).await;
        younger.abort();
        reaches(&admission, (0, 0)).await;
    }
}
