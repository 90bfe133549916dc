//! The Open Inference Protocol over gRPC.

use tonic::transport::Channel;

use crate::{
    open_inference::proto::{
        InferParameter, InferTensorContents, ModelInferRequest, ModelInferResponse,
        ModelMetadataRequest, ModelReadyRequest, ServerLiveRequest, ServerMetadataRequest,
        ServerReadyRequest,
        grpc_inference_service_client::GrpcInferenceServiceClient,
        infer_parameter::ParameterChoice,
        model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
    },
    proto::{Mode, inference_client::InferenceClient},
    servers::{Servers, serve},
    serving::fixture::{connect, daemon, request, settings},
};

/// Two rows of the fixture's model: ham, spam.
const ROWS: [f32; 8] = [-1.0, -1.0, -1.0, -1.0, 1.0, 1.0, 1.0, 1.0];

pub(super) type Client = GrpcInferenceServiceClient<Channel>;

async fn served() -> (Servers, Client) {
    let running = serve(daemon().services, &settings()).await.unwrap();
    let client = Client::new(connect(running.grpc_address).await);
    (running, client)
}

fn tensor(datatype: &str, shape: &[i64]) -> InferInputTensor {
    InferInputTensor {
        name: "features".into(),
        datatype: datatype.into(),
        shape: shape.to_vec(),
        ..InferInputTensor::default()
    }
}

/// In the field of its type.
fn typed() -> ModelInferRequest {
    let mut input = tensor("FP32", &[2, 4]);
    input.contents = Some(InferTensorContents {
        fp32_contents: ROWS.to_vec(),
        ..InferTensorContents::default()
    });
    ModelInferRequest {
        model_name: "mail".into(),
        id: "seven".into(),
        inputs: vec![input],
        ..ModelInferRequest::default()
    }
}

/// As bytes.
pub(super) fn raw() -> ModelInferRequest {
    ModelInferRequest {
        inputs: vec![tensor("FP32", &[2, 4])],
        raw_input_contents: vec![ROWS.iter().flat_map(|value| value.to_le_bytes()).collect()],
        ..typed()
    }
}

fn position(response: &ModelInferResponse, name: &str) -> usize {
    let mut outputs = response.outputs.iter();
    outputs.position(|output| output.name == name).unwrap()
}

fn singles(response: &ModelInferResponse, name: &str) -> Vec<f32> {
    let number = position(response, name);
    match response.raw_output_contents.get(number) {
        Some(bytes) => {
            let words = bytes.as_chunks().0.iter();
            words.map(|word| f32::from_le_bytes(*word)).collect()
        }
        None => {
            let contents = response.outputs[number].contents.clone();
            contents.unwrap().fp32_contents
        }
    }
}

#[tokio::test]
async fn metadata_and_health_tell_what_is_served() {
    let daemon = daemon();
    let health = daemon.services.health.clone();
    let running = serve(daemon.services, &settings()).await.unwrap();
    let mut client = Client::new(connect(running.grpc_address).await);
    let live = client.server_live(ServerLiveRequest {}).await.unwrap();
    assert!(live.into_inner().live);
    let server = client.server_metadata(ServerMetadataRequest {}).await;
    assert_eq!(
        server.unwrap().into_inner().extensions,
        ["binary_tensor_data"]
    );
    let asked = ModelMetadataRequest {
        name: "mail".into(),
        version: "3.42".into(),
    };
    let model = client.model_metadata(asked).await.unwrap().into_inner();
    assert_eq!(
        (&model.name[..], &model.versions[..]),
        ("mail", &["3.42".to_owned()][..])
    );
    assert_eq!(model.inputs.len(), 1);
    let input = &model.inputs[0];
    assert_eq!((&input.name[..], &input.datatype[..]), ("features", "FP32"));
    assert_eq!(input.shape, [-1, 4]);
    let outputs: Vec<_> = model
        .outputs
        .iter()
        .map(|output| &output.name[..])
        .collect();
    let expected = [
        "probabilities",
        "class",
        "class_name",
        "frozen_probabilities",
        "prior_probabilities",
        "adapted_probabilities",
        "label_proportions",
    ];
    assert_eq!(outputs, expected);

    let mut ready = async || {
        let name = "mail".to_owned();
        let request = ModelReadyRequest {
            name,
            version: String::new(),
        };
        let model = client.model_ready(request).await.unwrap();
        let server = client.server_ready(ServerReadyRequest {}).await.unwrap();
        (model.into_inner().ready, server.into_inner().ready)
    };
    assert_eq!(ready().await, (true, true));
    health.obstruct("kafka", "no broker");
    assert_eq!(ready().await, (false, false));
}

