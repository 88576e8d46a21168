//! The types of values as each language writes them.

use metier::host::{Param, ValueType};

/// The type as Luau writes it.
pub(super) fn luau(value_type: &ValueType) -> String {
    match value_type {
        ValueType::Null => "nil".into(),
        ValueType::Text | ValueType::Path => "string".into(),
        ValueType::Count | ValueType::Number => "number".into(),
        ValueType::Boolean => "boolean".into(),
        ValueType::List(item) => format!("{{{}}}", luau(item)),
        ValueType::Map(item) => format!("{{[string]: {}}}", luau(item)),
        ValueType::Record(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|field| format!("{}: {}", field.name, luau_param(field))).collect();
            format!("{{{}}}", fields.join(", "))
        }
        ValueType::OneOf(types) => types.iter().map(luau).collect::<Vec<_>>().join(" | "),
        _ => "any".into(),
    }
}

/// The type of a parameter or field, `T?` where it may be absent.
pub(super) fn luau_param(param: &Param) -> String {
    format!("{}{}", luau(&param.value_type), if param.required { "" } else { "?" })
}

/// The type as Rhai's definition files name it.
pub(super) fn rhai(value_type: &ValueType) -> &'static str {
    match value_type {
        ValueType::Null => "()",
        ValueType::Text | ValueType::Path => "String",
        ValueType::Count => "int",
        ValueType::Boolean => "bool",
        ValueType::List(_) => "Array",
        ValueType::Map(_) | ValueType::Record(_) => "Map",
        // A number may be an integer or a float.
        _ => "?",
    }
}

/// The type as JSON, in words for people.
pub(super) fn json(value_type: &ValueType) -> String {
    match value_type {
        ValueType::Null => "null".into(),
        ValueType::Text => "text".into(),
        ValueType::Path => "path".into(),
        ValueType::Count => "whole number".into(),
        ValueType::Number => "number".into(),
        ValueType::Boolean => "true or false".into(),
        ValueType::List(item) => format!("list of {}", json(item)),
        ValueType::Map(item) => format!("object of {} by name", json(item)),
        ValueType::Record(fields) => {
            let names: Vec<String> = fields
                .iter()
                .map(|field| format!("{}{}: {}", field.name, optional_mark(field), json(&field.value_type)))
                .collect();
            format!("{{{}}}", names.join(", "))
        }
        ValueType::OneOf(types) => types.iter().map(json).collect::<Vec<_>>().join(" or "),
        _ => "any value".into(),
    }
}

fn optional_mark(field: &Param) -> &'static str {
    if field.required { "" } else { "?" }
}
