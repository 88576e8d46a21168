//! `--config` and `--secret`: settings and secrets for one run.

use std::collections::BTreeMap;

use metier::error::{ErrorKind, Result, SkillError};
use metier::host::{ConfigProvider, SecretProvider, SkillContext};
use metier::policy::Permission;
use serde_json::{Map, Value};

use super::input;

/// Settings and secrets of one run: for the skill, and for the skills that it calls.
#[derive(clap::Args)]
pub struct ConfigArgs {
    /// Set a value that the skill reads with ctx.config. VALUE is JSON or text; @FILE reads a JSON object of settings (may be
    /// repeated)
    #[arg(long, value_name = "KEY=VALUE")]
    config: Vec<String>,
    /// Let the skill read a secret from the environment variable NAME, or from VARIABLE; an external script has it as the
    /// variable NAME, too. This also grants secret:NAME; the skill must request it (may be repeated)
    #[arg(long, value_name = "NAME[=VARIABLE]")]
    secret: Vec<String>,
}

/// The settings of one run.
pub struct ConfigValues(Map<String, Value>);

/// The secrets of one run.
pub struct SecretValues(BTreeMap<String, String>);

impl ConfigArgs {
    /// The settings, a later one in place of an earlier one.
    pub fn settings(&self) -> Result<ConfigValues> {
        let mut settings = Map::new();
        for option in &self.config {
            match option.split_once('=') {
                _ if option.starts_with('@') => settings.extend(settings_from_file(option)?),
                Some((key, text)) if !key.is_empty() => {
                    settings.insert(key.to_owned(), json_or_text(key, text)?);
                }
                _ => {
                    return Err(invalid_option(
                        "--config",
                        option,
                        "write KEY=VALUE, or @FILE with a JSON object",
                    ));
                }
            }
        }
        Ok(ConfigValues(settings))
    }

    /// The secrets, each read from the environment: every user of the machine can see the command line.
    pub fn secrets(&self) -> Result<SecretValues> {
        let secret = |option: &String| {
            let (name, variable) = option.split_once('=').unwrap_or((option, option));
            if name.is_empty() || variable.is_empty() {
                return Err(invalid_option("--secret", name, "write NAME or NAME=VARIABLE"));
            }
            Ok((name.to_owned(), secret_from_environment(name, variable)?))
        };
        self.secret.iter().map(secret).collect::<Result<_>>().map(SecretValues)
    }
}

impl SecretValues {
    /// Naming a secret for a skill also permits the skill to read it.
    pub fn grants(&self) -> Result<Vec<Permission>> {
        self.0.keys().map(|name| format!("secret:{name}").parse()).collect()
    }
}

impl ConfigProvider for ConfigValues {
    fn config(&self, _: &SkillContext) -> Result<Map<String, Value>> {
        Ok(self.0.clone())
    }
}

impl SecretProvider for SecretValues {
    fn secret(&self, _: &SkillContext, name: &str) -> Result<Option<String>> {
        Ok(self.0.get(name).cloned())
    }

    fn has(&self, _: &SkillContext, name: &str) -> Option<bool> {
        Some(self.0.contains_key(name))
    }
}

fn settings_from_file(option: &str) -> Result<Map<String, Value>> {
    match input::read(option) {
        Ok(Value::Object(settings)) => Ok(settings),
        Ok(_) => Err(invalid_option("--config", option, "the file must hold a JSON object")),
        Err(error) => Err(invalid_option("--config", option, error.message())),
    }
}

/// JSON where the text is JSON. Text that begins like a list, an object or a string but is none is an error and not text.
fn json_or_text(key: &str, text: &str) -> Result<Value> {
    match metier_core::strict_json::parse_bare(text) {
        Ok(value) => Ok(value),
        Err(reason) if text.trim_start().starts_with(['{', '[', '"']) => {
            Err(invalid_option("--config", key, &format!("its value is not valid JSON: {reason}")))
        }
        Err(_) => Ok(text.into()),
    }
}

/// No error contains the value: it may be a secret even where it cannot be used.
fn secret_from_environment(name: &str, variable: &str) -> Result<String> {
    let unusable = |reason: &str| {
        // What follows the `=` may be the secret itself, where somebody took it for the place of the value.
        let named = if name == variable {
            format!("environment variable {name}")
        } else {
            "environment variable after `=`".to_owned()
        };
        let sentence = format!("--secret {name}: the {named} {reason}");
        let help = format!("set it, or name another variable: --secret {name}=VARIABLE");
        Err(SkillError::new(ErrorKind::Usage, sentence).with_help(help))
    };
    if variable.contains(['=', '\0']) {
        return unusable("has an invalid name");
    }
    match std::env::var(variable) {
        Ok(value) if value.trim().is_empty() => unusable("is blank"),
        Ok(value) => Ok(value),
        Err(std::env::VarError::NotPresent) => unusable("is not set"),
        Err(std::env::VarError::NotUnicode(_)) => unusable("is not UTF-8"),
    }
}

fn invalid_option(option: &str, value: &str, reason: &str) -> SkillError {
    SkillError::new(ErrorKind::Usage, format!("{option} {value}: {reason}"))
}
