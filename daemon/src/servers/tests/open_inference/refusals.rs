//! Requests that are wrong, over gRPC and REST: refused in words, and nothing is harmed.

use serde_json::{Value, json};
use tonic::Code;

use super::{
    grpc::{Client, raw},
    rest::{INFER, body, post},
};
use crate::{
    open_inference::proto::{
        ModelInferRequest, ModelReadyRequest, model_infer_request::InferRequestedOutputTensor,
    },
    servers::serve,
    serving::fixture::{connect, daemon, settings},
};

#[tokio::test]
async fn wrong_requests_are_refused_in_words_and_harm_nothing() {
    let daemon = daemon();
    let metrics = daemon.services.metrics.clone();
    let mut settings = settings();
    settings.requests.max_rows = 2;
    let running = serve(daemon.services, &settings).await.unwrap();
    let mut client = Client::new(connect(running.grpc_address).await);
    let changed = |change: fn(&mut ModelInferRequest)| {
        let mut request = raw();
        change(&mut request);
        request
    };
    let invalid = Code::InvalidArgument;
    let refusals = [
        (
            changed(|request| request.model_name = "post".into()),
            Code::NotFound,
            r#"model "post" is not served, expected "mail""#,
        ),
        (
            changed(|request| request.model_version = "1".into()),
            Code::NotFound,
            r#"version "1" is not served, expected "3.42" or none"#,
        ),
        (
            changed(|request| request.inputs[0].shape = vec![1, 8]),
            invalid,
            r#"input "features": shape is [1, 8], expected [rows, 4]"#,
        ),
        (
            changed(|request| request.inputs[0].shape = vec![8]),
            invalid,
            r#"input "features": shape is [8], expected [rows, 4]"#,
        ),
        (
            changed(|request| request.inputs[0].datatype = "INT32".into()),
            invalid,
            r#"input "features": datatype is INT32, expected FP32 or FP64"#,
        ),
        (
            changed(|request| request.inputs[0].datatype = "COMPLEX".into()),
            invalid,
            r#"input "features": datatype is "COMPLEX", expected one of FP32, "#,
        ),
        (
            changed(|request| {
                request.inputs[0].shape = vec![0, 4];
                request.raw_input_contents = vec![vec![]];
            }),
            invalid,
            "rows: is empty, expected at least one",
        ),
        (
            changed(|request| request.inputs[0].shape = vec![i64::MAX, 4]),
            invalid,
            r#"input "features": shape [9223372036854775807, 4] has more elements than can be counted"#,
        ),
        (
            changed(|request| request.raw_input_contents.push(vec![])),
            invalid,
            "raw_input_contents: has 2, expected one for each of the 1 inputs",
        ),
        (
            changed(|request| request.inputs[0].name = "x".into()),
            invalid,
            r#"input "x": is not one of the model's, expected features"#,
        ),
        (
            changed(|request| {
                request.inputs.clear();
                request.raw_input_contents.clear();
            }),
            invalid,
            r#"inputs: has 0, expected "features" once"#,
        ),
        (
            changed(|request| {
                request.inputs[0].shape = vec![3, 4];
                request.raw_input_contents = vec![vec![0; 48]];
            }),
            invalid,
            "rows: has 3, expected at most 2 (requests.max_rows)",
        ),
        (
            changed(|request| request.raw_input_contents[0][..4].fill(0xff)),
            invalid,
            "rows[0]: not_finite",
        ),
        (
            changed(|request| {
                request.outputs.push(InferRequestedOutputTensor {
                    name: "logits".into(),
                    ..InferRequestedOutputTensor::default()
                });
            }),
            invalid,
            r#"output "logits": is not one of the model's, expected probabilities, class"#,
        ),
    ];
    let count = refusals.len();
    for (request, code, text) in refusals {
        let status = client.model_infer(request).await.unwrap_err();
        assert_eq!(status.code(), code, "{status:?}");
        assert!(
            status.message().starts_with(text),
            "{} against {text}",
            status.message()
        );
    }
    client.model_infer(raw()).await.unwrap();
    let unknown = ModelReadyRequest {
        name: "post".into(),
        version: String::new(),
    };
    let status = client.model_ready(unknown).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    let text = metrics.counted();
    for line in [
        format!(
            r#"ostar_requests_total{{code="InvalidArgument",method="ModelInfer"}} {}"#,
            count - 2
        ),
        r#"ostar_requests_total{code="Ok",method="ModelInfer"} 1"#.into(),
    ] {
        assert!(text.contains(&line), "{line} in {text}");
    }
}

