//! `ostar.v1.Control`: passes orders on to the process.

use std::sync::Arc;

use tonic::{Code, Request, Response, Status, async_trait};
use tracing::info;

use crate::{
    control::Order,
    metrics::Method,
    proto::{
        CheckpointRequest, ControlResponse, Mode, PauseRequest, ReadOnRequest, ResumeRequest,
        RollbackRequest, SetModeRequest, control_server::Control,
    },
    serving::Services,
};

type Answer = Result<Response<ControlResponse>, Status>;

pub(super) struct ControlService {
    pub(super) services: Arc<Services>,
}

impl ControlService {
    async fn give(&self, order: Result<Order, Status>) -> Answer {
        let timer = self.services.metrics.serving.start(Method::Control);
        let outcome = match order {
            Err(status) => Err(status),
            Ok(order) => {
                info!(?order, "received an order over gRPC");
                let given = self.services.controller.give(order).await;
                given.map_err(Status::failed_precondition)
            }
        };
        timer.finish(outcome.as_ref().err().map_or(Code::Ok, Status::code));
        outcome.map(|message| Response::new(ControlResponse { message }))
    }
}

#[async_trait]
impl Control for ControlService {
    async fn pause(&self, _: Request<PauseRequest>) -> Answer {
        self.give(Ok(Order::Pause)).await
    }

    async fn resume(&self, _: Request<ResumeRequest>) -> Answer {
        self.give(Ok(Order::Resume)).await
    }

    async fn read_on(&self, _: Request<ReadOnRequest>) -> Answer {
        self.give(Ok(Order::ReadOn)).await
    }

    async fn checkpoint(&self, _: Request<CheckpointRequest>) -> Answer {
        self.give(Ok(Order::Checkpoint)).await
    }

    async fn rollback(&self, _: Request<RollbackRequest>) -> Answer {
        self.give(Ok(Order::Rollback)).await
    }

    async fn set_mode(&self, request: Request<SetModeRequest>) -> Answer {
        let mode = Mode::of_request(request.into_inner().mode);
        let missing =
            || Status::invalid_argument("mode: is missing, expected the mode to serve in");
        let mode = mode.and_then(|mode| mode.ok_or_else(missing));
        self.give(mode.map(|mode| Order::Mode { mode })).await
    }
}
