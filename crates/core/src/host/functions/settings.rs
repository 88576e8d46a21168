//! Host functions that read a skill's settings and secrets, and where their values come from: the caller, the environment, the
//! configuration, or the default.

use serde_json::{Map, Value};

use super::provider_call::{call_provider, unavailable};
use crate::error::{ErrorKind, Hint, Result, SkillError};
use crate::host::function::{AccessRule, FunctionExample, HostFunction, Param, ValueType};
use crate::host::{
    Args, ConfigProvider, RunContext, RunMessages, SecretOrigin, SecretProvider, SkillContext,
};
use crate::policy::{Access, ConfigField, ConfigRequirement, RunPermissions};

pub(super) const CONFIG: HostFunction = HostFunction {
    name: "config",
    aliases: &["host_config"],
    params: &[Param {
        name: "key",
        value_type: ValueType::Text,
        required: false,
        doc: "the setting; all of them, as an object, by default",
    }],
    returns: ValueType::Any,
    access: AccessRule::Unrestricted,
    doc: "Answers with a setting of the skill, null when it is not set. A skill that declares its settings reads those alone: any other \
          name is `invalid-argument`, and one that it needs and that is not set is `unavailable`.",
    example: FunctionExample {
        files: &[],
        fixtures: r#"{"config": {"width": 80}}"#,
        grants: &[],
        args: r#"["width"]"#,
        answer: "80",
    },
    body: config,
};

pub(super) const SECRET: HostFunction = HostFunction {
    name: "secret",
    aliases: &["host_secret"],
    params: &[Param { name: "name", value_type: ValueType::Text, required: true, doc: "the secret" }],
    returns: ValueType::OneOf(&[ValueType::Text, ValueType::Null]),
    access: AccessRule::Secret(0),
    doc: "Answers with a secret of the skill, null for one that the skill declares as optional and that is not set. Wherever its value stands in the run's value, log, progress and errors, \
          `[secret:NAME]` leaves in its place, also for each line of 8 characters or more, and however white space, JSON or quotes \
          change it; what a script encodes or takes apart itself, and what is handed to tools, skills, pages and files, is not \
          changed.",
    example: FunctionExample {
        files: &[],
        fixtures: r#"{"secrets": {"TOKEN": "s3cret"}}"#,
        grants: &["secret:TOKEN"],
        args: r#"["TOKEN"]"#,
        answer: r#""s3cret""#,
    },
    body: secret,
};

/// Whether the skill declares the secret and does without it.
fn is_optional(ctx: &SkillContext, name: &str) -> bool {
    let field = ctx.config_fields().iter().find(|field| field.secret && field.key == name);
    field.is_some_and(|field| {
        matches!(field.requirement, ConfigRequirement::Optional | ConfigRequirement::AnyOf)
    })
}

fn config(ctx: &SkillContext, args: &Args) -> Result<Value> {
    match args.optional_text(0) {
        Some(key) => ctx.config_value(key),
        None => ctx.config_values().map(Value::Object),
    }
}

fn secret(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let name = args.text(0);
    let unavailable = |why: &str| {
        let sentence = format!("the secret {name} of skill {} {why}", ctx.skill());
        Err(SkillError::new(ErrorKind::Unavailable, sentence)
            .with_help(format!("set the secret {name}"))
            .with_hint(Hint::Secret(name.to_owned())))
    };
    match read_secret(ctx, name)? {
        None if ctx.withholds(name) => Err(withheld_error(ctx, "secret", name)),
        None if is_optional(ctx, name) => Ok(Value::Null),
        None => unavailable("is not set"),
        // Otherwise every position between two characters would match.
        Some(value) if value.trim().is_empty() => unavailable("is blank"),
        Some(value) => Ok(value.into()),
    }
}

/// Whether a setting has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigState {
    /// It has one, or a default.
    Set,
    /// Its value is empty.
    Empty,
    /// Nothing gives it a value.
    Absent,
    /// The user's configuration gives it a value, which is for trusted skills only.
    Withheld,
    /// Only reading the secret would tell.
    Unknown,
}

