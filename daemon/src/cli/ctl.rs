//! `ostard ctl`.

use anyhow::Result;
use clap::Args;

use super::{
    client::{Connection, ConnectionArgs, Refused, Unanswered, block_on},
    print,
};
use crate::{
    control::Order,
    proto::{
        CheckpointRequest, Mode, PauseRequest, ReadOnRequest, ResumeRequest, RollbackRequest,
        SetModeRequest, control_client::ControlClient,
    },
};

/// Send an order to a running daemon. Its grpc.control_listen must be set.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Ctl {
    #[command(subcommand)]
    order: Order,
    /// Address of the daemon: its grpc.control_listen.
    #[arg(
        long,
        global = true,
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:50052"
    )]
    address: String,
    #[command(flatten)]
    connection: ConnectionArgs,
}

const EXAMPLES: &str = "\
Examples:
  ostard ctl pause
  ostard ctl mode adapted
  ostard ctl --address ostard.example:50052 --ca ca.pem --token-file token checkpoint";

impl Ctl {
    pub(super) fn execute(self) -> Result<()> {
        print(&(block_on(self.give())? + "\n"))
    }

    /// Sends the order and returns the daemon's answer.
    async fn give(self) -> Result<String> {
        let connection = self
            .connection
            .connect(&self.address, "grpc.control_listen");
        let client = ControlClient::new(connection.await?);
        let given = send(self.order, client).await;
        given.map_err(|status| match status.code() {
            tonic::Code::FailedPrecondition => Refused(status.message().to_owned()).into(),
            _ => Unanswered::from(status).into(),
        })
    }
}

async fn send(
    order: Order,
    mut client: ControlClient<Connection>,
) -> Result<String, tonic::Status> {
    let response = match order {
        Order::Pause => client.pause(PauseRequest {}).await,
        Order::Resume => client.resume(ResumeRequest {}).await,
        Order::ReadOn => client.read_on(ReadOnRequest {}).await,
        Order::Checkpoint => client.checkpoint(CheckpointRequest {}).await,
        Order::Rollback => client.rollback(RollbackRequest {}).await,
        Order::Mode { mode } => {
            let mode = Mode::from(mode).into();
            client.set_mode(SetModeRequest { mode }).await
        }
    };
    Ok(response?.into_inner().message)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tokio::net::TcpListener;
    use tokio_stream::wrappers::TcpListenerStream;
    use tonic::{
        Request, Response, Status,
        transport::{Identity, Server, ServerTlsConfig},
    };

    use super::*;
    use crate::proto::{
        ControlResponse,
        control_server::{Control, ControlServer},
    };

    /// Says which order arrived; wants a token for one of them.
    struct Echo;

    fn told(message: impl Into<String>) -> Result<Response<ControlResponse>, Status> {
        let message = message.into();
        Ok(Response::new(ControlResponse { message }))
    }

    #[tonic::async_trait]
    impl Control for Echo {
        async fn pause(
            &self,
            _: Request<PauseRequest>,
        ) -> Result<Response<ControlResponse>, Status> {
            told("pause")
        }

        async fn resume(
            &self,
            _: Request<ResumeRequest>,
        ) -> Result<Response<ControlResponse>, Status> {
            told("resume")
        }

        async fn read_on(
            &self,
            _: Request<ReadOnRequest>,
        ) -> Result<Response<ControlResponse>, Status> {
            told("read-on")
        }

        async fn checkpoint(
            &self,
            request: Request<CheckpointRequest>,
        ) -> Result<Response<ControlResponse>, Status> {
            match request.metadata().get("authorization") {
                Some(token) if token == "Bearer sesame" => told("checkpoint"),
                _ => Err(Status::unauthenticated("no token")),
            }
        }

        async fn rollback(
            &self,
            _: Request<RollbackRequest>,
        ) -> Result<Response<ControlResponse>, Status> {
            told("rollback")
        }

        async fn set_mode(
            &self,
            request: Request<SetModeRequest>,
        ) -> Result<Response<ControlResponse>, Status> {
            told(request.into_inner().mode().as_str_name())
        }
    }

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        ctl: Ctl,
    }

    fn ctl(line: &str) -> Ctl {
        Line::try_parse_from(format!("ctl {line}").split(' '))
            .unwrap()
            .ctl
    }

    async fn served() -> String {
        listen(Server::builder()).await
    }

    async fn listen(mut server: Server) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = server.add_service(ControlServer::new(Echo));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        address.to_string()
    }

    #[tokio::test]
    async fn every_order_arrives_and_its_answer_comes_back() {
        let address = served().await;
        for order in ["pause", "resume", "read-on", "rollback"] {
            let answer = ctl(&format!("{order} --address {address}")).give().await;
            assert_eq!(answer.unwrap(), order);
        }
        let answer = ctl(&format!("mode shadow --address {address}"))
            .give()
            .await;
        assert_eq!(answer.unwrap(), Mode::Shadow.as_str_name());
    }

    #[tokio::test]
    async fn the_token_goes_along_and_a_missing_one_is_told_how_to_give() {
        let address = served().await;
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, "sesame\n").unwrap();
        let with = format!(
            "checkpoint --address {address} --token-file {}",
            token.display()
        );
        assert_eq!(ctl(&with).give().await.unwrap(), "checkpoint");
        let refused = ctl(&format!("checkpoint --address {address}")).give().await;
        let refused = refused.unwrap_err();
        assert!(refused.is::<Unanswered>());
        assert_eq!(
            refused.to_string(),
            "the daemon refused: no token (Unauthenticated); set the token with --token-file"
        );
    }

    #[tokio::test]
    async fn an_authority_switches_tls_on_and_its_certificate_is_checked() {
        let issued = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let identity = Identity::from_pem(issued.cert.pem(), issued.signing_key.serialize_pem());
        let tls = ServerTlsConfig::new().identity(identity);
        let address = listen(Server::builder().tls_config(tls).unwrap()).await;
        let folder = tempfile::tempdir().unwrap();
        let given = |name: &str, pem: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, pem).unwrap();
            ctl(&format!(
                "pause --address {address} --ca {}",
                path.display()
            ))
        };
        let answer = given("right.pem", issued.cert.pem()).give().await;
        assert_eq!(answer.unwrap(), "pause");
        let refused = given("wrong.pem", other.cert.pem()).give().await;
        assert!(refused.unwrap_err().is::<Unanswered>());
    }

    #[tokio::test]
    async fn a_daemon_that_is_not_there_is_named_with_the_setting_it_listens_by() {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let refused = ctl(&format!("pause --address {address}")).give().await;
        let refused = refused.unwrap_err();
        assert!(refused.is::<Unanswered>());
        let text = refused.to_string();
        assert!(text.starts_with(&format!("no daemon answers at --address {address}")));
        assert!(
            text.ends_with("check that it is running with grpc.control_listen at this address")
        );
    }
}
