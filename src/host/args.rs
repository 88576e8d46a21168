//! Arguments of a host API call, validated against the function's parameters before its body runs.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::context::SkillContext;
use super::files::relative_path;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::function::{HostFunction, Param, ValueType};

/// Maximum length of a path in bytes: the longest that any system accepts; a byte that is not UTF-8 is escaped with four bytes.
pub(in crate::host) const MAX_PATH_BYTES: usize = 16 << 10;
/// Maximum characters of an argument that an error repeats.
const MAX_SHOWN_CHARS: usize = 200;

/// One validated value per parameter; `null` stands for an omitted optional argument. Paths are already relative to the project.
pub struct Args(Vec<Value>);

impl Args {
    pub(super) fn check(function: &HostFunction, ctx: &SkillContext, mut given: Vec<Value>) -> Result<Self> {
        let params = function.params;
        let refused = |what: String| {
            let sentence = format!("{}: {what}", function.signature());
            Err(SkillError::new(ErrorKind::InvalidArgument, sentence))
        };
        while given.len() > params.len() && given.last() == Some(&Value::Null) {
            given.pop();
        }
        function.check_arity(given.len())?;
        given.resize(params.len(), Value::Null);
        for (param, value) in params.iter().zip(&mut given) {
            if value.is_null() && !matches!(param.value_type, ValueType::Any | ValueType::Null) {
                if param.required {
                    return refused(format!("{} is missing", param.name));
                }
                continue;
            }
            if let Err(expected) = check_type(&param.value_type, value) {
                return refused(format!("{} must be {expected}, got {}", param.name, short_text(value)));
            }
            if let (ValueType::Path, Value::String(path)) = (&param.value_type, &mut *value) {
                // Errors repeat the path, so its length is limited.
                if path.len() > MAX_PATH_BYTES {
                    return refused(format!("{} has more than {MAX_PATH_BYTES} bytes", param.name));
                }
                let inside = relative_path(path, ctx.project_root())?;
                if inside != *path {
                    *path = inside;
                }
            }
        }
        Ok(Self(given))
    }

    /// The string in a required text or path parameter.
    pub fn text(&self, position: usize) -> &str {
        self.optional_text(position).unwrap_or_default()
    }

    /// The string in an optional text or path parameter.
    pub fn optional_text(&self, position: usize) -> Option<&str> {
        self.0.get(position).and_then(Value::as_str)
    }

    /// The whole number in an optional parameter.
    pub fn count(&self, position: usize) -> Option<u64> {
        self.0.get(position).and_then(whole_number)
    }

    /// The number in an optional parameter.
    pub fn number(&self, position: usize) -> Option<f64> {
        self.0.get(position).and_then(Value::as_f64)
    }

    /// The value as the caller passed it; `null` when it was omitted.
    pub fn value(&self, position: usize) -> &Value {
        self.0.get(position).unwrap_or(&Value::Null)
    }

    /// The options record in that parameter, or its defaults when it was omitted.
    pub fn options<T: DeserializeOwned + Default>(&self, position: usize) -> Result<T> {
        match self.value(position) {
            Value::Null => Ok(T::default()),
            record => T::deserialize(record).map_err(|error| {
                SkillError::new(
                    ErrorKind::InvalidArgument,
                    format!("options: {:.MAX_SHOWN_CHARS$}", error.to_string()),
                )
            }),
        }
    }
}

/// Checks that a value has this type; the error says what was expected.
fn check_type(kind: &ValueType, value: &mut Value) -> Result<(), String> {
    let expected = match kind {
        ValueType::Any => return Ok(()),
        ValueType::Record(fields) => return check_record_type(fields, value),
        ValueType::List(kind) => {
            let Value::Array(items) = value else { return Err("a list".into()) };
            return items.iter_mut().try_for_each(|item| check_type(kind, item));
        }
        ValueType::Map(kind) => {
            let Value::Object(map) = value else { return Err("an object".into()) };
            return map.values_mut().try_for_each(|item| {
                check_type(kind, item).map_err(|expected| format!("an object, every value of it {expected}"))
            });
        }
        ValueType::Count => {
            if let Some(count) = whole_number(value) {
                *value = count.into();
                return Ok(());
            }
            "a whole number, zero or more"
        }
        ValueType::Null if value.is_null() => return Ok(()),
        ValueType::Text | ValueType::Path if value.is_string() => return Ok(()),
        ValueType::Number if value.is_number() => return Ok(()),
        ValueType::Boolean if value.is_boolean() => return Ok(()),
        ValueType::Null => "null",
        ValueType::Text | ValueType::Path => "a string",
        ValueType::Number => "a number",
        ValueType::Boolean => "true or false",
    };
    Err(expected.into())
}

fn check_record_type(fields: &[Param], value: &mut Value) -> Result<(), String> {
    let Value::Object(record) = value else { return Err("an object of options".into()) };
    let known = || fields.iter().map(|field| field.name).collect::<Vec<_>>().join(", ");
    record.retain(|_, value| !value.is_null());
    for (key, value) in record {
        let Some(field) = fields.iter().find(|field| field.name == key) else {
            return Err(format!("an object with the keys {} only (not `{key:.MAX_SHOWN_CHARS$}`)", known()));
        };
        check_type(&field.value_type, value)
            .map_err(|expected| format!("an object whose `{key}` is {expected}"))?;
    }
    Ok(())
}

/// A whole number of zero or more, also when a language represents it as a float.
fn whole_number(value: &Value) -> Option<u64> {
    const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;
    value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked on the line below
        let cast = number as u64;
        (number.fract() == 0.0 && (0.0..=LARGEST_EXACT).contains(&number)).then_some(cast)
    })
}

impl HostFunction {
    /// Checks that the function accepts this number of arguments.
    pub(crate) fn check_arity(&self, given: usize) -> Result<()> {
        let most = self.params.len();
        if given <= most {
            return Ok(());
        }
        let sentence =
            format!("{}: takes at most {}, got {given}", self.signature(), argument_count_text(most));
        Err(SkillError::new(ErrorKind::InvalidArgument, sentence))
    }
}

fn argument_count_text(params: usize) -> String {
    match params {
        1 => "1 argument".into(),
        count => format!("{count} arguments"),
    }
}

/// A short description of a value for an error: `-1`, `"a string"`, `a list`.
fn short_text(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
        Value::String(text) if text.chars().count() > 40 => "a long string".into(),
        short => short.to_string(),
    }
}