impl SkillContext {
    /// The settings of the skill: those that it declares, or all where it declares none. Those whose names are those of secrets, and
    /// values with a password in them, are redacted from now on, wherever they come from.
    pub(in crate::host) fn config_values(&self) -> Result<Map<String, Value>> {
        let mut values = self.provided_values()?;
        let fields = self.config_fields();
        if !fields.is_empty() {
            for (key, value) in config_from_environment(self) {
                values.entry(key).or_insert(value);
            }
            for field in fields.iter().filter(|field| !values.contains_key(&field.key)).collect::<Vec<_>>() {
                if let Some(secret) = self.secret_of_setting(field)? {
                    values.insert(field.key.clone(), secret.into());
                }
            }
            for ConfigField { key, default, .. } in fields {
                if let Some(default) = default {
                    values.entry(key).or_insert_with(|| default.clone());
                }
            }
            let plain = fields.iter().filter(|field| !field.secret);
            values = plain.filter_map(|field| values.shift_remove_entry(&field.key)).collect();
        }
        for (key, value) in &values {
            self.learn_secret_setting(key, value);
        }
        Ok(values)
    }

    /// The secret of that name, for a setting whose name is that of a secret, if the run may read it.
    fn secret_of_setting(&self, field: &ConfigField) -> Result<Option<String>> {
        let may_read = || {
            let accesses =
                [self.permissions().secret_access(&field.key)].into_iter().chain(field.environment_access());
            accesses.into_iter().any(|access| self.permissions().allows(&access))
        };
        if !field.is_secret_setting() || self.providers().secrets.is_none() || !may_read() {
            return Ok(None);
        }
        read_secret(self, &field.key)
    }

    /// Whether the user's configuration sets the value of that name, which the skill does not get because it is not trusted.
    fn withholds(&self, key: &str) -> bool {
        let withheld = self.facts().withheld_values.as_ref().filter(|withheld| withheld.is_withheld);
        withheld.is_some_and(|withheld| withheld.names.iter().any(|name| name == key))
    }

    /// The value of one setting, null where an optional one has none. `invalid-argument` for one that the skill does not declare,
    /// `unavailable` where one that it needs has no value.
    fn config_value(&self, key: &str) -> Result<Value> {
        let value = self.config_values()?.shift_remove(key);
        let fields = self.config_fields();
        if fields.is_empty() {
            return Ok(value.unwrap_or_default());
        }
        let Some(field) = fields.iter().find(|field| field.key == key) else {
            let sentence = format!("the skill {} does not declare the setting {key}", self.skill());
            return Err(SkillError::new(ErrorKind::InvalidArgument, sentence)
                .with_help("add it under `config` in skill.yaml"));
        };
        if field.secret {
            let sentence = format!("{key} is a secret of the skill {}, and no setting", self.skill());
            return Err(
                SkillError::new(ErrorKind::InvalidArgument, sentence).with_help("read it with ctx.secret")
            );
        }
        if let Some(value) = value {
            return Ok(value);
        }
        let is_optional = matches!(field.requirement, ConfigRequirement::Optional | ConfigRequirement::AnyOf);
        if !is_optional {
            self.permit_variable(field)?;
            if let Some(value) = self.permitted_variable(field) {
                return Ok(value.into());
            }
        }
        if is_optional {
            return Ok(Value::Null);
        }
        if field.is_secret_setting() && self.secret_state(field)? == ConfigState::Set {
            let access = self.permissions().secret_access(key);
            match self.permissions().require(&access, format_args!("failed to read the setting {key}")) {
                Err(_) if self.ask_for_access(&access, key)? => {}
                checked => checked?,
            }
            if let Some(secret) = self.secret_of_setting(field)? {
                return Ok(secret.into());
            }
        }
        Err(missing_value_error(self, field))
    }

    /// Asks for the variable of a setting, if it is set and the run may not read it yet; `denied` if nobody permits it.
    fn permit_variable(&self, field: &ConfigField) -> Result<()> {
        let Some((name, access)) = field.env.as_deref().zip(field.environment_access()) else {
            return Ok(());
        };
        if self.variable_value(name).is_none() {
            return Ok(());
        }
        let key = &field.key;
        match self.permissions().require(&access, format_args!("failed to read the setting {key}")) {
            Err(_) if self.ask_for_access(&access, name)? => Ok(()),
            checked => checked,
        }
    }

    /// The values of the variables that the skill declares for a setting or secret of this name, as far as the run may read them.
    pub(crate) fn declared_variables(&self, name: &str) -> Vec<String> {
        let fields = self.config_fields().iter().filter(|field| field.key == name);
        fields.filter_map(|field| self.permitted_variable(field)).collect()
    }

    fn permitted_variable(&self, field: &ConfigField) -> Option<String> {
        let access = match field.environment_access()? {
            _ if field.secret => self.permissions().secret_access(&field.key),
            access => access,
        };
        if !self.permissions().allows(&access) {
            return None;
        }
        let (value, is_secret) = self.variable_value(field.env.as_deref()?)?;
        if field.secret || is_secret {
            self.learn_secret(&field.key, &value);
        }
        Some(value)
    }

