//! A setting or a secret that a skill declares.

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::Value;

use super::{Access, Permission, is_secret_setting};

/// A setting or a secret that a skill declares under `config`, or a secret under `secrets`.
///
/// In JSON: `{description, required, env, secret, hosts, default}`, where `required` is `true`, `false`, `"any_of"` or `"on_use"`; `hosts` is left out
/// if there are none.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ConfigField {
    /// Its name, by which `ctx.config` or `ctx.secret` read it.
    #[serde(skip)]
    pub key: String,
    /// What it is.
    pub description: Option<String>,
    /// Whether the skill needs it.
    #[serde(rename = "required")]
    pub requirement: ConfigRequirement,
    /// The environment variable that may hold its value.
    pub env: Option<String>,
    /// Whether it is a secret, which only `ctx.secret` reads.
    pub secret: bool,
    /// The hosts in whose requests the skill uses the secret, each as a permission names it; then it does not read it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Its value where nothing else gives one.
    pub default: Option<Value>,
}

/// Whether a skill needs a setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigRequirement {
    /// Without it, the skill does not run.
    Required,
    /// Without any of those that say so, the skill does not run.
    AnyOf,
    /// Without it, the skill runs, and fails where it reads it.
    OnUse,
    /// Without it, the skill runs and reads null.
    #[default]
    Optional,
}

impl Serialize for ConfigRequirement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Required => serializer.serialize_bool(true),
            Self::Optional => serializer.serialize_bool(false),
            Self::AnyOf => serializer.serialize_str("any_of"),
            Self::OnUse => serializer.serialize_str("on_use"),
        }
    }
}

impl ConfigField {
    /// An optional setting of this name.
    pub fn new(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            description: None,
            requirement: ConfigRequirement::default(),
            env: None,
            secret: false,
            hosts: Vec::new(),
            default: None,
        }
    }

    /// The access by which its value is read from the environment.
    pub(crate) fn environment_access(&self) -> Option<Access> {
        let variable = self.env.as_deref()?;
        Some(if self.secret { Access::secret(&self.key) } else { Access::env(variable) })
    }

    /// The permissions that a skill requests by declaring the field: a secret `secret:KEY`, or for each of its hosts `secret:KEY@HOST` and
    /// `net:HOST`, a setting with a variable `env:NAME`, another one with the name of a secret `secret:KEY`. Other settings need none.
    pub fn requested_permissions(&self) -> Vec<Permission> {
        let at_host =
            |host: &String| [Permission::secret(&format!("{}@{host}", self.key)), Permission::net(host)];
        let requested: Vec<_> = match &self.env {
            _ if !self.hosts.is_empty() => self.hosts.iter().flat_map(at_host).collect(),
            Some(variable) if !self.secret => vec![Permission::env(variable)],
            _ if self.secret || self.is_secret_setting() => vec![Permission::secret(&self.key)],
            _ => Vec::new(),
        };
        requested.into_iter().flatten().collect()
    }

    /// Whether it is a setting whose name says that its value is secret: what `ctx.config` answers is redacted then, and a secret of that
    /// name may be its value.
    pub(crate) fn is_secret_setting(&self) -> bool {
        !self.secret && is_secret_setting(&self.key)
    }
}
