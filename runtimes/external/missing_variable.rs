//! Recognises that a script failed because an environment variable is not set.
//!
//! Only sentences that can mean nothing else count: a hint that is wrong is worse than none.

use crate::policy::is_secret_variable;

/// How many lines at the end of the output are searched.
const MAX_LINES: usize = 12;

/// Longer lines are no sentences.
const MAX_LINE_BYTES: usize = 1000;

/// What follows the name of a variable that a shell misses.
const SHELL_ENDINGS: [&str; 4] = [
    ": unbound variable",
    ": parameter not set",
    ": parameter null or not set",
    ": parameter not set or null",
];

/// How people write "environment variable", in lower case; the longer one of two first.
const VARIABLE_WORDS: [&str; 8] = [
    "environment variables",
    "environment variable",
    "environment vars",
    "environment var",
    "env variables",
    "env variable",
    "env vars",
    "env var",
];

/// What says that something is not there.
const ABSENCE_WORDS: [&str; 14] = [
    "not set",
    "not found",
    "not defined",
    "not provided",
    "not configured",
    "not present",
    "undefined",
    "unset",
    "missing",
    "required",
    "must be set",
    "needs to be set",
    "must be defined",
    "empty",
];

/// The variable that the output of a failed script says it misses.
pub(super) fn missing_variable(output: &str) -> Option<&str> {
    python_variable(output).or_else(|| {
        let lines = output.lines().rev().filter(|line| !line.trim().is_empty()).take(MAX_LINES);
        let mut lines = lines.filter(|line| line.len() <= MAX_LINE_BYTES);
        lines.find_map(|line| shell_variable(line).or_else(|| variable_in_sentence(line)))
    })
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

/// `main.sh: line 3: NAME: unbound variable`
fn shell_variable(line: &str) -> Option<&str> {
    let before = SHELL_ENDINGS.iter().find_map(|ending| line.trim_end().strip_suffix(ending))?;
    let (_, name) = before.rsplit_once(": ")?;
    Some(name).filter(|name| is_name(name))
}

fn variable_in_sentence(line: &str) -> Option<&str> {
    let lower = line.to_ascii_lowercase();
    if lower.contains("not required") || lower.contains("optional") {
        return None;
    }
    names(line).find(|name| {
        // Lower case keeps byte positions.
        let start = name.as_ptr().addr() - line.as_ptr().addr();
        is_reported_missing(name, &lower[..start], &lower[start + name.len()..])
    })
}

/// Whether the words before and after a name say that this variable is not set.
fn is_reported_missing(name: &str, before: &str, after: &str) -> bool {
    let quotes = ['\'', '"', '`', '‘', '’'];
    let before =
        before.trim_end_matches(quotes).trim_end_matches(['$', '{', '(', '[']).trim_end_matches(quotes);
    let (before, is_node) = match before.strip_suffix("process.env.") {
        Some(before) => (before, true),
        None => (before, false),
    };
    let before = before.trim_end_matches(quotes).trim_end().trim_end_matches([':', '(']).trim_end();
    let after =
        after.trim_start_matches(quotes).trim_start_matches(['}', ')', ']']).trim_start_matches(quotes);
    let after = after.trim_start();
    let has_absence = |text: &str| ABSENCE_WORDS.iter().any(|words| text.contains(words));
    let is_absent = {
        let verbs = ["is ", "was ", "are ", "has ", "must ", "needs "];
        let rest = verbs.iter().find_map(|verb| after.strip_prefix(verb)).unwrap_or(after);
        ABSENCE_WORDS.iter().any(|words| rest.starts_with(words) || after.starts_with(words))
    };
    let is_demanded = ["missing", "missing required", "please set", "must set", "need to set", "set the"]
        .iter()
        .any(|words| before.ends_with(words));
    let named_before = VARIABLE_WORDS.iter().find_map(|words| before.strip_suffix(words));
    let named_after = VARIABLE_WORDS.iter().find_map(|words| after.strip_prefix(words));
    if let Some(before) = named_before {
        let demands = ["missing", "set", "requires", "require", "need", "needs", "required", "expected"];
        let is_demanded = before.split(|c: char| !c.is_alphanumeric()).any(|word| demands.contains(&word));
        return is_demanded || is_absent;
    }
    if let Some(after) = named_after {
        return has_absence(after) || is_demanded;
    }
    let speaks_of_variables = is_node
        || ["environment", "env var", ".env"]
            .iter()
            .any(|words| after.contains(words) || before.contains(words))
        || name.contains('_') && is_secret_variable(name);
    speaks_of_variables && (is_absent || is_demanded)
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
        ] {
            assert_eq!(missing_variable(line), Some("API_KEY"), "{line}");
        }
        for line in ["Error: DEBUG_MODE is not set in the environment", "env var DEBUG_MODE is missing"] {
            assert_eq!(missing_variable(line), Some("DEBUG_MODE"), "{line}");
        }
        let report =
            "Error: API_KEY environment variable not set\n\nSet it with:\n  export API_KEY=your-key\n";
        assert_eq!(missing_variable(report), Some("API_KEY"));
        for frame in [
            r#"  File "<frozen os>", line 714, in __getitem__"#,
            r#"  File "/usr/lib/python3.9/os.py", line 679, in __getitem__"#,
        ] {
            let traceback = format!(
                "Traceback (most recent call last):\n  File \"/x/a.py\", line 2, in <module>\n    os.environ['API_KEY']\n{frame}\n    raise KeyError(key) from None\nKeyError: 'API_KEY'\n"
            );
            assert_eq!(missing_variable(&traceback), Some("API_KEY"), "{traceback}");
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
        ] {
            assert_eq!(missing_variable(line), None, "{line}");
        }
        let long = format!("API_KEY environment variable not set{}", " ".repeat(MAX_LINE_BYTES));
        assert_eq!(missing_variable(&long), None);
    }
}
