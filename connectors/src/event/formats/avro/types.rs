//! A writer's schema as the reader needs it: names are resolved, documentation is gone.

use std::collections::HashMap;

use apache_avro::{Schema, schema::Name};
use serde_json::Value;

use crate::event::TimeUnit;

/// How a value is encoded.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Type {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
    Fixed(usize),
    Enum(Vec<String>),
    /// Digits after the point; the size if it is fixed.
    Decimal(i32, Option<usize>),
    /// A time since 1970.
    Time(TimeUnit),
    Record(Vec<FieldType>),
    Array(Box<Type>),
    Map(Box<Type>),
    Union(Vec<Type>),
    /// A named type that was seen before: its number in [`Types::named`].
    Named(usize),
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FieldType {
    /// Its name, then its aliases.
    pub(super) names: Vec<String>,
    pub(super) kind: Type,
    /// What readers take if the writer does not have it.
    pub(super) default: Option<Value>,
}

/// A schema without references by name.
#[derive(Debug, Clone)]
pub(super) struct Types {
    pub(super) root: Type,
    pub(super) named: Vec<Type>,
}

/// Deepest nesting of a schema.
const DEEPEST: usize = 64;

impl Types {
    pub(super) fn new(schema: &Schema, others: &[Schema]) -> Result<Self, String> {
        let mut resolver = Resolver::default();
        for other in others {
            resolver.resolve(other, 0)?;
        }
        let root = resolver.resolve(schema, 0)?;
        Ok(Self {
            root,
            named: resolver.named,
        })
    }

    /// The type itself where it is meant by name.
    pub(super) fn get<'t>(&'t self, kind: &'t Type) -> &'t Type {
        match kind {
            Type::Named(number) => &self.named[*number],
            other => other,
        }
    }
}

#[derive(Default)]
struct Resolver {
    named: Vec<Type>,
    numbers: HashMap<Name, usize>,
}

impl Resolver {
    fn resolve(&mut self, schema: &Schema, depth: usize) -> Result<Type, String> {
        if depth > DEEPEST {
            return Err(format!("the schema is nested deeper than {DEEPEST} levels"));
        }
        Ok(match schema {
            Schema::Null => Type::Null,
            Schema::Boolean => Type::Boolean,
            Schema::Int | Schema::Date | Schema::TimeMillis => Type::Int,
            Schema::Long | Schema::TimeMicros => Type::Long,
            Schema::Float => Type::Float,
            Schema::Double => Type::Double,
            Schema::Bytes | Schema::BigDecimal => Type::Bytes,
            Schema::String | Schema::Uuid => Type::Text,
            Schema::Duration => Type::Fixed(12),
            Schema::TimestampMillis | Schema::LocalTimestampMillis => Type::Time(TimeUnit::Ms),
            Schema::TimestampMicros | Schema::LocalTimestampMicros => Type::Time(TimeUnit::Us),
            Schema::TimestampNanos | Schema::LocalTimestampNanos => Type::Time(TimeUnit::Ns),
            Schema::Decimal(decimal) => {
                let scale = i32::try_from(decimal.scale).unwrap_or(i32::MAX);
                let size = match decimal.inner.as_ref() {
                    Schema::Fixed(fixed) => Some(fixed.size),
                    _ => None,
                };
                Type::Decimal(scale, size)
            }
            Schema::Fixed(fixed) => {
                let kind = Type::Fixed(fixed.size);
                self.note(&fixed.name, kind)
            }
            Schema::Enum(symbols) => {
                let kind = Type::Enum(symbols.symbols.clone());
                self.note(&symbols.name, kind)
            }
            Schema::Array(array) => Type::Array(Box::new(self.resolve(&array.items, depth + 1)?)),
            Schema::Map(map) => Type::Map(Box::new(self.resolve(&map.types, depth + 1)?)),
            Schema::Union(union) => {
                let branches = union.variants().iter();
                let branches = branches.map(|branch| self.resolve(branch, depth + 1));
                Type::Union(branches.collect::<Result<_, _>>()?)
            }
            Schema::Record(record) => {
                // Before its fields, which may be of the same type.
                let number = self.named.len();
                self.named.push(Type::Null);
                self.numbers.insert(record.name.clone(), number);
                let mut fields = Vec::new();
                for field in &record.fields {
                    let aliases = field.aliases.iter().flatten().cloned();
                    fields.push(FieldType {
                        names: std::iter::once(field.name.clone()).chain(aliases).collect(),
                        kind: self.resolve(&field.schema, depth + 1)?,
                        default: field.default.clone(),
                    });
                }
                self.named[number] = Type::Record(fields);
                Type::Named(number)
            }
            Schema::Ref { name } => match self.numbers.get(name) {
                Some(number) => Type::Named(*number),
                None => return Err(format!("the schema has no type {name}")),
            },
        })
    }

    fn note(&mut self, name: &Name, kind: Type) -> Type {
        self.numbers.insert(name.clone(), self.named.len());
        self.named.push(kind.clone());
        kind
    }
}
