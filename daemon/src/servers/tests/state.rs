//! State, orders, health and reflection over gRPC.

use prost::Message;
use tokio_stream::once;
use tonic::Code;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::{v1, v1alpha};

use crate::{
    control::Order,
    current::ServingMode,
    proto::{
        GetStateRequest, Mode, PauseRequest, SetModeRequest, WatchStateRequest,
        control_client::ControlClient, inference_client::InferenceClient,
    },
    servers::serve,
    serving::fixture::{connect, daemon, daemon_after, learned_elsewhere, settings},
};

#[tokio::test]
async fn the_state_has_the_shares_their_intervals_and_the_shift() {
    let running = serve(daemon().services, &settings()).await.unwrap();
    let mut client = InferenceClient::new(connect(running.grpc_address).await);
    let state = client
        .get_state(GetStateRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(state.model, "mail");
    assert_eq!(state.version.unwrap().step, 42);
    assert_eq!(state.mode(), Mode::Frozen);
    assert_eq!((state.events, state.steps), (500, 1));
    let spam = &state.classes[1];
    assert_eq!((&spam.name[..], spam.training), ("spam", 0.5));
    assert!((spam.frozen - 0.1).abs() < 0.05, "{spam:?}");
    assert!(
        spam.frozen_low < spam.frozen && spam.frozen < spam.frozen_high,
        "{spam:?}"
    );
    assert!(state.shift.unwrap().distance_before_map > 0.0);
    let gate = state.gate.unwrap();
    assert_eq!(
        (&gate.candidate[..], &gate.reason[..], gate.since_block),
        ("prior", "label_shift_explains", 1)
    );
    assert_eq!(gate.explanation, "label shift explains the last 500 rows");
    assert!(!gate.refuted && !gate.proportions_unknown, "{gate:?}");
    let names: Vec<&str> = gate.tests.iter().map(|test| &test.name[..]).collect();
    assert_eq!(names, ["scores", "latents", "support"]);
    assert_eq!(gate.history.len(), 1, "{gate:?}");
}

#[tokio::test]
async fn the_state_says_that_shares_of_changed_classes_are_unknown() {
    let services = daemon_after(learned_elsewhere).services;
    let running = serve(services, &settings()).await.unwrap();
    let mut client = InferenceClient::new(connect(running.grpc_address).await);
    let state = client.get_state(GetStateRequest {}).await.unwrap();
    let state = state.into_inner();
    let gate = state.gate.unwrap();
    assert_eq!(gate.candidate, "frozen");
    assert!(gate.refuted && gate.proportions_unknown, "{gate:?}");
    assert!(
        gate.tests.iter().any(|test| test.statistic > test.limit),
        "{gate:?}"
    );
    let spam = &state.classes[1];
    assert_eq!((spam.served_low, spam.served_high), (0.0, 1.0));
}

#[tokio::test]
async fn watching_tells_the_state_now_and_after_every_change() {
    let daemon = daemon();
    let running = serve(daemon.services, &settings()).await.unwrap();
    let mut client = InferenceClient::new(connect(running.grpc_address).await);
    let mut states = client
        .watch_state(WatchStateRequest {})
        .await
        .unwrap()
        .into_inner();
    assert!(!states.message().await.unwrap().unwrap().paused);
    daemon.status.send_modify(|status| status.paused = true);
    assert!(states.message().await.unwrap().unwrap().paused);
    drop(daemon.status);
    assert!(
        states.message().await.unwrap().is_none(),
        "nothing can change any more"
    );
}

#[tokio::test]
async fn orders_are_given_and_their_outcome_is_told() {
    let mut daemon = daemon();
    let mut settings = settings();
    settings.grpc.control_listen = Some("127.0.0.1:0".parse().unwrap());
    let running = serve(daemon.services, &settings).await.unwrap();
    let learner = tokio::spawn(async move {
        let mut given = Vec::new();
        while given.len() < 2 {
            let request = daemon.orders.recv().await.unwrap();
            given.push(request.order);
            let outcome = match request.order {
                Order::Pause => Ok("learning is paused".to_owned()),
                _ => Err("this process stands by".to_owned()),
            };
            request.reply.send(outcome).unwrap();
        }
        given
    });
    let mut client = ControlClient::new(connect(running.control_address.unwrap()).await);
    let answer = client.pause(PauseRequest {}).await.unwrap().into_inner();
    assert_eq!(answer.message, "learning is paused");
    let mode = Mode::Adapted.into();
    let status = client.set_mode(SetModeRequest { mode }).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(status.message(), "this process stands by");
    assert_eq!(
        learner.await.unwrap(),
        [
            Order::Pause,
            Order::Mode {
                mode: ServingMode::Adapted
            }
        ]
    );
    let status = client
        .set_mode(SetModeRequest { mode: 0 })
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let status = client.pause(PauseRequest {}).await.unwrap_err();
    assert_eq!(status.message(), "the daemon is stopping");
}

#[tokio::test]
async fn orders_are_not_taken_where_predictions_are() {
    let running = serve(daemon().services, &settings()).await.unwrap();
    assert_eq!(running.control_address, None);
    let mut client = ControlClient::new(connect(running.grpc_address).await);
    let status = client.pause(PauseRequest {}).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
}

#[tokio::test]
async fn grpc_health_follows_readiness() {
    let daemon = daemon();
    let health = daemon.services.health.clone();
    let running = serve(daemon.services, &settings()).await.unwrap();
    let mut client = HealthClient::new(connect(running.grpc_address).await);
    let service = "ostar.v1.Inference".to_owned();
    let request = HealthCheckRequest { service };
    let mut statuses = client.watch(request).await.unwrap().into_inner();
    let mut until = async |wanted: ServingStatus| {
        while statuses.message().await.unwrap().unwrap().status() != wanted {}
    };
    until(ServingStatus::Serving).await;
    health.obstruct("kafka", "no broker for 30s");
    until(ServingStatus::NotServing).await;
    health.clear("kafka");
    until(ServingStatus::Serving).await;
    let whole = client.check(HealthCheckRequest::default()).await.unwrap();
    assert_eq!(whole.into_inner().status(), ServingStatus::Serving);
}

#[tokio::test]
async fn reflection_describes_the_services_and_the_messages_of_all_files() {
    use v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let running = serve(daemon().services, &settings()).await.unwrap();
    let mut client = ServerReflectionClient::new(connect(running.grpc_address).await);
    let mut ask = async |message: MessageRequest| {
        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(message),
        };
        let answers = client.server_reflection_info(once(request)).await.unwrap();
        let answer = answers.into_inner().message().await.unwrap().unwrap();
        answer.message_response.unwrap()
    };
    let MessageResponse::ListServicesResponse(list) =
        ask(MessageRequest::ListServices(String::new())).await
    else {
        panic!("not a list");
    };
    let names: Vec<_> = list
        .service
        .iter()
        .map(|service| &service.name[..])
        .collect();
    let reflection = "grpc.reflection.v1.ServerReflection";
    let (native, open) = ("ostar.v1.Inference", "inference.GRPCInferenceService");
    assert_eq!(names, ["grpc.health.v1.Health", reflection, native, open]);
    for (symbol, file) in [
        (open, "inference/open_inference.proto"),
        ("ostar.v1.Inference", "ostar/v1/inference.proto"),
        ("ostar.v1.Input", "ostar/v1/event.proto"),
        ("grpc.health.v1.Health", "health.proto"),
    ] {
        let symbol = MessageRequest::FileContainingSymbol(symbol.to_owned());
        let MessageResponse::FileDescriptorResponse(found) = ask(symbol).await else {
            panic!("{file} is not described");
        };
        // Field 1 of a file's descriptor is its name.
        let bytes = &found.file_descriptor_proto[0];
        let name = Named::decode(&bytes[..]).unwrap().name;
        assert!(name.ends_with(file), "{name}");
    }
}

#[derive(Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
}

#[tokio::test]
async fn the_older_reflection_is_served_too() {
    use v1alpha::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest,
    };
    let running = serve(daemon().services, &settings()).await.unwrap();
    let mut client = ServerReflectionClient::new(connect(running.grpc_address).await);
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answers = client.server_reflection_info(once(request)).await.unwrap();
    assert!(answers.into_inner().message().await.unwrap().is_some());
}