#[tokio::test]
async fn wrong_requests_are_errors_in_the_protocols_form() {
    let mut settings = settings();
    settings.requests.max_bytes = 400;
    let running = serve(daemon().services, &settings).await.unwrap();
    let address = running.http_address;
    let changed = |key: &str, value: Value| {
        let mut asked = body();
        asked["inputs"][0][key] = value;
        asked
    };
    for (path, asked, status, problem) in [
        (
            "/v2/models/post/infer",
            body(),
            404,
            r#"model "post" is not served, expected "mail""#,
        ),
        (
            "/v2/models/mail/versions/9/infer",
            body(),
            404,
            r#"version "9" is not served"#,
        ),
        (
            "/v2/repository/index",
            body(),
            404,
            "there is nothing at /v2/repository/index",
        ),
        (
            "/v2/models/mail",
            body(),
            405,
            "/v2/models/mail does not take this method",
        ),
        (
            INFER,
            changed("shape", json!([8, 1])),
            400,
            r#"input "features": shape is [8, 1], expected [rows, 4]"#,
        ),
        (
            INFER,
            changed("shape", json!([4_611_686_018_427_387_904_i64, 4])),
            400,
            r#"input "features": shape [4611686018427387904, 4] has more elements"#,
        ),
        (
            INFER,
            changed("shape", json!([u64::MAX, 4])),
            400,
            "the body's JSON: invalid value: integer `18446744073709551615`",
        ),
        (
            INFER,
            changed("datatype", json!("BYTES")),
            400,
            r#"input "features": data has -1, which is no BYTES"#,
        ),
        (
            INFER,
            changed("datatype", json!("INT8")),
            400,
            r#"input "features": data has -1.0, which is no INT8"#,
        ),
        (
            INFER,
            changed("data", json!([[true]])),
            400,
            r#"input "features": data has true, which is no FP32"#,
        ),
        (
            INFER,
            changed("data", Value::Null),
            400,
            r#"input "features": has no data"#,
        ),
        (
            INFER,
            json!({"inputs": [{"name": "features", "datatype": "FP32", "shape": [0, 4], "data": []}]}),
            400,
            "rows: is empty, expected at least one",
        ),
        (
            INFER,
            json!({}),
            400,
            "the body's JSON: missing field `inputs`",
        ),
        (
            INFER,
            changed("data", json!(vec![0.123_456_789; 64])),
            413,
            "Failed to buffer the request body: length limit exceeded",
        ),
    ] {
        let (found, answer) = post(address, path, &asked).await;
        let text = answer["error"].as_str().unwrap_or_default();
        assert!(
            found == status && text.starts_with(problem),
            "{found} {answer} for {problem}"
        );
    }
    assert_eq!(post(address, INFER, &body()).await.0, 200, "unharmed");
}

/// Longest error text, with room for its form.
const SHORT: usize = 1_100;

#[tokio::test]
async fn an_error_quotes_no_more_of_a_request_than_a_header_has_room_for() {
    let running = serve(daemon().services, &settings()).await.unwrap();
    let mut client = Client::new(connect(running.grpc_address).await);
    let many = || vec![1_i64; 100_000];
    let long = || "long ".repeat(20_000);
    type Change = Box<dyn Fn(&mut ModelInferRequest)>;
    let changes: [(Change, &str); 6] = [
        (
            Box::new(move |request| request.inputs[0].shape = many()),
            "has 1 elements, found 8",
        ),
        (
            Box::new(move |request| request.inputs[0].name = long()),
            "is not one of the model's, expected features",
        ),
        (
            Box::new(move |request| request.inputs[0].datatype = long()),
            "BYTES",
        ),
        (Box::new(move |request| request.model_name = long()), "mail"),
        (
            Box::new(move |request| request.model_version = long()),
            "or none",
        ),
        (
            Box::new(move |request| {
                request.outputs.push(InferRequestedOutputTensor {
                    name: long(),
                    ..InferRequestedOutputTensor::default()
                });
            }),
            "label_proportions",
        ),
    ];
    for (change, end) in changes {
        let mut request = raw();
        change(&mut request);
        let status = client.model_infer(request).await.unwrap_err();
        let text = status.message();
        assert!(text.len() <= SHORT, "{} bytes: {text}", text.len());
        assert!(text.contains(end), "{end} in {text}");
    }
    let changed = |key: &str, value: Value| {
        let mut asked = body();
        asked["inputs"][0][key] = value;
        asked
    };
    for asked in [
        changed("shape", json!(many())),
        changed("name", json!(long())),
        changed("datatype", json!(long())),
        changed("shape", json!(long())),
        changed("data", json!([long()])),
        json!({"inputs": [], "parameters": {"mode": long()}}),
    ] {
        let (status, answer) = post(running.http_address, INFER, &asked).await;
        let text = answer.to_string();
        assert!(status == 400 && text.len() <= SHORT, "{status} {text}");
    }
}
