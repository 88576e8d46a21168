//! The record of each host API function. Adapters, documentation and tests are generated from these records, so nothing is
//! written twice.

use serde_json::{Value, json};

use super::args::Args;
use super::context::SkillContext;
use crate::error::Result;

/// One function of the host API, the same in every language.
#[non_exhaustive]
pub struct HostFunction {
    /// The name on `ctx`.
    pub name: &'static str,
    /// Aliases of the name.
    pub aliases: &'static [&'static str],
    /// Its parameters, in order; optional ones last.
    pub params: &'static [Param],
    /// The type of its result.
    pub returns: ValueType,
    /// The permission that a call needs.
    pub access: AccessRule,
    /// Its description, in a sentence or two.
    pub doc: &'static str,
    /// A call that the conformance tests make in every language.
    pub example: FunctionExample,
    /// Its implementation in Rust. Called through [`HostFunction::call`], with arguments and permissions checked.
    pub(crate) body: fn(&SkillContext, &Args) -> Result<Value>,
}

/// One parameter of a function, or one key of an options record.
#[non_exhaustive]
pub struct Param {
    /// Its name, in documentation and errors.
    pub name: &'static str,
    /// The type of its value.
    pub value_type: ValueType,
    /// Whether a call must pass it.
    pub required: bool,
    /// Its meaning, with units and default.
    pub doc: &'static str,
}

/// The type of a JSON value, in parameters and results.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum ValueType {
    /// `null`.
    Null,
    /// A string.
    Text,
    /// A path of the project, as a string; `/`-separated, relative to the project's root.
    Path,
    /// A whole number, zero or more.
    Count,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// Any JSON value.
    Any,
    /// A list of such values.
    List(&'static ValueType),
    /// An object with such values under any keys.
    Map(&'static ValueType),
    /// An object with these keys and no others.
    Record(&'static [Param]),
    /// A value of one of these types.
    OneOf(&'static [ValueType]),
}

impl ValueType {
    /// The type as a JSON Schema (2020-12).
    pub fn json_schema(&self) -> Value {
        match self {
            Self::Null => json!({"type": "null"}),
            Self::Text | Self::Path => json!({"type": "string"}),
            Self::Count => json!({"type": "integer", "minimum": 0}),
            Self::Number => json!({"type": "number"}),
            Self::Boolean => json!({"type": "boolean"}),
            Self::Any => json!({}),
            Self::List(item) => json!({"type": "array", "items": item.json_schema()}),
            Self::Map(item) => json!({"type": "object", "additionalProperties": item.json_schema()}),
            Self::Record(fields) => record_schema(fields),
            Self::OneOf(types) => {
                json!({"anyOf": types.iter().map(Self::json_schema).collect::<Vec<Value>>()})
            }
        }
    }
}

fn record_schema(fields: &[Param]) -> Value {
    let property = |field: &Param| {
        let mut schema = field.value_type.json_schema();
        schema["description"] = field.doc.into();
        (field.name.to_owned(), schema)
    };
    let required: Vec<&str> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let properties: serde_json::Map<String, Value> = fields.iter().map(property).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// The permission that a call needs; the number is the position of the parameter that names the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRule {
    /// No permission: pure computation, the log, the skill's own files.
    Unrestricted,
    /// `read` of the path in this parameter, or of the project's root when it is omitted.
    Read(usize),
    /// `read` of the project's root.
    ReadRoot,
    /// `write` of the path in this parameter.
    Write(usize),
    /// `tool` of the name in this parameter.
    Tool(usize),
    /// `skill` of the name in this parameter.
    Skill(usize),
    /// `secret` of the name in this parameter.
    Secret(usize),
    /// `store` of the name in this parameter, or `state` when it is omitted.
    Store(usize),
    /// `sample`.
    Sample,
    /// `net` of the host of the URL in this parameter.
    Net(usize),
}

impl AccessRule {
    /// The access that a call needs, its name or host still to be filled in; `None` if no permission is needed. Of a store it is that of
    /// the skill's own.
    pub fn permission(self) -> Option<&'static str> {
        match self {
            Self::Unrestricted => None,
            Self::Read(_) | Self::ReadRoot => Some("read"),
            Self::Write(_) => Some("write"),
            Self::Tool(_) => Some("tool:NAME"),
            Self::Skill(_) => Some("skill:NAME"),
            Self::Secret(_) => Some("secret:NAME"),
            Self::Store(_) => Some("state"),
            Self::Sample => Some("sample"),
            Self::Net(_) => Some("net:HOST"),
        }
    }
}

/// A call with its expected result: documentation and test at once.
#[non_exhaustive]
pub struct FunctionExample {
    /// The files in the project before the call: path, content.
    pub files: &'static [(&'static str, &'static str)],
    /// The providers of the host, a JSON object for [`Fixtures`](super::Fixtures); empty when the function needs none.
    pub fixtures: &'static str,
    /// The permissions that the caller grants and the skill requests.
    pub grants: &'static [&'static str],
    /// The arguments, a JSON list.
    pub args: &'static str,
    /// The expected result, as JSON.
    pub answer: &'static str,
}

impl HostFunction {
    /// The arguments of the function, as a JSON Schema (2020-12) of their list.
    pub fn arguments_schema(&self) -> Value {
        let described = |param: &Param| {
            let mut schema = param.value_type.json_schema();
            schema["description"] = param.doc.into();
            if param.required { schema } else { json!({"anyOf": [schema, {"type": "null"}]}) }
        };
        let least = self.params.iter().rposition(|param| param.required).map_or(0, |last| last + 1);
        json!({
            "type": "array",
            "prefixItems": self.params.iter().map(described).collect::<Vec<Value>>(),
            "minItems": least,
            "items": false,
        })
    }

    /// The signature as shown in documentation: `head(path, lines?)`.
    pub fn signature(&self) -> String {
        let names: Vec<String> = self
            .params
            .iter()
            .map(|param| if param.required { param.name.to_owned() } else { format!("{}?", param.name) })
            .collect();
        format!("{}({})", self.name, names.join(", "))
    }
}
