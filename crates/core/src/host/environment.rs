//! Which environment variables the process of an external script is given besides those that every script has, and which are redacted.

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde_json::Value;

use super::address_password::{passwords, percent_decoded};
use super::context::SkillContext;
use super::functions::{read_secret, read_value};
use super::variables::{Environment, MAX_VALUE_BYTES, is_secret_value};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::log::LogLevel;
use crate::host::{CallRecords, RunContext, RunMessages};
use crate::policy::{
    Access, Permission, RunPermissions, check_allowed_name, check_variable_name, is_secret_setting,
};

/// A password of a longer value is replaced by itself from this many characters: shorter ones are words such as `root`.
const MIN_PASSWORD_CHARS: usize = 8;

/// A shorter text of a setting with the name of a secret stands in too many other texts to be redacted.
const MIN_SETTING_CHARS: usize = 4;

/// A number is redacted from this many digits, if it is a secret by its name: shorter ones are counts.
const MIN_SECRET_DIGITS: usize = 6;

#[cfg_attr(not(unix), allow(dead_code, reason = "no process is started there"))]
impl SkillContext {
    /// See [`config_variable`].
    pub(super) fn variable_value(&self, name: &str) -> Option<(String, bool)> {
        let brought = self.environment().and_then(|environment| environment.get(name));
        let (value, is_secret) = brought.or_else(|| {
            let value = std::env::var_os(name).filter(|value| value.len() <= MAX_VALUE_BYTES)?;
            let is_secret = is_secret_value(name, &value);
            Some((value, is_secret))
        })?;
        Some((value.into_string().ok()?, is_secret))
    }

    /// See [`has_variable`].
    pub(super) fn has_value(&self, name: &str) -> bool {
        self.environment().is_some_and(|environment| environment.get(name).is_some())
    }

    fn environment(&self) -> Option<&Environment> {
        self.facts().environment.as_deref()
    }

    /// The values that a secret of this name has now: that of the providers, or that of a variable and the passwords in it.
    pub(crate) fn secret_values(&self, name: &str) -> Result<Vec<String>> {
        let mut values = self.declared_variables(name);
        if self.permissions().allows(&self.permissions().secret_access(name)) {
            values.extend(read_value(self, name)?.map(|(value, _)| value));
        }
        let brought = self.environment().and_then(|environment| environment.get(name));
        if let Some((value, _)) = brought {
            let value = value.to_string_lossy().into_owned();
            for password in passwords(&value) {
                values.extend([password.to_owned(), percent_decoded(password)]);
            }
            values.push(value);
        }
        Ok(values)
    }

    /// From now on, the value is redacted, and so are the passwords in it.
    fn learn_secret_and_passwords(&self, name: &str, value: &str) {
        self.learn_secret(name, value);
        let parts = passwords(value).into_iter();
        for password in parts.filter(|part| part.chars().count() >= MIN_PASSWORD_CHARS) {
            self.learn_secret(name, password);
            self.learn_secret(name, &percent_decoded(password));
        }
    }

