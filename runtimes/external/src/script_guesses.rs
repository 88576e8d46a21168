//! What a script may want by its text alone: hosts, variables, paths, imports and programs. The text is searched, not parsed, and whoever wrote it
//! chose what is found, so nothing is granted by it.

use std::collections::BTreeSet;

use crate::hints::variable_use::{is_comment, reads_variable};
use crate::python_imports::imported_modules;
use metier_core::host::{ScriptGuesses, variable_access};
use metier_core::policy::Permission;

/// How much of a text is searched, in lines of which length: longer ones are data. How many names of a kind are listed, and how long they are.
const MAX_TEXT_BYTES: usize = 64 << 10;
const MAX_LINE_BYTES: usize = 1000;
const MAX_NAMES: usize = 32;
const MAX_NAME_BYTES: usize = 200;

/// Hosts in the names of formats, to which nothing connects.
const FORMAT_HOSTS: [&str; 6] = [
    "json-schema.org",
    "purl.org",
    "schemas.microsoft.com",
    "schemas.openxmlformats.org",
    "www.w3.org",
    "xmlns.com",
];

/// The first folders of absolute paths: `/v1/items` is no path.
const ROOT_FOLDERS: &str = "Applications Library Users Volumes bin data dev etc home lib media mnt opt proc root run sbin srv sys tmp usr var";

/// What stands before a path in quotes.
const PATH_CALLS: [&str; 8] = [
    "open(",
    "Path(",
    "readFile(",
    "readFileSync(",
    "writeFile(",
    "writeFileSync(",
    "makedirs(",
    "mkdirSync(",
];

/// What stands before a command in quotes: the command, or a list with its words.
const COMMAND_CALLS: [&str; 14] = [
    "subprocess.run(",
    "subprocess.call(",
    "subprocess.check_call(",
    "subprocess.check_output(",
    "subprocess.Popen(",
    "os.system(",
    "os.popen(",
    "check_output(",
    "exec(",
    "execSync(",
    "execFile(",
    "execFileSync(",
    "spawn(",
    "spawnSync(",
];

/// Modules that Python and Node have themselves, of those that scripts use most.
const OWN_MODULES: &str = "__future__ abc argparse array ast asyncio atexit base64 binascii bisect builtins bz2 calendar collections \
    concurrent configparser contextlib copy csv ctypes curses dataclasses datetime decimal difflib dis email enum errno fcntl fnmatch \
    fractions ftplib functools gc getpass gettext glob graphlib grp gzip hashlib heapq hmac html http imaplib importlib inspect io \
    ipaddress itertools json keyword linecache locale logging lzma mailbox math mimetypes mmap multiprocessing netrc numbers operator os \
    pathlib pickle pkgutil platform plistlib pprint pwd queue random re readline resource sched secrets select shelve shlex shutil \
    signal site smtplib socket socketserver sqlite3 ssl stat statistics string struct subprocess sys sysconfig syslog tarfile tempfile \
    termios textwrap threading time timeit tkinter token tokenize tomllib traceback types typing unicodedata unittest urllib uuid venv \
    warnings wave weakref webbrowser xml xmlrpc zipfile zipimport zlib zoneinfo \
    assert buffer child_process cluster console constants crypto dgram dns events fs http2 https module net perf_hooks process punycode \
    querystring repl stream string_decoder timers tls tty url util v8 vm wasi worker_threads";

/// Words with which a statement of a shell begins and that start no program.
const SHELL_WORDS: &str = "alias bg break builtin case cd command continue coproc declare dirs disown do done echo elif else enable esac eval exec \
    exit export false fg fi for function getopts hash help if in jobs let local mapfile popd printf pushd pwd read readarray readonly \
    return select set shift shopt source test then time times trap true type typeset ulimit umask unalias unset until wait while";

/// What a text has of one kind, in its order.
#[derive(Default)]
struct NameList(Vec<String>);

impl NameList {
    fn add(&mut self, name: &str) {
        let is_name = !name.is_empty() && name.len() <= MAX_NAME_BYTES;
        if is_name && self.0.len() < MAX_NAMES && !self.0.iter().any(|known| known == name) {
            self.0.push(name.to_owned());
        }
    }
}

