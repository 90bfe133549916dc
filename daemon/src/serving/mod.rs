//! What every listener answers from: the daemon's shared state, the batches that requests are scored in, TLS and the token.

mod batcher;
#[cfg(test)]
pub(crate) mod fixture;
mod queue;
mod tls;
mod token;

use std::sync::Arc;

use ostar_connectors::{event::InputRows, proto::Input};
use ostar_model::bundle::Description;
use tokio::sync::watch;
use tonic::Status;

pub(crate) use self::{
    batcher::{Answer, Batcher, Refusal, Workers},
    tls::Tls,
    token::TokenFile,
};
use crate::{
    config::Config, control::Controller, current::Current, health::Health, metrics::Metrics, status,
};

/// Checks an input of a request and appends it to the rows, or says what is wrong with it.
pub(crate) type ReadInput = dyn Fn(&Input, &mut InputRows) -> Result<(), String> + Send + Sync;

/// The parts of the daemon that requests reach.
pub(crate) struct Services {
    pub(crate) current: Arc<Current>,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) status: watch::Receiver<status::Status>,
    pub(crate) controller: Controller,
    /// Of the bundle.
    pub(crate) description: Description,
    pub(crate) read_input: Box<ReadInput>,
    /// What is in effect, for the page to show.
    pub(crate) config: Config,
}

impl Services {
    /// Checks the inputs of a request; `name` is what the client calls them.
    pub(crate) fn read_rows(
        &self,
        name: &str,
        inputs: &[Input],
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
        for (number, input) in inputs.iter().enumerate() {
            let problem =
                |problem| Status::invalid_argument(format!("{name}[{number}]: {problem}"));
            (self.read_input)(input, &mut rows).map_err(problem)?;
        }
        Ok(rows)
    }

    /// Rows of the bundle's kind, none yet.
    pub(crate) fn no_rows(&self) -> InputRows {
        InputRows::new(&self.description.input, self.classes())
    }

    pub(crate) fn classes(&self) -> usize {
        self.description.classes.len()
    }
}
