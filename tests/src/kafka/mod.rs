//! A real Apache Kafka: one KRaft node or several, started from their jars on free ports.

mod acls;
mod admin;
mod certificate;
mod install;
mod properties;

use std::{
    fs::{self, File, OpenOptions},
    ops::Deref,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};
use ostar_harness::{Client, free_port};
use rdkafka::{
    ClientConfig,
    consumer::{BaseConsumer, Consumer},
};
use tempfile::TempDir;

pub use acls::Operation;
pub use install::missing_tool;

use certificate::Certificate;

use crate::link::Link;

/// A running broker. Dropping it kills it and removes its data.
pub struct Kafka {
    jars: PathBuf,
    folder: TempDir,
    ports: Ports,
    /// Talks to the listener without encryption.
    client: Client,
    certificate: Option<Certificate>,
    listener: Listener,
    quorum: Quorum,
    /// `None` while it is stopped.
    process: Option<Child>,
}

/// How clients talk to the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listener {
    /// Neither encryption nor authentication.
    Plaintext,
    /// TLS and SCRAM-SHA-256, with this one user.
    SaslSsl {
        /// Name of the SCRAM user.
        user: String,
        /// Stored by the broker as a SCRAM credential.
        password: String,
    },
}

/// The nodes that a node belongs to.
#[derive(Debug, Clone)]
struct Quorum {
    id: usize,
    /// All nodes, as the configuration lists them.
    voters: String,
    size: usize,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    plaintext: u16,
    secure: u16,
    controller: u16,
    /// What the listener behind a link is known by, and where it listens.
    link: u16,
    behind_link: u16,
}

const START_TIMEOUT: Duration = Duration::from_secs(120);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

impl Kafka {
    /// Downloads Kafka if it is not in the cache, formats its storage, starts it and waits until it answers.
    pub fn start(listener: Listener) -> anyhow::Result<Self> {
        let jars = install::jars()?;
        let folder = tempfile::tempdir()?;
        let certificate = match &listener {
            Listener::Plaintext => None,
            Listener::SaslSsl { .. } => Some(Certificate::new(folder.path())?),
        };
        let ports = Ports::free();
        let mut kafka = Self {
            jars,
            ports,
            client: ports.client(),
            folder,
            certificate,
            listener,
            quorum: Quorum {
                id: 1,
                voters: format!("1@127.0.0.1:{}", ports.controller),
                size: 1,
            },
            process: None,
        };
        kafka.format()?;
        kafka.restart()?;
        Ok(kafka)
    }

    /// Starts a cluster without encryption. Topics have a replica on every node.
    pub fn start_cluster(size: usize) -> anyhow::Result<Vec<Self>> {
        let jars = install::jars()?;
        let ports: Vec<_> = (0..size).map(|_| Ports::free()).collect();
        let voters = ports.iter().enumerate();
        let voters = voters.map(|(at, ports)| format!("{}@127.0.0.1:{}", at + 1, ports.controller));
        let voters = voters.collect::<Vec<_>>().join(",");
        let mut nodes = Vec::new();
        for (at, ports) in ports.into_iter().enumerate() {
            let node = Self {
                jars: jars.clone(),
                ports,
                client: ports.client(),
                folder: tempfile::tempdir()?,
                certificate: None,
                listener: Listener::Plaintext,
                quorum: Quorum {
                    id: at + 1,
                    voters: voters.clone(),
                    size,
                },
                process: None,
            };
            node.format()?;
            nodes.push(node);
        }
        // None answers before a majority runs.
        for node in &mut nodes {
            node.launch()?;
        }
        for node in &mut nodes {
            node.wait_until_ready()?;
        }
        Ok(nodes)
    }

    /// Address of the listener that was asked for.
    pub fn bootstrap(&self) -> String {
        match self.listener {
            Listener::Plaintext => self.plaintext(),
            Listener::SaslSsl { .. } => format!("127.0.0.1:{}", self.ports.secure),
        }
    }

    /// Address of the listener without encryption, which always exists: that of the client that this derefs to.
    pub fn plaintext(&self) -> String {
        self.client.address().to_owned()
    }

    /// A network to the broker that can be slow or cut, and the address to reach the broker by it.
    pub fn link(&self) -> anyhow::Result<(Link, String)> {
        let link = Link::start(self.ports.link, self.ports.behind_link)?;
        Ok((link, format!("127.0.0.1:{}", self.ports.link)))
    }

    /// Options that a client of [`Kafka::bootstrap`] needs, except for the password.
    pub fn client_options(&self) -> Vec<(&'static str, String)> {
        let (Listener::SaslSsl { user, .. }, Some(certificate)) =
            (&self.listener, &self.certificate)
        else {
            return Vec::new();
        };
        let authority = certificate.authority.display().to_string();
        vec![
            ("security.protocol", "SASL_SSL".to_owned()),
            ("sasl.mechanism", "SCRAM-SHA-256".to_owned()),
            ("sasl.username", user.clone()),
            ("ssl.ca.location", authority),
        ]
    }

