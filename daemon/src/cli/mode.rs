//! The serving mode as a flag.

use std::ffi::OsStr;

use clap::{
    Arg, Command, Error, ValueEnum,
    builder::{EnumValueParser, PossibleValue, TypedValueParser},
    error::ErrorKind,
};

use crate::{config::renamed_value, current::ServingMode};

/// Refuses an old name of a mode with the new one. Otherwise the same as clap's parser of the enum.
#[derive(Clone)]
pub(super) struct ModeParser;

impl TypedValueParser for ModeParser {
    type Value = ServingMode;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<ServingMode, Error> {
        let old = value.to_str().unwrap_or_default();
        if let Some(new) = renamed_value("serving.mode", old) {
            let message = format!("the mode {old:?} is called {new:?} now\n");
            return Err(Error::raw(ErrorKind::InvalidValue, message).with_cmd(command));
        }
        EnumValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let modes = ServingMode::value_variants().iter();
        Some(Box::new(modes.filter_map(ServingMode::to_possible_value)))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[arg(long, value_parser = ModeParser)]
        mode: ServingMode,
    }

    fn parse(mode: &str) -> Result<ServingMode, String> {
        let line = Line::try_parse_from(["ostard", "--mode", mode]);
        line.map(|line| line.mode)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn an_old_name_is_refused_with_the_new_one_and_a_typo_with_all_names() {
        assert_eq!(parse("frozen"), Ok(ServingMode::Frozen));
        let old = parse("source").unwrap_err();
        assert!(old.contains("\"source\" is called \"frozen\" now"), "{old}");
        let typo = parse("frosen").unwrap_err();
        assert!(typo.contains("[possible values: frozen, prior"), "{typo}");
    }
}
