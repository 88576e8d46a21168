//! `--config` and `--secret`: settings and secrets for one run.

use std::collections::BTreeMap;

use metier::error::{ErrorKind, Result, SkillError};
use metier::host::{ConfigProvider, SecretProvider, SkillContext};
use metier::policy::Permission;
use serde_json::{Map, Value};

use super::input;
use metier_core::policy::secret_scope;

/// Settings and secrets of one run: for the skill, and for the skills that it calls.
#[derive(clap::Args)]
pub struct ConfigArgs {
    /// Set a value that the skill reads with ctx.config. VALUE is JSON or text; @FILE reads a JSON object of settings (may be
    /// repeated)
    #[arg(long, value_name = "KEY=VALUE")]
    config: Vec<String>,
    /// Let the skill read a secret from the environment variable NAME, or from VARIABLE; an external script has it as the
    /// variable NAME, too. This also grants secret:NAME; the skill must request it. With @HOST the skill has a placeholder, which
    /// is the secret only in requests to that host: this grants secret:NAME@HOST and net:HOST (may be repeated)
    #[arg(long, value_name = "NAME[@HOST][=VARIABLE]")]
    secret: Vec<String>,
    /// Open the TLS connections of processes to the hosts of such secrets, to put the secrets in: with a certificate authority of
    /// this run alone, which the programs of the run are told to trust
    #[arg(long)]
    tls_broker: bool,
}

/// The settings of one run.
pub struct ConfigValues(Map<String, Value>);

/// The secrets of one run, by their names.
pub struct SecretValues(BTreeMap<String, SecretValue>);

struct SecretValue {
    /// The variable that it comes from.
    variable: String,
    value: String,
    /// The hosts that it is for, if it is not read.
    hosts: Vec<String>,
}

impl ConfigArgs {
    /// Whether TLS connections of processes to hosts of secrets are opened.
    pub fn opens_tls(&self) -> bool {
        self.tls_broker
    }

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
        let mut secrets = BTreeMap::new();
        for option in &self.secret {
            let (scope, variable) = option
                .split_once('=')
                .map_or((option.as_str(), None), |(scope, variable)| (scope, Some(variable)));
            let permission = Permission::secret(scope).ok();
            let parts = permission.as_ref().and_then(secret_scope);
            let Some((name, host)) = parts.filter(|_| variable != Some("")) else {
                let forms = "write NAME or NAME=VARIABLE, or NAME@HOST for requests to that host";
                return Err(invalid_option("--secret", scope, forms));
            };
            let variable = variable.unwrap_or(name);
            let value = secret_from_environment(name, variable)?;
            let new = || SecretValue { variable: variable.to_owned(), value, hosts: Vec::new() };
            let secret = secrets.entry(name.to_owned()).or_insert_with(new);
            if secret.variable != variable {
                let reason = "a secret has one value in a run, and this names another variable for it than an option before";
                return Err(invalid_option("--secret", scope, reason));
            }
            secret.hosts.extend(host.map(str::to_owned));
        }
        Ok(SecretValues(secrets))
    }
}

impl SecretValues {
    /// Naming a secret for a skill also permits the skill to read it; naming a host, to use it there and to reach the host.
    pub fn grants(&self) -> Result<Vec<Permission>> {
        let mut grants = Vec::new();
        for (name, SecretValue { hosts, .. }) in &self.0 {
            for host in hosts {
                grants.extend([Permission::secret(&format!("{name}@{host}"))?, Permission::net(host)?]);
            }
            if hosts.is_empty() {
                grants.push(Permission::secret(name)?);
            }
        }
        Ok(grants)
    }
}

impl ConfigProvider for ConfigValues {
    fn config(&self, _: &SkillContext) -> Result<Map<String, Value>> {
        Ok(self.0.clone())
    }
}

impl SecretProvider for SecretValues {
    fn secret(&self, _: &SkillContext, name: &str) -> Result<Option<String>> {
        Ok(self.0.get(name).map(|secret| secret.value.clone()))
    }

    fn hosts(&self, _: &SkillContext, name: &str) -> Option<Vec<String>> {
        let hosts = &self.0.get(name)?.hosts;
        (!hosts.is_empty()).then(|| hosts.clone())
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
        // Variables are written in capitals where secrets of skills are not.
        let capitals = name.to_uppercase().replace('-', "_");
        let is_meant = name == variable && capitals != name && std::env::var_os(&capitals).is_some();
        let help = if is_meant {
            format!("{capitals} is set; to read the secret from there: --secret {name}={capitals}")
        } else {
            format!("set it, or name another variable: --secret {name}=VARIABLE")
        };
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