#[tokio::test]
async fn typed_and_raw_tensors_are_answered_in_their_own_form_and_as_ostar_v1_does() {
    let (running, mut client) = served().await;
    let mut native = InferenceClient::new(connect(running.grpc_address).await);
    let expected = native
        .predict(request(&[-1.0, 1.0]))
        .await
        .unwrap()
        .into_inner();
    let expected: Vec<f32> = expected
        .predictions
        .into_iter()
        .flat_map(|row| row.probabilities)
        .collect();
    for (request, is_raw) in [(typed(), false), (raw(), true)] {
        let response = client.model_infer(request).await.unwrap().into_inner();
        assert_eq!(response.id, "seven");
        assert_eq!(
            (&response.model_name[..], &response.model_version[..]),
            ("mail", "3.42")
        );
        let mode = ParameterChoice::StringParam("frozen".into());
        assert_eq!(response.parameters["mode"].parameter_choice, Some(mode));
        assert_eq!(response.outputs.len(), 7);
        assert_eq!(singles(&response, "probabilities"), expected);
        assert_eq!(!response.raw_output_contents.is_empty(), is_raw);
        for output in &response.outputs {
            assert_eq!(output.contents.is_none(), is_raw);
        }
        let name = position(&response, "class_name");
        if is_raw {
            assert_eq!(
                response.raw_output_contents[name],
                b"\x03\0\0\0ham\x04\0\0\0spam"
            );
        } else {
            let contents = |number: usize| response.outputs[number].contents.clone().unwrap();
            assert_eq!(contents(name).bytes_contents, [&b"ham"[..], b"spam"]);
            let class = contents(position(&response, "class"));
            assert_eq!(class.int64_contents, [0, 1]);
            let shares = contents(position(&response, "label_proportions")).fp64_contents;
            assert!(
                (shares.iter().sum::<f64>() - 1.0).abs() < 1e-9,
                "{shares:?}"
            );
            assert!(shares[1] < 0.3, "spam is rare in the stream: {shares:?}");
        }
    }
}

#[tokio::test]
async fn candidates_are_what_each_mode_serves() {
    let (running, mut client) = served().await;
    let mut native = InferenceClient::new(connect(running.grpc_address).await);
    let response = client.model_infer(raw()).await.unwrap().into_inner();
    for (name, output) in [
        ("frozen", "frozen_probabilities"),
        ("prior", "prior_probabilities"),
        ("adapted", "adapted_probabilities"),
    ] {
        let mut asked = request(&[-1.0, 1.0]);
        asked.set_mode(Mode::from_str_name(&format!("MODE_{}", name.to_uppercase())).unwrap());
        let expected = native.predict(asked).await.unwrap().into_inner();
        let expected: Vec<_> = expected
            .predictions
            .into_iter()
            .flat_map(|row| row.probabilities)
            .collect();
        assert_eq!(singles(&response, output), expected, "{name}");

        let mode = InferParameter {
            parameter_choice: Some(ParameterChoice::StringParam(name.into())),
        };
        let asked = ModelInferRequest {
            parameters: [("mode".to_owned(), mode)].into(),
            outputs: vec![InferRequestedOutputTensor {
                name: "probabilities".into(),
                ..InferRequestedOutputTensor::default()
            }],
            ..raw()
        };
        let served = client.model_infer(asked).await.unwrap().into_inner();
        assert_eq!(served.outputs.len(), 1, "only what was asked for");
        assert_eq!(singles(&served, "probabilities"), expected, "{name}");
    }
}

#[tokio::test]
async fn double_precision_is_taken_for_features() {
    let (_running, mut client) = served().await;
    let single = client.model_infer(raw()).await.unwrap().into_inner();
    let mut request = raw();
    request.inputs = vec![tensor("FP64", &[2, 4])];
    let doubles = ROWS
        .iter()
        .flat_map(|value| f64::from(*value).to_le_bytes());
    request.raw_input_contents = vec![doubles.collect()];
    let double = client.model_infer(request).await.unwrap().into_inner();
    assert_eq!(
        singles(&single, "probabilities"),
        singles(&double, "probabilities")
    );
}
