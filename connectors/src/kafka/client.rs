//! librdkafka's clients: their options, secrets and log lines.

use std::{
    fs,
    sync::{Mutex, PoisonError},
};

use rdkafka::{
    ClientConfig, ClientContext, TopicPartitionList,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    consumer::{BaseConsumer, ConsumerContext},
    error::{KafkaError as RdKafkaError, KafkaResult, RDKafkaErrorCode},
};
use tracing::{debug, info, warn};

use super::{
    error::{KafkaError, describe},
    options::canonical,
    settings::KafkaSettings,
};

pub(super) type Consumer = BaseConsumer<Context>;

/// Passes log lines on, and keeps the last error to explain a request that timed out.
#[derive(Default)]
pub(super) struct Context {
    last_error: Mutex<Option<String>>,
}

const CONSUMER_DEFAULTS: [(&str, &str); 6] = [
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    // What is lost must be noticed, so the library may not reset offsets by itself.
    ("auto.offset.reset", "error"),
    ("fetch.wait.max.ms", "100"),
    // Twice librdkafka's own: half as many fetches, some 7 % more records a second. From 8 MiB on the allocator gives every
    // fetch fresh memory, which costs more than is gained.
    ("fetch.message.max.bytes", "2097152"),
    // The queue of 100,000 records is read empty long before librdkafka's own second is over: it gave 155,000 records
    // a second where this gives 380,000.
    ("fetch.queue.backoff.ms", "5"),
];

/// A broker that is back should be found within a second, not ten.
const SHARED_DEFAULTS: [(&str, &str); 3] = [
    ("client.id", "ostard"),
    ("reconnect.backoff.max.ms", "1000"),
    ("topic.metadata.refresh.interval.ms", "10000"),
];

const PRODUCER_DEFAULTS: [(&str, &str); 4] = [
    ("enable.idempotence", "true"),
    ("acks", "all"),
    ("linger.ms", "5"),
    // Never given up: delivery ends with the broker back or the process gone.
    ("message.timeout.ms", "0"),
];

/// Options of a consumer; reads the secrets.
pub(super) fn consumer_config(settings: &KafkaSettings) -> Result<ClientConfig, KafkaError> {
    let mut config = shared_config(settings)?;
    for (option, value) in CONSUMER_DEFAULTS {
        set_default(&mut config, option, value);
    }
    config.set("group.id", &settings.group);
    Ok(config)
}

/// Options of a producer; reads the secrets.
pub(super) fn producer_config(settings: &KafkaSettings) -> Result<ClientConfig, KafkaError> {
    let mut config = shared_config(settings)?;
    for (option, value) in PRODUCER_DEFAULTS {
        set_default(&mut config, option, value);
    }
    Ok(config)
}

/// Whether librdkafka knows the option and takes the value.
pub(super) fn check_option(name: &str, value: &str) -> Result<(), String> {
    let mut config = ClientConfig::new();
    config.set(canonical(name), value);
    config
        .create_native_config()
        .map(drop)
        .map_err(|error| describe(&error))
}

/// A client with these options.
pub(super) fn create<C, T>(config: &ClientConfig, context: C) -> Result<T, KafkaError>
where
    C: ClientContext,
    T: FromClientConfigAndContext<C>,
{
    config
        .create_with_context(context)
        .map_err(|error| KafkaError::Options(describe(&error)))
}

fn shared_config(settings: &KafkaSettings) -> Result<ClientConfig, KafkaError> {
    let mut config = ClientConfig::new();
    // The level that tracing filters by is not known here; debug lines have to be asked for by option.
    config.set_log_level(RDKafkaLogLevel::Info);
    config.set("bootstrap.servers", &settings.brokers);
    for (option, value) in &settings.options.0 {
        config.set(canonical(option), value);
    }
    for (option, path) in &settings.options_from_files {
        let text = fs::read_to_string(path).map_err(|problem| KafkaError::Secret {
            section: "options_from_files",
            option: option.clone(),
            place: path.display().to_string(),
            problem: problem.to_string(),
        })?;
        // Editors and `echo` end files with a new line that is no part of the secret.
        config.set(canonical(option), text.trim_end_matches(['\r', '\n']));
    }
    for (option, variable) in &settings.options_from_environment {
        let value = std::env::var(variable).map_err(|problem| KafkaError::Secret {
            section: "options_from_environment",
            option: option.clone(),
            place: format!("environment variable {variable}"),
            problem: problem.to_string(),
        })?;
        config.set(canonical(option), value);
    }
    for (option, value) in SHARED_DEFAULTS {
        set_default(&mut config, option, value);
    }
    Ok(config)
}

fn set_default(config: &mut ClientConfig, option: &str, value: &str) {
    if config.get(option).is_none() {
        config.set(option, value);
    }
}

// === impl Context ===

impl Context {
    /// The reason of a failed request: the last error if there was one, else the request's own.
    pub(super) fn explain(&self, error: &RdKafkaError) -> String {
        self.take_last_error().unwrap_or_else(|| describe(error))
    }

    pub(super) fn take_last_error(&self) -> Option<String> {
        let last = self.last_error.lock();
        last.unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log_line(level, facility, message);
    }

    fn error(&self, error: RdKafkaError, reason: &str) {
        debug!(target: "librdkafka", error = %describe(&error), reason);
        let mut last = self
            .last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // That all brokers are down says less than why one of them is.
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) || last.is_none() {
            *last = Some(reason.to_owned());
        }
    }
}

impl ConsumerContext for Context {
    fn commit_callback(&self, result: KafkaResult<()>, _offsets: &TopicPartitionList) {
        if let Err(error) = result {
            warn!(error = %describe(&error), "offsets were not committed, the next commit covers them");
        }
    }
}

/// librdkafka recovers from most of what it calls an error, so none is louder than a warning.
pub(super) fn log_line(level: RDKafkaLogLevel, facility: &str, message: &str) {
    match level {
        RDKafkaLogLevel::Emerg
        | RDKafkaLogLevel::Alert
        | RDKafkaLogLevel::Critical
        | RDKafkaLogLevel::Error
        | RDKafkaLogLevel::Warning => warn!(target: "librdkafka", facility, "{message}"),
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
            info!(target: "librdkafka", facility, "{message}");
        }
        RDKafkaLogLevel::Debug => debug!(target: "librdkafka", facility, "{message}"),
    }
}
