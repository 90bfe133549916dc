//! Compiles a writer's schema and what is wanted of it into steps that read a payload from front to back.

use std::collections::{BTreeMap, HashMap};

use apache_avro::Schema;
use serde::Deserialize;
use serde_json::Value;

use super::types::{FieldType, Type, Types};
use crate::event::{
    Cell,
    places::{self, Node, Use},
};

/// How to read events of one writer's schema.
#[derive(Debug, Clone)]
pub(in crate::event) struct Program {
    pub(super) types: Types,
    pub(super) root: Step,
    /// Fields that the writer does not have, with the reader's defaults.
    pub(super) defaults: Vec<(Vec<Use>, Cell<'static>)>,
    pub(super) max_depth: usize,
}

/// What to do with a value.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Skip(Type),
    /// A single value, or a list of such.
    Value(Type, Vec<Use>),
    /// The numbers of a vector, of this type.
    Numbers(Type),
    Record(Vec<Step>),
    /// Values of some keys; others are skipped.
    Map(HashMap<String, Step>, Type),
    /// Elements with some numbers; others are skipped.
    Array(HashMap<String, Step>, Type),
    /// A step for each branch.
    Union(Vec<Step>),
    /// A branch that cannot be what is wanted, and why.
    Wrong(String),
}

/// A place in the reader's schema.
type Reader<'s> = Option<(&'s Types, &'s Type)>;

struct Compiler<'s> {
    types: &'s Types,
    defaults: Vec<(Vec<Use>, Cell<'static>)>,
    /// Fields that the writer has.
    found: usize,
}

impl Program {
    /// Fails, in words, if the writer's events cannot give what is wanted. `others` are schemas that the writer's refers
    /// to. `reader` is the schema that the wanted names are of: it may have aliases and defaults.
    pub(in crate::event) fn compile(
        writer: &Schema,
        others: &[Schema],
        reader: Option<&Schema>,
        wanted: &Node,
        max_depth: usize,
    ) -> Result<Self, String> {
        let types = Types::new(writer, others)?;
        let reader = reader.map(|reader| Types::new(reader, &[])).transpose()?;
        let mut compiler = Compiler {
            types: &types,
            defaults: Vec::new(),
            found: 0,
        };
        let reader = reader.as_ref().map(|types| (types, &types.root));
        let root = compiler.step(&types.root, wanted, reader)?;
        let Compiler {
            defaults, found, ..
        } = compiler;
        if found == 0 {
            return Err("it has none of the fields that are wanted".into());
        }
        Ok(Self {
            types,
            root,
            defaults,
            max_depth,
        })
    }
}

