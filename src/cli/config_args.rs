//! `--config` and `--secret`: what a person sets a skill up with for one run.

use std::collections::BTreeMap;

use metier::error::{ErrorKind, Result, SkillError};
use metier::host::{ConfigProvider, SecretProvider};
use metier::policy::Permission;
use serde_json::{Map, Value};

use super::input;

/// The options that set a skill up. They hold for the run: for the skill, and for skills it calls.
#[derive(clap::Args)]
pub struct ConfigArgs {
    /// A setting that the skill reads with ctx.config: KEY=VALUE, the value JSON or text, or @FILE with a JSON object of
    /// settings (may be repeated)
    #[arg(long, value_name = "KEY=VALUE")]
    config: Vec<String>,
    /// Hand the skill a secret from the environment: the variable NAME, or another one. This grants secret:NAME too, which
    /// the skill must still ask for (may be repeated)
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
        for given in &self.config {
            match given.split_once('=') {
                _ if given.starts_with('@') => settings.extend(settings_from_file(given)?),
                Some((key, text)) if !key.is_empty() => {
                    settings.insert(key.to_owned(), json_or_text(key, text)?);
                }
                _ => {
                    return Err(invalid_option(
                        "--config",
                        given,
                        "write KEY=VALUE, or @FILE with a JSON object",
                    ));
                }
            }
        }
        Ok(ConfigValues(settings))
    }

    /// The secrets, each read from the environment: a command line is for everybody on the machine to see.
    pub fn secrets(&self) -> Result<SecretValues> {
        let secret = |given: &String| {
            let (name, variable) = given.split_once('=').unwrap_or((given, given));
            if name.is_empty() || variable.is_empty() {
                return Err(invalid_option("--secret", given, "write NAME or NAME=VARIABLE"));
            }
            Ok((name.to_owned(), secret_from_environment(name, variable)?))
        };
        self.secret.iter().map(secret).collect::<Result<_>>().map(SecretValues)
    }
}

impl SecretValues {
    /// Whoever hands a skill a secret by name lets it read it.
    pub fn grants(&self) -> Result<Vec<Permission>> {
        self.0.keys().map(|name| format!("secret:{name}").parse()).collect()
    }
}

impl ConfigProvider for ConfigValues {
    fn config(&self, _: &str) -> Result<Map<String, Value>> {
        Ok(self.0.clone())
    }
}

impl SecretProvider for SecretValues {
    fn secret(&self, _: &str, name: &str) -> Result<Option<String>> {
        Ok(self.0.get(name).cloned())
    }
}

fn settings_from_file(given: &str) -> Result<Map<String, Value>> {
    match input::read(given) {
        Ok(Value::Object(settings)) => Ok(settings),
        Ok(_) => Err(invalid_option("--config", given, "the file must hold a JSON object")),
        Err(error) => Err(invalid_option("--config", given, error.message())),
    }
}

/// What reads as JSON is JSON. What begins like a list, an object or a string, and is none, is a slip and no text.
fn json_or_text(key: &str, text: &str) -> Result<Value> {
    match metier::strict_json::parse(text) {
        Ok(value) => Ok(value),
        Err(reason) if text.trim_start().starts_with(['{', '[', '"']) => {
            Err(invalid_option("--config", key, &format!("its value cannot be read as JSON: {reason}")))
        }
        Err(_) => Ok(text.into()),
    }
}

/// The value never stands in an error: it is a secret even where it cannot be one.
fn secret_from_environment(name: &str, variable: &str) -> Result<String> {
    let unusable = |why: &str| {
        let sentence = format!("--secret {name}: the environment variable {variable} {why}");
        Err(SkillError::new(ErrorKind::Usage, sentence))
    };
    if variable.contains(['=', '\0']) {
        return unusable("has no name a variable can have");
    }
    match std::env::var(variable) {
        Ok(value) if value.trim().is_empty() => unusable("is blank"),
        Ok(value) => Ok(value),
        Err(std::env::VarError::NotPresent) => unusable("is not set"),
        Err(std::env::VarError::NotUnicode(_)) => unusable("is not UTF-8"),
    }
}

fn invalid_option(option: &str, given: &str, why: &str) -> SkillError {
    SkillError::new(ErrorKind::Usage, format!("{option} {given}: {why}"))
}
