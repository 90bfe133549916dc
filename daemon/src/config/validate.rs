//! What no single value shows: sections that do not go together, and files that are not there.

use std::path::Path;

use tracing_subscriber::EnvFilter;

use super::Config;

impl Config {
    /// Everything that would keep `ostard run` from working, each text starting with its key.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        self.kafka.validate(&mut problems);
        self.events.validate(&mut problems);
        self.predictions.validate(&mut problems);
        self.dead_letters.validate(&mut problems);
        self.labels.validate(&mut problems);
        self.requests.validate(&mut problems);
        self.needed(&mut problems);
        self.topics(&mut problems);
        self.learning(&mut problems);
        self.listeners(&mut problems);
        self.files(&mut problems);
        if EnvFilter::try_new(&self.log.filter).is_err() {
            problems.push(format!(
                "log.filter is {:?}, expected a level like \"info\" or \"info,rdkafka=warn\"",
                self.log.filter
            ));
        }
        problems
    }

    fn needed(&self, problems: &mut Vec<String>) {
        if self.bundle.path.is_none() {
            problems.push(
                "bundle.path is not set, expected the folder of a model bundle: give it by --bundle, OSTAR__BUNDLE__PATH or in the file".into(),
            );
        }
        if self.checkpoints.folder.is_none() {
            problems.push(
                "checkpoints.folder is not set, expected a folder for what is learned: give it by --checkpoints, OSTAR__CHECKPOINTS__FOLDER or in the file".into(),
            );
        }
    }

    /// Two roles on one topic: the daemon would read what it writes.
    fn topics(&self, problems: &mut Vec<String>) {
        let roles = [
            ("kafka.topic", Some(&self.kafka.topic)),
            ("predictions.topic", self.predictions.topic.as_ref()),
            ("dead_letters.topic", self.dead_letters.topic.as_ref()),
            ("labels.topic", self.labels.topic.as_ref()),
        ];
        for (place, (key, topic)) in roles.iter().enumerate() {
            let earlier = roles[..place]
                .iter()
                .find(|(_, other)| topic.is_some() && other == topic);
            if let (Some((other, _)), Some(topic)) = (earlier, topic) {
                problems.push(format!(
                    "{key} is {topic:?}, expected another topic than {other}"
                ));
            }
        }
    }

    fn learning(&self, problems: &mut Vec<String>) {
        if let Err(error) = self.learner.method.validate() {
            // The model's errors read "field: problem".
            let text = error.to_string().replacen(": ", " ", 1);
            problems.push(format!("learner.method.{text}"));
        }
    }

    fn listeners(&self, problems: &mut Vec<String>) {
        let listeners = [
            ("grpc.listen", Some(self.grpc.listen)),
            ("http.listen", Some(self.http.listen)),
            ("grpc.control_listen", self.grpc.control_listen),
        ];
        for (place, (key, address)) in listeners.iter().enumerate() {
            // Port 0 is any free one, and may be asked for twice.
            let taken =
                |other: &&(_, _)| address.is_some_and(|a| a.port() != 0) && other.1 == *address;
            let earlier = listeners[..place].iter().find(taken);
            if let (Some((other, _)), Some(address)) = (earlier, address) {
                problems.push(format!(
                    "{key} is \"{address}\", expected another address than {other}"
                ));
            }
        }
        let tls = &self.tls;
        let open = self.auth.token_file.is_none() && tls.client_ca.is_none();
        let control = self.grpc.control_listen;
        if let Some(address) = control.filter(|address| open && !address.ip().is_loopback()) {
            problems.push(format!(
                "grpc.control_listen is \"{address}\", where others can reach it, but nothing asks who they are: \
                 set auth.token_file or tls.client_ca, or listen on 127.0.0.1"
            ));
        }
        if self.http.orders && self.auth.token_file.is_none() {
            problems.push(
                "http.orders is true, expected auth.token_file to be set: without a token any site could make a browser give orders".into(),
            );
        }
        if let (Some(certificate), None) = (&tls.certificate, &tls.key) {
            problems.push(format!(
                "tls.certificate is {certificate:?}, expected tls.key beside it"
            ));
        }
        if let (None, Some(key)) = (&tls.certificate, &tls.key) {
            problems.push(format!(
                "tls.key is {key:?}, expected tls.certificate beside it"
            ));
        }
        if let (None, Some(authority)) = (&tls.certificate, &tls.client_ca) {
            problems.push(format!(
                "tls.client_ca is {authority:?}, expected tls.certificate and tls.key beside it"
            ));
        }
    }

    fn files(&self, problems: &mut Vec<String>) {
        if let Some(folder) = &self.bundle.path
            && !folder.join("bundle.json").is_file()
        {
            problems.push(format!(
                "bundle.path is {folder:?}, expected a folder with bundle.json in it: `ostard fit` makes one"
            ));
        }
        let files = [
            ("tls.certificate", &self.tls.certificate),
            ("tls.key", &self.tls.key),
            ("tls.client_ca", &self.tls.client_ca),
            ("auth.token_file", &self.auth.token_file),
        ];
        for (key, path) in files {
            if let Some(path) = path.as_deref().filter(|path| !Path::is_file(path)) {
                problems.push(format!("{key} is {path:?}, expected a file that exists"));
            }
        }
    }
}