impl Compiler<'_> {
    fn step(&mut self, kind: &Type, wanted: &Node, reader: Reader<'_>) -> Result<Step, String> {
        let types = self.types;
        match (wanted, types.get(kind)) {
            (Node::Value(uses), _) => {
                if !is_value(types, kind) {
                    return Err(format!(
                        "it has {} where a value is wanted",
                        in_words(types.get(kind))
                    ));
                }
                self.found += places::fields(uses);
                Ok(Step::Value(kind.clone(), uses.clone()))
            }
            (_, Type::Union(branches)) => self.union(branches, wanted, reader),
            (Node::Numbers, Type::Array(items)) if is_number(types.get(items)) => {
                self.found += 1;
                Ok(Step::Numbers(types.get(items).clone()))
            }
            (Node::Numbers, _) => {
                Err("it has no array of numbers where the vector is wanted".into())
            }
            (Node::Object { children, .. }, Type::Record(fields)) => {
                self.record(fields, children, reader)
            }
            (Node::Object { children, .. }, Type::Map(values)) => Ok(Step::Map(
                self.each(values, children)?,
                values.as_ref().clone(),
            )),
            (Node::Object { children, .. }, Type::Array(items)) => Ok(Step::Array(
                self.each(items, children)?,
                items.as_ref().clone(),
            )),
            (Node::Object { .. }, other) => Err(format!(
                "it has {} where an object is wanted",
                in_words(other)
            )),
        }
    }

    fn each(
        &mut self,
        kind: &Type,
        children: &BTreeMap<String, Node>,
    ) -> Result<HashMap<String, Step>, String> {
        let steps = children
            .iter()
            .map(|(key, child)| Ok((key.clone(), self.step(kind, child, None)?)));
        steps.collect()
    }

    /// A branch that cannot be what is wanted rejects its events; if none can, the schema is refused.
    fn union(
        &mut self,
        branches: &[Type],
        wanted: &Node,
        reader: Reader<'_>,
    ) -> Result<Step, String> {
        let mut steps = Vec::new();
        let mut refused = None;
        let mut usable = false;
        for branch in branches {
            steps.push(match branch {
                Type::Null => Step::Skip(Type::Null),
                branch => match self.step(branch, wanted, reader) {
                    Ok(step) => {
                        usable = true;
                        step
                    }
                    Err(problem) => {
                        refused = Some(problem.clone());
                        Step::Wrong(problem)
                    }
                },
            });
        }
        match (usable, refused) {
            (false, Some(problem)) => Err(problem),
            _ => Ok(Step::Union(steps)),
        }
    }

    /// Fields are found by their names, by the reader's aliases, and by their own: a writer that renames a field and
    /// keeps the old name as an alias is understood without a new reader.
    fn record(
        &mut self,
        fields: &[FieldType],
        children: &BTreeMap<String, Node>,
        reader: Reader<'_>,
    ) -> Result<Step, String> {
        let mut taken: HashMap<usize, (&String, &Node)> = HashMap::new();
        for (key, child) in children {
            let known = field_of(reader, key);
            let aliases = known.map_or(&[][..], |field| &field.names[1..]);
            let by = |matches: &dyn Fn(&FieldType) -> bool| fields.iter().position(matches);
            let place = by(&|field| field.names[0] == *key)
                .or_else(|| by(&|field| aliases.contains(&field.names[0])))
                .or_else(|| by(&|field| field.names[1..].contains(key)));
            match place {
                Some(place) => drop(taken.insert(place, (key, child))),
                None => {
                    if let Some(default) = known.and_then(|field| field.default.as_ref()) {
                        self.default(child, default);
                    }
                }
            }
        }
        let mut steps = Vec::new();
        for (place, field) in fields.iter().enumerate() {
            steps.push(match taken.get(&place) {
                None => Step::Skip(field.kind.clone()),
                Some((key, child)) => {
                    let inner = field_of(reader, key).zip(reader);
                    let inner = inner.map(|(field, (types, _))| (types, &field.kind));
                    let step = self.step(&field.kind, child, inner);
                    step.map_err(|problem| format!("`{key}`: {problem}"))?
                }
            });
        }
        Ok(Step::Record(steps))
    }

    /// Takes what the reader's default has for everything that is wanted of it.
    fn default(&mut self, wanted: &Node, default: &Value) {
        match wanted {
            Node::Value(uses) => {
                let cell = <Cell<'static> as Deserialize<'static>>::deserialize(default.clone());
                if let Ok(cell) = cell {
                    self.defaults.push((uses.clone(), cell));
                }
            }
            Node::Object { children, .. } => {
                for (key, child) in children {
                    if let Some(inner) = default.get(key) {
                        self.default(child, inner);
                    }
                }
            }
            Node::Numbers => (),
        }
    }
}

/// The reader's field of this name.
fn field_of<'s>(reader: Reader<'s>, key: &str) -> Option<&'s FieldType> {
    let (types, kind) = reader?;
    let fields = match types.get(kind) {
        Type::Record(fields) => fields,
        Type::Union(branches) => {
            let mut records = branches
                .iter()
                .filter_map(|branch| match types.get(branch) {
                    Type::Record(fields) => Some(fields),
                    _ => None,
                });
            records.next()?
        }
        _ => return None,
    };
    fields.iter().find(|field| field.names[0] == key)
}

fn is_value(types: &Types, kind: &Type) -> bool {
    match types.get(kind) {
        Type::Record(_) | Type::Map(_) | Type::Named(_) => false,
        Type::Array(items) => !matches!(types.get(items), Type::Array(_)) && is_value(types, items),
        Type::Union(branches) => branches.iter().any(|branch| is_value(types, branch)),
        _ => true,
    }
}

fn is_number(kind: &Type) -> bool {
    matches!(kind, Type::Int | Type::Long | Type::Float | Type::Double)
}

fn in_words(kind: &Type) -> &'static str {
    match kind {
        Type::Record(_) | Type::Named(_) => "a record",
        Type::Map(_) => "a map",
        Type::Array(_) => "an array",
        Type::Union(_) => "a union",
        _ => "a single value",
    }
}