/// The language of a script, as far as its text is searched by it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Shell,
    Python,
    Node,
    Other,
}

/// What the script of this name may want; `None` if it is no text.
pub(crate) fn guesses(name: &str, source: &[u8]) -> Option<ScriptGuesses> {
    let searched = source.get(..MAX_TEXT_BYTES).unwrap_or(source);
    if source.is_empty() || searched.contains(&0) {
        return None;
    }
    let whole = String::from_utf8_lossy(searched);
    let language = language(name, &whole);
    let is_code = |line: &&str| line.len() <= MAX_LINE_BYTES && !is_comment(line);
    let text: String = whole.lines().filter(is_code).flat_map(|line| [line, "\n"]).collect();
    let [mut hosts, mut paths, mut imports, mut commands] = [(); 4].map(|()| NameList::default());
    for line in text.lines() {
        hosts_of(line).for_each(|host| hosts.add(&host));
        for path in paths_of(line, language) {
            paths.add(&path);
        }
        match language {
            Language::Shell => shell_programs(line).for_each(|program| commands.add(program)),
            Language::Node => node_imports(line).for_each(|module| imports.add(module)),
            Language::Python | Language::Other => {}
        }
        if language != Language::Shell {
            called_programs(line).for_each(|program| commands.add(program));
        }
    }
    if language == Language::Python {
        imported_modules(&text)
            .into_iter()
            .filter(|module| !is_word_of(OWN_MODULES, module))
            .for_each(|module| imports.add(module));
    }
    if language == Language::Shell {
        commands.0.retain(|program| !text.contains(&format!("{program}()")));
    }
    let mut found = ScriptGuesses::default();
    found.hosts = hosts.0;
    found.variables = variables(&text);
    found.paths = paths.0;
    found.imports = imports.0;
    found.commands = commands.0;
    found.is_cut = source.len() > MAX_TEXT_BYTES;
    Some(found)
}

fn language(name: &str, text: &str) -> Language {
    let ending = name.rsplit('.').next().unwrap_or_default();
    let shebang = text.lines().next().filter(|line| line.starts_with("#!")).unwrap_or_default();
    match ending {
        "sh" | "bash" | "zsh" => Language::Shell,
        "py" => Language::Python,
        "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" => Language::Node,
        _ if shebang.contains("python") => Language::Python,
        _ if ["node", "bun", "deno"].iter().any(|program| shebang.contains(program)) => Language::Node,
        _ if shebang.trim_end().ends_with("sh") => Language::Shell,
        _ => Language::Other,
    }
}

fn is_word_of(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == word)
}

/// The hosts of the addresses in a line, with their ports.
fn hosts_of(line: &str) -> impl Iterator<Item = String> {
    line.match_indices("://").filter_map(|(at, mark)| {
        let rest = &line[at + mark.len()..];
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-._:@[]".contains(c);
        let authority = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        // A name that the script puts together is not known.
        let is_known = !rest[authority.len()..].starts_with(['{', '$', '<', '%']);
        let host = authority.rsplit('@').next().unwrap_or_default().trim_end_matches(['.', ':']);
        let is_host = (host.contains('.') || host.starts_with("localhost"))
            && !FORMAT_HOSTS.contains(&host)
            && Permission::net(host).is_ok();
        (is_known && is_host).then(|| host.to_owned())
    })
}

/// The variables that a text reads.
fn variables(text: &str) -> Vec<String> {
    let is_name = |word: &&str| {
        (3..=128).contains(&word.len())
            && word.contains('_')
            && word.starts_with(|first: char| first.is_ascii_uppercase())
            && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
            && variable_access(word).is_some()
    };
    let mut seen = BTreeSet::new();
    let names = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(is_name);
    let names = names.filter(|name| seen.insert(*name)).take(2 * MAX_NAMES);
    names.filter(|name| reads_variable(text, name)).take(MAX_NAMES).map(str::to_owned).collect()
}

