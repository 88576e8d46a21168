//! Recognises that a script failed because an environment variable is not set.
//!
//! Only sentences that can mean nothing else count, or those about a variable that the script reads: a hint that is wrong is worse
//! than none.

use crate::hints::words::last_lines;
use metier_core::policy::is_secret_variable;

/// How many lines at the end of the output are searched.
const MAX_LINES: usize = 12;

/// How many variables are named.
const MAX_NAMES: usize = 8;

/// Longer lines are no sentences.
const MAX_LINE_BYTES: usize = 1000;

/// What follows the name of a variable that a shell misses.
const SHELL_ENDINGS: [&str; 4] = [
    ": unbound variable",
    ": parameter not set",
    ": parameter null or not set",
    ": parameter not set or null",
];

/// What bash says about a word for reasons that are not the `${NAME:?text}` of the script.
const SHELL_ERRORS: [&str; 14] = [
    "ambiguous redirect",
    "bad substitution",
    "cannot execute",
    "cannot overwrite",
    "command not found",
    "file exists",
    "integer expression",
    "is a directory",
    "no such file",
    "not a directory",
    "not found",
    "permission denied",
    "read-only",
    "readonly variable",
];

/// How people write "environment variable", in lower case; the longer one of two first.
const VARIABLE_WORDS: [&str; 12] = [
    "environment variable(s)",
    "environment variables",
    "environment variable",
    "environment vars",
    "environment var",
    "env variables",
    "env variable",
    "env var(s)",
    "env vars",
    "env var",
    "envvar",
    "env",
];

/// What says that something is not there.
const ABSENCE_WORDS: [&str; 21] = [
    "not set",
    "isn't set",
    "not found",
    "not defined",
    "not provided",
    "not configured",
    "not present",
    "not available",
    "not exported",
    "not been set",
    "undefined",
    "unset",
    "missing",
    "required",
    "needed",
    "must be set",
    "must be provided",
    "needs to be set",
    "has to be set",
    "must be defined",
    "empty",
];

/// What ends before a name that has to be set.
const DEMANDS: [&str; 17] = [
    "define",
    "export",
    "missing",
    "missing required",
    "need",
    "need to set",
    "needs",
    "no",
    "one of",
    "please set",
    "provide",
    "require",
    "requires",
    "set",
    "set the",
    "set the following",
    "set these",
];

/// What says that the script can do without, or that nothing is missing.
const EXCUSES: [&str; 13] = [
    "defaulting",
    "fallback",
    "falling back",
    "for better",
    "for more",
    "not required",
    "optional",
    "skipp",
    "to disable",
    "to enable",
    "to override",
    "to see",
    "using default",
];

/// Words in capitals that are no variables, whatever is said of them.
const NO_VARIABLES: [&str; 20] = [
    "ALL", "AND", "ANY", "API", "AWS", "CLI", "ENV", "ERROR", "GCP", "HTTP", "JSON", "LLM", "MCP", "MUST",
    "NOT", "ONE", "SDK", "SSH", "THE", "URL",
];

/// The variables that the output of a failed script says it misses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MissingVariables<'a> {
    pub(crate) names: Vec<&'a str>,
    /// Whether one of them is enough.
    pub(crate) are_alternatives: bool,
}

impl<'a> MissingVariables<'a> {
    fn one(name: &'a str) -> Self {
        Self { names: vec![name], are_alternatives: false }
    }
}

/// The variables that the output says are missing. `is_read` tells whether the script reads the variable of a name; sentences of the
/// interpreter, and those about an "environment variable", need no such proof.
pub(crate) fn missing_variables<'a>(
    output: &'a str,
    is_read: &dyn Fn(&str) -> bool,
) -> Option<MissingVariables<'a>> {
    let lines = || {
        let lines = output.lines().rev().filter(|line| !line.trim().is_empty()).take(MAX_LINES);
        lines.filter(|line| line.len() <= MAX_LINE_BYTES)
    };
    let in_line = |line| {
        shell_variable(line).map(MissingVariables::one).or_else(|| variables_in_sentence(line, is_read))
    };
    python_variable(output)
        .map(MissingVariables::one)
        .or_else(|| lines().find_map(in_line))
        .or_else(|| listed_variables(&lines().collect::<Vec<_>>()))
        .or_else(|| exported_variable(lines()).filter(|name| is_read(name)).map(MissingVariables::one))
}

