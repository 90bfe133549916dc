//! Predictions over gRPC.

use tokio_stream::iter;
use tonic::Code;

use crate::{
    current::{ServingMode, Version},
    proto::{Mode, PredictRequest, inference_client::InferenceClient},
    servers::serve,
    serving::fixture::{VERSION, connect, daemon, latent, request, settings},
};

#[tokio::test]
async fn every_input_is_answered_in_order_with_class_version_and_mode() {
    let running = serve(daemon().services, &settings()).await.unwrap();
    let mut client = InferenceClient::new(connect(running.grpc_address).await);
    let answer = client
        .predict(request(&[1.0, -1.0, 2.0]))
        .await
        .unwrap()
        .into_inner();
    let names: Vec<_> = answer
        .predictions
        .iter()
        .map(|row| &row.class_name[..])
        .collect();
    assert_eq!(names, ["spam", "ham", "spam"]);
    for row in &answer.predictions {
        let sum: f32 = row.probabilities.iter().sum();
        assert!((sum - 1.0).abs() < 1e-5, "{row:?}");
        assert!(row.probabilities[row.class as usize] > 0.5, "{row:?}");
    }
    let version = answer.version.unwrap();
    assert_eq!((version.epoch, version.step), (VERSION.epoch, VERSION.step));
    assert_eq!(answer.mode(), Mode::Frozen);
}

#[tokio::test]
async fn a_request_can_ask_for_another_mode_than_the_configured_one() {
    let running = serve(daemon().services, &settings()).await.unwrap();
    let mut client = InferenceClient::new(connect(running.grpc_address).await);
    let mut spam = async |mode: Mode| {
        let mut request = request(&[0.1]);
        request.set_mode(mode);
        let answer = client.predict(request).await.unwrap().into_inner();
        assert_eq!(answer.mode(), mode);
        answer.predictions[0].probabilities[1]
    };
    let (frozen, prior) = (spam(Mode::Frozen).await, spam(Mode::Prior).await);
    assert!(
        prior < frozen - 0.1,
        "spam is rare in the stream: {prior} against {frozen}"
    );
    assert_eq!(
        spam(Mode::Shadow).await,
        frozen,
        "shadow serves the frozen classifier"
    );
    let unknown = PredictRequest {
        mode: 9,
        ..request(&[1.0])
    };
    let status = client.predict(unknown).await.unwrap_err();
    assert_eq!(status.message(), "mode: 9 is unknown, expected 0 to 5");
}

#[tokio::test]
async fn a_published_state_and_a_changed_mode_are_served_by_the_next_request() {
    let daemon = daemon();
    let current = daemon.services.current.clone();
    let running = serve(daemon.services, &settings()).await.unwrap();
    let mut client = InferenceClient::new(connect(running.grpc_address).await);
    let snapshot = current.load().snapshot.clone();
    current.publish(snapshot, Version { epoch: 4, step: 50 });
    current.set_mode(ServingMode::Prior);
    let answer = client.predict(request(&[1.0])).await.unwrap().into_inner();
    assert_eq!(answer.mode(), Mode::Prior);
    assert_eq!(answer.version.unwrap().step, 50);
}

#[tokio::test]
async fn wrong_inputs_are_refused_with_their_number_and_what_was_expected() {
    let mut settings = settings();
    settings.requests.max_rows = 3;
    let running = serve(daemon().services, &settings).await.unwrap();
    let mut client = InferenceClient::new(connect(running.grpc_address).await);
    let mut refusal = async |inputs| {
        let request = PredictRequest { inputs, mode: 0 };
        let status = client.predict(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        status.message().to_owned()
    };
    assert_eq!(
        refusal(vec![]).await,
        "inputs: is empty, expected at least one"
    );
    let text = refusal(vec![latent(1.0); 4]).await;
    assert_eq!(
        text,
        "inputs: has 4, expected at most 3 (requests.max_rows)"
    );
    let text = refusal(vec![latent(1.0), latent(f32::NAN)]).await;
    assert!(text.starts_with("inputs[1]: "), "{text}");
    let text = refusal(vec![Default::default()]).await;
    assert!(text.starts_with("inputs[0]: "), "{text}");
}

#[tokio::test]
async fn a_message_beyond_the_size_limit_is_refused() {
    let mut settings = settings();
    settings.requests.max_bytes = 100;
    let running = serve(daemon().services, &settings).await.unwrap();
    let mut client = InferenceClient::new(connect(running.grpc_address).await);
    client.predict(request(&[1.0])).await.unwrap();
    let status = client.predict(request(&[1.0; 20])).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_at_once_each_get_their_own_answers() {
    let daemon = daemon();
    let metrics = daemon.services.metrics.clone();
    let running = serve(daemon.services, &settings()).await.unwrap();
    let channel = connect(running.grpc_address).await;
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..50 {
        let mut client = InferenceClient::new(channel.clone());
        clients.spawn(async move {
            let rows = 1 + number % 3;
            let value = if number % 2 == 0 { 1.0 } else { -1.0 };
            let answer = client
                .predict(request(&vec![value; rows]))
                .await
                .unwrap()
                .into_inner();
            assert_eq!(answer.predictions.len(), rows);
            for row in answer.predictions {
                assert_eq!(row.class, 1 - (number % 2) as u32);
            }
            rows
        });
    }
    let rows: usize = clients.join_all().await.into_iter().sum();
    let text = metrics.counted();
    assert!(
        text.contains(&format!("ostar_request_rows_total {rows}")),
        "{text}"
    );
    assert!(
        text.contains(r#"ostar_requests_total{code="Ok",method="Predict"} 50"#),
        "{text}"
    );
    assert!(text.contains("ostar_request_queue_rows 0"), "{text}");
}

#[tokio::test]
async fn a_stream_is_answered_request_by_request_and_ends_with_the_first_error() {
    let running = serve(daemon().services, &settings()).await.unwrap();
    let mut client = InferenceClient::new(connect(running.grpc_address).await);
    let requests = iter([request(&[1.0]), request(&[-1.0, 1.0])]);
    let mut answers = client.predict_stream(requests).await.unwrap().into_inner();
    assert_eq!(
        answers.message().await.unwrap().unwrap().predictions.len(),
        1
    );
    assert_eq!(
        answers.message().await.unwrap().unwrap().predictions[0].class_name,
        "ham"
    );
    assert!(answers.message().await.unwrap().is_none());

    let requests = iter([request(&[1.0]), request(&[]), request(&[1.0])]);
    let mut answers = client.predict_stream(requests).await.unwrap().into_inner();
    answers.message().await.unwrap().unwrap();
    let status = answers.message().await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}
