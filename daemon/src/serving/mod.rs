//! What every listener answers from: the daemon's shared state, the batches that requests are scored in, TLS and the token.

mod batcher;
#[cfg(test)]
pub(crate) mod fixture;
mod queue;
pub(crate) mod token;

use std::sync::Arc;

use ostar_bundle::Description;
use ostar_connectors::{
    event::{Decoder, InputRows},
    proto::Input,
};
use tokio::sync::watch;
use tonic::Status;

pub(crate) use self::{
    batcher::{Answer, Batcher, Refusal, Workers},
    token::{Role, Tokens},
};
use crate::{
    config::Config, control::Controller, current::Current, health::Health, metrics::Metrics, status,
};

/// What requests are answered from. Shared by all listeners.
pub(crate) struct Services {
    pub(crate) current: Arc<Current>,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) status: watch::Receiver<status::Status>,
    pub(crate) controller: Controller,
    pub(crate) description: Description,
    /// Checks the inputs of requests.
    pub(crate) decoder: Decoder,
    /// The configuration in effect, which the page shows.
    pub(crate) config: Config,
}

impl Services {
    /// Checks the inputs of a request. `name` is their name in the protocol, for error texts.
    pub(crate) fn read_rows(
        &self,
        name: &str,
        inputs: Vec<Input>,
        max_rows: usize,
    ) -> Result<InputRows, Status> {
        let count = inputs.len();
        if count == 0 {
            let problem = format!("{name}: is empty, expected at least one");
            return Err(Status::invalid_argument(problem));
        }
        if count > max_rows {
            let problem =
                format!("{name}: has {count}, expected at most {max_rows} (requests.max_rows)");
            return Err(Status::invalid_argument(problem));
        }
        let mut rows = self.no_rows();
        for (number, input) in inputs.into_iter().enumerate() {
            let problem = |reject| Status::invalid_argument(format!("{name}[{number}]: {reject}"));
            let pushed = self.decoder.push_input(input, &mut rows);
            pushed.map_err(problem)?;
        }
        Ok(rows)
    }

    /// Empty rows of the bundle's kind.
    pub(crate) fn no_rows(&self) -> InputRows {
        InputRows::new(&self.description.input, self.classes())
    }

    pub(crate) fn classes(&self) -> usize {
        self.description.classes.len()
    }
}
