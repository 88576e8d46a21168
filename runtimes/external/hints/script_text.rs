//! What a script does by its text: the variables that it reads, and whether it looks for its own folder or writes files.
//!
//! The text is searched, not parsed: what is found in it decides about a hint only together with the output of the run.

use std::cell::OnceCell;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::host::SkillContext;
use crate::policy::CancelToken;
use crate::runtimes::external::hints::home_path::home_paths;

/// How much of one text is searched.
const MAX_TEXT_BYTES: usize = 256 << 10;

/// How much of the other files of the skill is searched, and among how many files and folders they are looked for.
const MAX_OTHER_BYTES: usize = 512 << 10;
const MAX_ENTRIES: usize = 1000;
const MAX_OTHERS: usize = 64;

/// The endings of files that a script may call or import.
const SCRIPT_ENDINGS: [&str; 12] =
    [".bash", ".cjs", ".cts", ".js", ".mjs", ".mts", ".pl", ".py", ".rb", ".sh", ".ts", ".zsh"];

/// How a script finds the folder in which it lies.
const OWN_PLACES: [&str; 8] = [
    "__file__",
    "__dirname",
    "__DIR__",
    "BASH_SOURCE",
    "dirname \"$0\"",
    "dirname $0",
    "import.meta",
    "METIER_SKILL_DIR",
];

/// How a script or what it calls reaches the network.
const NETWORK_CALLS: [&str; 16] = [
    "fetch(",
    "urllib",
    "requests",
    "http.client",
    "httpx",
    "aiohttp",
    "axios",
    "undici",
    "curl ",
    "wget ",
    "http.get",
    "https.get",
    "http.request",
    "https.request",
    "socket",
    "git ",
];

/// How a script writes a file.
const WRITES: [&str; 19] = [
    "\"w\"",
    "'w'",
    "\"wb\"",
    "'wb'",
    "\"a\"",
    "'a'",
    "\"x\"",
    "'x'",
    "write_text(",
    "write_bytes(",
    "writeFile",
    "appendFile",
    "createWriteStream",
    "os.replace(",
    "os.rename(",
    "mkstemp(",
    " > ",
    " >> ",
    "tee ",
];

/// How lines begin that print text for people.
const PRINTS: [&str; 6] = ["echo ", "printf ", "print(", "console.", "sys.exit(", "raise "];

/// The text of a script that ended, with its arguments.
pub(crate) struct ScriptText<'a> {
    ctx: &'a SkillContext,
    text: String,
    /// The other files of its skill that it names, or that one of those names, read when they are first asked for.
    others: OnceCell<Vec<String>>,
}

impl<'a> ScriptText<'a> {
    pub(crate) fn new(ctx: &'a SkillContext, source: &[u8], args: &[String]) -> Self {
        let mut text = lossy_beginning(source);
        for arg in args {
            text.push('\n');
            text.push_str(arg);
        }
        // A command has no text of its own; its arguments name the script.
        if source.is_empty() {
            args.iter()
                .take(8)
                .filter_map(|arg| project_text(ctx, arg))
                .for_each(|more| text.push_str(&more));
        }
        Self { ctx, text, others: OnceCell::new() }
    }

    /// The lines of the script and its arguments that are no comments.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.lines().filter(|line| !is_comment(line))
    }

    /// Whether the script, or a file of its skill, reads this environment variable.
    pub(crate) fn reads_variable(&self, name: &str) -> bool {
        self.has_text(|text| reads_variable(text, name))
    }

    /// Whether the script, or a file of its skill, has a call that reaches the network.
    pub(crate) fn uses_network(&self) -> bool {
        self.has_line(&NETWORK_CALLS)
    }

    /// The paths below the home folder that the script names whole, in lines that print nothing.
    pub(crate) fn home_paths(&self) -> Vec<String> {
        /// How many are looked at.
        const MAX_PATHS: usize = 32;
        let lines =
            self.lines().filter(|line| !PRINTS.iter().any(|word| line.trim_start().starts_with(word)));
        lines.flat_map(home_paths).take(MAX_PATHS).collect()
    }

    /// The lines of the script and its arguments as the shell reads them: one that ends with a `\` goes on in the next.
    pub(crate) fn shell_lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        let mut goes_on = false;
        for line in self.lines() {
            let part = line.strip_suffix('\\');
            match lines.last_mut().filter(|_| goes_on) {
                Some(before) => before.push_str(part.unwrap_or(line)),
                None => lines.push(part.unwrap_or(line).to_owned()),
            }
            goes_on = part.is_some();
        }
        lines
    }

    /// Whether a line that is no comment has one of these texts.
    fn has_line(&self, texts: &[&str]) -> bool {
        self.has_text(|text| {
            let mut lines = text.lines().filter(|line| !is_comment(line));
            lines.any(|line| texts.iter().any(|text| line.contains(text)))
        })
    }

    /// Whether the script, or a file of its skill that it may call or import, is like this.
    fn has_text(&self, is_like: impl Fn(&str) -> bool) -> bool {
        is_like(&self.text)
            || self
                .others
                .get_or_init(|| named_texts(&self.text, other_texts(self.ctx)))
                .iter()
                .any(|text| is_like(text))
    }

    /// Whether the script, or a file of its skill, has a call that writes a file.
    pub(crate) fn writes_files(&self) -> bool {
        self.has_line(&WRITES)
    }

    /// Whether the script looks for the folder in which it lies.
    pub(crate) fn finds_itself(&self) -> bool {
        self.lines().any(|line| OWN_PLACES.iter().any(|place| line.contains(place)))
    }
}

