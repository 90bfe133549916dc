//! Layers, printing, defaults and schema.

mod texts;

use std::{collections::BTreeMap, fs, path::PathBuf};

use ostar_method::learner::{LearnerSettings, TransportWeight};
use tempfile::TempDir;

use super::{defaults, shape::Shape, *};
use crate::current::ServingMode;

/// A sound configuration in a folder of its own, to be spoiled by tests.
pub(super) struct Trial {
    folder: TempDir,
    layers: Layers,
}

impl Trial {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("bundle.json"), "{}").unwrap();
        let path = folder.path().display().to_string();
        let mut trial = Self {
            folder,
            layers: Layers::default(),
        };
        trial.variable("OSTAR__BUNDLE__PATH", &path);
        trial.variable("OSTAR__CHECKPOINTS__FOLDER", &path);
        trial.variable("OSTAR__KAFKA__BROKERS", "localhost:9092");
        trial.variable("OSTAR__KAFKA__TOPIC", "mails");
        trial
    }

    pub(super) fn file(&mut self, name: &str, text: &str) -> &mut Self {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        self.layers.file = Some(path);
        self
    }

    pub(super) fn variable(&mut self, name: &str, text: &str) -> &mut Self {
        self.layers.variables.insert(name.into(), text.into());
        self
    }

    pub(super) fn set(&mut self, key: &str, text: &str) -> &mut Self {
        self.layers.flags.push(Flag {
            name: "--set",
            key: key.into(),
            text: text.into(),
        });
        self
    }

    /// A file of the folder.
    pub(super) fn path_of(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn read(&self) -> Reading {
        Reading::new(&self.layers)
    }

    fn config(&self) -> Config {
        self.read().valid().unwrap()
    }

    /// The problems, with paths as if the folder were the current one.
    pub(super) fn told(&self) -> Vec<String> {
        let problems = self.read().problems.0;
        let folder = format!("{}/", self.folder.path().display());
        let texts = problems.iter().map(ToString::to_string);
        texts.map(|text| text.replace(&folder, "")).collect()
    }
}

#[test]
fn each_role_says_what_it_lacks() {
    let mut scorer = Trial::new();
    scorer.layers.variables.remove("OSTAR__CHECKPOINTS__FOLDER");
    scorer.set("role", "scorer");
    let told = scorer.told();
    for key in ["samples.topic", "checkpoints.topic", "parked.topic"] {
        assert!(told.iter().any(|told| told.starts_with(key)), "{told:?}");
    }
    assert_eq!(told.len(), 3, "{told:?}");
    scorer
        .set("samples.topic", "s")
        .set("checkpoints.topic", "c");
    scorer.set("parked.topic", "p");
    assert_eq!(scorer.told(), [""; 0]);
    let mut learner = Trial::new();
    learner.variable("OSTAR__ROLE", "learner");
    learner
        .set("samples.topic", "s")
        .set("checkpoints.topic", "c");
    let told = learner.told();
    assert!(
        told[0].contains("expected \"kafka\", because role is \"learner\""),
        "{told:?}"
    );
    learner.set("checkpoints.store", "kafka");
    assert_eq!(learner.told(), [""; 0]);
    assert_eq!(learner.config().role, Role::Learner);
    learner.set("samples.topic", "c");
    assert!(learner.told()[0].contains("expected another topic than samples.topic"));
    assert!(
        learner.read().print().starts_with("role = "),
        "keys before sections"
    );
}

#[test]
fn the_defaults_are_those_of_the_libraries_and_all_but_three_keys_have_one() {
    let reading = Reading::new(&Layers::default());
    let config = reading.config;
    assert_eq!(config, Config::default());
    assert_eq!(config.kafka, KafkaSettings::default());
    assert_eq!(config.events, EventSettings::default());
    assert_eq!(config.predictions, PredictionSettings::default());
    assert_eq!(config.dead_letters, DeadLetterSettings::default());
    assert_eq!(config.labels, LabelSettings::default());
    assert_eq!(config.learner.method, LearnerSettings::default());
    let problems = reading.problems.0.iter();
    let keys: Vec<_> = problems
        .map(|located| located.problem.path.to_string())
        .collect();
    assert_eq!(
        keys,
        ["kafka.topic", "bundle.path", "checkpoints.folder"],
        "only what a user must say may be missing"
    );
}

#[test]
fn each_layer_goes_over_the_one_before() {
    let mut trial = Trial::new();
    let block = |trial: &Trial| trial.config().learner.block;
    assert_eq!(block(&trial), 500);
    trial.file("ostard.toml", "[learner]\nblock = 1\nnice = 5");
    assert_eq!(block(&trial), 1);
    trial.variable("OSTAR__LEARNER__BLOCK", "2");
    assert_eq!(block(&trial), 2);
    trial.set("learner.block", "3").set("learner.block", "4");
    assert_eq!(block(&trial), 4);
    assert_eq!(trial.config().learner.nice, 5);
}

