//! Tensors of strangers, over gRPC and REST.

use std::collections::HashMap;

use axum::http::HeaderMap;
use prost::Message;

use super::{
    InferRequest, grpc, inputs,
    proto::{InferTensorContents, ModelInferRequest, model_infer_request::InferInputTensor},
    rest,
};
use crate::serving::fixture;

/// What is read can be checked against the bundle, and its rows against the decoder.
fn check(services: &crate::serving::Services, request: Result<InferRequest, tonic::Status>) {
    let Ok(request) = request else { return };
    let Ok(inputs) = inputs::read(&services.description, request.inputs) else {
        return;
    };
    let count = inputs.len();
    if let Ok(rows) = services.read_rows("rows", inputs, 1024) {
        assert_eq!(rows.len(), count);
    }
}

#[test]
fn fuzz_open_inference_grpc() {
    let tensor = |datatype: &str, contents| InferInputTensor {
        name: "features".into(),
        datatype: datatype.into(),
        shape: vec![2, 4],
        parameters: HashMap::new(),
        contents,
    };
    let request = |input, raw| ModelInferRequest {
        model_name: "mail".into(),
        inputs: vec![input],
        raw_input_contents: raw,
        ..ModelInferRequest::default()
    };
    let contents = InferTensorContents {
        fp32_contents: vec![1.0; 8],
        ..InferTensorContents::default()
    };
    let seeds = [
        request(tensor("FP32", Some(contents)), Vec::new()).encode_to_vec(),
        request(tensor("FP64", None), vec![vec![0; 64]]).encode_to_vec(),
        request(tensor("BYTES", None), vec![vec![1, 0, 0, 0, b'a']]).encode_to_vec(),
    ];
    let services = fixture::daemon().services;
    ostar_fuzzing::fuzz!("open_inference_grpc", seeds, |bytes: &[u8]| {
        if let Ok(request) = ModelInferRequest::decode(bytes) {
            check(&services, grpc::read(request));
        }
    });
}

#[test]
fn fuzz_open_inference_rest() {
    let json = br#"{"id": "seven", "parameters": {"binary_data_output": true}, "inputs": [{"name": "features",
        "datatype": "FP32", "shape": [2, 4], "data": [[-1, -1.0, -1, -1], [1, 1, 1.0, 1]]}]}"#;
    let binary = br#"{"inputs": [{"name": "features", "datatype": "FP32", "shape": [1, 4],
        "parameters": {"binary_data_size": 16}}], "outputs": [{"name": "probabilities"}]}"#;
    let with_length = |json: &[u8], rest: &[u8]| {
        let length = (json.len() as u16).to_be_bytes();
        [&length[..], json, rest].concat()
    };
    let seeds = [with_length(json, b""), with_length(binary, &[0; 16])];
    let services = fixture::daemon().services;
    // The first two bytes are the length of the JSON, which a header carries.
    ostar_fuzzing::fuzz!("open_inference_rest", seeds, |bytes: &[u8]| {
        let Some((length, body)) = bytes.split_first_chunk::<2>() else {
            return;
        };
        let mut headers = HeaderMap::new();
        let length = u16::from_be_bytes(*length);
        headers.insert("inference-header-content-length", length.into());
        for headers in [headers, HeaderMap::new()] {
            let read = rest::read(&headers, body, "mail".into(), String::new());
            check(&services, read);
        }
    });
}