/// The paths that a line names: absolute ones, those of the home, and what it opens.
fn paths_of(line: &str, language: Language) -> Vec<String> {
    let is_end = |c: char| c.is_whitespace() || "\"'`=<>|;()[],&".contains(c);
    let mut paths: Vec<String> = Vec::new();
    for word in line.split(is_end) {
        let of_home = ["~", "$HOME", "${HOME}"].iter().find_map(|home| word.strip_prefix(home));
        if let Some(rest) = of_home.and_then(|rest| rest.strip_prefix('/')) {
            paths.push(format!("~/{}", known_part(rest)));
        } else if let Some(rest) = word.strip_prefix('/') {
            let is_path = is_word_of(ROOT_FOLDERS, rest.split('/').next().unwrap_or_default());
            paths.extend(is_path.then(|| format!("/{}", known_part(rest))));
        }
    }
    paths.extend(quoted_after(line, &PATH_CALLS).map(|path| known_part(path).to_owned()));
    if language == Language::Shell {
        let targets = line
            .match_indices('>')
            .map(|(at, mark)| line[at + mark.len()..].trim_start_matches(['>', ' ', '"', '\'']));
        let targets = targets.map(|target| target.split(is_end).next().unwrap_or_default());
        paths.extend(targets.map(known_part).map(str::to_owned));
    }
    // A number alone is a stream, or no path.
    paths.retain(|path| path.contains(char::is_alphabetic) && !path.contains("://") && path != "/dev/null");
    paths
}

/// The part of a path before what the script puts in.
fn known_part(path: &str) -> &str {
    let end = path.find(['$', '{', '%', '*', '<', '\\', '?']).unwrap_or(path.len());
    let known = &path[..end];
    if end == path.len() {
        known.trim_end_matches(['/', '.', ':'])
    } else {
        known.rsplit_once('/').map_or("", |(folder, _)| folder)
    }
}

/// The texts in quotes that follow one of these words, or the bracket after it.
fn quoted_after<'a>(line: &'a str, words: &'a [&str]) -> impl Iterator<Item = &'a str> {
    words.iter().flat_map(move |word| {
        line.match_indices(word).filter_map(move |(at, word)| {
            let rest = line[at + word.len()..].trim_start_matches(['[', ' ', 'f', 'r']);
            let quote = rest.chars().next().filter(|quote| "\"'`".contains(*quote))?;
            rest[quote.len_utf8()..].split(quote).next()
        })
    })
}

/// The programs that a line of Python or Node starts.
fn called_programs(line: &str) -> impl Iterator<Item = &str> {
    let commands = quoted_after(line, &COMMAND_CALLS);
    commands.filter_map(|command| command.split_whitespace().next()).filter(|program| is_program(program))
}

/// The programs with which the statements of a line of a shell begin.
fn shell_programs(line: &str) -> impl Iterator<Item = &str> {
    let statements = line.split(['|', ';', '&', '(', '`']);
    statements.filter_map(|statement| {
        let mut words = statement.split_whitespace();
        // `VALUE=x program`, `if program`, `! program`
        let is_prefix = |word: &&str| {
            [
                "if", "elif", "while", "until", "then", "else", "do", "!", "{", "exec", "command", "time",
                "sudo",
            ]
            .contains(word)
                || word.split_once('=').is_some_and(|(name, _)| {
                    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                })
        };
        let first = words.find(|word| !is_prefix(word))?;
        let has_value = statement.split_once(first).is_some_and(|(_, rest)| rest.starts_with('='));
        (is_program(first) && !has_value && !is_word_of(SHELL_WORDS, first)).then_some(first)
    })
}

fn is_program(word: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.+".contains(&byte);
    (2..=64).contains(&word.len())
        && word.starts_with(|first: char| first.is_ascii_lowercase())
        && word.bytes().all(is_part)
}

