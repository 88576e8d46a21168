//! The hint for a script that misses an environment variable: which it is, and how the run is given it.

use std::ffi::OsStr;

use crate::audience::is_for_person;
use crate::environment::is_inherited;
use crate::hints::missing_variable::{MissingVariables, last_names, missing_variables};
use crate::hints::permission_hint::{Help, permission_hint};
use crate::hints::script_text::ScriptText;
use crate::hints::words::searched_end;
use metier_core::error::Hint;
use metier_core::host::{SkillContext, variable_access};
use metier_core::policy::is_secret_variable;

/// Variables of terminals, desktops and development tools, which many programs read and few need: how their names begin.
const COMMON_VARIABLES: [&str; 44] = [
    "ALACRITTY_",
    "ASDF_",
    "CARGO_",
    "CLICOLOR_",
    "COLOR",
    "CONDA_",
    "DBUS_",
    "DESKTOP_",
    "DOCKER_",
    "FORCE_COLOR",
    "GDM",
    "GITHUB_",
    "GJS_",
    "GNOME_",
    "GPG_",
    "GTK_",
    "HIST",
    "HOMEBREW_",
    "ITERM_",
    "KDE_",
    "KITTY_",
    "LC_",
    "LESS_",
    "LS_",
    "MAKE",
    "NO_COLOR",
    "NVM_",
    "PIP_",
    "POETRY_",
    "PS1_",
    "PYENV_",
    "QT_",
    "RUST_",
    "SESSION_",
    "SHELL_",
    "SSH_",
    "SYSTEMD_",
    "TERM_",
    "TERMINAL_",
    "UV_",
    "VIRTUAL_ENV",
    "VSCODE_",
    "VTE_",
    "WT_",
];

/// Words in the names of variables that may be secret, besides those whose values are redacted.
const SECRET_WORDS: [&str; 14] = [
    "AUTH",
    "CERT",
    "CONNECTION",
    "COOKIE",
    "DSN",
    "LOGIN",
    "MNEMONIC",
    "PAT",
    "PROXY",
    "PW",
    "PWD",
    "SEED",
    "SK",
    "WEBHOOK",
];

/// How many variables are warned of.
const MAX_UNPASSED: usize = 4;

/// The hint about environment variables that are not set, if the output of a failed script says that it misses them.
pub(crate) fn variable_hint(ctx: &SkillContext, script: &ScriptText<'_>, said: &str) -> Option<Help> {
    let missing = missing_variables(searched_end(said), &|name| script.reads_variable(name))?;
    let MissingVariables { names, are_alternatives } = missing;
    let is_passed = |name: &str| {
        variable_access(name).is_none_or(|access| ctx.permissions().allows(&access) && ctx.has_variable(name))
    };
    let names: Vec<&str> = names.into_iter().filter(|name| !is_passed(name)).collect();
    match names[..] {
        [] => None,
        [name] => Some(one_variable_help(ctx, name)),
        [first, ..] if are_alternatives => {
            // What is set is only for the person who runs the script.
            let set = names.iter().copied().find(|name| is_for_person(ctx) && ctx.has_variable(name));
            let chosen = set.unwrap_or(first);
            let needs =
                format!("the script says that it needs one of the environment variables {}", listed(&names));
            let (help, hint) = permission_hint(ctx, &variable_access(chosen)?)?;
            Some((format!("{needs}; if it should have {chosen}, {help}"), hint))
        }
        [first, ..] => {
            Some(many_variables_help(ctx, &names).unwrap_or_else(|| one_variable_help(ctx, first)))
        }
    }
}

fn one_variable_help(ctx: &SkillContext, name: &str) -> Help {
    let needs = format!("the script says that it needs the environment variable {name}");
    match variable_access(name).and_then(|access| permission_hint(ctx, &access)) {
        Some((help, hint)) => (format!("{needs}; if it should have it, {help}"), hint),
        None => (format!("{needs}, which is granted and has no value here; set it"), None),
    }
}

/// The help for several variables, all of which take a grant and no more.
fn many_variables_help(ctx: &SkillContext, names: &[&str]) -> Option<Help> {
    let is_grant_enough = |name: &&str| {
        let help = variable_access(name).and_then(|access| permission_hint(ctx, &access));
        help.is_some_and(|(help, _)| help == format!("grant env:{name}"))
    };
    if !names.iter().all(is_grant_enough) {
        return None;
    }
    let permissions: Vec<String> = names.iter().map(|name| format!("env:{name}")).collect();
    let text = format!(
        "the script says that it needs the environment variables {}; if it should have them, grant {}",
        listed(names),
        listed(&permissions)
    );
    Some((text, permissions.into_iter().next().map(Hint::Grant)))
}

/// `A, B and C`
fn listed<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match &names[..] {
        [before @ .., last] if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        names => names.concat(),
    }
}

/// The hint about a variable that the last lines of a failed script name, that it reads and was not given, and that is set here. What
/// is set is only for the person who runs the script.
pub(crate) fn unpassed_variable_hint(
    ctx: &SkillContext,
    script: &ScriptText<'_>,
    said: &str,
) -> Option<Help> {
    if !is_for_person(ctx) {
        return None;
    }
    let is_passed =
        |name: &str| std::env::var_os(name).is_some_and(|value| is_inherited(OsStr::new(name), &value));
    let names = last_names(searched_end(said)).into_iter();
    let mut names =
        names.filter(|name| ctx.has_variable(name) && !is_passed(name) && script.reads_variable(name));
    let (name, (help, hint)) =
        names.find_map(|name| Some((name, permission_hint(ctx, &variable_access(name)?)?)))?;
    let text = format!(
        "the script reads the environment variable {name}, which is set here and was not passed; if it should have it, {help}"
    );
    Some((text, hint))
}

/// The warnings for a script that ended well, and that reads variables that are set here and were not passed. Never for secrets: a
/// malicious script could name one to have it passed.
pub(crate) fn unpassed_variable_warnings(ctx: &SkillContext, script: &ScriptText<'_>) -> Vec<String> {
    let warning = |(name, (help, _)): (String, Help)| {
        format!(
            "the script reads the environment variable {name}, which is set here and was not passed; if it should have it, {help}"
        )
    };
    unpassed_variables(ctx, script, false).into_iter().map(warning).collect()
}

/// The variables that a script reads, that are set here and were not passed, each with the help that names the grant.
pub(crate) fn unpassed_variables(
    ctx: &SkillContext,
    script: &ScriptText<'_>,
    with_secrets: bool,
) -> Vec<(String, Help)> {
    let is_named = |name: &String| {
        let is_common = || COMMON_VARIABLES.iter().any(|start| name.starts_with(start));
        let is_private = || name.split('_').any(|word| SECRET_WORDS.contains(&word));
        let is_secret = || is_secret_variable(name) || is_private();
        name.trim_matches('_').contains('_') && (with_secrets || !is_secret()) && !is_common()
    };
    let grant = |name: &str| {
        let access = variable_access(name).filter(|_| with_secrets || ctx.has_plain_variable(name))?;
        permission_hint(ctx, &access)
    };
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let names = names.filter(|name| is_named(name) && script.reads_variable_itself(name));
    names.filter_map(|name| Some((name.clone(), grant(&name)?))).take(MAX_UNPASSED).collect()
}
