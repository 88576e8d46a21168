//! Arguments of a host function, already validated against its parameters.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{ErrorKind, Result, SkillError};

/// Maximum characters of an argument that an error repeats.
pub(super) const MAX_SHOWN_CHARS: usize = 200;

/// One validated value per parameter; `null` stands for an omitted optional argument. Paths are already relative to the project.
#[derive(Clone)]
pub struct Args(Vec<Value>);

impl Args {
    /// The values as they were validated, one for each parameter.
    pub(super) fn new(validated: Vec<Value>) -> Self {
        Self(validated)
    }

    pub(super) fn values(&self) -> &[Value] {
        &self.0
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

/// A whole number of zero or more, also when a language represents it as a float.
pub(super) fn whole_number(value: &Value) -> Option<u64> {
    const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;
    value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked on the line below
        let cast = number as u64;
        (number.fract() == 0.0 && (0.0..=LARGEST_EXACT).contains(&number)).then_some(cast)
    })
}