    fn setting_state(&self, field: &ConfigField, values: &Map<String, Value>) -> ConfigState {
        let of_value = |value: &Value| match value {
            Value::Null => ConfigState::Absent,
            Value::String(text) if text.is_empty() => ConfigState::Empty,
            _ => ConfigState::Set,
        };
        let variable = || field.env.as_deref().and_then(|name| self.variable_value(name));
        match values.get(&field.key) {
            Some(value) => of_value(value),
            None => match variable() {
                Some((value, _)) if value.is_empty() => ConfigState::Empty,
                Some(_) => ConfigState::Set,
                None => field.default.as_ref().map_or(ConfigState::Absent, of_value),
            },
        }
    }

    fn secret_state(&self, field: &ConfigField) -> Result<ConfigState> {
        let provided = match &self.providers().secrets {
            Some(provider) => {
                let name = field.key.clone();
                call_provider(self, provider, "secrets", move |provider, ctx| {
                    Ok(SecretProvider::has(provider, ctx, &name))
                })?
            }
            None => Some(false),
        };
        if provided == Some(true) {
            return Ok(ConfigState::Set);
        }
        Ok(match field.env.as_deref().and_then(|name| self.variable_value(name)) {
            Some((value, _)) if value.trim().is_empty() => ConfigState::Empty,
            Some(_) => ConfigState::Set,
            None if provided.is_none() => ConfigState::Unknown,
            None => ConfigState::Absent,
        })
    }

    fn provided_values(&self) -> Result<Map<String, Value>> {
        match &self.providers().config {
            Some(provider) => call_provider(self, provider, "settings", ConfigProvider::config),
            None => Ok(Map::new()),
        }
    }
}

/// Whether the run was not granted this secret, but another one of those of which the skill takes any.
pub fn has_secret_instead_of(ctx: &SkillContext, name: &str) -> bool {
    let any_of = ctx.config_fields().iter();
    let mut any_of = any_of.filter(|field| field.secret && field.requirement == ConfigRequirement::AnyOf);
    let is_granted = |name: &str| ctx.permissions().allows(&ctx.permissions().secret_access(name));
    any_of.clone().any(|field| field.key == name)
        && !is_granted(name)
        && any_of.any(|field| is_granted(&field.key))
}

/// The settings that the skill declares with a variable, as far as the run may read them.
pub fn config_from_environment(ctx: &SkillContext) -> Map<String, Value> {
    let settings = ctx.config_fields().iter().filter(|field| !field.secret);
    let value = |field: &ConfigField| Some((field.key.clone(), ctx.permitted_variable(field)?.into()));
    settings.filter_map(value).collect()
}

/// The settings of the skill as its scripts read them.
pub fn skill_settings(ctx: &SkillContext) -> Result<Map<String, Value>> {
    ctx.config_values()
}

/// Asks for the variable of this setting where its default would mean another thing: `denied` if the variable is set, nothing nearer gives
/// a value, and nobody permits it.
pub fn require_setting_variable(ctx: &SkillContext, key: &str) -> Result<()> {
    let field = ctx.config_fields().iter().find(|field| field.key == key && !field.secret);
    match field {
        Some(field) if !ctx.provided_values()?.contains_key(key) => ctx.permit_variable(field),
        _ => Ok(()),
    }
}

/// The secret of that name, from the variable that the skill declares for it, if the run may read it.
pub fn secret_from_environment(ctx: &SkillContext, name: &str) -> Option<String> {
    let field = ctx.config_fields().iter().find(|field| field.secret && field.key == name)?;
    ctx.permitted_variable(field)
}

/// What each declared setting has, whether the run may read its variable or not. No secret is read.
pub fn config_states(ctx: &SkillContext) -> Result<Vec<(&ConfigField, ConfigState)>> {
    let fields = ctx.config_fields();
    let values = if fields.iter().all(|field| field.secret) { Map::new() } else { ctx.provided_values()? };
    fields
        .iter()
        .map(|field| {
            let state = match ctx.setting_state(field, &values) {
                _ if field.secret => ctx.secret_state(field)?,
                ConfigState::Absent if field.is_secret_setting() => ctx.secret_state(field)?,
                state => state,
            };
            let is_withheld = state == ConfigState::Absent && ctx.withholds(&field.key);
            Ok((field, if is_withheld { ConfigState::Withheld } else { state }))
        })
        .collect()
}

