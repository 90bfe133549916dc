//! The Open Inference Protocol, version 2, over gRPC and REST: clients of Triton, KServe and MLServer work unchanged.
//!
//! All errors are [`Status`]es. REST maps each to an HTTP status, with the message as `error`.

#[cfg(test)]
mod fuzz;
mod grpc;
mod inputs;
mod outputs;
mod rest;
mod tensor;

use std::sync::Arc;

use tonic::{Code, Status};

use self::{outputs::Output, tensor::Tensor};
pub(crate) use self::{
    proto::grpc_inference_service_server::GrpcInferenceServiceServer, rest::router,
};
use crate::{
    config::RequestSettings,
    current::{ServingMode, Version},
    metrics::Method,
    serving::{Batcher, Services},
};

/// Generated from `daemon/proto/inference`.
#[expect(
    unreachable_pub,
    clippy::enum_variant_names,
    reason = "generated, with the names of the specification"
)]
pub(crate) mod proto {
    tonic::include_proto!("inference");
}

/// Full name of the gRPC service.
pub(crate) const SERVICE: &str = proto::grpc_inference_service_server::SERVICE_NAME;

/// Extensions of the protocol, as the server's metadata lists them.
const EXTENSIONS: [&str; 1] = ["binary_tensor_data"];

/// `platform` of the model's metadata.
const PLATFORM: &str = "ostar_bundle";

/// Answers requests of the protocol. Cheap to clone.
#[derive(Clone)]
pub(crate) struct OpenInference {
    services: Arc<Services>,
    batcher: Batcher,
    max_rows: usize,
    max_bytes: usize,
}

/// A ModelInfer request, over gRPC or REST.
struct InferRequest {
    model: String,
    /// Empty for the version that is served.
    version: String,
    mode: Option<ServingMode>,
    inputs: Vec<Tensor>,
    outputs: Vec<Output>,
}

/// The answer to an [`InferRequest`].
struct Inferred {
    model: String,
    version: String,
    mode: &'static str,
    outputs: Vec<Tensor>,
}

impl OpenInference {
    pub(crate) fn new(services: Arc<Services>, batcher: Batcher, limits: &RequestSettings) -> Self {
        Self {
            services,
            batcher,
            max_rows: limits.max_rows,
            max_bytes: limits.max_bytes,
        }
    }

    fn server_metadata(&self) -> proto::ServerMetadataResponse {
        proto::ServerMetadataResponse {
            name: "ostard".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            extensions: EXTENSIONS.map(str::to_owned).to_vec(),
        }
    }

    fn model_metadata(
        &self,
        model: &str,
        version: &str,
    ) -> Result<proto::ModelMetadataResponse, Status> {
        let served = self.find(model, version)?;
        let description = &self.services.description;
        Ok(proto::ModelMetadataResponse {
            name: description.name.clone(),
            versions: vec![served],
            platform: PLATFORM.into(),
            inputs: inputs::metadata(description),
            outputs: Output::metadata(description),
        })
    }

    fn is_live(&self) -> bool {
        self.services.health.liveness().is_ok()
    }

    fn is_ready(&self) -> bool {
        self.services.health.readiness().is_ok()
    }

    fn is_model_ready(&self, model: &str, version: &str) -> Result<bool, Status> {
        self.find(model, version)?;
        Ok(self.is_ready())
    }

    /// Answers a request and counts it, even if it could not be read.
    async fn infer(&self, request: Result<InferRequest, Status>) -> Result<Inferred, Status> {
        let timer = self.services.metrics.serving.start(Method::ModelInfer);
        let outcome = match request {
            Ok(request) => self.predict(request).await,
            Err(problem) => Err(problem),
        };
        timer.finish(outcome.as_ref().err().map_or(Code::Ok, Status::code));
        outcome
    }

    async fn predict(&self, request: InferRequest) -> Result<Inferred, Status> {
        self.check_name(&request.model)?;
        let inputs = inputs::read(&self.services.description, request.inputs)?;
        let rows = self.services.read_rows("rows", inputs, self.max_rows)?;
        let mut outputs = request.outputs.iter();
        let all = outputs.any(|output| output.is_of_a_candidate());
        let answer = self.batcher.score(rows, request.mode, all).await?;
        // After scoring: only now is it known which version answered.
        check_version(&request.version, answer.version)?;
        let outputs = request.outputs.iter();
        Ok(Inferred {
            model: request.model,
            version: answer.version.to_string(),
            mode: answer.mode.name(),
            outputs: outputs
                .map(|output| output.tensor(&answer, &self.services))
                .collect(),
        })
    }

    /// The version that is served. Fails if the model or the version is another one.
    fn find(&self, model: &str, version: &str) -> Result<String, Status> {
        self.check_name(model)?;
        let served = self.services.current.load().version;
        check_version(version, served)?;
        Ok(served.to_string())
    }

    fn check_name(&self, model: &str) -> Result<(), Status> {
        let served = &self.services.description.name;
        if model == served {
            return Ok(());
        }
        Err(Status::not_found(format!(
            "model {model:?} is not served, expected {served:?}"
        )))
    }
}

fn check_version(wanted: &str, served: Version) -> Result<(), Status> {
    if wanted.is_empty() || wanted == served.to_string() {
        return Ok(());
    }
    Err(Status::not_found(format!(
        "version {wanted:?} is not served, expected \"{served}\" or none"
    )))
}

/// What has this name. `Err` lists all names.
fn find<T: Copy>(all: &[(&str, T)], name: &str) -> Result<T, String> {
    let found = all.iter().find(|(known, _)| *known == name);
    found.map(|(_, found)| *found).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|(known, _)| *known).collect();
        names.join(", ")
    })
}

/// Reads the parameter `mode`.
fn parse_mode(name: &str) -> Result<ServingMode, Status> {
    find(&ServingMode::NAMED, name).map_err(|names| {
        Status::invalid_argument(format!("parameters.mode: is {name:?}, expected {names}"))
    })
}

/// The outputs that were asked for; all if none were.
fn parse_outputs<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Result<Vec<Output>, Status> {
    match names.len() {
        0 => Ok(Output::NAMED.map(|(_, output)| output).to_vec()),
        _ => names.map(Output::parse).collect(),
    }
}
