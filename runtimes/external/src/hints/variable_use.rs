//! Whether the text of a script reads an environment variable, in the ways of shells, Python, Node, Perl and Ruby.

/// Whether a line does nothing.
pub(crate) fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    ["#", "//", "* ", "/*"].iter().any(|start| line.starts_with(start))
}

/// Whether a text reads this environment variable, and does not set it before.
pub(crate) fn reads_variable(text: &str, name: &str) -> bool {
    /// Longer lines are data.
    const MAX_LINE_BYTES: usize = 4096;
    for line in text.lines().filter(|line| line.len() <= MAX_LINE_BYTES && !is_comment(line)) {
        for (at, _) in line.match_indices(name).take(16) {
            let (before, after) = (&line[..at], &line[at + name.len()..]);
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            if before.ends_with(is_part) || after.starts_with(is_part) {
                continue;
            }
            if is_set(before, name, after) {
                return false;
            }
            if is_read(before, after) {
                return true;
            }
        }
    }
    false
}

/// Whether a shell gives the variable a value here: `NAME=value`, `for NAME in`, `read NAME`.
fn is_set(before: &str, name: &str, after: &str) -> bool {
    const STARTS: [&str; 6] = ["local", "readonly", "export", "declare", "typeset", "then"];
    let words = before.trim();
    let last = words.rsplit([' ', '\t']).next().unwrap_or_default();
    let begins_statement = last.is_empty() || STARTS.contains(&last) || last.ends_with([';', '&', '|', '{']);
    // `NAME="${NAME:-x}"` reads it.
    let ends = [";", " &&", " ||"].iter().filter_map(|end| after.find(end));
    let value = after.strip_prefix('=').map(|_| &after[..ends.min().unwrap_or(after.len())]);
    value.is_some_and(|value| begins_statement && !value.starts_with("==") && !value.contains(name))
        || words == "for"
        || words.contains("read -r") && !words.contains(['"', '$', '\''])
}

/// Whether the value of the variable is taken here, whose name stands between these two parts of a line. What a shell prints is a sentence, but
/// for what it expands in it.
fn is_read(before: &str, after: &str) -> bool {
    const STARTS: [&str; 4] = ["env.", "ENV{", "$env:", "-v "];
    let start = ["${!", "${#", "${", "$"].iter().find_map(|start| before.strip_suffix(start));
    let is_expanded = start.is_some_and(|rest| !rest.ends_with('\\'));
    let is_printed = ["echo ", "printf "].iter().any(|word| before.trim_start().starts_with(word));
    let is_taken = || STARTS.iter().any(|start| before.ends_with(start));
    is_expanded || !is_printed && (is_taken() || is_whole_string(before, after) || is_listed(before, after))
}

/// Whether the name is a whole string of a program, not a word in quotes of a sentence: `os.environ["NAME"]`, `["A", "NAME"]`.
fn is_whole_string(before: &str, after: &str) -> bool {
    ['"', '\'', '`'].iter().any(|quote| {
        let (Some(before), Some(after)) = (before.strip_suffix(*quote), after.strip_prefix(*quote)) else {
            return false;
        };
        let (before, after) = (before.trim_end(), after.trim_start());
        let is_begun = before.is_empty() || before.ends_with(['[', '(', ',', '{', '=', ':', '!']);
        (is_begun || before.ends_with(" in"))
            && (after.is_empty()
                || after.starts_with([']', ')', ',', '}', ':', ';', '.', '=', '!', '|', '?']))
    })
}

/// Whether the name stands in a list of nothing but names: `for v in A NAME`, `(A NAME)`, `"A NAME"`, `{ A, NAME } = process.env`.
fn is_listed(before: &str, after: &str) -> bool {
    let is_of_names = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || "_ ,\t".contains(c);
    let start = before.trim_end_matches(is_of_names);
    let rest = after.trim_start_matches(is_of_names);
    let is_destructured = start.ends_with('{') && rest.starts_with('}') && after.contains("env");
    let is_shell_list = (start.ends_with('(') || start.ends_with(" in") || start.ends_with("=\""))
        && (rest.is_empty() || rest.starts_with([')', ';', '\\', '"']));
    is_destructured || is_shell_list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_read_in_the_ways_of_many_languages() {
        for text in [
            "echo $BASE_URL",
            "[ -z \"${BASE_URL:-}\" ] && exit 1",
            "BASE_URL=\"${BASE_URL:-}\"",
            ": \"${BASE_URL:?give it}\"",
            "[ -z \"$BASE_URL\" ] && BASE_URL=$(cat x)",
            "[[ -v BASE_URL ]]",
            "for v in API_KEY BASE_URL; do [ -n \"${!v}\" ]; done",
            "required=(API_KEY BASE_URL)",
            "NEEDED=\"API_KEY BASE_URL\"",
            "os.environ[\"BASE_URL\"]",
            "BASE_URL=os.environ.get('BASE_URL')",
            "os.getenv('BASE_URL', None)",
            "for name in [\"API_KEY\", \"BASE_URL\"]:",
            "REQUIRED = [\n    'API_KEY',\n    'BASE_URL',\n]",
            "const u = process.env.BASE_URL;",
            "const { API_KEY, BASE_URL } = process.env;",
            "ENV['BASE_URL']",
            "$ENV{BASE_URL}",
        ] {
            assert!(reads_variable(text, "BASE_URL"), "{text}");
        }
    }

    #[test]
    fn a_name_in_a_sentence_or_of_the_script_itself_is_no_read_variable() {
        for text in [
            "",
            "echo 'BASE_URL is required in the commit message'",
            "echo \"lint: process.env.BASE_URL missing\"",
            "# $BASE_URL is read",
            "echo \\$BASE_URL",
            "print(\"set 'BASE_URL' first\")",
            "BASE_URL=\"$1\"; [ -z \"$BASE_URL\" ] && exit 1",
            "BASE_URL=\"$1\"\n[ -z \"$BASE_URL\" ] && exit 1",
            "  local BASE_URL=$1\n  echo $BASE_URL",
            "for BASE_URL in a b; do echo $BASE_URL; done",
            "while read -r BASE_URL; do echo $BASE_URL; done",
            "echo 'Please set: API_KEY, BASE_URL'",
            ": <<X\nBASE_URL\nX",
            "BASE_URL",
            "\"\"\"\nBASE_URL API_KEY\n\"\"\"",
            "BASE_URL = 5",
            "echo $BASE_URLS $MY_BASE_URL",
        ] {
            assert!(!reads_variable(text, "BASE_URL"), "{text}");
        }
    }
}
