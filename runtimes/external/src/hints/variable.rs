//! The variables that a script reads by its text and was not given: which of them its output names, and which are set here.

use std::ffi::OsStr;

use crate::audience::is_for_person;
use crate::environment::is_inherited;
use crate::hints::permission_hint::{Help, permission_hint};
use crate::hints::script_text::ScriptText;
use crate::hints::words::{contains_any, last_lines, searched_end};
use metier_core::error::Hint;
use metier_core::host::{SkillContext, variable_access};
use metier_core::policy::is_secret_variable;

/// Variables of terminals, desktops and development tools, which many programs read and few need: how their names begin.
const COMMON_VARIABLES: &str = "
    ALACRITTY_ ASDF_ CARGO_ CLICOLOR_ COLOR CONDA_ DBUS_ DESKTOP_ DOCKER_ FORCE_COLOR GDM GITHUB_ GJS_ GNOME_ GPG_ GTK_ HIST HOMEBREW_
    ITERM_ KDE_ KITTY_ LC_ LESS_ LS_ MAKE NO_COLOR NVM_ PIP_ POETRY_ PS1_ PYENV_ QT_ RUST_ SESSION_ SHELL_ SSH_ SYSTEMD_ TERM_ TERMINAL_
    UV_ VIRTUAL_ENV VSCODE_ VTE_ WT_";

/// Words in the names of variables that may be secret, besides those whose values are redacted.
const SECRET_WORDS: &str = "AUTH|CERT|CONNECTION|COOKIE|DSN|LOGIN|MNEMONIC|PAT|PROXY|PW|PWD|SEED|SK|WEBHOOK";

/// What says, in lower case, that a variable is not set. Without one of them the name may stand in a line for another reason.
const ABSENCE_WORDS: &str =
    "empty|export|keyerror|missing|must be|need|no |not |n't |provide|requir|set|unbound|undefined";

/// What says that the script can do without it.
const EXCUSES: &str =
    "default|fallback|falling back|for better|for more|not required|optional|skipp|to enable";

/// How people write "environment variable", in lower case: of a name beside these words nothing has to be proven.
const VARIABLE_WORDS: &str = "environment var|env var|envvar|process.env|os.environ";

/// What says that one of several variables is enough.
const CHOICES: &str = " or | / |one of|either|any of";

/// How many variables a hint names, and how many words of a line are looked at. Longer lines are no sentences.
const MAX_NAMES: usize = 8;
const MAX_LOOKED_AT: usize = 16;
const MAX_LINE_BYTES: usize = 1000;

/// How many variables are warned of, and how many a watched run names, after which all of them are granted at once.
const MAX_UNPASSED: usize = 4;
const MAX_WATCHED: usize = 32;