/// The secret of that name as the run has it: its value, or a placeholder where the run may only use it in requests to hosts. Both are
/// redacted from now on. Whether the run may have it is checked by the caller.
pub(in crate::host) fn read_secret(ctx: &SkillContext, name: &str) -> Result<Option<String>> {
    let Some((value, bound)) = read_value(ctx, name)? else { return Ok(None) };
    let is_readable = ctx.permissions().allows(&Access::secret(name));
    let granted = ctx.permissions().secret_hosts(name);
    let hosts = match bound {
        None if is_readable || granted.is_empty() => return Ok(Some(value)),
        None => granted,
        Some(bound) if is_readable || granted.is_empty() => bound,
        Some(bound) => granted.into_iter().filter(|host| bound.contains(host)).collect(),
    };
    let unusable = |reason: &str| {
        let sentence = format!("the secret {name} of skill {} {reason}", ctx.skill());
        Err(SkillError::new(ErrorKind::Unavailable, sentence))
    };
    if hosts.is_empty() {
        return unusable("is for other hosts than those that are granted");
    }
    if value.trim().is_empty() {
        return Ok(Some(value));
    }
    match ctx.secret_broker().placeholder(ctx.run_id(), (name, &value), &hosts) {
        Ok(placeholder) => {
            ctx.learn_secret(name, &placeholder);
            Ok(Some(placeholder))
        }
        Err(reason) => unusable(&format!("is used in requests only, and {reason}")),
    }
}

/// A value, and the hosts to which alone it goes, if its provider names any.
type ProvidedSecret = (String, Option<Vec<String>>);

/// The value of the secret of that name, which is redacted from now on. Whether the run may have it is checked by the caller.
pub(in crate::host) fn read_value(ctx: &SkillContext, name: &str) -> Result<Option<ProvidedSecret>> {
    let is_declared = || ctx.config_fields().iter().any(|field| field.secret && field.key == name);
    let is_reported = ctx.facts().listener.is_some();
    let provided = match &ctx.providers().secrets {
        Some(provider) => {
            let asked = name.to_owned();
            call_provider(ctx, provider, "secrets", move |provider, ctx| {
                let secret = provider.secret(ctx, &asked)?;
                let origin = secret.is_some() && is_reported;
                let origin = origin.then(|| provider.origin(ctx, &asked));
                Ok((secret, origin, provider.hosts(ctx, &asked)))
            })?
        }
        None if is_declared() => (None, None, None),
        None => return Err(unavailable("secrets")),
    };
    let (value, origin, hosts) = provided;
    if let Some(value) = value {
        ctx.learn_secret(name, &value);
        origin.map_or(Ok(()), |origin| ctx.report_secret(name, &origin))?;
        return Ok(Some((value, hosts)));
    }
    let declared = secret_from_environment(ctx, name);
    if declared.is_some() {
        ctx.report_secret(name, &SecretOrigin::DeclaredVariable)?;
    }
    Ok(declared.map(|value| (value, hosts)))
}

/// How a setting is set.
pub fn config_help(field: &ConfigField) -> String {
    let noun = if field.secret { "secret" } else { "setting" };
    match &field.env {
        Some(variable) => format!("set the {noun} {}, or the environment variable {variable}", field.key),
        None => format!("set the {noun} {}", field.key),
    }
}

/// What the program that runs the skill can do about a setting that is missing.
pub fn config_hint(field: &ConfigField) -> Hint {
    if field.secret { Hint::Secret(field.key.clone()) } else { Hint::Setting(field.key.clone()) }
}

/// What is said of a setting that only a trusted skill has.
pub const WITHHELD: &str = "is set, but not used: the skill is not trusted";
/// What helps then.
pub const WITHHELD_HELP: &str = "look at the skill and trust it";

/// The error for a value that only a trusted skill has.
fn withheld_error(ctx: &SkillContext, noun: &str, key: &str) -> SkillError {
    let sentence = format!("the {noun} {key} of skill {} {WITHHELD}", ctx.skill());
    let project = ctx.project().map(|project| project.root().display().to_string()).unwrap_or_default();
    SkillError::new(ErrorKind::Unavailable, sentence).with_help(WITHHELD_HELP).with_hint(Hint::Trust(project))
}

fn missing_value_error(ctx: &SkillContext, field: &ConfigField) -> SkillError {
    if ctx.withholds(&field.key) {
        return withheld_error(ctx, "setting", &field.key);
    }
    let sentence = format!("the setting {} of skill {} is not set", field.key, ctx.skill());
    SkillError::new(ErrorKind::Unavailable, sentence)
        .with_help(config_help(field))
        .with_hint(config_hint(field))
}
