//! Random texts in the place of secret variables that the script of a trial reads and was not granted: it goes on where it would stop at the
//! first of them, and its other needs are seen. No value of a variable is ever in such a text.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use crate::audience::is_for_person;
use crate::hints::script_text::ScriptText;
use crate::hints::variable::{is_secret_name, unpassed_variables};
use metier_core::host::{RunContext, RunMessages, SkillContext, config_variable, random_stand_in};

/// How many bytes of a script are searched.
const MAX_SEARCHED_SOURCE: usize = 64 << 10;

/// Words in the names of variables without which programs reach nothing: a wrong value is worse than none.
const CONNECTION_WORDS: [&str; 4] = ["CA", "CERT", "PROXY", "SSL"];

/// Adds a placeholder for each secret variable that the script of this name reads, that is set here and that was not granted, and warns of
/// them.
pub(crate) fn add_placeholders(
    ctx: &SkillContext,
    (name, source): (&str, &[u8]),
    to: &mut BTreeMap<OsString, OsString>,
) {
    let is_trial = ctx.facts().has_placeholders && is_for_person(ctx);
    if !is_trial || source.is_empty() || source.len() > MAX_SEARCHED_SOURCE {
        return;
    }
    let script = ScriptText::new(ctx, name, source, &[]);
    let mut added = Vec::new();
    for (variable, _) in unpassed_variables(ctx, &script, true) {
        if to.contains_key(OsStr::new(&variable)) {
            continue;
        }
        let Some(text) = placeholder(ctx, &variable) else { continue };
        ctx.learn_secret(&variable, &text);
        to.insert(variable.clone().into(), text.into());
        added.push(variable);
    }
    if !added.is_empty() {
        ctx.warn(format!(
            "{name} had random placeholders in the place of variables that it reads and was not granted ({}): what a host answers to them, and what the script makes of them, says nothing about the real values",
            added.join(", ")
        ));
    }
}

/// Whether a placeholder stood in for this variable, which the script of a trial reads and was not granted.
pub(crate) fn has_placeholder(ctx: &SkillContext, variable: &str) -> bool {
    ctx.facts().has_placeholders && placeholder(ctx, variable).is_some()
}

/// A random text in the place of this variable, if its value is a secret: of any other, scripts expect too much.
fn placeholder(ctx: &SkillContext, variable: &str) -> Option<String> {
    let is_of_connection = variable.split('_').any(|word| CONNECTION_WORDS.contains(&word));
    let (value, is_secret) = config_variable(ctx, variable).filter(|_| !is_of_connection)?;
    if is_secret || is_secret_name(variable) { random_stand_in(&value) } else { None }
}
