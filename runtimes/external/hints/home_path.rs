//! The paths below the home folder that a line of a script names, in the ways of shells, Python and Node.

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

/// How Python begins a path with `~` that it expands.
const EXPANDED: [&str; 2] = ["expanduser(\"~", "expanduser('~"];

/// The longest path of Linux.
const MAX_PATH_BYTES: usize = 4096;

/// How many places of one line are looked at.
const MAX_PLACES: usize = 16;

/// The paths below the home folder that this line of a script names whole, without `~/`.
pub(crate) fn home_paths(line: &str) -> Vec<String> {
    let after =
        |words: &'static str| line.match_indices(words).take(MAX_PLACES).map(move |(at, _)| at + words.len());
    let by_name = HOMES.into_iter().flat_map(after);
    let expanded = EXPANDED.into_iter().flat_map(after).filter(|at| line[*at..].starts_with('/'));
    let by_shell = after("~").filter(|at| is_tilde_of_shell(line, *at - 1));
    by_name.chain(expanded).chain(by_shell).filter_map(|at| literal_path(&line[at..])).collect()
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
                rest.is_empty() || rest.starts_with(['"', '\'', ' ', ')', ']', ';', ',', '`', '/']);
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
        ] {
            assert_eq!(home_paths(line), [path], "{line}");
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
            assert_eq!(home_paths(line), [""; 0], "{line}");
        }
    }
}
