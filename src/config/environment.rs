//! The values of environment variables.

use serde_json::json;

use super::configuration::{Configuration, Setting};
use super::key_path::KeyPath;
use super::keys::KEYS;
use super::origin::ValueOrigin;
use super::value::{ConfigValue, KeyType};
use metier_core::error::{ErrorKind, SkillError};
use metier_core::suggestion::{closest, did_you_mean};

/// The values of environment variables, and the names that look like one and are none.
pub(super) fn read_environment(configuration: &mut Configuration) -> (Vec<SkillError>, Vec<SkillError>) {
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    let known: Vec<(String, &'static str)> =
        KEYS.iter().filter_map(|key| Some((key.variable()?, key.name))).collect();
    for (variable, value) in std::env::vars_os() {
        let Some(variable) = variable.to_str().filter(|name| name.starts_with("METIER_")) else { continue };
        // As if it were not set.
        if value.is_empty() {
            continue;
        }
        let Some((_, name)) = known.iter().find(|(known, _)| known == variable) else {
            if let Some(help) = misspelled(variable, &known) {
                let sentence = format!("the environment variable {variable} is not a key");
                warnings.push(SkillError::new(ErrorKind::Usage, sentence).with_help(help));
            }
            continue;
        };
        let Some(path) = KeyPath::plain(name) else { continue };
        let value = value.to_str().ok_or_else(|| "it is not UTF-8".to_owned());
        match value.and_then(|text| parse_variable(path.key().value_type, text)) {
            Ok(value) => {
                let origin = ValueOrigin::Environment { name: variable.to_owned() };
                configuration.add(path, Setting { value, origin });
            }
            Err(reason) => {
                let sentence = format!("invalid value of the environment variable {variable}: {reason}");
                errors.push(SkillError::new(ErrorKind::Usage, sentence).with_help("correct it, or unset it"));
            }
        }
    }
    (errors, warnings)
}

/// Variables that metier sets for scripts, or reads elsewhere, are no misspelled keys.
fn misspelled(variable: &str, known: &[(String, &'static str)]) -> Option<String> {
    const OTHERS: [&str; 6] = [
        "METIER_API_FD",
        "METIER_CONFIG_DIR",
        "METIER_DATA_DIR",
        "METIER_MCP_TOKEN",
        "METIER_PROJECT_DIR",
        "METIER_SKILL_DIR",
    ];
    if OTHERS.contains(&variable) {
        return None;
    }
    closest(variable, known.iter().map(|(name, _)| name.as_str())).map(did_you_mean)
}

/// Reads the value of an environment variable. Lists are separated by commas, folders as in `PATH`.
fn parse_variable(value_type: KeyType, text: &str) -> Result<ConfigValue, String> {
    let list = || text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    match value_type {
        KeyType::Flag => match text {
            "1" | "true" => Ok(ConfigValue::Flag(true)),
            "0" | "false" => Ok(ConfigValue::Flag(false)),
            _ => Err(format!("expected {}", value_type.description())),
        },
        KeyType::Folders => {
            let folders = std::env::split_paths(text).filter(|path| !path.as_os_str().is_empty());
            let folders: Vec<String> = folders.map(|path| path.to_string_lossy().into_owned()).collect();
            value_type.parse(&json!(folders))
        }
        KeyType::Names | KeyType::Permissions | KeyType::Denials => {
            value_type.parse(&json!(list().collect::<Vec<_>>()))
        }
        _ => value_type.parse(&json!(text)),
    }
}