#[test]
fn yaml_and_toml_say_the_same() {
    let mut toml = Trial::new();
    toml.file(
        "ostard.toml",
        "[serving]\nmode = \"adapted\"\n[learner.method]\ncritic.hidden = [64]\n[kafka.options]\nsasl.username = \"me\"",
    );
    let mut yaml = Trial::new();
    yaml.file(
        "ostard.yaml",
        "serving: {mode: adapted}\nlearner:\n  method:\n    critic: {hidden: [64]}\nkafka:\n  options:\n    sasl.username: me",
    );
    assert_eq!(toml.config().serving, yaml.config().serving);
    assert_eq!(toml.config().learner, yaml.config().learner);
    assert_eq!(toml.config().kafka.options, yaml.config().kafka.options);
    assert_eq!(toml.config().serving.mode, ServingMode::Adapted);
    assert_eq!(toml.config().kafka.options.0["sasl.username"], "me");
}

#[test]
fn texts_of_variables_and_flags_get_the_type_of_their_key() {
    let mut trial = Trial::new();
    trial
        .variable("OSTAR__LEARNER__METHOD__CRITIC__HIDDEN", "64, 32")
        .variable("OSTAR__LEARNER__METHOD__RATES__MAP", "1e-4")
        .variable("OSTAR__KAFKA__OPTIONS__SASL_PASSWORD", "12345")
        .variable("OSTAR__EVENTS__FLAT", "true")
        .variable("OSTAR__GRPC__CONTROL_LISTEN", "127.0.0.1:50052")
        .set("kafka.options.client.rack", "north")
        .set("kafka.topic", "2026")
        .set("grpc.control_listen", "");
    let config = trial.config();
    assert_eq!(config.learner.method.critic.hidden, [64, 32]);
    assert_eq!(config.learner.method.rates.map, 1e-4);
    assert_eq!(config.kafka.options.0["sasl.password"], "12345");
    assert_eq!(config.kafka.options.0["client.rack"], "north");
    assert!(config.events.flat);
    assert_eq!(config.kafka.topic, "2026");
    assert_eq!(config.grpc.control_listen, None, "an empty text unsets");
}

#[test]
fn another_choice_replaces_the_one_below_and_the_same_is_merged() {
    let mut trial = Trial::new();
    trial.file(
        "ostard.toml",
        "[learner.method]\ntransport.solved = { start = 5.0, factor = 1.5 }",
    );
    let solved = |start| TransportWeight::Solved { start, factor: 1.5 };
    assert_eq!(trial.config().learner.method.transport, solved(5.0));
    trial.variable("OSTAR__LEARNER__METHOD__TRANSPORT__SOLVED__START", "7");
    assert_eq!(trial.config().learner.method.transport, solved(7.0));
    trial.set("learner.method.transport.fixed.weight", "0.5");
    let fixed = TransportWeight::Fixed { weight: 0.5 };
    assert_eq!(trial.config().learner.method.transport, fixed);
}

#[test]
fn printing_shows_each_value_with_its_origin_and_masks_secrets() {
    let mut trial = Trial::new();
    trial
        .file("ostard.toml", "[learner]\nblock = 1000")
        .variable("OSTAR__KAFKA__OPTIONS__SASL_PASSWORD", "sesame")
        .variable("OSTAR__KAFKA__OPTIONS__SASL_USERNAME", "me")
        .set("serving.mode", "shadow");
    let printed = trial.read().print();
    let file = trial.layers.file.as_ref().unwrap().display();
    for line in [
        "[learner]",
        &format!("block = 1000 # file {file}"),
        "steps_per_block = 5 # default",
        "topic = \"mails\" # OSTAR__KAFKA__TOPIC",
        "mode = \"shadow\" # --set",
        "[kafka.options]",
        "\"sasl.password\" = \"***\" # OSTAR__KAFKA__OPTIONS__SASL_PASSWORD",
        "\"sasl.username\" = \"me\" # OSTAR__KAFKA__OPTIONS__SASL_USERNAME",
        "[learner.method.transport.fixed]",
    ] {
        assert!(
            printed.lines().any(|printed| printed == line),
            "{line}\n{printed}"
        );
    }
    assert!(!printed.contains("sesame"));
}

#[test]
fn what_was_printed_reads_back_the_same() {
    let mut trial = Trial::new();
    trial
        .variable("OSTAR__KAFKA__OPTIONS__SASL_USERNAME", "m\"e\\")
        .set(
            "learner.method.window_kind",
            "{\"reservoir\": {\"pace\": 0.5}}",
        )
        .set("learner.method.tracker", "cumulative")
        .set("learner.method.guard.movement_ratio", "1e-9");
    let config = trial.config();
    let mut again = Trial::new();
    again.layers.variables.clear();
    again.file("printed.toml", &trial.read().print());
    assert_eq!(again.config(), config);
}

