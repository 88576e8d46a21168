//! The values that count, each with its origins.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::configuration::{Configuration, Setting};
use super::key_path::{KeyPath, toml_word};
use super::keys::{KEYS, Key, ProjectRule};
use super::origin::ValueOrigin;
use super::value::ConfigValue;

/// The value that counts for a key.
///
/// In JSON: `{key, value, origins}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct EffectiveValue {
    /// The key, with the names in it.
    pub key: String,
    /// The value as in a file; `null` for a default that is not a single value.
    pub value: Value,
    /// Where it comes from; several for lists that are put together.
    pub origins: Vec<ValueOrigin>,
    /// The default in words.
    #[serde(skip)]
    default: &'static str,
}

impl Configuration {
    /// The values of all keys that name no skill.
    pub fn effective(&self) -> Vec<EffectiveValue> {
        let plain = KEYS.iter().filter(|key| !key.name.starts_with(SKILL_KEYS));
        let paths = plain.filter_map(|key| KeyPath::plain(key.name));
        paths.map(|path| EffectiveValue::new(&path, self.values(Some(&path)))).collect()
    }

    /// The values for runs of one skill: limits are the lower ones of those for all runs and those for the skill.
    pub fn effective_for_skill(&self, skill: &str) -> Vec<EffectiveValue> {
        let rows = KEYS.iter().filter_map(|key| Some((key, key.name.strip_prefix(SKILL_KEYS)?)));
        rows.flat_map(|(key, name)| match KeyPath::of_skill(skill, name) {
            Some(path) if !name.contains("ENTRY") => vec![self.value_for_skill(&path, name)],
            _ => self.entries_of(skill, key),
        })
        .collect()
    }

    fn entries_of(&self, skill: &str, key: &Key) -> Vec<EffectiveValue> {
        let own = self.iter().filter(|(path, _)| path.skill() == Some(skill) && path.key().name == key.name);
        own.filter_map(|(path, values)| Some(EffectiveValue::new(path, values.get(..1)?))).collect()
    }

    fn value_for_skill(&self, path: &KeyPath, name: &str) -> EffectiveValue {
        let general_path = match name {
            "deny" => KeyPath::plain("permissions.deny"),
            _ => path.key().general().and_then(|key| KeyPath::plain(key.name)),
        };
        let (own, general) = (self.values(Some(path)), self.values(general_path.as_ref()));
        let settings: Vec<Setting> = match name {
            "deny" => general.iter().chain(own).cloned().collect(),
            "enabled" => {
                let off = own.iter().find(|setting| setting.value == ConfigValue::Flag(false));
                off.or(own.first()).into_iter().cloned().collect()
            }
            "sandbox.mode" => {
                let skill = path.skill().unwrap_or_default();
                self.skill_sandbox_mode(skill).into_iter().cloned().collect()
            }
            _ => lower(own.first(), general.first()).into_iter().cloned().collect(),
        };
        match (settings.is_empty(), &general_path) {
            (true, Some(general)) => {
                let default = EffectiveValue::new(general, &[]);
                EffectiveValue { key: path.to_string(), ..default }
            }
            _ => EffectiveValue::new(path, &settings),
        }
    }
}

const SKILL_KEYS: &str = "skills.NAME.";

/// The lower one of two limits; of what cannot be compared the first.
fn lower<'s>(own: Option<&'s Setting>, general: Option<&'s Setting>) -> Option<&'s Setting> {
    let is_lower = |one: &Setting, other: &Setting| match (&one.value, &other.value) {
        (ConfigValue::Duration(one), ConfigValue::Duration(other)) => one < other,
        (ConfigValue::Number(one), ConfigValue::Number(other)) => one < other,
        _ => false,
    };
    match (own, general) {
        (Some(own), Some(general)) if is_lower(general, own) => Some(general),
        (own, general) => own.or(general),
    }
}

impl EffectiveValue {
    /// The first of the values, of lists that are put together all, or the default.
    fn new(path: &KeyPath, settings: &[Setting]) -> Self {
        let key = path.key();
        let is_list = key.project == ProjectRule::Add;
        let counting = if is_list { settings } else { settings.get(..1).unwrap_or_default() };
        let (value, origins) = match counting {
            [] => (default_value(key), vec![ValueOrigin::Default]),
            [one] => (one.value.to_json(), vec![one.origin.clone()]),
            several => {
                let lists = several.iter().map(|setting| setting.value.to_json());
                let mut entries: Vec<Value> = Vec::new();
                for entry in lists.filter_map(|list| list.as_array().cloned()).flatten() {
                    if !entries.contains(&entry) {
                        entries.push(entry);
                    }
                }
                (Value::Array(entries), several.iter().map(|setting| setting.origin.clone()).collect())
            }
        };
        Self { key: path.to_string(), value, origins, default: key.default }
    }
}

fn default_value(key: &Key) -> Value {
    if key.default.is_empty() {
        return Value::Null;
    }
    let written = serde_json::from_str(key.default).unwrap_or_else(|_| Value::from(key.default));
    key.value_type.parse(&written).map_or(Value::Null, |value| value.to_json())
}

impl fmt::Display for EffectiveValue {
    /// A line of TOML; a comment for a default that is not a single value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Null if self.default.is_empty() => write!(f, "# {} is not set", self.key),
            Value::Null => write!(f, "# {}: {}", self.key, self.default),
            value => write!(f, "{} = {}", self.key, to_toml(value)),
        }
    }
}

fn to_toml(value: &Value) -> String {
    match value {
        Value::Object(entries) if entries.is_empty() => "{}".into(),
        Value::Object(entries) => {
            let entries =
                entries.iter().map(|(word, value)| format!("{} = {}", toml_word(word), to_toml(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Array(values) => format!("[{}]", values.iter().map(to_toml).collect::<Vec<_>>().join(", ")),
        // Strings, numbers and flags are the same in both.
        other => other.to_string(),
    }
}