/// `KeyError: 'NAME'`, raised by `os.environ`.
fn python_variable(output: &str) -> Option<&str> {
    let mut lines = output.lines().rev().filter(|line| !line.trim().is_empty());
    let name = lines.next()?.strip_prefix("KeyError: '")?.strip_suffix('\'')?;
    let frame = lines.find(|line| line.starts_with("  File \""))?;
    let is_environ = (frame.contains("\"<frozen os>\"") || frame.contains("/os.py\""))
        && frame.ends_with("in __getitem__");
    Some(name).filter(|name| is_environ && is_name(name))
}

/// `main.sh: line 3: NAME: unbound variable`, or the text of `${NAME:?text}` in its place.
fn shell_variable(line: &str) -> Option<&str> {
    let line = line.trim_end();
    if let Some(before) = SHELL_ENDINGS.iter().find_map(|ending| line.strip_suffix(ending)) {
        let (_, name) = before.rsplit_once(": ")?;
        return Some(name).filter(|name| is_name(name));
    }
    let mut parts = line.splitn(4, ": ");
    let (_, number, name, text) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let number = number.strip_prefix("line ").unwrap_or(number);
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let text = text.to_ascii_lowercase();
    let is_of_shell = SHELL_ERRORS.iter().any(|error| text.starts_with(error));
    Some(name).filter(|name| is_number && is_name(name) && !is_of_shell)
}

/// The names below `Missing environment variables:`. The lines are in their order from the last one.
fn listed_variables<'a>(lines: &[&'a str]) -> Option<MissingVariables<'a>> {
    let is_header = |line: &str| {
        let small = line.trim_end().to_ascii_lowercase();
        let is_about_variables = VARIABLE_WORDS.iter().any(|words| small.contains(words));
        small.ends_with(':') && is_about_variables && ABSENCE_WORDS.iter().any(|words| small.contains(words))
    };
    let first_name = |line: &&'a str| {
        let first = line.trim().trim_start_matches(['-', '*', '•', ' ', '$']);
        let name = first.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next()?;
        Some(name).filter(|name| is_name(name) && name.contains('_'))
    };
    let header = lines.iter().position(|line| is_header(line))?;
    let names: Vec<&str> = lines[..header].iter().rev().map_while(first_name).take(MAX_NAMES).collect();
    (!names.is_empty()).then_some(MissingVariables { names, are_alternatives: false })
}

/// The secret that `export NAME=…` sets in the advice of a script that says that a key or the like is not there.
fn exported_variable<'a>(lines: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let is_reason = |line: &str| {
        let small = line.to_ascii_lowercase();
        let is_absent =
            ABSENCE_WORDS.iter().any(|words| small.contains(words)) || small.contains("no api key");
        let is_of_secret =
            ["key", "token", "credential", "secret", "password"].iter().any(|word| small.contains(word));
        is_absent && is_of_secret && !EXCUSES.iter().any(|words| small.contains(words))
    };
    if !lines.clone().any(is_reason) {
        return None;
    }
    let mut lines = lines;
    lines.find_map(|line| {
        let (_, rest) = line.split_once("export ")?;
        let (name, _) = rest.split_once('=')?;
        Some(name.trim()).filter(|name| is_name(name) && name.contains('_') && is_secret_variable(name))
    })
}

fn variables_in_sentence<'a>(line: &'a str, is_read: &dyn Fn(&str) -> bool) -> Option<MissingVariables<'a>> {
    let lower = line.to_ascii_lowercase();
    if EXCUSES.iter().any(|words| lower.contains(words)) {
        return None;
    }
    let report = |name: &str, start: usize, end: usize| {
        let (before, list) = (&lower[..start], &lower[list_end(line, end)..]);
        [&lower[end..], list].into_iter().filter_map(|after| sentence_report(name, before, after)).max()
    };
    let (first, start) =
        names(line).filter(|name| !NO_VARIABLES.contains(name)).take(MAX_NAMES).find_map(|name| {
            // Lower case keeps byte positions.
            let start = name.as_ptr().addr() - line.as_ptr().addr();
            let report = report(name, start, start + name.len())?;
            (report == SentenceReport::Certain || is_read(name)).then_some((name, start))
        })?;
    let end = start + first.len();
    let list = &line[start..list_end(line, end).max(end)];
    let is_one_enough =
        |before: &str| ["one of", "any of", "either"].iter().any(|words| before.trim_end().ends_with(words));
    let are_alternatives = list.contains('/')
        || list.contains(" or ")
        || list.contains("(or ")
        || is_one_enough(lower[..start].trim_end_matches([' ', ':', '$', '`', '\'', '"']));
    let names = names(list).filter(|name| !NO_VARIABLES.contains(name)).take(MAX_NAMES).collect();
    Some(MissingVariables { names, are_alternatives })
}

