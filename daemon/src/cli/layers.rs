//! Flags that choose and override the configuration.

use std::{collections::BTreeMap, env, path::PathBuf};

use clap::{Args, ValueEnum};

use crate::{
    config::{Flag, Layers, Role},
    current::ServingMode,
};

/// Flags override `OSTAR__SECTION__KEY` variables, variables override the file, and the file overrides the defaults.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Configuration")]
pub(crate) struct LayerArgs {
    /// Configuration file, TOML or YAML by its extension.
    #[arg(long, short, value_name = "FILE", env = "OSTAR_CONFIG")]
    config: Option<PathBuf>,
    /// Set any key, like `learner.block=1000`. Can be repeated; the last one wins.
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
    /// Set kafka.brokers.
    #[arg(long, value_name = "HOST:PORT,...")]
    brokers: Option<String>,
    /// Set kafka.topic.
    #[arg(long)]
    topic: Option<String>,
    /// Set bundle.path.
    #[arg(long, value_name = "FOLDER")]
    bundle: Option<String>,
    /// Set checkpoints.folder.
    #[arg(long, value_name = "FOLDER")]
    checkpoints: Option<String>,
    /// Set role.
    #[arg(long, value_enum)]
    role: Option<Role>,
    /// Set serving.mode.
    #[arg(long)]
    mode: Option<ServingMode>,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=');
    let (key, value) = parts.ok_or("expected section.key=value, like learner.block=1000")?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

impl LayerArgs {
    /// The layers, with the environment of this process.
    pub(crate) fn layers(self) -> Layers {
        self.with_variables(variables())
    }

    fn with_variables(self, variables: BTreeMap<String, String>) -> Layers {
        let set = self.set.into_iter().map(|(key, text)| Flag {
            name: "--set",
            key,
            text,
        });
        let mode = self.mode.and_then(|mode| mode.to_possible_value());
        let mode = mode.map(|mode| mode.get_name().to_owned());
        let named = [
            ("--brokers", "kafka.brokers", self.brokers),
            ("--topic", "kafka.topic", self.topic),
            ("--bundle", "bundle.path", self.bundle),
            ("--checkpoints", "checkpoints.folder", self.checkpoints),
            (
                "--role",
                "role",
                self.role.map(|role| role.name().to_owned()),
            ),
            ("--mode", "serving.mode", mode),
        ];
        let named = named.into_iter().filter_map(|(name, key, text)| {
            let key = key.to_owned();
            text.map(|text| Flag { name, key, text })
        });
        Layers {
            file: self.config,
            variables,
            flags: set.chain(named).collect(),
        }
    }
}

/// The environment, without variables that are not UTF-8.
fn variables() -> BTreeMap<String, String> {
    let variables = env::vars_os();
    let variables = variables.map(|(name, text)| (name.into_string(), text.into_string()));
    variables
        .filter_map(|(name, text)| Some((name.ok()?, text.ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::config::Reading;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        layers: LayerArgs,
    }

    fn parse(line: &str) -> Result<LayerArgs, clap::Error> {
        Line::try_parse_from(line.split(' ')).map(|line| line.layers)
    }

    #[test]
    fn flags_set_their_keys_and_named_ones_win() {
        let arguments = parse("ostard --set kafka.topic=a --topic b --mode adapted --brokers k:1");
        let layers = arguments.unwrap().with_variables(BTreeMap::new());
        let config = Reading::new(&layers).config;
        assert_eq!(config.kafka.topic, "b");
        assert_eq!(config.kafka.brokers, "k:1");
        assert_eq!(config.serving.mode, ServingMode::Adapted);
    }

    #[test]
    fn an_assignment_without_a_value_says_what_it_should_be() {
        let refused = parse("ostard --set kafka.topic").unwrap_err().to_string();
        assert!(refused.contains("expected section.key=value"), "{refused}");
    }
}