/// The beginning of a file, of at most this many bytes.
fn beginning(file: File, max_bytes: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(max_bytes.min(MAX_TEXT_BYTES) as u64).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn lossy_beginning(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_TEXT_BYTES)]).into_owned()
}

/// The text of a file of the project that a command names; `None` if it is none, or large.
fn project_text(ctx: &SkillContext, path: &str) -> Option<String> {
    let files = ctx.project().ok()?;
    let inside =
        Path::new(path).strip_prefix(files.root()).map_or(path, |inside| inside.to_str().unwrap_or(path));
    if !is_script_name(inside) {
        return None;
    }
    let files = files.unrestricted();
    let is_small = files.stat(inside).ok()?.size <= MAX_TEXT_BYTES as u64;
    let bytes = is_small.then(|| files.read(inside).ok()).flatten()?;
    Some(format!("\n{}", lossy_beginning(&bytes)))
}

/// The texts whose names stand in this one, or in one of those.
fn named_texts(text: &str, others: Vec<(String, String)>) -> Vec<String> {
    let mut named: Vec<String> = Vec::new();
    let mut left = others;
    let mut at = 0;
    loop {
        let text = if at == 0 { text } else { &named[at - 1] };
        let (new, rest): (Vec<_>, Vec<_>) = left.into_iter().partition(|(name, _)| text.contains(name));
        left = rest;
        named.extend(new.into_iter().map(|(_, text)| text));
        if at == named.len() {
            return named;
        }
        at += 1;
    }
}

/// By which name a script calls or imports the one at this path: that of the file without its ending, or of the folder that the file
/// stands for.
fn imported_name(path: &str) -> &str {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let name = file.split('.').next().unwrap_or_default();
    if ["__init__", "index", "mod"].contains(&name) {
        folder.rsplit('/').next().unwrap_or_default()
    } else {
        name
    }
}

/// The names and the texts of the scripts in the folder of the skill.
fn other_texts(ctx: &SkillContext) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    let mut left = MAX_OTHER_BYTES;
    let Ok(files) = ctx.skill_files() else { return texts };
    // What was read before an error is used.
    let _ = files.walk_tree(MAX_ENTRIES, &CancelToken::new(), |entry| {
        let name = imported_name(&entry.path);
        let is_wanted = is_script_name(&entry.path) && !name.is_empty() && texts.len() < MAX_OTHERS;
        if let Some(bytes) = is_wanted.then(|| beginning(entry.open().ok()?.0, left)).flatten() {
            left -= bytes.len();
            texts.push((name.to_owned(), lossy_beginning(&bytes)));
        }
        Ok(!entry.path.ends_with("node_modules") && left > 0)
    });
    texts
}

fn is_script_name(path: &str) -> bool {
    SCRIPT_ENDINGS.iter().any(|ending| path.ends_with(ending))
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    ["#", "//", "* ", "/*"].iter().any(|start| line.starts_with(start))
}

/// Whether a text reads this environment variable, and does not set it before.
fn reads_variable(text: &str, name: &str) -> bool {
    for line in text.lines().filter(|line| line.contains(name) && !is_comment(line)) {
        for (at, _) in line.match_indices(name).take(16) {
            match line_use(line, at, at + name.len()) {
                Use::Read => return true,
                Use::Set => return false,
                Use::Other => {}
            }
        }
    }
    false
}

/// What a line does with a variable.
#[derive(PartialEq, Eq, Debug)]
enum Use {
    Read,
    Set,
    /// Its name is part of a sentence.
    Other,
}

