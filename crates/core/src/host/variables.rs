//! The environment variables that an invocation brings.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::address_password::passwords;
use crate::error::{ErrorKind, Result, SkillError};
use crate::policy::{check_variable_name, is_secret_variable};

/// Maximum number of variables of one invocation.
const MAX_VARIABLES: usize = 512;

/// Maximum bytes of one value.
pub(super) const MAX_VALUE_BYTES: usize = 64 << 10;

/// The variables that an invocation brings. Which of them reach a process, its permissions decide; the skills that the invoked one
/// calls inherit them.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, Variable>,
    /// Whether what is not among them is read from the environment of this process.
    inherits: bool,
}

#[derive(Clone)]
struct Variable {
    value: String,
    /// Whether the value is redacted, whatever the name says.
    is_secret: bool,
}

impl Environment {
    /// Adds a variable.
    pub fn set(&mut self, name: String, value: String, is_secret: bool) {
        self.variables.insert(name, Variable { value, is_secret });
    }

    /// The names and values of its variables, in the order of the names.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, variable)| (name.as_str(), variable.value.as_str()))
    }

    /// Adds the variables of this process.
    pub fn inherit(&mut self) {
        self.inherits = true;
    }

    /// Fails if a variable cannot be given to a process. No error contains a value.
    pub fn check(&self) -> Result<()> {
        let unusable = |name: &str, reason: &str| {
            let sentence =
                format!("the environment variable {} is not usable: {reason}", name.escape_debug());
            Err(SkillError::new(ErrorKind::Usage, sentence))
        };
        if self.variables.len() > MAX_VARIABLES {
            let sentence = format!("a run takes at most {MAX_VARIABLES} environment variables");
            return Err(SkillError::new(ErrorKind::Usage, sentence));
        }
        for (name, variable) in &self.variables {
            if let Err(reason) = check_variable_name(name) {
                return unusable(name, &reason);
            }
            if variable.value.len() > MAX_VALUE_BYTES {
                return unusable(name, &format!("its value is larger than {MAX_VALUE_BYTES} bytes"));
            }
            if variable.value.contains('\0') {
                return unusable(name, "its value has a NUL character");
            }
        }
        Ok(())
    }

    /// Whether what is not among them is read from the environment of this process.
    pub(super) fn inherits(&self) -> bool {
        self.inherits
    }

    /// Those whose values are secret.
    pub(super) fn secrets(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_secret = |name: &str, variable: &Variable| {
            variable.is_secret || is_secret_value(name, variable.value.as_ref())
        };
        let secrets = self.variables.iter().filter(move |(name, variable)| is_secret(name, variable));
        secrets.map(|(name, variable)| (name.as_str(), variable.value.as_str()))
    }

    /// The value of a variable, and whether it is secret.
    pub(super) fn get(&self, name: &str) -> Option<(OsString, bool)> {
        if let Some(Variable { value, is_secret }) = self.variables.get(name) {
            return Some((value.into(), *is_secret || is_secret_value(name, value.as_ref())));
        }
        let value = std::env::var_os(name).filter(|value| self.inherits && value.len() <= MAX_VALUE_BYTES)?;
        let is_secret = is_secret_value(name, &value);
        Some((value, is_secret))
    }
}

/// Whether a value is secret by its name, or since it is an address or the settings of a connection with a password in it.
pub(super) fn is_secret_value(name: &str, value: &OsStr) -> bool {
    is_secret_variable(name) || !passwords(&value.to_string_lossy()).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_secret_by_its_name_or_by_a_password_in_an_address() {
        for (name, value, is_secret) in [
            ("API_KEY", "x", true),
            ("DATABASE_URL", "postgres://me:hunter2@db/x", true),
            ("DATABASE_URL", "postgres://me@db/x", false),
            ("HOMEPAGE", "https://example.com/a:b@c", false),
            ("REMOTE", "https://hunter2@host/x.git", true),
            ("CONNECTION", "Server=db;Password=hunter2", true),
            ("PORT", "8080", false),
        ] {
            assert_eq!(is_secret_value(name, value.as_ref()), is_secret, "{name} {value}");
        }
    }

    #[test]
    fn what_no_process_can_be_given_is_refused_without_its_value() {
        let long = "s3cret".repeat(20_000);
        for (name, value) in [("PATH", "s3cret"), ("A-B", "s3cret"), ("A", "s3cret\0"), ("A", &long)] {
            let mut environment = Environment::default();
            environment.set(name.into(), value.into(), false);
            let error = environment.check().unwrap_err();
            assert!(error.kind() == ErrorKind::Usage && !error.message().contains("s3cret"), "{error}");
        }
        let mut many = Environment::default();
        (0..=MAX_VARIABLES).for_each(|number| many.set(format!("A{number}"), String::new(), false));
        assert!(many.check().is_err());
    }
}