#[test]
fn every_key_of_the_schema_is_documented_in_the_default_file() {
    let mut keys = Vec::new();
    collect(&Shape::of(&Config::schema()), "", &mut keys);
    assert!(keys.len() > 70, "{keys:?}");
    for (section, key) in keys {
        // Keys without a section come before the first one.
        let start = match section.as_str() {
            "" => Some(0),
            section => defaults::TEXT.find(&format!("[{section}]\n")),
        };
        let start = start.expect(&section);
        let lines = defaults::TEXT[start..].lines().skip(1);
        let mut lines = lines.take_while(|line| !line.starts_with('['));
        let documented = lines.any(|line| {
            let line = line.strip_prefix("# ").unwrap_or(line);
            line.starts_with(&format!("{key} ="))
        });
        assert!(documented, "{section}.{key}");
    }
}

/// Section and key of everything that is no table.
fn collect(shape: &Shape, section: &str, keys: &mut Vec<(String, String)>) {
    for key in shape.keys() {
        match shape.child(key) {
            Some(below @ Shape::Table { .. }) => {
                let path = [section, key].join(".");
                collect(below, path.trim_start_matches('.'), keys);
            }
            // Maps have a section of their own; choices of tables have one for their default.
            Some(Shape::Map(_)) => {}
            Some(Shape::Choice { words, .. }) if words.is_empty() => {}
            Some(Shape::Choice { tables, .. }) if tables.contains_key("adaptive") => {}
            _ => keys.push((section.to_owned(), key.to_owned())),
        }
    }
}

#[test]
fn the_schema_knows_every_key_and_forbids_others() {
    let schema = Config::schema();
    let schema = schema.as_value();
    assert_eq!(schema["additionalProperties"], false);
    let sections = schema["properties"].as_object().unwrap();
    let config = serde_json::to_value(Config::default()).unwrap();
    for (section, values) in config.as_object().unwrap() {
        assert!(sections[section].get("description").is_some(), "{section}");
        if !values.is_object() {
            continue;
        }
        let reference = sections[section]["$ref"].as_str().unwrap();
        let definition = schema.pointer(reference.trim_start_matches('#')).unwrap();
        assert_eq!(definition["additionalProperties"], false, "{section}");
        for key in values.as_object().unwrap().keys() {
            let known = definition["properties"].get(key);
            let documented = known.and_then(|known| known.get("description"));
            assert!(documented.is_some(), "{section}.{key} has no description");
        }
    }
}

#[test]
fn variables_of_other_programs_are_left_alone() {
    let mut trial = Trial::new();
    trial.layers.variables.extend(BTreeMap::from([
        ("OSTAR_CONFIG".to_owned(), "x".to_owned()),
        ("OSTAR_SERVICE_HOST".to_owned(), "10.0.0.1".to_owned()),
        ("HOME".to_owned(), "/root".to_owned()),
    ]));
    assert_eq!(trial.told(), [""; 0]);
    assert_eq!(
        trial.config().bundle.path,
        Some(PathBuf::from(trial.folder.path()))
    );
}

#[test]
fn a_token_file_must_hold_a_token() {
    let mut trial = Trial::new();
    let path = trial.path_of("token");
    trial.set("auth.metrics_token_file", &path);
    fs::write(trial.folder.path().join("token"), " \n\n").unwrap();
    assert_eq!(
        trial.told(),
        [
            "auth.metrics_token_file is \"token\", expected a file with a token on each line: token is empty, expected a token (--set)"
        ]
    );
    fs::write(trial.folder.path().join("token"), "secret\n").unwrap();
    assert_eq!(trial.told(), [""; 0]);
}

#[test]
fn passwords_in_addresses_are_neither_printed_nor_told() {
    let mut trial = Trial::new();
    trial.file(
        "ostard.toml",
        "[events.registry]\nurl = \"http://ann:hunter2@registry:8081\"\n\
         [kafka.options]\n\"https.proxy\" = \"http://ann:hunter2@proxy\"\n",
    );
    trial.set("events.format", "raw");
    trial.set("kafka.brokers", "sasl_ssl://ann:hunter2@broker:9093");
    trial.set("learner.block", "http://ann:hunter2@registry");
    let told = trial.told().join("\n");
    assert!(told.contains("http://ann:***@registry:8081"), "{told}");
    assert!(
        told.contains("learner.block is \"http://ann:***@registry\""),
        "{told}"
    );
    let reading = trial.read();
    let printed = reading.print();
    for shown in [
        "url = \"http://ann:***@registry:8081\"",
        "brokers = \"sasl_ssl://ann:***@broker:9093\"",
        "\"https.proxy\" = \"http://ann:***@proxy\"",
    ] {
        assert!(printed.contains(shown), "{printed}");
    }
    let page = reading.config.in_effect();
    assert!(page.contains("http://ann:***@registry:8081"), "{page}");
    for text in [told, printed, page] {
        assert!(!text.contains("hunter2"), "{text}");
    }
}
