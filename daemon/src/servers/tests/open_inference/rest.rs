//! The Open Inference Protocol over REST.

use std::{fs, net::SocketAddr};

use ostar_connectors::settings::Period;
use serde_json::{Value, json};

use crate::{
    proto::inference_client::InferenceClient,
    servers::{Servers, serve},
    serving::fixture::{connect, daemon, request, settings},
};

pub(in crate::servers::tests) const INFER: &str = "/v2/models/mail/infer";
const JSON_LENGTH: &str = "Inference-Header-Content-Length";

/// Status, bytes of the JSON if it is told, and the body.
type Answer = (u16, Option<usize>, Vec<u8>);

/// GET without a body, POST with one.
async fn ask(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, String)],
    body: Option<Vec<u8>>,
) -> Answer {
    let url = format!("http://{address}{path}");
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.clone()))
        .collect();
    let asked = tokio::task::spawn_blocking(move || {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build()
            .new_agent();
        let mut response = match body {
            None => headers
                .iter()
                .fold(agent.get(&url), |asked, (name, value)| {
                    asked.header(name, value)
                })
                .call(),
            Some(body) => headers
                .iter()
                .fold(agent.post(&url), |asked, (name, value)| {
                    asked.header(name, value)
                })
                .send(&body[..]),
        }
        .unwrap();
        let length = response.headers().get(JSON_LENGTH);
        let length = length.map(|length| length.to_str().unwrap().parse().unwrap());
        let bytes = response.body_mut().read_to_vec().unwrap();
        (response.status().as_u16(), length, bytes)
    });
    asked.await.unwrap()
}

async fn get(address: SocketAddr, path: &str) -> (u16, Value) {
    let (status, _, body) = ask(address, path, &[], None).await;
    (status, serde_json::from_slice(&body).unwrap())
}

pub(in crate::servers::tests) async fn post(
    address: SocketAddr,
    path: &str,
    body: &Value,
) -> (u16, Value) {
    let (status, _, body) = ask(address, path, &[], Some(body.to_string().into_bytes())).await;
    (status, serde_json::from_slice(&body).unwrap())
}

/// Two rows of the fixture's model, ham and spam, nested as their shape is.
pub(in crate::servers::tests) fn body() -> Value {
    json!({
        "id": "seven",
        "inputs": [{
            "name": "features", "datatype": "FP32", "shape": [2, 4],
            "data": [[-1, -1.0, -1, -1], [1, 1, 1.0, 1]],
        }],
    })
}

async fn expected(running: &Servers) -> Vec<f32> {
    let mut native = InferenceClient::new(connect(running.grpc_address).await);
    let answer = native.predict(request(&[-1.0, 1.0])).await.unwrap();
    let rows = answer.into_inner().predictions.into_iter();
    rows.flat_map(|row| row.probabilities).collect()
}

#[tokio::test]
async fn metadata_and_health_are_told_in_json() {
    let daemon = daemon();
    let health = daemon.services.health.clone();
    let running = serve(daemon.services, &settings()).await.unwrap();
    let address = running.http_address;
    let (_, server) = get(address, "/v2").await;
    assert_eq!(server["name"], "ostard");
    assert_eq!(server["extensions"], json!(["binary_tensor_data"]));
    for path in ["/v2/models/mail", "/v2/models/mail/versions/3.42"] {
        let (status, model) = get(address, path).await;
        assert_eq!(
            (status, &model["versions"]),
            (200, &json!(["3.42"])),
            "{path}"
        );
        let features = json!([{"name": "features", "datatype": "FP32", "shape": [-1, 4]}]);
        assert_eq!(model["inputs"], features);
    }
    assert_eq!(
        get(address, "/v2/health/live").await,
        (200, json!({"live": true}))
    );
    let ready = json!({"name": "mail", "ready": true});
    assert_eq!(get(address, "/v2/models/mail/ready").await, (200, ready));
    health.obstruct("kafka", "no broker");
    assert_eq!(
        get(address, "/v2/health/ready").await,
        (503, json!({"ready": false}))
    );
    assert_eq!(get(address, "/v2/models/mail/ready").await.0, 503);
}

