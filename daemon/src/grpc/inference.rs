//! `ostar.v1.Inference`: predictions and the daemon's state.

use std::sync::Arc;

use ostar_engine::argmax;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming, async_trait};

use super::{errors::correct, wait};
use crate::{
    metrics::Method,
    proto::{
        ClassProbabilities, GetStateRequest, Mode, PredictRequest, PredictResponse, State,
        WatchStateRequest, inference_server::Inference,
    },
    serving::{Answer, Batcher, Refusal, Services},
    state::describe,
    status,
};

/// Answers of a stream that the client has not read yet: one is sent while the next is made.
const UNSENT: usize = 1;

#[derive(Clone)]
pub(super) struct InferenceService {
    pub(super) services: Arc<Services>,
    pub(super) batcher: Batcher,
    pub(super) max_rows: usize,
    pub(super) shows_ids: bool,
    /// Ends streams, which would otherwise keep their connections open for ever.
    pub(super) stopped: watch::Receiver<bool>,
}

#[async_trait]
impl Inference for InferenceService {
    type PredictStreamStream = ReceiverStream<Result<PredictResponse, Status>>;
    type WatchStateStream = ReceiverStream<Result<State, Status>>;

    async fn predict(
        &self,
        request: Request<PredictRequest>,
    ) -> Result<Response<PredictResponse>, Status> {
        let answer = self.answer(Method::Predict, request.into_inner()).await;
        answer.map(Response::new)
    }

    async fn predict_stream(
        &self,
        requests: Request<Streaming<PredictRequest>>,
    ) -> Result<Response<Self::PredictStreamStream>, Status> {
        let (answers, stream) = mpsc::channel(UNSENT);
        tokio::spawn(self.clone().answer_stream(requests.into_inner(), answers));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn get_state(&self, _: Request<GetStateRequest>) -> Result<Response<State>, Status> {
        let timer = self.services.metrics.serving.start(Method::GetState);
        let state = self.state(&self.services.status.borrow());
        timer.finish(Code::Ok);
        Ok(Response::new(state))
    }

    async fn watch_state(
        &self,
        _: Request<WatchStateRequest>,
    ) -> Result<Response<Self::WatchStateStream>, Status> {
        let (states, stream) = mpsc::channel(UNSENT);
        tokio::spawn(self.clone().send_states(states));
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

impl InferenceService {
    /// What this listener's callers may know.
    fn state(&self, status: &status::Status) -> State {
        let mut state = describe(&self.services, status, self.shows_ids);
        if !self.shows_ids {
            // Reasons hold addresses and paths. `/state` has them, for those who scrape.
            let reasons = state.conditions.values_mut();
            reasons.for_each(|reason| *reason = "ask with a token to see why".to_owned());
        }
        state
    }

    async fn answer(
        &self,
        method: Method,
        request: PredictRequest,
    ) -> Result<PredictResponse, Status> {
        let timer = self.services.metrics.serving.start(method);
        let outcome = self.predict_rows(request).await;
        timer.finish(outcome.as_ref().err().map_or(Code::Ok, Status::code));
        outcome
    }

    async fn predict_rows(&self, request: PredictRequest) -> Result<PredictResponse, Status> {
        let mode = Mode::of_request(request.mode)?;
        let services = &self.services;
        // Consumes the inputs: they are larger than their rows, and must not be held while those wait.
        let rows = services.read_rows("inputs", request.inputs, self.max_rows)?;
        let answer = self.batcher.score(rows, mode, false).await?;
        Ok(self.respond(&answer))
    }

    fn respond(&self, answer: &Answer) -> PredictResponse {
        let classes = &self.services.description.classes;
        let rows = answer.probabilities.chunks_exact(classes.len());
        let predictions = rows.map(|probabilities| {
            let class = argmax(probabilities);
            ClassProbabilities {
                probabilities: probabilities.to_vec(),
                class: class as u32,
                class_name: classes[class].clone(),
            }
        });
        PredictResponse {
            predictions: predictions.collect(),
            version: Some(answer.version.into()),
            mode: Mode::from(answer.mode).into(),
        }
    }

    /// Answers one request after the other. HTTP/2 flow control slows down a client that sends faster.
    async fn answer_stream(
        mut self,
        mut requests: Streaming<PredictRequest>,
        answers: mpsc::Sender<Result<PredictResponse, Status>>,
    ) {
        loop {
            let request = tokio::select! {
                // Checked first, or a busy client could keep the daemon from stopping. Requests that were read are answered.
                biased;
                () = wait(&mut self.stopped) => {
                    let _ = answers.send(Err(Refusal::Stopping.into())).await;
                    return;
                }
                request = requests.message() => request,
            };
            let answer = match request {
                Ok(Some(request)) => self.answer(Method::PredictStream, request).await,
                // The client has no more requests, or has gone.
                Ok(None) => return,
                // It cannot be read, or was cut.
                Err(status) => Err(status),
            };
            let last = answer.is_err();
            if answers.send(answer.map_err(correct)).await.is_err() || last {
                return;
            }
        }
    }

    async fn send_states(mut self, states: mpsc::Sender<Result<State, Status>>) {
        let services = self.services.clone();
        let timer = services.metrics.serving.start(Method::WatchState);
        let mut status = services.status.clone();
        let code = loop {
            let state = self.state(&status.borrow_and_update());
            if states.send(Ok(state)).await.is_err() {
                break Code::Cancelled;
            }
            tokio::select! {
                changed = status.changed() => if changed.is_err() { break Code::Ok },
                () = wait(&mut self.stopped) => break Code::Ok,
                () = states.closed() => break Code::Cancelled,
            }
        };
        timer.finish(code);
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let text = refusal.to_string();
        match refusal {
            Refusal::QueueFull { .. } | Refusal::WaitedTooLong { .. } => {
                Self::resource_exhausted(text)
            }
            Refusal::Stopping => Self::unavailable(text),
            Refusal::Failed(_) => Self::internal(text),
        }
    }
}