    /// From now on, the texts of a setting are redacted, and its long numbers, if it is a secret by its name, by that of a key in it, or
    /// by a password in the text.
    pub(crate) fn learn_secret_setting(&self, name: &str, value: &Value) {
        match value {
            Value::String(text) if is_secret_setting(name) && text.chars().count() >= MIN_SETTING_CHARS => {
                self.learn_secret_and_passwords(name, text);
            }
            Value::String(text) if !passwords(text).is_empty() => self.learn_secret_and_passwords(name, text),
            Value::Number(number) if is_secret_setting(name) => {
                let text = number.to_string();
                if text.len() >= MIN_SECRET_DIGITS {
                    self.learn_secret(name, &text);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn_secret_setting(name, item)),
            Value::Object(entries) => {
                for (key, value) in entries {
                    // What a secret consists of is secret, whatever its parts are called.
                    let name = if is_secret_setting(name) && !is_secret_setting(key) { name } else { key };
                    self.learn_secret_setting(name, value);
                }
            }
            _ => {}
        }
    }

    /// The names of the variables that the invocation sets.
    pub fn variable_names(&self) -> Vec<String> {
        let own = self.environment();
        own.into_iter().flat_map(Environment::variables).map(|(name, _)| name.to_owned()).collect()
    }

    /// What the invocation and the configuration give the run besides its input: variables, settings, and how it runs.
    pub fn circumstances(&self) -> Result<Value> {
        let own = self.environment();
        let variables: Vec<_> = own.into_iter().flat_map(Environment::variables).collect();
        let inherits = own.is_some_and(Environment::inherits);
        let has_journal = self.journal_file().is_some();
        Ok(serde_json::json!([
            variables,
            inherits,
            self.config_values()?,
            self.sandbox_mode().name(),
            self.execution_mode().name(),
            self.stdin_text(),
            has_journal,
            self.output_sinks().is_some(),
        ]))
    }

    /// Redacts from now on every secret that the run was given or may read, whether or not it has read it. Returns the names and values of
    /// those that it is granted.
    pub fn learn_granted_secrets(&self) -> Vec<(String, String)> {
        let own = self.environment();
        for (name, value) in own.into_iter().flat_map(Environment::secrets) {
            self.learn_secret_and_passwords(name, value);
        }
        let mut granted = Vec::new();
        for name in self.permitted_secret_names() {
            // One that cannot be read cannot be recognised either.
            for value in self.secret_values(&name).unwrap_or_default() {
                self.learn_secret_and_passwords(&name, &value);
                granted.push((name.clone(), value));
            }
        }
        granted
    }

    /// Fails if a secret is meant for a variable that no run is given. A skill that lists the secret reads it with `ctx.secret`.
    fn check_secret_names(&self) -> Result<()> {
        for name in self.permitted_secret_names() {
            let Err(reason) = check_allowed_name(&name) else { continue };
            if self.providers().secrets.is_none() || self.permissions().lists_secret(&name) {
                continue;
            }
            let sentence = format!("the secret {name} cannot be an environment variable: {reason}");
            return Err(SkillError::new(ErrorKind::Usage, sentence).with_help(format!(
                "name the secret otherwise, or list secret:{name} in the skill and read it with ctx.secret"
            )));
        }
        Ok(())
    }

    /// The secrets that the run may read and a variable can hold.
    fn permitted_secrets(&self) -> Vec<String> {
        let has_provider = self.providers().secrets.is_some();
        if !has_provider && self.config_fields().is_empty() {
            return Vec::new();
        }
        let is_declared =
            |name: &str| self.config_fields().iter().any(|field| field.secret && field.key == name);
        let mut names = self.permitted_secret_names();
        names.retain(|name| check_variable_name(name).is_ok() && (has_provider || is_declared(name)));
        names
    }

    /// The names of the secrets that the run may read, or use at a host.
    pub(crate) fn permitted_secret_names(&self) -> Vec<String> {
        let permissions = self.permissions().effective();
        let names = permissions.iter().filter_map(Permission::secret_name_and_host);
        let mut names: Vec<String> = names.map(|(name, _)| name.to_owned()).collect();
        names.dedup();
        names
    }

    /// The scopes of the permissions of this kind that the run has.
    fn permitted(&self, kind: &str) -> Vec<String> {
        let permissions = self.permissions().effective();
        let scopes = permissions.iter().filter(|permission| permission.name() == kind);
        scopes.filter_map(|permission| permission.scope().map(str::to_owned)).collect()
    }
}

/// Whether there is a value for this variable, permitted or not.
pub fn has_variable(ctx: &SkillContext, name: &str) -> bool {
    ctx.has_value(name)
}

/// The same for a value that is not a secret, by its name or by a password in it.
pub fn has_plain_variable(ctx: &SkillContext, name: &str) -> bool {
    let value = ctx.environment().and_then(|environment| environment.get(name));
    value.is_some_and(|(_, is_secret)| !is_secret)
}

/// The names of the variables that a process of this run is given; of secrets those that could be.
pub fn process_variable_names(ctx: &SkillContext) -> Vec<String> {
    let secrets = ctx.permitted_secrets();
    let mut names: Vec<String> =
        ctx.permitted("env").into_iter().filter(|name| has_variable(ctx, name)).chain(secrets).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The variables that a process of this run is given: those that were set for it and are permitted, and the secrets that it may
/// read. From now on the secret ones are redacted.
pub fn process_variables(ctx: &SkillContext) -> Result<BTreeMap<OsString, OsString>> {
    ctx.check_secret_names()?;
    let mut variables = BTreeMap::new();
    if let Some(environment) = ctx.environment() {
        for name in ctx.permitted("env") {
            let Some((value, is_secret)) = environment.get(&name) else { continue };
            if is_secret {
                ctx.learn_secret_and_passwords(&name, &value.to_string_lossy());
            }
            variables.insert(name.into(), value);
        }
    }
    for name in ctx.permitted_secrets() {
        // Who wants it and does not get it is told so by `ctx.secret`.
        match read_secret(ctx, &name) {
            Ok(Some(value)) if !value.contains('\0') && value.len() <= MAX_VALUE_BYTES => {
                drop(variables.insert(name.into(), value.into()));
            }
            Ok(Some(_)) => ctx.log(
                LogLevel::Warn,
                format!("the secret {name} is too long for an environment variable, or has a NUL character"),
            )?,
            Ok(None) => {}
            Err(error) => {
                ctx.cancel().check()?;
                ctx.log(LogLevel::Warn, format!("the secret {name} could not be read: {error}"))?;
            }
        }
    }
    Ok(variables)
}

/// The value of a variable from which a setting is declared to come, and whether it is secret: as the invocation sets it, or else as
/// it is in this process. Whether the run may read it is checked by the caller.
pub fn config_variable(ctx: &SkillContext, name: &str) -> Option<(String, bool)> {
    ctx.variable_value(name)
}

/// The access to a variable, if there can be one of this name.
#[cfg_attr(not(unix), allow(dead_code, reason = "no process is started there"))]
pub fn variable_access(name: &str) -> Option<Access> {
    check_variable_name(name).is_ok().then(|| Access::env(name))
}
