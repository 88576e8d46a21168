//! The variables that a script reads by its text and was not given: which of them its output names, and which are set here.

use std::ffi::OsStr;

use crate::audience::is_for_person;
use crate::environment::is_inherited;
use crate::error_line::error_line;
use crate::hints::script_text::ScriptText;
use crate::hints::words::{contains_any, last_lines, searched_end};
use crate::permission_hint::{Help, permission_hint};
use metier_core::error::Hint;
use metier_core::host::{SkillContext, has_plain_variable, has_variable, variable_access};
use metier_core::policy::is_secret_variable;

/// Variables of terminals, desktops and development tools, which many programs read and few need: how their names begin.
const COMMON_VARIABLES: &str = "
    ALACRITTY_ ASDF_ CARGO_ CLICOLOR_ COLOR CONDA_ DBUS_ DESKTOP_ DOCKER_ FORCE_COLOR GDM GITHUB_ GJS_ GNOME_ GPG_ GTK_ HIST HOMEBREW_
    ITERM_ KDE_ KITTY_ LC_ LESS_ LS_ MAKE NO_COLOR NVM_ PIP_ POETRY_ PS1_ PYENV_ QT_ RUST_ SESSION_ SHELL_ SSH_ SYSTEMD_ TERM_ TERMINAL_
    UV_ VIRTUAL_ENV VSCODE_ VTE_ WT_";

/// Words in the names of variables that may be secret, besides those whose values are redacted.
const SECRET_WORDS: &str = "AUTH|CERT|CONNECTION|COOKIE|DSN|LOGIN|MNEMONIC|PAT|PROXY|PW|PWD|SEED|SK|WEBHOOK";

/// How people write "environment variable", in lower case: a library may read what no text of the skill names.
const VARIABLE_WORDS: &str = "environment var|env var|envvar";

/// What says, in lower case, that something is not set, and that the script can do without it.
const ABSENCE_WORDS: &str =
    "empty|export|keyerror|missing|must be|need|no |not |n't |provide|requir|set|unbound|undefined";
const EXCUSES: &str =
    "default|fallback|falling back|for better|for more|not required|optional|skipp|to enable";

/// How many variables a hint names, and how many words of a line are looked at.
const MAX_NAMES: usize = 8;
const MAX_LOOKED_AT: usize = 16;

/// How many variables are warned of, and how many a watched run names, after which all of them are granted at once.
const MAX_UNPASSED: usize = 4;
const MAX_WATCHED: usize = 32;

/// The hint about variables that a script reads, was not given and says in its last lines that it misses: those that are set here, or else all.
pub(crate) fn variable_hint(ctx: &SkillContext, script: &ScriptText<'_>, said: &str) -> Option<Help> {
    let text = searched_end(said);
    // The lines of a stack show the source.
    let has_stack = text.contains("Traceback (most recent call last)") || text.contains("\n    at ");
    let error = error_line(text).filter(|_| has_stack);
    let is_error = |line: &str| error.is_none_or(|error| line.trim() == error);
    let mut lines: Vec<&str> = last_lines(text).filter(|line| is_error(line) && says_missing(line)).collect();
    lines.reverse();
    let all = missed_names(ctx, script, lines);
    set_variables_hint(ctx, &all).or_else(|| {
        let needs = format!("the script reads the environment {}, which it was not given", listed(&all));
        grants_hint(ctx, &needs, &all)
    })
}

/// Whether a line may say that a variable is missing: in a sentence, in a list, or as a shell does (`main.sh: line 3: NAME: text`).
fn says_missing(line: &str) -> bool {
    // The names themselves say nothing.
    let rest = names(line).fold(line.to_owned(), |rest, name| rest.replace(name, ""));
    let small = rest.to_ascii_lowercase();
    let is_list = line.trim_start().starts_with(['-', '*', '•']);
    let is_of_shell = || line.split(": ").skip(1).any(|part| names(part).next() == Some(part));
    (is_list || contains_any(&small, ABSENCE_WORDS) || is_of_shell()) && !contains_any(&small, EXCUSES)
}

/// The hint about variables that the last lines of a failed script name, that it reads and was not given, and that are set here.
pub(crate) fn unpassed_variable_hint(
    ctx: &SkillContext,
    script: &ScriptText<'_>,
    said: &str,
) -> Option<Help> {
    set_variables_hint(ctx, &missed_names(ctx, script, last_lines(searched_end(said))))
}

/// The hint about those of these variables that are set here, which is only for the person who runs the script.
fn set_variables_hint(ctx: &SkillContext, names: &[&str]) -> Option<Help> {
    let is_set = |name: &&&str| is_for_person(ctx) && has_variable(ctx, name);
    let set: Vec<&str> = names.iter().filter(is_set).copied().collect();
    let verbs = if set.len() > 1 { "are set here and were" } else { "is set here and was" };
    let needs = format!("the script reads the environment {}, which {verbs} not passed", listed(&set));
    grants_hint(ctx, &needs, &set)
}

fn grants_hint(ctx: &SkillContext, needs: &str, names: &[&str]) -> Option<Help> {
    let first = *names.first()?;
    if let Some(grants) = all_grants(ctx, names) {
        let hint = Some(Hint::Grant(format!("env:{first}")));
        return Some((format!("{needs}; if it should have them, grant {grants}"), hint));
    }
    Some(match permission_hint(ctx, &variable_access(first)?) {
        Some((help, hint)) => {
            let it = if names.len() > 1 { first } else { "it" };
            (format!("{needs}; if it should have {it}, {help}"), hint)
        }
        None => (format!("{needs}: {first} is granted and has no value here; set it"), None),
    })
}