/// The hint about environment variables that a failed script says it misses: that it reads by its text or calls by that name, and that it was
/// not given.
pub(crate) fn variable_hint(ctx: &SkillContext, script: &ScriptText<'_>, said: &str) -> Option<Help> {
    let is_missed = |name: &str, is_certain| {
        let is_known = is_certain && name.trim_matches('_').contains('_') || script.reads_variable(name);
        is_known && !is_passed(ctx, name)
    };
    let (found, has_choice) = missed_names(said, &is_missed);
    // What is set is only for the person who runs the script.
    let is_set = |name: &&&str| is_for_person(ctx) && ctx.has_variable(name);
    let chosen = *found.iter().find(is_set).filter(|_| has_choice).or(found.first())?;
    let mut needs = format!("the script names the environment {}, which it was not given", listed(&found));
    if found.len() > 1 && has_choice {
        needs.push_str(" (one of them may be enough)");
    } else if let [name] = found[..]
        && is_set(&&name)
    {
        needs =
            format!("the script reads the environment variable {name}, which is set here and was not passed");
    } else if let Some(grants) = all_grants(ctx, &found) {
        return Some((
            format!("{needs}; if it should have them, grant {grants}"),
            Some(Hint::Grant(format!("env:{chosen}"))),
        ));
    }
    Some(match permission_hint(ctx, &variable_access(chosen)?) {
        Some((help, hint)) => (
            format!("{needs}; if it should have {}, {help}", if found.len() > 1 { chosen } else { "it" }),
            hint,
        ),
        None => (format!("{needs}: {chosen} is granted and has no value here; set it"), None),
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

/// The variables that the last lines say are missing, and whether one of them is enough. `is_missed` says whether the run misses a variable
/// of this name, and is told whether the line is certainly about a variable.
fn missed_names<'a>(said: &'a str, is_missed: &dyn Fn(&str, bool) -> bool) -> (Vec<&'a str>, bool) {
    let mut lines: Vec<&str> =
        last_lines(searched_end(said)).filter(|line| line.len() <= MAX_LINE_BYTES).collect();
    lines.reverse();
    let mut found: Vec<&str> = Vec::new();
    let mut has_choice = false;
    for line in lines {
        // The names themselves say nothing.
        let small =
            names(line).fold(line.to_owned(), |rest, name| rest.replace(name, "")).to_ascii_lowercase();
        let is_list = line.trim_start().starts_with(['-', '*', '•']);
        let is_of_shell = shell_name(line).is_some();
        let is_absent = is_list || is_of_shell || contains_any(&small, ABSENCE_WORDS);
        if !is_absent || contains_any(&small, EXCUSES) {
            continue;
        }
        let is_certain = contains_any(&small, VARIABLE_WORDS);
        let before = found.len();
        for name in names(line).take(MAX_LOOKED_AT).filter(|name| is_missed(name, is_certain)) {
            if found.len() < MAX_NAMES && !found.contains(&name) {
                found.push(name);
            }
        }
        has_choice |= found.len() > before && contains_any(&small, CHOICES);
    }
    (found, has_choice)
}

/// The variable of `main.sh: line 3: NAME: text`, as a shell writes the text of `${NAME:?text}`.
fn shell_name(line: &str) -> Option<&str> {
    let mut parts = line.split(": ").skip(1);
    let (number, name) = (parts.next()?, parts.next()?);
    let number = number.strip_prefix("line ").unwrap_or(number);
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    names(name).find(|word| is_number && *word == name)
}

/// Whether the run has a value for this variable.
fn is_passed(ctx: &SkillContext, name: &str) -> bool {
    let is_inherited = || std::env::var_os(name).is_some_and(|value| is_inherited(OsStr::new(name), &value));
    variable_access(name).is_none_or(|access| ctx.permissions().allows(&access) && ctx.has_variable(name))
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
    let names = last_lines(searched_end(said)).flat_map(|line| names(line).take(MAX_LOOKED_AT));
    let mut names =
        names.filter(|name| ctx.has_variable(name) && !is_passed(ctx, name) && script.reads_variable(name));
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
        let access = variable_access(name).filter(|_| with_secrets || ctx.has_plain_variable(name))?;
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

    /// The first variable that is missing, for a script that reads all of them, or none.
    fn missing_variable(output: &str, reads_all: bool) -> Option<&str> {
        let is_missed = |name: &str, is_certain| name.contains('_') && (reads_all || is_certain);
        missed_names(output, &is_missed).0.first().copied()
    }

    #[test]
    fn the_missing_variable_is_found_in_the_words_of_many_scripts() {
        for line in [
            "main.sh: line 3: API_KEY: unbound variable",
            "/x/scripts/main.sh: 3: API_KEY: parameter not set",
            "main.sh: line 1: API_KEY: parameter null or not set",
            "main.sh: 1: API_KEY: parameter not set or null",
            "Error: API_KEY environment variable not set",
            "Error: API_KEY environment variable is not set",
            "❌ API_KEY environment variable is required.",
            "ValueError: API_KEY not found in environment variables",
            "ERROR: Please set the API_KEY environment variable",
            "Error: Missing environment variable API_KEY",
            "Missing required environment variables: API_KEY, OTHER_KEY",
            "Required environment variable 'API_KEY' is not set",
            "Please set the environment variable `API_KEY` first",
            "The API_KEY environment variable is missing or empty; either provide it, or instantiate",
            "OpenAIError: The API_KEY environment variable is missing or empty",
            "Error: process.env.API_KEY is not set",
            "Error: Missing process.env.API_KEY",
            "Error: API_KEY not set",
            "API_KEY is not set. Add it to your .env file.",
            "Error: Missing API_KEY",
            "RuntimeError: $API_KEY must be set",
            "API_KEY is required",
            "main.sh: line 3: API_KEY: API_KEY is required",
            "/x/main.sh: line 12: API_KEY: usage: main.sh with API_KEY",
            "/x/main.sh: 3: API_KEY: give it a key",
            "API_KEY and OTHER_KEY must be set",
            "API_KEY (or OTHER_KEY) and THIRD_URL must be set.",
            "Not configured: API_KEY / OTHER_ID / THIRD_SECRET must be set",
            "Error: API_KEY, OTHER_KEY are required",
            "No key found. Set API_KEY in .env",
            "No key found. Set API_KEY, OTHER_KEY, or THIRD_KEY.",
            "No key found. Set one of: API_KEY, OTHER_KEY",
            "Set ONE of API_KEY, OTHER_KEY in your .env file",
            "a key is required. Pass --api-key or set API_KEY.",
            "Error: set API_KEY env var",
            "Error: No API_KEY found",
            "ERROR: No API_KEY in environment",
            "Missing env: API_KEY",
            "Missing required env var(s): API_KEY",
            "API_KEY isn't set",
            "API_KEY has not been set",
            "API_KEY env is required",
            "Missing required environment variable for hosted mode: API_KEY",
            "the key must be provided either as an argument or in the API_KEY environment variable",
            "This script requires API_KEY.",
            "this needs API_KEY in the environment",
            "os.environ['API_KEY'] is not set",
            "Error: ${API_KEY} is unset",
            "Missing environment variables:\n  - API_KEY\n  - OTHER_KEY",
            "Error: the key was not found.\nSet it with:\n  export API_KEY=your-key",
        ] {
            assert_eq!(missing_variable(line, true), Some("API_KEY"), "{line}");
        }
        for line in [
            "advisor: SESSION_ID is unset -- cannot identify this session.",
            "SESSION_ID not set",
            "RuntimeError: SESSION_ID and OTHER_ID must be set as environment variables",
            "FATAL: SESSION_ID needs to be set",
            "Please set SESSION_ID in your environment",
            "main.sh: line 1: SESSION_ID: call it with a session",
        ] {
            assert_eq!(missing_variable(line, true), Some("SESSION_ID"), "{line}");
        }
        for line in ["Error: DEBUG_MODE is not set in the environment", "env var DEBUG_MODE is missing"] {
            assert_eq!(missing_variable(line, true), Some("DEBUG_MODE"), "{line}");
        }
        let report =
            "Error: API_KEY environment variable not set\n\nSet it with:\n  export API_KEY=your-key\n";
        assert_eq!(missing_variable(report, true), Some("API_KEY"));
        for frame in [
            r#"  File "<frozen os>", line 714, in __getitem__"#,
            r#"  File "/usr/lib/python3.9/os.py", line 679, in __getitem__"#,
        ] {
            let traceback = format!(
                "Traceback (most recent call last):\n  File \"/x/a.py\", line 2, in <module>\n    os.environ['API_KEY']\n{frame}\n    raise KeyError(key) from None\nKeyError: 'API_KEY'\n"
            );
            assert_eq!(missing_variable(&traceback, true), Some("API_KEY"), "{traceback}");
        }
    }

    #[test]
    fn all_variables_of_a_list_are_missing() {
        for (text, names, are_alternatives) in [
            (
                "Please set: BASE_URL, API_TOKEN, USER_EMAIL",
                &["BASE_URL", "API_TOKEN", "USER_EMAIL"][..],
                false,
            ),
            ("Error: Missing environment variables: BASE_URL, API_TOKEN", &["BASE_URL", "API_TOKEN"], false),
            ("Set the following: BASE_URL and API_TOKEN", &["BASE_URL", "API_TOKEN"], false),
            ("Error: BASE_URL, API_TOKEN must be set", &["BASE_URL", "API_TOKEN"], false),
            (
                "Missing environment variables:\n  - BASE_URL\n  - API_TOKEN",
                &["BASE_URL", "API_TOKEN"],
                false,
            ),
            ("no provider (set FIRST_KEY / SECOND_KEY)", &["FIRST_KEY", "SECOND_KEY"], true),
            ("Set one of: FIRST_KEY, SECOND_KEY", &["FIRST_KEY", "SECOND_KEY"], true),
            ("Set FIRST_KEY, SECOND_KEY, or THIRD_KEY.", &["FIRST_KEY", "SECOND_KEY", "THIRD_KEY"], true),
            ("Please set BASE_URL", &["BASE_URL"], false),
            ("Please export BASE_URL", &["BASE_URL"], false),
            ("BASE_URL required", &["BASE_URL"], false),
        ] {
            assert_eq!(missed_names(text, &|_, _| true), (names.to_vec(), are_alternatives), "{text}");
        }
    }

    #[test]
    fn a_name_that_the_script_can_do_without_is_not_missing() {
        for line in [
            "",
            "main.sh: line 3: name: unbound variable",
            "main.sh: line 3: $1: unbound variable",
            "Error: HTTP 401: the API_KEY is invalid",
            "API_KEY is optional and not set",
            "API_KEY is not required",
            "Using API_KEY from the environment",
            "x.py: error: API_KEY: bad",
            "Set API_KEY to enable descriptions",
            "API_KEY not set, falling back to the free tier",
            "API_KEY is missing. Skipping mail.",
            "API_KEY is the first column",
            "Loaded API_KEY and OTHER_KEY",
        ] {
            assert_eq!(missing_variable(line, true), None, "{line}");
        }
        for line in [
            "MAX_SIZE is required",
            "SOME_TABLE not found",
            "FAIL: config.yml: DATABASE_URL is not set in production",
            "JIRA_KEY is required in the commit message",
            "Validation failed: MAX_RETRIES must be set to an integer",
        ] {
            assert_eq!(missing_variable(line, false), None, "the script does not read it: {line}");
        }
    }
}
