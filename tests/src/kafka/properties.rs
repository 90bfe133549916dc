//! `server.properties` and logging configuration of the broker.

use std::path::Path;

use super::{Ports, Quorum, certificate::Certificate};

/// Logs warnings and errors, which tell why a broker does not start.
pub(super) const LOGGING: &str = "\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
";

/// `server.properties` of a node.
pub(super) fn server(
    ports: Ports,
    data: &Path,
    secure: Option<(&Certificate, &str)>,
    quorum: &Quorum,
) -> String {
    let Quorum { id, voters, size } = quorum;
    let in_sync = size.div_ceil(2);
    let Ports {
        plaintext,
        controller,
        link,
        behind_link,
        ..
    } = ports;
    let client = format!("PLAIN://127.0.0.1:{plaintext}");
    let (client, security) = match secure {
        None => (client, String::new()),
        Some((certificate, password)) => (
            format!("{client},SECURE://127.0.0.1:{}", ports.secure),
            format!(
                "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
                 super.users=User:ANONYMOUS\n\
                 allow.everyone.if.no.acl.found=true\n\
                 sasl.enabled.mechanisms=SCRAM-SHA-256\n\
                 ssl.keystore.type=PKCS12\n\
                 ssl.keystore.location={}\n\
                 ssl.keystore.password={password}\n\
                 listener.name.secure.scram-sha-256.sasl.jaas.config=\
                 org.apache.kafka.common.security.scram.ScramLoginModule required;\n",
                certificate.keystore.display(),
            ),
        ),
    };
    let data = data.display();
    format!(
        "process.roles=broker,controller\n\
         node.id={id}\n\
         controller.quorum.voters={voters}\n\
         controller.listener.names=CONTROLLER\n\
         listeners={client},LINKED://127.0.0.1:{behind_link},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners={client},LINKED://127.0.0.1:{link}\n\
         inter.broker.listener.name=PLAIN\n\
         listener.security.protocol.map=PLAIN:PLAINTEXT,LINKED:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT\n\
         log.dirs={data}\n\
         auto.create.topics.enable=false\n\
         group.initial.rebalance.delay.ms=0\n\
         group.min.session.timeout.ms=1000\n\
         log.cleaner.backoff.ms=200\n\
         offsets.topic.num.partitions=1\n\
         offsets.topic.replication.factor={size}\n\
         transaction.state.log.num.partitions=1\n\
         transaction.state.log.replication.factor={size}\n\
         transaction.state.log.min.isr={in_sync}\n\
         min.insync.replicas={in_sync}\n\
         share.coordinator.state.topic.replication.factor={size}\n\
         share.coordinator.state.topic.min.isr={in_sync}\n\
         file.delete.delay.ms=100\n\
         {security}"
    )
}