/// What the line does with the variable whose name stands there.
fn line_use(line: &str, start: usize, end: usize) -> Use {
    let (before, name, after) = (&line[..start], &line[start..end], &line[end..]);
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    if before.ends_with(is_part) || after.starts_with(is_part) {
        return Use::Other;
    }
    if is_set(before, name, after) {
        return Use::Set;
    }
    // What a shell prints is a sentence, but for what it expands in it.
    let is_printed = ["echo ", "printf "].iter().any(|word| before.trim_start().starts_with(word));
    let is_read = if is_printed {
        is_shell_expansion(before)
    } else {
        is_expanded(before) || is_whole_string(before, after) || is_listed(before, after)
    };
    if is_read { Use::Read } else { Use::Other }
}

/// Whether a shell gives the variable a value here: `NAME=value`, `for NAME in`, `read NAME`.
fn is_set(before: &str, name: &str, after: &str) -> bool {
    let words = before.trim_start();
    let is_value = after.strip_prefix('=').is_some_and(|value| {
        let ends = [";", " &&", " ||"].iter().filter_map(|end| value.find(end));
        let value = &value[..ends.min().unwrap_or(value.len())];
        !value.starts_with('=') && !value.contains(name)
    });
    let begins_statement = || {
        let last = words.trim_end().rsplit([' ', '\t']).next().unwrap_or_default();
        last.is_empty()
            || ["local", "readonly", "export", "declare", "typeset", "-r", "-x", "then", "do", "else", "{"]
                .contains(&last)
            || last.ends_with([';', ')', '&', '|'])
    };
    let is_read_by = |word: &str| words.starts_with(word) || words.contains(&format!("; {word}"));
    is_value && begins_statement()
        || is_read_by("for ") && words.ends_with("for ")
        || (is_read_by("read ") || words.contains("while read ")) && !words.contains(['"', '$', '\''])
}

/// Whether a shell writes the value of the variable here.
fn is_shell_expansion(before: &str) -> bool {
    let start = ["${!", "${#", "${", "$"].iter().find_map(|start| before.strip_suffix(start));
    start.is_some_and(|rest| !rest.ends_with('\\'))
}

/// Whether what stands before a name makes it the value of the variable, in shells, Node, Perl or `PowerShell`.
fn is_expanded(before: &str) -> bool {
    const STARTS: [&str; 6] = ["env.", "environ.", "ENV{", "$env:", "-v ", "printenv "];
    is_shell_expansion(before) || STARTS.iter().any(|start| before.ends_with(start))
}

/// Whether the name is a whole string of a program, not a word in quotes of a sentence: `os.environ["NAME"]`, `["A", "NAME"]`.
fn is_whole_string(before: &str, after: &str) -> bool {
    ['"', '\'', '`'].iter().any(|quote| {
        let (Some(before), Some(after)) = (before.strip_suffix(*quote), after.strip_prefix(*quote)) else {
            return false;
        };
        let (before, after) = (before.trim_end(), after.trim_start());
        let is_begun =
            before.is_empty() || before.ends_with(['[', '(', ',', '{', '=', ':']) || before.ends_with(" in");
        is_begun
            && (after.is_empty()
                || after.starts_with([']', ')', ',', '}', ':', ';', '.', '=', '!', '|', '?']))
    })
}

/// Whether the name stands in a list of nothing but names: `for v in A NAME`, `(A NAME)`, `"A,NAME"`, `{ A, NAME } = process.env`.
fn is_listed(before: &str, after: &str) -> bool {
    let is_inside = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || "_ ,\t".contains(c);
    let start = before.trim_end_matches(is_inside);
    let rest = after.trim_start_matches(is_inside);
    let is_destructured = start.ends_with('{') && rest.starts_with('}') && after.contains("env");
    let is_shell_list =
        (start.is_empty() || start.ends_with('(') || start.ends_with(" in") || start.ends_with("=\""))
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
            "required=(\n  API_KEY\n  BASE_URL\n)",
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
    fn another_file_counts_if_the_script_names_it_or_one_that_it_names() {
        let others = ["lib/settings.py", "lib/net/__init__.py", "other.py"].map(|path| {
            let text = if path.ends_with("settings.py") { "from net import call" } else { "" };
            (imported_name(path).to_owned(), format!("# {path}\n{text}"))
        });
        let named = named_texts("from lib.settings import read", others.to_vec());
        assert_eq!(named, ["# lib/settings.py\nfrom net import call", "# lib/net/__init__.py\n"]);
        assert_eq!(named_texts("print(1)", others.to_vec()), [""; 0]);
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
            "BASE_URL = 5",
            "echo $BASE_URLS $MY_BASE_URL",
        ] {
            assert!(!reads_variable(text, "BASE_URL"), "{text}");
        }
    }
}