    /// Sends SIGTERM and waits; after a timeout kills it and returns an error.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        let stopped = Command::new("kill").arg(process.id().to_string()).status();
        stopped.context("kill")?;
        let ended = crate::until("the broker's end", STOP_TIMEOUT, || Ok(process.try_wait()?));
        if ended.is_err() {
            let _ = process.kill();
            let _ = process.wait();
        }
        ended.map(drop)
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }

    /// Starts it again, on the same data and ports, and waits until it answers.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.launch()?;
        self.wait_until_ready()
    }

    /// Starts it again without waiting.
    fn launch(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.path().join("server.log"))?;
        let properties = self.folder.path().join("server.properties");
        let mut command = self.java(&log)?;
        let process = command.arg("kafka.Kafka").arg(properties).spawn();
        self.process = Some(process.context("java")?);
        Ok(())
    }

    /// Bytes of the log of a topic's first partition.
    pub fn size_of(&self, topic: &str) -> anyhow::Result<u64> {
        let partition = self.folder.path().join("data").join(format!("{topic}-0"));
        let mut size = 0;
        for entry in fs::read_dir(partition)? {
            let path = entry?.path();
            if path.extension().is_some_and(|kind| kind == "log") {
                // The cleaner may remove it meanwhile.
                size += fs::metadata(path).map_or(0, |file| file.len());
            }
        }
        Ok(size)
    }

    /// Loses the end of a topic's first partition, as a broker does that was not shut down cleanly: stops, cuts the log
    /// before this offset or up to a batch before it, and starts again. Returns the offset that the log ends with.
    pub fn lose_end(&mut self, topic: &str, offset: i64) -> anyhow::Result<i64> {
        self.stop()?;
        let data = self.folder.path().join("data");
        let partition = data.join(format!("{topic}-0"));
        let log = partition.join("00000000000000000000.log");
        let (length, end) = whole_batches(&fs::read(&log)?, offset)?;
        OpenOptions::new().write(true).open(&log)?.set_len(length)?;
        for entry in fs::read_dir(&partition)? {
            let path = entry?.path();
            // Made anew from the log.
            let derived = ["index", "timeindex", "snapshot"];
            if path
                .extension()
                .is_some_and(|kind| derived.iter().any(|name| kind == *name))
            {
                fs::remove_file(path)?;
            }
        }
        fs::remove_file(data.join(".kafka_cleanshutdown"))?;
        self.restart()?;
        Ok(end)
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.plaintext());
        config.set("reconnect.backoff.max.ms", "200");
        config.set_log_level(rdkafka::config::RDKafkaLogLevel::Emerg);
        let client: BaseConsumer = config.create()?;
        let Some(process) = self.process.as_mut() else {
            bail!("the broker is stopped");
        };
        let ready = crate::until("the broker's first answer", START_TIMEOUT, || {
            if let Some(status) = process.try_wait()? {
                bail!("the broker ended with {status}");
            }
            let metadata = client.fetch_metadata(None, Duration::from_secs(1));
            Ok(metadata
                .ok()
                .filter(|metadata| !metadata.brokers().is_empty()))
        });
        ready.map(drop).with_context(|| self.end_of_log())
    }

    fn format(&self) -> anyhow::Result<()> {
        let folder = self.folder.path();
        let password = self.certificate.as_ref().map(|_| certificate::PASSWORD);
        let data = folder.join("data");
        fs::write(
            folder.join("server.properties"),
            properties::server(
                self.ports,
                &data,
                self.certificate.as_ref().zip(password),
                &self.quorum,
            ),
        )?;
        fs::write(folder.join("log4j2.properties"), properties::LOGGING)?;
        let log = File::create(folder.join("server.log"))?;
        let mut command = self.java(&log)?;
        command
            .args(["kafka.tools.StorageTool", "format"])
            .args(["--cluster-id", "b3N0YXJkLXRlc3RzLWtyYQ"])
            .arg("--config")
            .arg(folder.join("server.properties"));
        if let Listener::SaslSsl { user, password } = &self.listener {
            let user = format!("SCRAM-SHA-256=[name={user},password={password}]");
            command.args(["--add-scram", &user]);
        }
        if !command.status().context("java")?.success() {
            bail!("storage was not formatted: {}", self.end_of_log());
        }
        Ok(())
    }

    fn java(&self, log: &File) -> anyhow::Result<Command> {
        let mut command = Command::new("java");
        let logging = self.folder.path().join("log4j2.properties");
        // For a short run on few cores: the C1 compiler and the serial collector start fastest.
        command
            .args(["-Xms128m", "-Xmx384m", "-XX:+UseSerialGC"])
            .arg("-XX:TieredStopAtLevel=1")
            .arg(format!("-Dlog4j2.configurationFile={}", logging.display()))
            .arg("-cp")
            .arg(self.jars.join("*"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?);
        Ok(command)
    }

    fn end_of_log(&self) -> String {
        let log = fs::read_to_string(self.folder.path().join("server.log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let end = lines.len().saturating_sub(30);
        format!("the broker's log ends with\n{}", lines[end..].join("\n"))
    }
}

/// Bytes of the batches that end at or before an offset, and the offset behind them.
fn whole_batches(log: &[u8], offset: i64) -> anyhow::Result<(u64, i64)> {
    let (mut position, mut end) = (0, 0);
    // A batch begins with its first offset and its length after that; its last offset is 23 bytes in, relative.
    while let Some(header) = log.get(position..position + 27) {
        let number = |from: usize| header[from..from + 4].try_into().map(i32::from_be_bytes);
        let first = i64::from_be_bytes(header[..8].try_into()?);
        let next = first + i64::from(number(23)?) + 1;
        if next > offset {
            break;
        }
        position += 12 + number(8)? as usize;
        end = next;
    }
    Ok((position as u64, end))
}

impl Deref for Kafka {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

impl Ports {
    fn client(&self) -> Client {
        Client::new(format!("127.0.0.1:{}", self.plaintext))
    }

    fn free() -> Self {
        Self {
            plaintext: free_port(),
            secure: free_port(),
            controller: free_port(),
            link: free_port(),
            behind_link: free_port(),
        }
    }
}