#[tokio::test]
async fn json_flat_or_nested_is_answered_as_ostar_v1_does() {
    let running = serve(daemon().services, &settings()).await.unwrap();
    let expected = expected(&running).await;
    let mut flat = body();
    flat["inputs"][0]["data"] = json!([-1, -1, -1, -1, 1, 1, 1, 1]);
    for (asked, path) in [
        (body(), INFER),
        (flat, "/v2/models/mail/versions/3.42/infer"),
    ] {
        let (status, answer) = post(running.http_address, path, &asked).await;
        assert_eq!((status, &answer["id"]), (200, &json!("seven")), "{answer}");
        assert_eq!(answer["model_version"], "3.42");
        assert_eq!(answer["parameters"], json!({"mode": "frozen"}));
        let outputs = answer["outputs"].as_array().unwrap();
        assert_eq!(outputs.len(), 7);
        assert_eq!(outputs[0]["shape"], json!([2, 2]));
        let numbers: Vec<f32> = serde_json::from_value(outputs[0]["data"].clone()).unwrap();
        assert_eq!(numbers, expected);
        assert_eq!(outputs[2]["data"], json!(["ham", "spam"]));
    }
    let mut asked = body();
    asked["parameters"] = json!({"mode": "prior"});
    asked["outputs"] = json!([{"name": "class"}]);
    let (_, answer) = post(running.http_address, INFER, &asked).await;
    assert_eq!(answer["parameters"], json!({"mode": "prior"}));
    let class = json!([{"name": "class", "datatype": "INT64", "shape": [2], "data": [0, 1]}]);
    assert_eq!(answer["outputs"], class);
}

#[tokio::test]
async fn binary_data_is_taken_and_given_where_it_is_asked_for() {
    let running = serve(daemon().services, &settings()).await.unwrap();
    let expected = expected(&running).await;
    let json = json!({
        "inputs": [{
            "name": "features", "datatype": "FP32", "shape": [2, 4],
            "parameters": {"binary_data_size": 32},
        }],
        "outputs": [
            {"name": "class"},
            {"name": "probabilities", "parameters": {"binary_data": true}},
        ],
    });
    let mut body = json.to_string().into_bytes();
    let length = body.len();
    body.extend(
        [[-1.0_f32; 4], [1.0; 4]]
            .concat()
            .iter()
            .flat_map(|value| value.to_le_bytes()),
    );
    let headers = [(JSON_LENGTH, length.to_string())];
    let (status, length, answer) =
        ask(running.http_address, INFER, &headers, Some(body.clone())).await;
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
    let (json, binary) = answer.split_at(length.unwrap());
    let json: Value = serde_json::from_slice(json).unwrap();
    assert_eq!(json["outputs"][0]["data"], json!([0, 1]));
    assert_eq!(
        json["outputs"][1]["parameters"],
        json!({"binary_data_size": 16})
    );
    assert_eq!(json["outputs"][1].get("data"), None);
    let numbers: Vec<f32> = binary
        .as_chunks()
        .0
        .iter()
        .map(|word| f32::from_le_bytes(*word))
        .collect();
    assert_eq!(numbers, expected);

    for (length, body, problem) in [
        (
            length.unwrap() * 100,
            body.clone(),
            "inference-header-content-length: expected a number up to",
        ),
        (
            headers[0].1.parse().unwrap(),
            body[..body.len() - 1].to_vec(),
            "binary_data_size is 32, the body has 31 bytes left",
        ),
        (
            headers[0].1.parse().unwrap(),
            [&body[..], b"!"].concat(),
            "the body: 1 bytes belong to no input",
        ),
    ] {
        let headers = [(JSON_LENGTH, length.to_string())];
        let (status, _, answer) = ask(running.http_address, INFER, &headers, Some(body)).await;
        let text = String::from_utf8(answer).unwrap();
        assert!(status == 400 && text.contains(problem), "{status} {text}");
    }
}

#[tokio::test]
async fn token_and_overload_hold_for_rest_as_they_do_for_grpc() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "secret\n").unwrap();
    let mut settings = settings();
    settings.auth.token_file = Some(file);
    // Nobody scores.
    settings.requests.threads = 0;
    settings.requests.max_wait = Period::from_millis(5);
    let running = serve(daemon().services, &settings).await.unwrap();
    let address = running.http_address;
    for path in ["/v2", "/v2/health/ready", "/v2/models/mail"] {
        let (status, answer) = get(address, path).await;
        let problem = json!({"error": "the bearer token is missing or wrong"});
        assert_eq!((status, answer), (401, problem), "{path}");
    }
    let token = [("authorization", "Bearer secret".to_owned())];
    let asked = Some(body().to_string().into_bytes());
    let (status, _, answer) = ask(address, INFER, &token, asked).await;
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let text = answer["error"].as_str().unwrap();
    assert!(
        status == 429 && text.ends_with("(requests.max_wait)"),
        "{status} {text}"
    );
}
