//! Checks across sections, and files that must exist.

use std::net::SocketAddr;

use ostar_connectors::settings::Problem;
use ostar_engine::Error;
use tracing_subscriber::EnvFilter;

use super::{AuthSettings, Config, is_loopback};

impl Config {
    /// Everything that would keep `ostard run` from working.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        self.kafka.validate(&mut problems);
        self.events.validate(&mut problems);
        self.predictions.validate(&mut problems);
        self.dead_letters.validate(&mut problems);
        self.parked.validate(&mut problems);
        self.labels.validate(&mut problems);
        self.requests.validate(&mut problems);
        self.connections.validate(&mut problems);
        self.metrics.validate(&mut problems);
        self.check_folders(&mut problems);
        self.check_role(&mut problems);
        self.check_topics(&mut problems);
        self.check_learner(&mut problems);
        self.check_addresses(&mut problems);
        self.check_access(&mut problems);
        self.check_files(&mut problems);
        if EnvFilter::try_new(&self.log.filter).is_err() {
            let hint = "expected a level like \"info\" or \"info,rdkafka=warn\"";
            problems.push(Problem::value("log.filter", &self.log.filter, hint));
        }
        problems
    }

    fn check_folders(&self, problems: &mut Vec<Problem>) {
        if self.bundle.path.is_none() {
            let hint = "expected the folder of a model bundle: set --bundle, OSTAR__BUNDLE__PATH or the key in the file";
            problems.push(Problem::unset("bundle.path", hint));
        }
        if self.keeps_folder() && self.checkpoints.folder.is_none() {
            let hint = "expected a folder for checkpoints: set --checkpoints, OSTAR__CHECKPOINTS__FOLDER or the key in the file";
            problems.push(Problem::unset("checkpoints.folder", hint));
        }
    }

    /// Two roles on one topic: the daemon would read what it writes.
    fn check_topics(&self, problems: &mut Vec<Problem>) {
        let roles = [
            ("kafka.topic", Some(&self.kafka.topic)),
            ("predictions.topic", self.predictions.topic.as_ref()),
            ("dead_letters.topic", self.dead_letters.topic.as_ref()),
            ("parked.topic", self.parked.topic.as_ref()),
            ("labels.topic", self.labels.topic.as_ref()),
            ("labels.requests.topic", self.labels.requests.topic.as_ref()),
            ("samples.topic", self.samples.topic.as_ref()),
            ("checkpoints.topic", self.checkpoints.topic.as_ref()),
        ];
        for (key, topic, other) in repeated(&roles) {
            let hint = format!("expected another topic than {other}");
            problems.push(Problem::value(key, topic, hint));
        }
    }

    fn check_learner(&self, problems: &mut Vec<Problem>) {
        if let Err(error) = self.learner.device.check() {
            let problem = match error {
                Error::InvalidSetting { problem, .. } => problem,
                error => error.to_string(),
            };
            let hint = format!("{problem}; `ostard devices` lists them");
            problems.push(Problem::key("learner.device", hint));
        }
        let told = self.learner.method.problems().into_iter();
        problems.extend(told.map(|error| match error {
            Error::InvalidSetting { field, problem } => {
                Problem::key(format!("learner.method.{field}"), problem)
            }
            error => Problem::key("learner.method", format!("cannot be used: {error}")),
        }));
    }

    /// Two listeners at one address.
    fn check_addresses(&self, problems: &mut Vec<Problem>) {
        // Port 0 is any free one, and may be asked for twice.
        let fixed = |address: &SocketAddr| address.port() != 0;
        let listeners = self.addresses();
        let listeners = listeners.map(|(key, address)| (key, address.filter(fixed)));
        for (key, address, other) in repeated(&listeners) {
            let hint = format!("expected another address than {other}");
            problems.push(Problem::value(key, address, hint));
        }
    }

    /// Orders need somebody to be identified, and TLS needs both of its files.
    fn check_access(&self, problems: &mut Vec<Problem>) {
        let tls = &self.tls;
        let auth = &self.auth;
        let has_tokens = auth.token_file.is_some() || auth.control_token_file.is_some();
        let open = !has_tokens && tls.client_ca.is_none();
        let control = self.grpc.control_listen;
        if let Some(address) = control.filter(|address| open && !is_loopback(*address)) {
            let hint = "expected 127.0.0.1 unless callers are identified: set auth.token_file, auth.control_token_file or tls.client_ca";
            problems.push(Problem::value("grpc.control_listen", address, hint));
        }
        if self.http.orders && !has_tokens {
            let hint = "expected auth.token_file or auth.control_token_file to be set: without a token any web site could make a browser send orders";
            problems.push(Problem::value("http.orders", true, hint));
        }
        if let (Some(certificate), None) = (&tls.certificate, &tls.key) {
            let hint = "expected tls.key to be set too";
            problems.push(Problem::value("tls.certificate", certificate, hint));
        }
        if let (None, Some(key)) = (&tls.certificate, &tls.key) {
            let hint = "expected tls.certificate to be set too";
            problems.push(Problem::value("tls.key", key, hint));
        }
        if tls.http_client_certificates && tls.client_ca.is_none() {
            let hint = "expected tls.client_ca to be set too";
            problems.push(Problem::value("tls.http_client_certificates", true, hint));
        }
        if let (None, Some(authority)) = (&tls.certificate, &tls.client_ca) {
            let hint = "expected tls.certificate and tls.key to be set too";
            problems.push(Problem::value("tls.client_ca", authority, hint));
        }
    }

    fn check_files(&self, problems: &mut Vec<Problem>) {
        if let Some(folder) = &self.bundle.path
            && !folder.join("bundle.json").is_file()
        {
            let hint = "expected a folder with a bundle.json: `ostard fit` writes one";
            problems.push(Problem::value("bundle.path", folder, hint));
        }
        let files = [
            ("tls.certificate", &self.tls.certificate),
            ("tls.key", &self.tls.key),
            ("tls.client_ca", &self.tls.client_ca),
        ];
        let files = files.map(|(key, path)| (key, path.as_deref()));
        for (key, path) in files.into_iter().chain(self.auth.files()) {
            let Some(path) = path else {
                continue;
            };
            if !path.is_file() {
                problems.push(Problem::value(key, path, "expected a file that exists"));
            } else if key.starts_with("auth.")
                && let Err(error) = AuthSettings::read_tokens(path)
            {
                let hint = format!("expected a file with a token on each line: {error:#}");
                problems.push(Problem::value(key, path, hint));
            }
        }
    }
}

/// Keys with the value of an earlier one: key, value, and the earlier key.
fn repeated<'h, T: PartialEq + Copy>(
    holders: &'h [(&'static str, Option<T>)],
) -> impl Iterator<Item = (&'static str, T, &'static str)> + 'h {
    holders
        .iter()
        .enumerate()
        .filter_map(|(place, (key, value))| {
            let same = |(_, other): &&(_, _)| other == value;
            let (earlier, _) = holders[..place].iter().find(same)?;
            Some((*key, (*value)?, *earlier))
        })
}
