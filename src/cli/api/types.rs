//! What values look like, in the words of each language.

use metier::host::{Kind, Param};

/// The type as Luau writes it.
pub(super) fn luau(kind: &Kind) -> String {
    match kind {
        Kind::Nothing => "nil".into(),
        Kind::Text | Kind::Path => "string".into(),
        Kind::Count | Kind::Number => "number".into(),
        Kind::Flag => "boolean".into(),
        Kind::Any => "any".into(),
        Kind::List(item) => format!("{{{}}}", luau(item)),
        Kind::Map(item) => format!("{{[string]: {}}}", luau(item)),
        Kind::Record(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|field| format!("{}: {}", field.name, luau_of(field))).collect();
            format!("{{{}}}", fields.join(", "))
        }
    }
}

/// The type of a parameter or field, `T?` where it may be absent.
pub(super) fn luau_of(param: &Param) -> String {
    format!("{}{}", luau(&param.kind), if param.required { "" } else { "?" })
}

/// The type as Rhai's definition files name it.
pub(super) fn rhai(kind: &Kind) -> &'static str {
    match kind {
        Kind::Nothing => "()",
        Kind::Text | Kind::Path => "String",
        Kind::Count => "int",
        Kind::Flag => "bool",
        // A number may be an integer or a float.
        Kind::Number | Kind::Any => "?",
        Kind::List(_) => "Array",
        Kind::Map(_) | Kind::Record(_) => "Map",
    }
}

/// The type as JSON has it, for people.
pub(super) fn json(kind: &Kind) -> String {
    match kind {
        Kind::Nothing => "null".into(),
        Kind::Text => "text".into(),
        Kind::Path => "path".into(),
        Kind::Count => "whole number".into(),
        Kind::Number => "number".into(),
        Kind::Flag => "true or false".into(),
        Kind::Any => "any value".into(),
        Kind::List(item) => format!("list of {}", json(item)),
        Kind::Map(item) => format!("object of {} by name", json(item)),
        Kind::Record(fields) => {
            let names: Vec<String> = fields
                .iter()
                .map(|field| format!("{}{}: {}", field.name, mark(field), json(&field.kind)))
                .collect();
            format!("{{{}}}", names.join(", "))
        }
    }
}

fn mark(field: &Param) -> &'static str {
    if field.required { "" } else { "?" }
}