/// The grants for several variables, all of which take a grant and no more: `env:A, env:B and env:C`.
fn all_grants(ctx: &SkillContext, names: &[&str]) -> Option<String> {
    let is_grant_enough = |name: &&str| {
        let help = variable_access(name).and_then(|access| permission_hint(ctx, &access));
        help.is_some_and(|(help, _)| help == format!("grant env:{name}"))
    };
    let all: Vec<String> = names.iter().map(|name| format!("env:{name}")).collect();
    let (last, before) = all.split_last().filter(|(_, before)| !before.is_empty())?;
    names.iter().all(is_grant_enough).then(|| format!("{} and {last}", before.join(", ")))
}

/// `variable A`, `variables A, B and C`
fn listed(names: &[&str]) -> String {
    match names {
        [before @ .., last] if !before.is_empty() => format!("variables {} and {last}", before.join(", ")),
        names => format!("variable {}", names.concat()),
    }
}

/// The variables in these lines that the run was not given, and that the script reads, or that a line calls a variable.
fn missed_names<'a>(
    ctx: &SkillContext,
    script: &ScriptText<'_>,
    lines: impl IntoIterator<Item = &'a str>,
) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for line in lines {
        let is_certain = contains_any(&line.to_ascii_lowercase(), VARIABLE_WORDS);
        // `EPERM` is in the text of many scripts.
        let is_possible = |name: &str| {
            name.trim_matches('_').contains('_') || is_for_person(ctx) && has_variable(ctx, name)
        };
        let is_known = |name: &str| is_possible(name) && (is_certain || script.reads_variable(name));
        for name in names(line).take(MAX_LOOKED_AT) {
            if found.len() < MAX_NAMES && !found.contains(&name) && !is_passed(ctx, name) && is_known(name) {
                found.push(name);
            }
        }
    }
    found
}

/// Whether the run has a value for this variable.
fn is_passed(ctx: &SkillContext, name: &str) -> bool {
    let is_inherited = || std::env::var_os(name).is_some_and(|value| is_inherited(OsStr::new(name), &value));
    variable_access(name).is_none_or(|access| ctx.permissions().allows(&access) && has_variable(ctx, name))
        || is_inherited()
}

/// The words of a line that could be names of variables: `API_KEY`, not `key` or `I`.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let is_name = |word: &&str| {
        (3..=128).contains(&word.len())
            && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
            && !word.starts_with(|first: char| first.is_ascii_digit())
    };
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(is_name)
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

/// Whether the value of a variable of this name may be a secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    is_secret_variable(name)
        || name.split('_').any(|word| SECRET_WORDS.split('|').any(|secret| secret == word))
}

/// The variables that a script reads, that are set here and were not passed, each with the help that names the grant.
pub(crate) fn unpassed_variables(
    ctx: &SkillContext,
    script: &ScriptText<'_>,
    with_secrets: bool,
) -> Vec<(String, Help)> {
    let is_named = |name: &String| {
        let is_common = || COMMON_VARIABLES.split_whitespace().any(|start| name.starts_with(start));
        name.trim_matches('_').contains('_') && (with_secrets || !is_secret_name(name)) && !is_common()
    };
    let grant = |name: &str| {
        let access = variable_access(name).filter(|_| with_secrets || has_plain_variable(ctx, name))?;
        permission_hint(ctx, &access)
    };
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let names = names.filter(|name| is_named(name) && script.reads_variable_itself(name));
    let max = if with_secrets { MAX_WATCHED } else { MAX_UNPASSED };
    names.filter_map(|name| Some((name.clone(), grant(&name)?))).take(max).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_in_capitals_may_be_variables() {
        for (line, expected) in [
            ("Error: API_KEY, OTHER_KEY and $THIRD_2 must be set", &["API_KEY", "OTHER_KEY", "THIRD_2"][..]),
            ("KeyError: 'API_KEY'", &["API_KEY"]),
            ("main.sh: line 3: API_KEY: unbound variable", &["API_KEY"]),
            ("Error: ${API_KEY} is unset; process.env.URL", &["API_KEY", "URL"]),
            ("I am a key, Api_Key or 3_KEY in an ID", &[]),
        ] {
            assert_eq!(names(line).collect::<Vec<_>>(), expected, "{line}");
        }
    }

    #[test]
    fn a_line_says_that_a_variable_is_missing_in_the_words_of_many() {
        for line in [
            "main.sh: line 3: API_KEY: unbound variable",
            "main.sh: line 1: SESSION_ID: call it with a session",
            "KeyError: 'API_KEY'",
            "Please set: BASE_URL, API_TOKEN",
            "  - BASE_URL",
            "API_KEY must be provided",
        ] {
            assert!(says_missing(line), "{line}");
        }
        for line in [
            "Using API_KEY from the environment",
            "API_KEY not set, falling back to the free tier",
            "API_KEY is optional and not set",
            "FAIL_CODE: bad file",
            "bad list, see UNSET_LIST",
        ] {
            assert!(!says_missing(line), "{line}");
        }
    }

    #[test]
    fn what_may_hold_a_secret_is_known_by_a_word_of_its_name() {
        for name in ["MY_TOKEN", "DB_CONNECTION", "SENTRY_DSN", "SLACK_WEBHOOK"] {
            assert!(is_secret_name(name), "{name}");
        }
        assert!(!is_secret_name("OUTPUT_DIR"));
    }
}
