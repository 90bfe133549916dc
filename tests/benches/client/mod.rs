//! A minimal client of `ostar.v1.Inference`.

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

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Predicted {
    /// The response had a prediction for every row.
    Answered,
    /// The daemon answered RESOURCE_EXHAUSTED.
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
    pub(crate) async fn connect(address: &str) -> Result<Self> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
        Ok(Self(endpoint.connect().await?))
    }

    /// Sends one `Predict` call with all rows.
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
