//! The paths below the home folder that a script names, in the ways of shells, Python and Node, also by variables of its own.

/// What stands for the home folder. The rest of the path follows, as text or as further strings.
const HOMES: [&str; 9] = [
    "$HOME",
    "${HOME}",
    "Path.home()",
    "homedir()",
    "expanduser(\"~\")",
    "expanduser('~')",
    "process.env.HOME",
    "environ[\"HOME\"]",
    "environ['HOME']",
];

/// The longest path of Linux.
const MAX_PATH_BYTES: usize = 4096;

/// How many places of one line are looked at.
const MAX_PLACES: usize = 16;

/// How many variables with such paths are known at a time.
const MAX_VARIABLES: usize = 16;

/// Variables of the script whose value is a path below the home folder.
#[derive(Default)]
pub(crate) struct HomeVariables {
    variables: Vec<(String, String)>,
}

impl HomeVariables {
    /// The paths below the home folder that the next line of the script names whole, without `~/`.
    pub(crate) fn in_line(&mut self, line: &str) -> Vec<String> {
        let mut paths = literal_paths(line);
        let inner = self.variables.iter().flat_map(|(name, folder)| {
            ends_of_uses(line, name).filter_map(move |at| {
                let rest = literal_path(&line[at..])?;
                Some(format!("{folder}/{rest}"))
            })
        });
        paths.extend(inner.collect::<Vec<_>>());
        if let Some(name) = assigned_name(line) {
            self.variables.retain(|(known, _)| known != name);
            let path = paths.first().filter(|_| self.variables.len() < MAX_VARIABLES);
            self.variables.extend(path.map(|path| (name.to_owned(), path.clone())));
        }
        paths
    }
}

/// Where the value of this variable ends in a line: `$NAME`, `${NAME}`, or the name alone as a word.
fn ends_of_uses<'a>(line: &'a str, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(name).take(MAX_PLACES).filter_map(move |(at, _)| {
        let (before, end) = (&line[..at], at + name.len());
        let after = &line[end..];
        if before.ends_with("${") {
            return after.starts_with('}').then_some(end + 1);
        }
        (!before.ends_with(is_part) && !after.starts_with(is_part)).then_some(end)
    })
}

/// The variable to which this line gives a value: `NAME=`, `export NAME=`, `const NAME =`, `NAME: Path =`.
fn assigned_name(line: &str) -> Option<&str> {
    const WORDS: [&str; 7] = ["export ", "local ", "readonly ", "declare ", "const ", "let ", "var "];
    let line = line.trim_start();
    let line = WORDS.iter().find_map(|word| line.strip_prefix(word)).unwrap_or(line).trim_start();
    let length = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
    let (name, rest) = line.split_at(length);
    let (before, value) = rest.split_once('=')?;
    let is_typed = before.trim().is_empty() || before.starts_with(':');
    (!name.is_empty() && is_typed && !value.starts_with('=')).then_some(name)
}

/// The paths that this line names by the home folder itself.
fn literal_paths(line: &str) -> Vec<String> {
    let after =
        |words: &'static str| line.match_indices(words).take(MAX_PLACES).map(move |(at, _)| at + words.len());
    let by_name = HOMES.into_iter().flat_map(after);
    // `expanduser("~/x")`, and also `Path("~/x").expanduser()`.
    let is_expanded = |at: &usize| line.contains("expanduser") && line[*at..].starts_with('/');
    let expanded = ["\"~", "'~"].into_iter().flat_map(after).filter(is_expanded);
    let by_shell = after("~").filter(|at| is_tilde_of_shell(line, *at - 1));
    let found = by_name.chain(expanded).chain(by_shell);
    found.filter_map(|at| literal_path(line[at..].trim_start_matches('}'))).collect()
}

/// Whether a shell reads the `~` there as the home folder: at the beginning of a word, and not in quotes.
fn is_tilde_of_shell(line: &str, at: usize) -> bool {
    let (before, after) = (&line[..at], &line[at + 1..]);
    let is_open = |quote: char| before.matches(quote).count() % 2 == 1;
    after.starts_with('/')
        && (before.is_empty() || before.ends_with([' ', '\t', '=', '(', ':']))
        && !is_open('"')
        && !is_open('\'')
}

