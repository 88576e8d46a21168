//! Host functions that read a skill's settings and secrets.

use serde_json::Value;

use super::config_values::{read_secret, withheld_error};
use crate::error::{ErrorKind, Hint, Result, SkillError};
use crate::host::function::{AccessRule, FunctionExample, HostFunction, Param, ValueType};
use crate::host::{Args, SkillContext};
use crate::policy::ConfigRequirement;

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
