//! How plug-ins of Synwire pass values: a text is its own bytes, a number eight bytes from the lowest, a list or a record JSON.

use serde_json::{Value, json};

use metier_core::error::{ErrorKind, Result};
use metier_core::host::{HostFunction, SkillContext, ValueType};
use metier_core::policy::RunPermissions;
use metier_core::strict_json;

/// What functions that return nothing answer.
const DONE: &str = "ok";
/// Functions whose failure is an answer; that of all others ends the run.
const REPORTING: [&str; 4] = ["write", "append", "mkdir", "edit"];

/// The value of an argument, by the type of its parameter. Offset 0 is none.
pub(super) fn argument(
    value_type: ValueType,
    block: Option<&[u8]>,
    offset: u64,
) -> std::result::Result<Value, String> {
    if offset == 0 {
        return Ok(Value::Null);
    }
    let block = block.ok_or("is not the offset of a block")?;
    let text = || std::str::from_utf8(block).map_err(|_| "is not UTF-8".to_owned());
    match value_type {
        ValueType::Text | ValueType::Path => text().map(Value::from),
        ValueType::Count | ValueType::Number => {
            let bytes: [u8; 8] = block.try_into().map_err(|_| "is not a number of 8 bytes")?;
            Ok(i64::from_le_bytes(bytes).max(0).into())
        }
        _ => strict_json::parse_repaired(text()?).map_err(|reason| format!("is not JSON: {reason}")),
    }
}

/// The text of an answer. A plug-in is told that it may not do something; it cannot tell the text of other errors from a file's.
pub(super) fn answer(function: &HostFunction, answer: Result<Value>) -> Result<String> {
    match answer {
        Ok(Value::Null) => Ok(DONE.to_owned()),
        Ok(_) if REPORTING.contains(&function.name) => Ok(DONE.to_owned()),
        Ok(Value::String(text)) => Ok(text),
        Ok(value) => Ok(value.to_string()),
        Err(error) if error.kind() == ErrorKind::Denied || REPORTING.contains(&function.name) => {
            Ok(format!("ERROR: {error}"))
        }
        Err(error) => Err(error),
    }
}

/// The input as a plug-in of Synwire gets it: an object with what it may know of its run.
pub(super) fn input(input: &Value, context: &SkillContext) -> Value {
    let mut object = match input {
        Value::Object(fields) => fields.clone(),
        Value::Null => serde_json::Map::new(),
        other => serde_json::Map::from_iter([("value".to_owned(), other.clone())]),
    };
    let permissions = context.permissions().effective();
    let names = permissions.iter().map(ToString::to_string);
    let tools: Vec<String> = names.filter_map(|name| name.strip_prefix("tool:").map(str::to_owned)).collect();
    // Paths are those of the project, wherever that lies.
    object.insert("__context".to_owned(), json!({"project_root": ".", "available_tools": tools}));
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_texts_and_numbers_of_eight_bytes() {
        let text = |block: &[u8]| argument(ValueType::Text, Some(block), 1);
        assert_eq!(text(b"{\"a\""), Ok(json!("{\"a\"")));
        assert!(text(b"\xff").is_err());
        let number = |block: &[u8]| argument(ValueType::Count, Some(block), 1);
        assert_eq!(number(&7_i64.to_le_bytes()), Ok(json!(7)));
        assert_eq!(number(&(-7_i64).to_le_bytes()), Ok(json!(0)), "as Synwire counts");
        assert!(number(b"7").is_err());
        assert_eq!(argument(ValueType::Any, Some(b"[1]"), 1), Ok(json!([1])));
        assert_eq!(argument(ValueType::Text, None, 0), Ok(Value::Null));
        assert!(argument(ValueType::Text, None, 9).is_err());
    }
}
