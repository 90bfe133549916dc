//! Just enough of an `ostar.v1.Inference` client.

use anyhow::{Result, ensure};
use ostar_connectors::proto::Input;
use ostar_tests::large;
use tonic::{
    Code, Request,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

/// A connection. Clones share it.
#[derive(Clone)]
pub(crate) struct Client(Channel);

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Predicted {
    /// It was scored.
    Answered,
    /// The daemon has too much to do.
    Refused,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PredictRequest {
    #[prost(message, repeated, tag = "1")]
    inputs: Vec<Input>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PredictResponse {
    #[prost(message, repeated, tag = "1")]
    predictions: Vec<ClassProbabilities>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ClassProbabilities {
    #[prost(float, repeated, tag = "1")]
    probabilities: Vec<f32>,
}

impl Client {
    /// Connects to host:port.
    pub(crate) async fn connect(address: &str) -> Result<Self> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
        Ok(Self(endpoint.connect().await?))
    }

    /// Asks for the probabilities of some rows.
    pub(crate) async fn predict(&self, rows: &[Vec<f32>]) -> Result<Predicted> {
        let inputs = rows.iter().map(|row| large::input(row)).collect();
        let mut grpc = Grpc::new(self.0.clone());
        grpc.ready().await?;
        let path = PathAndQuery::from_static("/ostar.v1.Inference/Predict");
        let codec = ProstCodec::<PredictRequest, PredictResponse>::default();
        let request = Request::new(PredictRequest { inputs });
        match grpc.unary(request, path, codec).await {
            Ok(answer) => {
                let count = answer.into_inner().predictions.len();
                ensure!(
                    count == rows.len(),
                    "{count} predictions for {} rows",
                    rows.len()
                );
                Ok(Predicted::Answered)
            }
            Err(status) if status.code() == Code::ResourceExhausted => Ok(Predicted::Refused),
            Err(status) => Err(status.into()),
        }
    }
}
