//! Skips JSON values that are not used, with a bound on their depth.

use std::fmt;

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};

use super::{Pass, Text};
use crate::event::{Reject, RejectReason};

/// Skips one value; `depth` is its depth if it is an array or an object.
pub(super) struct Ignored<'p, 'a, 'de> {
    pub(super) pass: &'p mut Pass<'a, 'de>,
    pub(super) depth: usize,
}

impl Ignored<'_, '_, '_> {
    fn check_depth<E: Error>(&mut self) -> Result<(), E> {
        let max_depth = self.pass.names.max_depth;
        if self.depth > max_depth {
            return Err(self.pass.refuse(Reject::new(
                RejectReason::TooDeep,
                format!("the event is nested deeper than {max_depth} levels"),
            )));
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Ignored<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Ignored<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut values: A) -> Result<(), A::Error> {
        self.check_depth()?;
        let depth = self.depth + 1;
        let pass = self.pass;
        while values.next_element_seed(Ignored { pass, depth })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.check_depth()?;
        let depth = self.depth + 1;
        let pass = self.pass;
        while map.next_key::<Text<'de>>()?.is_some() {
            map.next_value_seed(Ignored { pass, depth })?;
        }
        Ok(())
    }
}