/// The path that follows a home folder; `None` if there is none, or if a part of it is known at the run only.
fn literal_path(text: &str) -> Option<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let text = &text[..text.floor_char_boundary(MAX_PATH_BYTES)];
    let mut parts: Vec<&str> = Vec::new();
    let mut rest = text;
    loop {
        let next = rest.trim_start_matches(['"', '\'', ' ', ',', '/', '+']);
        let between = &rest[..rest.len() - next.len()];
        let length = next.find(|c| !is_part(c)).unwrap_or(next.len());
        let is_begun = between.ends_with(['"', '\'', '/']) && is_join(between);
        if !is_begun || length == 0 {
            // What follows must end the path, and not be the value of a variable or a pattern.
            let is_whole =
                rest.is_empty() || rest.starts_with(['"', '\'', ' ', ')', ']', ';', ',', '`', '/', '}']);
            let is_open = next.starts_with(['$', '{', '*', '?', '<']) && between.contains('/');
            let is_plain = parts.iter().all(|part| !["..", "."].contains(part));
            return (is_whole && !is_open && is_plain && !parts.is_empty()).then(|| parts.join("/"));
        }
        parts.push(&next[..length]);
        rest = &next[length..];
    }
}

/// Whether this stands between two parts of one path: `/`, `"/`, `" / "`, `", "`, `, "`, `" + "/`.
fn is_join(between: &str) -> bool {
    let plain: String = between.chars().filter(|c| !c.is_whitespace()).collect();
    let operators = plain.replace(['"', '\''], "");
    ["/", ",", "+/"].contains(&operators.as_str()) && (operators != "/" || !between.ends_with(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_found_in_the_ways_of_many_languages() {
        for (line, path) in [
            ("[ -d \"$HOME/.claude/x/sessions\" ] || exit 1", ".claude/x/sessions"),
            ("FILE=${HOME}/.app/a.json", ".app/a.json"),
            ("cat \"$HOME\"/.app/a.json", ".app/a.json"),
            ("cat ~/.app/a.json", ".app/a.json"),
            ("FILE=~/.app/a.json; cat $FILE", ".app/a.json"),
            ("p = Path.home() / \".app\" / 'a.json'", ".app/a.json"),
            ("p = Path.home() / \".app/a.json\"", ".app/a.json"),
            ("p = os.path.expanduser(\"~/.app/a.json\")", ".app/a.json"),
            ("p = os.path.join(os.path.expanduser('~'), '.app', 'a.json')", ".app/a.json"),
            ("const p = path.join(os.homedir(), '.app', 'a.json'), q = 1", ".app/a.json"),
            ("const p = process.env.HOME + '/.app/a.json'", ".app/a.json"),
            ("const p = `${os.homedir()}/.app/a.json`", ".app/a.json"),
            ("DIR=\"${APP_DIR:-$HOME/.app/data}\"", ".app/data"),
            ("p = os.path.expanduser(os.environ.get('X', '~/.app/a.json'))", ".app/a.json"),
            ("p = Path(\"~/.app/a.json\").expanduser()", ".app/a.json"),
        ] {
            assert_eq!(HomeVariables::default().in_line(line), [path], "{line}");
        }
    }

    #[test]
    fn a_path_is_found_by_the_variables_of_the_script() {
        for (lines, path) in [
            (["BASE=\"${HOME}/.app\"", "local dir=\"${BASE}/sessions\"", "ls $dir/one"], ".app/sessions/one"),
            (
                ["BASE = Path.home() / '.app'", "DIR: Path = BASE / \"sessions\"", "DIR / 'one'"],
                ".app/sessions/one",
            ),
            (
                ["const b = path.join(os.homedir(), '.app')", "const d = path.join(b, 'x')", "d + '/one'"],
                ".app/x/one",
            ),
        ] {
            let mut paths = HomeVariables::default();
            let found = lines.map(|line| paths.in_line(line));
            assert_eq!(found[2], [path], "{lines:?} {found:?}");
        }
        let mut paths = HomeVariables::default();
        paths.in_line("BASE=$HOME/.app");
        for line in ["DATABASE/x", "$BASE_DIR/x", "${BASE:-x}/y", "BASE", "if BASE == 'x'"] {
            assert_eq!(paths.in_line(line), [""; 0], "{line}");
        }
    }

    #[test]
    fn what_is_no_whole_path_is_none() {
        for line in [
            "",
            "cd $HOME",
            "cd ~",
            "echo 'settings: ~/.app/a.json'",
            "echo \"see ~/.app/a.json\"",
            "cat $HOME/.app/$NAME",
            "cat \"$HOME/.app/${NAME}.json\"",
            "ls ~/.app/*.json",
            "ls ~/.app/*",
            "cat ~/../x",
            "a~/b",
            "Path.home()",
        ] {
            assert_eq!(HomeVariables::default().in_line(line), [""; 0], "{line}");
        }
    }
}