/// What a sentence says of a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SentenceReport {
    /// That something of this name is missing.
    Possible,
    /// That the environment variable of this name is not set.
    Certain,
}

/// Where a list of names ends, one of which ends here: `A, B and C`.
fn list_end(line: &str, at: usize) -> usize {
    let mut end = at;
    loop {
        let rest = &line[end..];
        let next = rest.trim_start_matches([' ', ',', '/', '(', ')', '$', '`', '\'', '"', '&']);
        let next = ["and/or ", "and ", "or "].iter().find_map(|word| next.strip_prefix(word)).unwrap_or(next);
        let next = next.trim_start_matches(['(', '$', '`', '\'', '"']);
        let length = next.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(next.len());
        if next.len() == rest.len() || !is_name(&next[..length]) {
            return end;
        }
        end = line.len() - next.len() + length;
    }
}

/// What the words before and after a name say of it; `None` if not that it is missing.
fn sentence_report(name: &str, before: &str, after: &str) -> Option<SentenceReport> {
    use SentenceReport::{Certain, Possible};
    let quotes = ['\'', '"', '`', '‘', '’'];
    let before = before.trim_end_matches(quotes);
    let is_expanded = before.ends_with(['$', '{']);
    let before = before.trim_end_matches(['$', '{', '(', '[']).trim_end_matches(quotes);
    let (before, is_node) = match before.strip_suffix("process.env.") {
        Some(before) => (before, true),
        None => (before, false),
    };
    let before = before.trim_end_matches(quotes).trim_end();
    let is_listed = before.ends_with(':');
    let before = before.trim_end_matches([':', '(']).trim_end();
    let after =
        after.trim_start_matches(quotes).trim_start_matches(['}', ')', ']']).trim_start_matches(quotes);
    // `set NAME=value` is an example.
    let is_example = after.starts_with('=');
    let after = after.trim_start().trim_start_matches(':').trim_start();
    let has_absence = |text: &str| ABSENCE_WORDS.iter().any(|words| text.contains(words));
    let begins_with = |words: &[&str]| {
        let verbs = ["is ", "was ", "are ", "has ", "have ", "must ", "needs ", "both "];
        let rest = verbs.iter().find_map(|verb| after.strip_prefix(verb)).unwrap_or(after);
        words.iter().any(|words| rest.starts_with(words) || after.starts_with(words))
    };
    let ends_with_word = |words: &str| {
        before
            .strip_suffix(words)
            .is_some_and(|rest| !rest.ends_with(|c: char| c.is_alphanumeric() || c == '-'))
    };
    // "x is required when NAME is unset" is about x.
    if ["when", "if", "unless", "while", "because"].iter().any(|words| ends_with_word(words)) {
        return None;
    }
    let is_absent = begins_with(&ABSENCE_WORDS);
    // "Missing environment variables for this mode: NAME"
    let is_about_variables =
        || VARIABLE_WORDS[..VARIABLE_WORDS.len() - 1].iter().any(|words| before.contains(words));
    if is_listed && ["missing", "required"].iter().any(|word| before.contains(word)) && is_about_variables() {
        return Some(Certain);
    }
    let is_demanded = !is_example && DEMANDS.iter().any(|words| ends_with_word(words));
    let has_underscore = name.trim_matches('_').contains('_');
    let named_before = VARIABLE_WORDS.iter().find(|words| ends_with_word(words));
    let named_after = VARIABLE_WORDS.iter().find(|words| {
        after.strip_prefix(**words).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
    });
    // "The PROD env is not found" is about no variable.
    let is_plain = |words: &&&str| **words != "env" || has_underscore;
    // "env" alone may be the name of a set of settings.
    let report_about = |words: &str| if words == "env" { Possible } else { Certain };
    if let Some(words) = named_before.filter(is_plain) {
        let before = &before[..before.len() - words.len()];
        let demands = ["missing", "set", "requires", "require", "need", "needs", "required", "expected"];
        let is_demanded = before.split(|c: char| !c.is_alphanumeric()).any(|word| demands.contains(&word));
        return (!is_example && is_demanded || is_absent).then(|| report_about(words));
    }
    if let Some(words) = named_after.filter(is_plain) {
        // "The key must be provided as an argument or in the NAME environment variable"
        let has_demand = ["must be provided", "must be set", "not found", "no api key"];
        let has_demand = has_demand.iter().any(|words| before.contains(words));
        let is_missing = has_absence(&after[words.len()..]) || is_demanded || has_demand;
        return is_missing.then(|| report_about(words));
    }
    let is_variable = has_underscore || is_expanded || is_node;
    let is_kernel_option = name.starts_with("CONFIG_");
    (is_variable && !is_kernel_option && (is_absent || is_demanded)).then_some(Possible)
}

