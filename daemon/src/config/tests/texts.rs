//! What a new user is told, word by word.

use super::Trial;

#[test]
fn a_typo_in_a_key() {
    let mut trial = Trial::new();
    trial
        .file(
            "ostard.toml",
            "[kafka]\ntopik = \"mails\"\n[lerner]\nblock = 5",
        )
        .variable("OSTAR__CHECKPOINTS__FOLDR", "state")
        .set("learner.method.windw", "100")
        .set("learner.speed", "100");
    assert_eq!(
        trial.told(),
        [
            "lerner is not a key, did you mean learner? (file ostard.toml)",
            "checkpoints.foldr is not a key, did you mean checkpoints.folder? (OSTAR__CHECKPOINTS__FOLDR)",
            "kafka.topik is not a key, did you mean kafka.topic? (file ostard.toml)",
            "learner.speed is not a key, expected one of block, device, method, nice, steps_per_block, when_behind (--set)",
            "learner.method.windw is not a key, did you mean learner.method.window? (--set)",
        ]
    );
}

#[test]
fn a_value_of_the_wrong_type() {
    let mut trial = Trial::new();
    trial
        .file(
            "ostard.toml",
            "[learner]\nblock = 1.5\n[kafka]\ngroup = 7\n[events]\nflat = \"yes\"\n[learner.method]\ncritic.hidden = [\"wide\"]",
        )
        .variable("OSTAR__LEARNER__NICE", "very")
        .variable("OSTAR__GRPC", "127.0.0.1:50051")
        .set("learner.method.seed", "-1")
        .set("http.listen.port", "80");
    assert_eq!(
        trial.told(),
        [
            "events.flat is \"yes\", expected true or false (file ostard.toml)",
            "grpc is \"127.0.0.1:50051\", expected a table of keys (OSTAR__GRPC)",
            "http.listen is a table of keys, expected a string (--set)",
            "kafka.group is 7, expected a string, in quotes (file ostard.toml)",
            "learner.block is 1.5, expected a whole number of at least 1 (file ostard.toml)",
            "learner.method.critic.hidden is [\"wide\"], expected a list, each item a whole number of at least 0 (file ostard.toml)",
            "learner.method.seed is -1, expected a whole number of at least 0 (--set)",
            "learner.nice is \"very\", expected a whole number from 0 to 19 (OSTAR__LEARNER__NICE)",
        ]
    );
}

#[test]
fn a_word_that_is_no_choice() {
    let mut trial = Trial::new();
    trial
        .set("serving.mode", "adaptd")
        .set("kafka.start", "beginning")
        .set("learner.method.tracker", "none")
        .set("learner.method.transport.solvd.start", "1")
        .set("learner.method.window_kind", "{\"reservoir\": {}}");
    assert_eq!(
        trial.told(),
        [
            "kafka.start is \"beginning\", expected one of earliest, latest, timestamp (--set)",
            "learner.method.tracker is \"none\", expected one of cumulative, adaptive, half_life (--set)",
            "learner.method.transport.solvd is not a key, did you mean learner.method.transport.solved? (--set)",
            "learner.method.window_kind.reservoir.pace is not set, expected a number",
            "serving.mode is \"adaptd\", expected one of frozen, prior, adapted, shadow, auto; did you mean \"adapted\"? (--set)",
        ]
    );
}

#[test]
fn two_choices_at_once() {
    let mut trial = Trial::new();
    let text =
        "[learner.method.transport]\nfixed.weight = 1.0\nsolved = {start = 1.0, factor = 2.0}";
    trial.file("ostard.toml", text);
    assert_eq!(
        trial.told(),
        [
            "learner.method.transport holds fixed and solved, expected only one of them (file ostard.toml)"
        ]
    );
}

#[test]
fn a_length_of_time_or_an_address_that_is_none() {
    let mut trial = Trial::new();
    trial
        .set("checkpoints.min_interval", "10")
        .set("grpc.listen", "localhost")
        .variable("OSTAR__GRPC__CONTROL_LISTEN", "50052");
    assert_eq!(
        trial.told(),
        [
            "checkpoints.min_interval is \"10\", expected a whole number with ms, s, m or h, like \"10s\" (--set)",
            "grpc.control_listen is \"50052\", expected an address and a port, like \"127.0.0.1:50051\" (OSTAR__GRPC__CONTROL_LISTEN)",
            "grpc.listen is \"localhost\", expected an address and a port, like \"127.0.0.1:50051\" (--set)",
        ]
    );
}

#[test]
fn a_number_beyond_its_range_and_a_period_of_0() {
    let mut trial = Trial::new();
    let zero = [
        "connections.max",
        "connections.max_streams",
        "requests.max_bytes",
        "requests.max_batch_rows",
        "requests.max_rows",
        "requests.queue_bytes",
        "requests.threads",
        "samples.per_second",
    ];
    for key in zero {
        trial.set(key, "0");
    }
    trial.set("connections.max_header_bytes", "10");
    trial.set("dead_letters.max_bytes", "1000000");
    trial.set("dead_letters.ratio_over", "0");
    trial.set("parked.max_bytes", "1000");
    trial.set("connections.body_timeout", "0s");
    let mut told = trial.told();
    told.sort_unstable();
    let mut expected: Vec<_> = zero
        .map(|key| format!("{key} is 0, expected a whole number of at least 1 (--set)"))
        .into();
    expected.extend(
        [
            "connections.body_timeout is \"0s\", expected at least 1ms (--set)",
            "connections.max_header_bytes is 10, expected a whole number of at least 1024 (--set)",
            "dead_letters.max_bytes is 1000000, expected a whole number from 0 to 900000 (--set)",
            "dead_letters.ratio_over is 0, expected a whole number from 1 to 1000000 (--set)",
            "parked.max_bytes is 1000, expected a whole number of at least 1000000 (--set)",
        ]
        .map(str::to_owned),
    );
    expected.sort_unstable();
    assert_eq!(told, expected);
}

