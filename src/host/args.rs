//! Arguments of a call, checked against the table before any body runs.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::context::SkillContext;
use super::files::relative;
use super::table::{HostFunction, Kind, Param};
use crate::error::{ErrorKind, Result, SkillError};

/// Bytes a path may have: as many as any system takes, and bytes of a name that are no UTF-8 are written with four.
pub(in crate::host) const LONGEST_PATH: usize = 16 << 10;
/// Letters of an argument that an error repeats.
const SHOWN: usize = 200;

/// One checked value per parameter, `null` where an optional one was left out. Paths are already relative to the project.
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
        function.takes(given.len())?;
        given.resize(params.len(), Value::Null);
        for (param, value) in params.iter().zip(&mut given) {
            if value.is_null() && !matches!(param.kind, Kind::Any | Kind::Nothing) {
                if param.required {
                    return refused(format!("{} is missing", param.name));
                }
                continue;
            }
            if let Err(expected) = fits(&param.kind, value) {
                return refused(format!("{} must be {expected}, got {}", param.name, brief(value)));
            }
            if let (Kind::Path, Value::String(path)) = (&param.kind, &mut *value) {
                // Errors repeat it.
                if path.len() > LONGEST_PATH {
                    return refused(format!("{} has more than {LONGEST_PATH} bytes", param.name));
                }
                let inside = relative(path, ctx.project_root())?;
                if inside != *path {
                    *path = inside;
                }
            }
        }
        Ok(Self(given))
    }

    /// The string in a required text or path parameter.
    pub fn text(&self, position: usize) -> &str {
        self.maybe_text(position).unwrap_or_default()
    }

    /// The string in an optional text or path parameter.
    pub fn maybe_text(&self, position: usize) -> Option<&str> {
        self.0.get(position).and_then(Value::as_str)
    }

    /// The whole number in an optional parameter.
    pub fn count(&self, position: usize) -> Option<u64> {
        self.0.get(position).and_then(whole)
    }

    /// The number in an optional parameter.
    pub fn number(&self, position: usize) -> Option<f64> {
        self.0.get(position).and_then(Value::as_f64)
    }

    /// The value as it was given; `null` when it was not.
    pub fn value(&self, position: usize) -> &Value {
        self.0.get(position).unwrap_or(&Value::Null)
    }

    /// The options record in that parameter, or its defaults when it was left out.
    pub fn options<T: DeserializeOwned + Default>(&self, position: usize) -> Result<T> {
        match self.value(position) {
            Value::Null => Ok(T::default()),
            record => T::deserialize(record).map_err(|error| {
                SkillError::new(ErrorKind::InvalidArgument, format!("options: {:.SHOWN$}", error.to_string()))
            }),
        }
    }
}

/// Whether a value has that shape; the error says what was expected.
fn fits(kind: &Kind, value: &mut Value) -> Result<(), String> {
    let expected = match kind {
        Kind::Any => return Ok(()),
        Kind::Record(fields) => return record_fits(fields, value),
        Kind::List(kind) => {
            let Value::Array(items) = value else { return Err("a list".into()) };
            return items.iter_mut().try_for_each(|item| fits(kind, item));
        }
        Kind::Map(kind) => {
            let Value::Object(map) = value else { return Err("an object".into()) };
            return map.values_mut().try_for_each(|item| {
                fits(kind, item).map_err(|expected| format!("an object, every value of it {expected}"))
            });
        }
        Kind::Count => {
            if let Some(count) = whole(value) {
                *value = count.into();
                return Ok(());
            }
            "a whole number, zero or more"
        }
        Kind::Nothing if value.is_null() => return Ok(()),
        Kind::Text | Kind::Path if value.is_string() => return Ok(()),
        Kind::Number if value.is_number() => return Ok(()),
        Kind::Flag if value.is_boolean() => return Ok(()),
        Kind::Nothing => "null",
        Kind::Text | Kind::Path => "a string",
        Kind::Number => "a number",
        Kind::Flag => "true or false",
    };
    Err(expected.into())
}

fn record_fits(fields: &[Param], value: &mut Value) -> Result<(), String> {
    let Value::Object(record) = value else { return Err("an object of options".into()) };
    let known = || fields.iter().map(|field| field.name).collect::<Vec<_>>().join(", ");
    record.retain(|_, value| !value.is_null());
    for (key, value) in record {
        let Some(field) = fields.iter().find(|field| field.name == key) else {
            return Err(format!("an object with the keys {} only (not `{key:.SHOWN$}`)", known()));
        };
        fits(&field.kind, value).map_err(|expected| format!("an object whose `{key}` is {expected}"))?;
    }
    Ok(())
}

/// A whole number of zero or more, also when a language holds it as a float.
fn whole(value: &Value) -> Option<u64> {
    const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;
    value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked on the line below
        let cast = number as u64;
        (number.fract() == 0.0 && (0.0..=LARGEST_EXACT).contains(&number)).then_some(cast)
    })
}

impl HostFunction {
    /// Whether it takes so many arguments.
    pub(crate) fn takes(&self, given: usize) -> Result<()> {
        let most = self.params.len();
        if given <= most {
            return Ok(());
        }
        let sentence = format!("{}: takes at most {}, got {given}", self.signature(), counted(most));
        Err(SkillError::new(ErrorKind::InvalidArgument, sentence))
    }
}

fn counted(params: usize) -> String {
    match params {
        1 => "1 argument".into(),
        count => format!("{count} arguments"),
    }
}

/// A value as a short word for an error: `-1`, `"a string"`, `a list`.
fn brief(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
        Value::String(text) if text.chars().count() > 40 => "a long string".into(),
        short => short.to_string(),
    }
}