/// The words of the last lines that could be names of variables, the last line first.
pub(crate) fn last_names(output: &str) -> Vec<&str> {
    /// How many are looked at.
    const MAX_LAST_NAMES: usize = 32;
    let mut found: Vec<&str> = Vec::new();
    for name in last_lines(output).filter(|line| line.len() <= MAX_LINE_BYTES).flat_map(names) {
        if found.len() < MAX_LAST_NAMES && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// The words of a line that could be names of variables.
fn names(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| is_name(word))
}

/// Whether this is how variables are named: `API_KEY`, not `key` or `I`.
fn is_name(word: &str) -> bool {
    (3..=128).contains(&word.len())
        && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        && word.starts_with(|first: char| first.is_ascii_uppercase() || first == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first variable that is missing, for a script that reads all of them, or none.
    fn missing_variable(output: &str, reads_all: bool) -> Option<&str> {
        missing_variables(output, &|_| reads_all).and_then(|missing| missing.names.first().copied())
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
            let missing = MissingVariables { names: names.to_vec(), are_alternatives };
            assert_eq!(missing_variables(text, &|_| true), Some(missing), "{text}");
        }
    }

    #[test]
    fn what_may_mean_something_else_is_no_missing_variable() {
        for line in [
            "",
            "KeyError: 'API_KEY'",
            "  File \"/x/a.py\", line 2, in <module>\nKeyError: 'API_KEY'",
            "  File \"/x/os.py\", line 2, in load\nKeyError: 'API_KEY'",
            "main.sh: line 3: name: unbound variable",
            "main.sh: line 3: $1: unbound variable",
            "main.sh: line 3: FOO: command not found",
            "ERROR: file not found",
            "JSON is required",
            "Error: HTTP 401: the API_KEY is invalid",
            "API_KEY is optional and not set",
            "API_KEY is not required",
            "Using API_KEY from the environment",
            "INDEX not found in the table",
            "TypeError: Cannot read properties of undefined (reading 'API_KEY')",
            "Error: ENOENT: no such file or directory, open '.env'",
            "  export API_KEY=your-key",
            "the gcloud CLI is not found in the environment",
            "Error: CLI environment variable not set",
            "the aws CLI is required, see .env",
            "Error: set CLI in the environment",
            "main.sh: line 3: API_KEY: No such file or directory",
            "main.sh: line 3: API_KEY: readonly variable",
            "main.sh: line 3: API_KEY: command not found",
            "x.py: error: API_KEY: bad",
            "# CONFIG_MODULES is not set",
            "PROD env not found",
            "STAGING environment is missing",
            "Set DEBUG_LEVEL=2 in the environment",
            "Set API_KEY=... and try again",
            "Set API_KEY to enable descriptions",
            "API_KEY not set, falling back to the free tier",
            "API_KEY is missing. Skipping mail.",
            "reset API_KEY",
            "API_KEY is the first column",
            "Loaded API_KEY and OTHER_KEY",
            "Deployed to:\n  - FIRST_ZONE",
            "docker is required to run it when TEST_DSN is unset",
            "python3 is required if API_KEY is not set",
            "the page was not found\n  export API_KEY=your-key",
        ] {
            assert_eq!(missing_variable(line, true), None, "{line}");
        }
        for line in [
            "MAX_SIZE is required",
            "SOME_TABLE not found",
            "FAIL: config.yml: DATABASE_URL is not set in production",
            "lint: src/app.ts:3 process.env.API_KEY missing default",
            "JIRA_KEY is required in the commit message",
            "Validation failed: MAX_RETRIES must be set to an integer",
        ] {
            assert_eq!(missing_variable(line, false), None, "the script does not read it: {line}");
        }
        let long = format!("API_KEY environment variable not set{}", " ".repeat(MAX_LINE_BYTES));
        assert_eq!(missing_variable(&long, true), None);
    }
}