#[test]
fn a_file_that_is_missing_or_cannot_be_read() {
    let mut trial = Trial::new();
    trial.layers.file = Some(trial.folder.path().join("ostrad.toml"));
    assert_eq!(
        trial.told(),
        [
            "--config is \"ostrad.toml\", expected a file that can be read: No such file or directory (os error 2)"
        ]
    );
    trial.file("ostard.ini", "");
    assert_eq!(
        trial.told(),
        ["--config is \"ostard.ini\", expected a name that ends in .toml, .yaml or .yml"]
    );
    trial.file("ostard.toml", "[kafka]\ntopic = mails\n");
    let told = trial.told();
    assert_eq!(told.len(), 1);
    assert!(
        told[0].starts_with(
            "--config is \"ostard.toml\", expected valid Toml: TOML parse error at line 2, column 9"
        ),
        "{told:?}"
    );
    trial.file("ostard.yaml", "kafka: [\n");
    assert!(trial.told()[0].starts_with("--config is \"ostard.yaml\", expected valid Yaml: "));
}

#[test]
fn what_must_be_said_and_was_not() {
    let mut trial = Trial::new();
    trial.layers.variables.clear();
    assert_eq!(
        trial.told(),
        [
            "kafka.topic is empty, expected a value like \"events\"",
            "bundle.path is not set, expected the folder of a model bundle: set --bundle, OSTAR__BUNDLE__PATH or the key in the file",
            "checkpoints.folder is not set, expected a folder for checkpoints: set --checkpoints, OSTAR__CHECKPOINTS__FOLDER or the key in the file",
        ]
    );
}

#[test]
fn values_that_do_not_go_together() {
    let mut trial = Trial::new();
    trial
        .set("predictions.topic", "mails")
        .set("labels.topic", "truth")
        .set("dead_letters.topic", "truth")
        .set("dead_letters.max_ratio", "1.5")
        .set("kafka.start", "timestamp")
        .set("learner.method.window", "100")
        .set("grpc.control_listen", "127.0.0.1:50051")
        .set("http.listen", "127.0.0.1:50051")
        .set("http.orders", "true")
        .set("kafka.options.fetch.min.bites", "1")
        .set("kafka.options.enable.auto.commit", "true")
        .set("log.filter", "loud=!");
    assert_eq!(
        trial.told(),
        [
            "kafka.start is \"timestamp\", expected kafka.start_time_ms to be set (--set)",
            "kafka.options.enable.auto.commit may not be set: offsets are committed after outputs are flushed, and this would change that (--set)",
            "kafka.options.fetch.min.bites is refused by librdkafka: no such configuration property: \"fetch.min.bites\" (--set)",
            "dead_letters.max_ratio is 1.5, expected 0 to 1 (--set)",
            "predictions.topic is \"mails\", expected another topic than kafka.topic (--set)",
            "labels.topic is \"truth\", expected another topic than dead_letters.topic (--set)",
            "learner.method.window is 100, expected at least batch = 200 (--set)",
            "http.listen is \"127.0.0.1:50051\", expected another address than grpc.listen (--set)",
            "grpc.control_listen is \"127.0.0.1:50051\", expected another address than grpc.listen (--set)",
            "http.orders is true, expected auth.token_file or auth.control_token_file to be set: without a token any web site could make a browser send orders (--set)",
            "log.filter is \"loud=!\", expected a level like \"info\" or \"info,rdkafka=warn\" (--set)",
        ]
    );
}

#[test]
fn files_of_settings_that_are_missing_or_alone() {
    let mut trial = Trial::new();
    trial
        .set("tls.certificate", "cert.pem")
        .set("auth.token_file", "token")
        .set("bundle.path", "models/spam");
    assert_eq!(
        trial.told(),
        [
            "tls.certificate is \"cert.pem\", expected tls.key to be set too (--set)",
            "bundle.path is \"models/spam\", expected a folder with a bundle.json: `ostard fit` writes one (--set)",
            "tls.certificate is \"cert.pem\", expected a file that exists (--set)",
            "auth.token_file is \"token\", expected a file that exists (--set)",
        ]
    );
}

#[test]
fn a_secret_of_the_wrong_type_is_not_shown() {
    let mut trial = Trial::new();
    trial.file("ostard.toml", "[kafka.options]\n\"sasl.password\" = 12345");
    assert_eq!(
        trial.told(),
        ["kafka.options.sasl.password is \"***\", expected a string, in quotes (file ostard.toml)"]
    );
}

#[test]
fn all_problems_are_counted_in_one_message() {
    let mut trial = Trial::new();
    trial.set("learner.block", "0").set("learner.nice", "20");
    let message = trial.read().valid().unwrap_err().to_string();
    assert_eq!(
        message,
        "2 problems in the configuration:\n  learner.block is 0, expected a whole number of at least 1 (--set)\n  learner.nice is 20, expected a whole number from 0 to 19 (--set)"
    );
}

#[test]
fn a_command_that_does_not_use_a_key_does_not_ask_for_it() {
    let mut trial = Trial::new();
    trial.layers.variables.remove("OSTAR__KAFKA__TOPIC");
    assert!(trial.read().valid_without(&["kafka.topic"]).is_ok());
    trial.set("learner.block", "0");
    let refused = trial.read().valid_without(&["kafka.topic"]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a problem in the configuration:\n  learner.block is 0, expected a whole number of at least 1 (--set)"
    );
}