/// The packages that a line of Node imports.
fn node_imports(line: &str) -> impl Iterator<Item = &str> {
    let modules = quoted_after(line, &["require(", "import(", " from ", "import "]);
    modules.filter_map(|module| {
        let is_package =
            !module.starts_with(['.', '/']) && !module.contains(':') && !module.contains(char::is_whitespace);
        let parts = if module.starts_with('@') { 2 } else { 1 };
        let end = module.match_indices('/').nth(parts - 1).map_or(module.len(), |(at, _)| at);
        let name = &module[..end];
        (is_package && !is_word_of(OWN_MODULES, name)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_script_says_what_it_may_want() {
        let text = r#"#!/usr/bin/env python3
import os, subprocess, requests
from yaml import safe_load
# https://comment.example.com
KEY = os.environ["REPORT_API_KEY"]
r = requests.get(f"https://api.example.com:8443/v1/{KEY}", headers={"x": "http://www.w3.org/2000/svg"})
requests.get(f"https://{host}/x"); requests.get("https://user@other.example.com./a?b=1")
open("reports/out.md", "w").write(r.text)
print("/v1/items", os.path.expanduser("~/.config/tool.json"), "/etc/hosts")
subprocess.run(["git", "status"]); os.system("pandoc -o x y"); subprocess.run(command)
"#;
        let found = guesses("main.py", text.as_bytes()).unwrap();
        assert_eq!(found.hosts, ["api.example.com:8443", "other.example.com"]);
        assert_eq!(found.variables, ["REPORT_API_KEY"]);
        assert_eq!(found.paths, ["reports/out.md", "~/.config/tool.json", "/etc/hosts"]);
        assert_eq!(found.imports, ["requests", "yaml"]);
        assert_eq!(found.commands, ["git", "pandoc"]);
        assert!(!found.is_cut);
    }

    #[test]
    fn scripts_of_a_shell_and_of_node_say_it_too() {
        let text = "#!/bin/bash\nset -e\nlog() { echo x; }\nOUT=${OUT_DIR:-out}\nif ! command -v jq; then exit 1; fi\n\
                    curl -s \"https://api.example.com/x\" | jq .a > \"$HOME/.cache/tool/x.json\"\nlog done\n\
                    LC_ALL=C sort /var/log/syslog >> out.txt 2>&1\n";
        let found = guesses("run", text.as_bytes()).unwrap();
        assert_eq!((found.hosts, found.variables), (vec!["api.example.com".into()], vec!["OUT_DIR".into()]));
        assert_eq!(found.paths, ["~/.cache/tool/x.json", "/var/log/syslog", "out.txt"]);
        assert_eq!(found.commands, ["curl", "jq", "sort"]);
        let text = "import fs from 'node:fs';\nimport x from \"@scope/pkg/deep\";\nconst y = require('left-pad/x'), z = require('./own');\n\
                    import path from 'fs';\nexecSync('ffmpeg -i a'); fetch(`https://a.example.com/${process.env.MY_TOKEN}`)\n";
        let found = guesses("main.mjs", text.as_bytes()).unwrap();
        assert_eq!(
            (found.imports, found.commands),
            (vec!["@scope/pkg".into(), "left-pad".to_owned()], vec!["ffmpeg".into()])
        );
        assert_eq!(
            (found.hosts, found.variables),
            (vec!["a.example.com".to_owned()], vec!["MY_TOKEN".into()])
        );
    }

    #[test]
    fn what_a_hostile_text_says_is_bounded() {
        let hosts: Vec<String> =
            (0..5000).map(|number| format!("'https://h{number}.example.com' open('f{number}x')\n")).collect();
        let found = guesses("main.py", hosts.concat().as_bytes()).unwrap();
        assert_eq!((found.hosts.len(), found.paths.len(), found.is_cut), (MAX_NAMES, MAX_NAMES, true));
        let names: Vec<String> = (0..60).map(|number| format!("A_{number} ")).collect();
        let names = names.concat() + "\n";
        let found = guesses("main.sh", names.repeat(300).as_bytes()).unwrap();
        assert!(found.variables.len() <= MAX_NAMES);
        for text in [
            "'https://",
            "open(",
            "open('",
            "\u{feff}>",
            "://[::1",
            "${HOME}/",
            "import ",
            "from x",
            "a=|;&(`",
            "é://é.é/é",
            "~/é$é",
        ] {
            for name in ["a.py", "a.sh", "a.js", "a"] {
                let found = guesses(name, text.as_bytes()).unwrap();
                assert!(found.hosts.len() <= 1, "{text}");
            }
        }
        let line = format!("open('{}')", "x".repeat(300));
        assert_eq!(guesses("a.py", line.as_bytes()).unwrap().paths, [""; 0]);
        assert!(guesses("a.py", b"a\0b").is_none() && guesses("a.py", b"").is_none());
        assert!(guesses("a.py", &[0xff; 100]).is_some());
    }
}
