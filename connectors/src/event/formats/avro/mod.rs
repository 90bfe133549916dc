//! Reads Avro events: the writer's schema and the wanted fields are compiled once into a reader without values in between.
//!
//! `apache-avro` parses schemas. Its own reader builds a map for every record and knows no aliases of fields.

mod bytes;
mod program;
mod read;
#[cfg(test)]
mod tests;
mod types;

pub(super) use self::program::Program;
