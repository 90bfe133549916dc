//! Protobuf schemas of a registry: `.proto` sources or encoded descriptors, and the message that a payload is.

use std::collections::HashMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use prost::{Message, encoding::decode_varint};
use prost_reflect::{FileDescriptor, MessageDescriptor};
use prost_types::FileDescriptorProto;
use protox::{
    Compiler, Error,
    file::{ChainFileResolver, File, FileResolver, GoogleFileResolver},
};

use super::{
    super::{
        Format,
        message::{Plan, caught},
    },
    registry::Named,
};
use crate::event::{Reject, RejectReason, collector::Collector, places::Node};

/// What the schema's own file is called among those that it imports.
const ROOT: &str = "ostard/schema.proto";
/// Most messages of a schema that are looked at.
const MOST_MESSAGES: usize = 1_000;
/// Deepest message within messages.
const DEEPEST: usize = 16;

/// How to read each message of a schema, by the path of numbers that payloads name it with.
#[derive(Debug)]
pub(super) struct Messages {
    plans: HashMap<Vec<usize>, Result<Plan, String>>,
}

impl Messages {
    /// Compiles a schema. `only` is the full name of the message that is taken, if others are not.
    pub(super) fn compile(
        schema: &str,
        references: &[Named],
        only: Option<&str>,
        wanted: &Node,
    ) -> Result<Self, String> {
        let file = descriptor(schema, references)?;
        let mut plans = HashMap::new();
        for (number, message) in file.messages().enumerate() {
            add(&message, vec![number], only, wanted, &mut plans)?;
        }
        if plans.values().any(Result::is_ok) {
            return Ok(Self { plans });
        }
        let mut problems: Vec<String> = plans.into_values().filter_map(Result::err).collect();
        problems.sort();
        Err(if problems.is_empty() {
            "has no message".into()
        } else {
            problems.join("; ")
        })
    }

    /// The plan of a payload's message, and the payload behind the numbers that name it.
    fn plan<'p>(&self, payload: &'p [u8]) -> Result<(&Plan, &'p [u8]), Reject> {
        let (path, body) = path_of(payload).ok_or_else(|| {
            Reject::malformed(
                "the payload does not say which message it is, as a registry's serialisers write it",
            )
        })?;
        match self.plans.get(&path) {
            Some(Ok(plan)) => Ok((plan, body)),
            Some(Err(problem)) => Err(Reject::new(
                RejectReason::IncompatibleSchema,
                problem.clone(),
            )),
            None => Err(Reject::malformed(format!(
                "the payload is message {path:?}, which its schema does not have"
            ))),
        }
    }
}

impl Format for Messages {
    fn read<'p>(&'p self, payload: &'p [u8], event: &mut Collector<'_, 'p>) -> Result<(), Reject> {
        let (plan, body) = self.plan(payload)?;
        plan.read(body, event)
    }
}

/// Adds the plans of a message and of those declared in it.
fn add(
    message: &MessageDescriptor,
    path: Vec<usize>,
    only: Option<&str>,
    wanted: &Node,
    plans: &mut HashMap<Vec<usize>, Result<Plan, String>>,
) -> Result<(), String> {
    if plans.len() == MOST_MESSAGES || path.len() > DEEPEST {
        return Err(format!(
            "has more than {MOST_MESSAGES} messages, or messages nested deeper than {DEEPEST}"
        ));
    }
    let name = message.full_name();
    let plan = match only {
        Some(only) if only != name => Err(format!("is {name}, expected {only}")),
        _ => Plan::of_message(message, wanted),
    };
    plans.insert(path.clone(), plan);
    for (number, inner) in message.child_messages().enumerate() {
        let path = [&path[..], &[number]].concat();
        add(&inner, path, only, wanted, plans)?;
    }
    Ok(())
}

/// The numbers that name a message: how many there are, then each, as zigzag varints. No number is the first message.
fn path_of(mut payload: &[u8]) -> Option<(Vec<usize>, &[u8])> {
    let rest = &mut payload;
    let count = zigzag(rest)?;
    if count == 0 {
        return Some((vec![0], rest));
    }
    // One more than the deepest is as unknown as a million more.
    let numbers = (0..count.min(DEEPEST + 1)).map(|_| zigzag(rest));
    let path = numbers.collect::<Option<_>>()?;
    Some((path, rest))
}

/// A zigzag varint that is not negative.
fn zigzag(rest: &mut &[u8]) -> Option<usize> {
    let value = decode_varint(rest).ok()?;
    let number = usize::try_from(value >> 1).ok()?;
    (value & 1 == 0).then_some(number)
}

/// The descriptor of a schema with all that it imports.
fn descriptor(schema: &str, references: &[Named]) -> Result<FileDescriptor, String> {
    let mut files = HashMap::from([(ROOT.to_owned(), schema.to_owned())]);
    for reference in references {
        files.insert(reference.name.clone(), reference.schema.clone());
    }
    let mut resolver = ChainFileResolver::new();
    resolver.add(Sources(files));
    resolver.add(GoogleFileResolver::new());
    caught(move || {
        let mut compiler = Compiler::with_file_resolver(resolver);
        let opened = compiler.open_file(ROOT);
        opened.map_err(|error| error.to_string())?;
        let file = compiler.descriptor_pool().get_file_by_name(ROOT);
        file.ok_or_else(|| "was not compiled".into())
    })
}

/// The schema and what it refers to, by the names that imports have.
struct Sources(HashMap<String, String>);

impl FileResolver for Sources {
    fn open_file(&self, name: &str) -> Result<File, Error> {
        let source = self
            .0
            .get(name)
            .ok_or_else(|| Error::file_not_found(name))?;
        match encoded(source) {
            Some(mut descriptor) => {
                descriptor.name = Some(name.to_owned());
                Ok(File::from_file_descriptor_proto(descriptor))
            }
            None => File::from_source(name, source),
        }
    }
}

/// An encoded descriptor, which Confluent's client for Python registers in the place of a source.
fn encoded(source: &str) -> Option<FileDescriptorProto> {
    let bytes = STANDARD.decode(source.trim()).ok()?;
    let descriptor = FileDescriptorProto::decode(&bytes[..]).ok()?;
    (!descriptor.message_type.is_empty()).then_some(descriptor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_named_by_zigzag_numbers_and_no_number_is_the_first() {
        assert_eq!(path_of(&[0, 7]), Some((vec![0], &[7][..])));
        assert_eq!(path_of(&[4, 2, 0, 9]), Some((vec![1, 0], &[9][..])));
        for broken in [&[][..], &[2], &[1, 0], &[2, 3], &[0x80; 9]] {
            assert_eq!(path_of(broken), None, "{broken:?}");
        }
        // A million numbers are not read.
        let many = [&[0x80, 0x89, 0x7a][..], &[0; 64]].concat();
        assert_eq!(path_of(&many).unwrap().0.len(), DEEPEST + 1);
    }
}
