//! The values of the configuration, and how each type of them is written.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::home_path::expand_home;
use super::secret_source::ConfiguredSecret;
use metier_core::policy::units::{parse_bytes, parse_count, parse_duration};
use metier_core::policy::{Permission, parse_denied};

/// A value of the configuration.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ConfigValue {
    /// Yes or no.
    Flag(bool),
    /// A text, or one of the words of the type.
    Text(String),
    /// A time.
    Duration(Duration),
    /// Bytes, or a count.
    Number(u64),
    /// Absolute folders.
    Folders(Vec<PathBuf>),
    /// Names.
    Names(Vec<String>),
    /// Permissions.
    Permissions(Vec<Permission>),
    /// Any value.
    Json(Value),
    /// Where a secret comes from.
    Secret(ConfiguredSecret),
}

/// Maximum number of entries of a list.
const MAX_ENTRIES: usize = 1_000;

/// What the values of a key are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyType {
    /// `true` or `false`.
    Flag,
    /// A text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A time, such as `"5s"`; a number is seconds.
    Duration,
    /// A size, such as `"64MB"`; a number is bytes.
    Size,
    /// A number, such as `5000` or `"10k"`.
    Count,
    /// A whole number from 0 to 100.
    Score,
    /// The name of a product.
    Product,
    /// A list of absolute folders, or of folders in the home folder: `~/skills`.
    Folders,
    /// A list of names.
    Names,
    /// A list of permissions.
    Permissions,
    /// A list of permissions that can be denied, each of which denies something.
    Denials,
    /// Any value.
    Json,
    /// Where a secret comes from.
    Secret,
}

impl KeyType {
    /// The type in words, as in the documentation.
    pub fn description(self) -> String {
        match self {
            Self::Flag => "`true` or `false`".into(),
            Self::Text => "a text".into(),
            Self::Word(words) => {
                words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ")
            }
            Self::Duration => "a time such as `\"5s\"`".into(),
            Self::Size => "a size such as `\"64MB\"`".into(),
            Self::Count => "a number such as `5000` or `\"10k\"`".into(),
            Self::Score => "a whole number from 0 to 100".into(),
            Self::Product => "a name".into(),
            Self::Folders => "a list of folders".into(),
            Self::Names => "a list of names".into(),
            Self::Permissions | Self::Denials => "a list of permissions".into(),
            Self::Json => "any value".into(),
            Self::Secret => "a table".into(),
        }
    }

    /// Reads a value; the error says what it should be, without the value itself, which may be a secret.
    pub(super) fn parse(self, value: &Value) -> Result<ConfigValue, String> {
        let expected = || format!("expected {}", self.description());
        let text = || value.as_str().ok_or_else(expected);
        let texts = || -> Result<Vec<&str>, String> {
            let list = value.as_array().ok_or_else(expected)?;
            if list.len() > MAX_ENTRIES {
                return Err(format!("the list has more than {MAX_ENTRIES} entries"));
            }
            list.iter().map(|entry| entry.as_str().ok_or_else(expected)).collect()
        };
        Ok(match self {
            Self::Flag => ConfigValue::Flag(value.as_bool().ok_or_else(expected)?),
            Self::Text => ConfigValue::Text(text()?.to_owned()),
            Self::Word(words) => {
                let word = text()?;
                if !words.contains(&word) {
                    let near = metier_core::suggestion::closest(word, words);
                    let hint = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                    return Err(format!("{}{hint}", expected()));
                }
                ConfigValue::Text(word.to_owned())
            }
            Self::Duration => ConfigValue::Duration(
                parse_duration(&amount(value).ok_or_else(expected)?).map_err(|_| expected())?,
            ),
            Self::Size => ConfigValue::Number(
                parse_bytes(&amount(value).ok_or_else(expected)?).map_err(|_| expected())?,
            ),
            Self::Count => ConfigValue::Number(
                parse_count(&amount(value).ok_or_else(expected)?).map_err(|_| expected())?,
            ),
            Self::Score => {
                let score = amount(value).and_then(|text| text.parse::<u64>().ok());
                ConfigValue::Number(score.filter(|score| *score <= 100).ok_or_else(expected)?)
            }
            Self::Product => ConfigValue::Text(
                Some(text()?)
                    .filter(|name| is_product_name(name))
                    .map(str::to_owned)
                    .ok_or_else(|| "a product's name consists of letters, digits, `-` and `_`".to_owned())?,
            ),
            Self::Folders => {
                ConfigValue::Folders(texts()?.into_iter().map(expand_home).collect::<Result<_, _>>()?)
            }
            Self::Names => ConfigValue::Names(texts()?.into_iter().map(str::to_owned).collect()),
            Self::Permissions => ConfigValue::Permissions(
                texts()?.into_iter().map(parse_permission).collect::<Result<_, _>>()?,
            ),
            Self::Denials => {
                let permissions = texts()?.into_iter().map(parse_denied);
                ConfigValue::Permissions(permissions.collect::<Result<_, _>>()?)
            }
            Self::Json => ConfigValue::Json(value.clone()),
            Self::Secret => ConfigValue::Secret(ConfiguredSecret::parse(value)?),
        })
    }
}

fn parse_permission(text: &str) -> Result<Permission, String> {
    text.parse().map_err(|error: metier_core::error::SkillError| error.message().to_owned())
}

/// An amount is a text with a unit, or a number without one.
fn amount(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Whether a text can be part of folder names: `.NAME/skills`.
pub fn is_product_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
}

impl ConfigValue {
    /// The value in JSON, as it would be written in a file. Durations are in milliseconds where they are no whole seconds.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Flag(is_set) => json!(is_set),
            Self::Text(text) => json!(text),
            Self::Duration(time) if time.subsec_millis() == 0 => json!(format!("{}s", time.as_secs())),
            Self::Duration(time) => json!(format!("{}ms", time.as_millis())),
            Self::Number(number) => json!(number),
            Self::Folders(folders) => {
                json!(folders.iter().map(|path| path.display().to_string()).collect::<Vec<_>>())
            }
            Self::Names(names) => json!(names),
            Self::Permissions(permissions) => {
                json!(permissions.iter().map(ToString::to_string).collect::<Vec<_>>())
            }
            Self::Json(value) => value.clone(),
            Self::Secret(secret) => secret.to_json(),
        }
    }

    pub(super) fn as_flag(&self) -> Option<bool> {
        if let Self::Flag(is_set) = self { Some(*is_set) } else { None }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(super) fn as_duration(&self) -> Option<Duration> {
        if let Self::Duration(time) = self { Some(*time) } else { None }
    }

    pub(super) fn as_number(&self) -> Option<u64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }

    pub(super) fn as_permissions(&self) -> &[Permission] {
        if let Self::Permissions(permissions) = self { permissions } else { &[] }
    }
}

impl fmt::Display for ConfigValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to_json())
    }
}
