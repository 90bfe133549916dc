//! Requests over gRPC that are no messages, sent as bytes.

use std::net::SocketAddr;

use prost::bytes::Bytes;
use tonic::{Code, Status, codegen::http::HeaderMap};

use super::connections::{grpc_request, http2};
use crate::{
    proto::inference_client::InferenceClient,
    servers::serve,
    serving::fixture::{connect, daemon, request, settings},
};

const PREDICT: &str = "/ostar.v1.Inference/Predict";
const PREDICT_STREAM: &str = "/ostar.v1.Inference/PredictStream";
const MODEL_INFER: &str = "/inference.GRPCInferenceService/ModelInfer";
const HEALTH: &str = "/grpc.health.v1.Health/Check";
const SET_MODE: &str = "/ostar.v1.Control/SetMode";

/// The status of an answer: of its head, or of its trailers.
async fn ask(address: SocketAddr, path: &str, body: &[u8], headers: HeaderMap) -> Status {
    let mut client = http2(address).await;
    let mut asked = grpc_request(address, path);
    asked.headers_mut().extend(headers);
    let (answer, mut sending) = client.send_request(asked, false).unwrap();
    sending
        .send_data(Bytes::copy_from_slice(body), true)
        .unwrap();
    let mut answer = answer.await.unwrap();
    if let Some(status) = Status::from_header_map(answer.headers()) {
        return status;
    }
    let body = answer.body_mut();
    while let Some(data) = body.data().await {
        data.unwrap();
    }
    let trailers = body.trailers().await.unwrap().unwrap();
    Status::from_header_map(&trailers).unwrap()
}

/// A message behind its prefix.
fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u32).to_be_bytes();
    [&[flag][..], &length, message].concat()
}

#[tokio::test]
async fn a_request_that_is_no_message_is_the_callers_mistake_for_every_service() {
    let mut settings = settings();
    settings.grpc.control_listen = Some("127.0.0.1:0".parse().unwrap());
    let running = serve(daemon().services, &settings).await.unwrap();
    let (grpc, control) = (running.grpc_address, running.control_address.unwrap());
    let garbage = framed(0, &[0xff; 20]);
    // Field 1 says that it has 100 bytes.
    let cut = framed(0, &[0x0a, 100, 1, 2]);
    let no_text = framed(0, &[0x0a, 1, 0xff]);
    let unfinished = &framed(0, &[0x0a; 20])[..15];
    for (address, path) in [
        (grpc, PREDICT),
        (grpc, PREDICT_STREAM),
        (grpc, MODEL_INFER),
        (grpc, HEALTH),
        (control, SET_MODE),
    ] {
        for (body, problem) in [
            (&garbage[..], "failed to decode Protobuf message: "),
            (&cut[..], "failed to decode Protobuf message: "),
            (unfinished, "Unexpected EOF decoding stream"),
            (
                &framed(1, b"gzip?")[..],
                "protocol error: received message with compressed-flag",
            ),
            (
                &framed(7, b"")[..],
                "protocol error: received message with invalid compression flag",
            ),
            (b"", "Missing request message"),
        ] {
            if body.is_empty() && path == PREDICT_STREAM {
                // A stream may have no request.
                continue;
            }
            let status = ask(address, path, body, HeaderMap::new()).await;
            assert_eq!(status.code(), Code::InvalidArgument, "{path}: {status:?}");
            let expected = format!("the request cannot be read: {problem}");
            assert!(
                status.message().starts_with(&expected),
                "{path}: {status:?}"
            );
        }
    }
    for path in [MODEL_INFER, HEALTH] {
        let status = ask(grpc, path, &no_text, HeaderMap::new()).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{path}: {status:?}");
        assert!(status.message().contains("UTF-8"), "{path}: {status:?}");
    }
    let mut client = InferenceClient::new(connect(grpc).await);
    client.predict(request(&[1.0])).await.unwrap();
}

#[tokio::test]
async fn a_compressed_request_is_refused_with_its_encoding() {
    let running = serve(daemon().services, &settings()).await.unwrap();
    let gzip = HeaderMap::from_iter([("grpc-encoding".parse().unwrap(), "gzip".parse().unwrap())]);
    for path in [PREDICT, MODEL_INFER, HEALTH] {
        let status = ask(
            running.grpc_address,
            path,
            &framed(1, b"no gzip"),
            gzip.clone(),
        )
        .await;
        assert_eq!(status.code(), Code::Unimplemented, "{path}: {status:?}");
        assert!(status.message().contains("`gzip`"), "{path}: {status:?}");
    }
}
