//! What is protected for what it is, and not for its name, from every language that calls the host: the function that reads or writes
//! for a script knows history, secrets and repositories behind files, links and second names, whatever the sandbox can cover.

use std::fs;
use std::os::unix::fs::symlink;

use metier::policy::ExecutionMode;
use serde_json::{Value, json};

use crate::sandbox::case::LEVELS;
use crate::sandbox::fixture::{self, Fixture};
use crate::sandbox::ordinary;
use crate::support::not_run::{find_program, not_run};

/// A language, the command it takes, and a script that answers its input, a list of calls, with what became of each: `done`, or the
/// kind of its error.
const LANGUAGES: &[(&str, Option<&str>, &str)] = &[
    #[cfg(feature = "lua-runtime")]
    (
        "main.lua",
        None,
        "local ends = {}
        for at, call in ipairs(input) do
            local ok, e = pcall(ctx[call[1]], table.unpack(call, 2))
            ends[at] = ok and 'done' or e.kind
        end
        return ends",
    ),
    #[cfg(feature = "rhai-runtime")]
    (
        "main.rhai",
        None,
        "let ends = [];
        for asked in input {
            let f = Fn(asked[0]);
            try {
                switch asked.len() {
                    2 => f.call(ctx, asked[1]),
                    3 => f.call(ctx, asked[1], asked[2]),
                    4 => f.call(ctx, asked[1], asked[2], asked[3]),
                }
                ends.push(\"done\");
            } catch (e) { ends.push(e.kind); }
        }
        ends",
    ),
    (
        "main.py",
        Some("python3"),
        "import json
from metier import ctx, input, MetierError
ends = []
for name, *args in input:
    try:
        getattr(ctx, name)(*args)
        ends.append('done')
    except MetierError as error:
        ends.append(error.kind)
print(json.dumps(ends))",
    ),
    (
        "main.cjs",
        Some("node"),
        "const {ctx, input} = require('metier');
        const end = ([name, ...args]) => { try { ctx[name](...args); return 'done'; } catch (error) { return error.kind; } };
        console.log(JSON.stringify(input.map(end)));",
    ),
    // Its client ends with the code of the kind; Python takes the input apart.
    (
        "main.bash",
        Some("python3"),
        "ends=()
        while read -r name args; do
            metier ctx \"$name\" --args \"$args\" > /dev/null 2>&1
            case $? in 0) ends+=('\"done\"') ;; 4) ends+=('\"denied\"') ;; *) ends+=(\"\\\"code $?\\\"\") ;; esac
        done < <(metier ctx input --json | python3 -c 'import json, sys
for name, *args in json.load(sys.stdin): print(name, json.dumps(args))')
        (IFS=,; echo \"[${ends[*]}]\")",
    ),
];

/// A project whose history a file names, with secrets under other names and a repository under a name of its own.
fn git_file_project(fixture: Fixture) -> Fixture {
    let fixture = fixture
        .file("project/.git", "gitdir: meta\n")
        .file("project/meta/hooks/own", "theirs\n")
        .file("project/meta/commondir", "../shared\n")
        .file("project/shared/config", "theirs\n")
        .file("project/.env", "theirs\n")
        .file("project/keys/own", "theirs\n")
        .file("project/conf/live", "theirs\n")
        .file("project/plain", "plain\n");
    for file in ["HEAD", "refs/heads/main", "objects/x", "config", "hooks/own"] {
        fixture.write(&format!("project/bare/{file}"), "theirs\n");
    }
    fs::hard_link(fixture.at("project/.env"), fixture.at("project/again")).unwrap();
    fixture.link("keys", "project/.ssh").link("conf/live", "project/.env.local")
}

/// One whose history is a link, and whose configuration names a folder of hooks.
fn git_link_project(fixture: Fixture) -> Fixture {
    let fixture = fixture
        .file("project/real/config", "[core]\n\thooksPath = tools/checks\n# theirs\n")
        .file("project/real/hooks/own", "theirs\n")
        .file("project/tools/checks/own", "theirs\n")
        .file("project/plain", "plain\n");
    symlink("real", fixture.at("project/.git")).unwrap();
    fixture
}

fn calls_on_a_file() -> Vec<Value> {
    let mut calls = vec![
        json!(["write", ".git", "x"]),
        json!(["edit", "meta/hooks/own", "theirs", "x"]),
        json!(["remove", "meta/hooks/own"]),
        json!(["remove", "meta", {"recursive": true}]),
        json!(["mkdir", "meta/hooks/new"]),
        json!(["write", "meta/hooks/pre-commit", "x"]),
        json!(["head", "again", 1]),
        json!(["tail", "again", 1]),
        json!(["edit", "again", "theirs", "x"]),
        json!(["write", "bare/hooks/post-commit", "x"]),
        json!(["mkdir", "bare/hooks/new"]),
        json!(["append", "bare/config", "x"]),
    ];
    for file in ["meta/hooks/own", "shared/config", "again", "keys/own", "conf/live", "bare/config"] {
        calls.push(json!(["read_file", file]));
        calls.push(json!(["stat", file]));
        // What has a second name is replaced by a write, and is then no secret any more.
        if file != "again" {
            calls.push(json!(["write", file, "x"]));
            calls.push(json!(["append", file, "x"]));
        }
    }
    calls
}

fn calls_on_a_link() -> Vec<Value> {
    let mut calls = vec![
        json!(["remove", ".git"]),
        json!(["write", "real/hooks/pre-commit", "x"]),
        json!(["write", "tools/checks/pre-commit", "x"]),
        json!(["write", "tools/checks/own", "x"]),
        json!(["mkdir", "real/hooks/new"]),
        json!(["remove", "real", {"recursive": true}]),
    ];
    for file in ["real/config", "real/hooks/own"] {
        calls.push(json!(["read_file", file]));
        calls.push(json!(["append", file, "x"]));
        calls.push(json!(["edit", file, "theirs", "x"]));
    }
    calls
}

/// The text of every file in the project, by its path.
fn texts(fixture: &Fixture) -> Vec<(String, String)> {
    let mut folders = vec![fixture.at("project")];
    let mut texts = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let about = entry.metadata().unwrap();
            if about.is_dir() {
                folders.push(entry.path());
            } else if about.is_file() {
                texts.push((entry.path().display().to_string(), fs::read_to_string(entry.path()).unwrap()));
            }
        }
    }
    texts.sort();
    texts
}

fn assert_protected(
    script: &str,
    text: &str,
    mode: ExecutionMode,
    lay_out: fn(Fixture) -> Fixture,
    mut calls: Vec<Value>,
) {
    let refused = calls.len();
    calls.extend([
        json!(["read_file", "plain"]),
        json!(["append", "plain", "more\n"]),
        json!(["mkdir", "new"]),
    ]);
    let head = "---\nname: x\ndescription: tries\nallowed-tools: read write\n---\n";
    let fixture = lay_out(Fixture::new(script, text).file("skills/x/SKILL.md", head)).grant("write");
    let fixture = fixture.input(Value::from(calls.clone())).deadline(120_000);
    let before = texts(&fixture);
    let outcome = fixture.engine().run(fixture.invocation().execution_mode(mode));
    let ends = outcome.result.as_ref().unwrap_or_else(|error| panic!("{script}: {error} {outcome:?}"));
    let ends = ends.as_array().unwrap_or_else(|| panic!("{script}: {ends}"));
    assert_eq!(ends.len(), calls.len(), "{script}: {ends:?}");
    for (at, (call, end)) in calls.iter().zip(ends).enumerate() {
        assert_eq!(
            end,
            if at < refused { "denied" } else { "done" },
            "{script} in {:?}: {call}",
            fixture::level()
        );
    }
    let after: Vec<_> = texts(&fixture)
        .into_iter()
        .map(|(path, text)| (path, text.replace("plain\nmore\n", "plain\n")))
        .collect();
    assert_eq!(after, before, "{script}");
}

#[test]
fn every_language_meets_the_same_protection() {
    for (level, name) in [LEVELS[0], LEVELS[1]] {
        if let Err(reason) = fixture::check_level(level) {
            not_run(&format!("protection from every language in the level {name}"), &reason);
            continue;
        }
        for (script, needs, text) in LANGUAGES {
            if let Some(command) = needs.filter(|command| find_program(command).is_none()) {
                not_run("protection from every language", &format!("{command} is not installed"));
                continue;
            }
            if fixture::helper().is_none() {
                not_run("protection from every language", "the command line is not built in");
                continue;
            }
            let is_external = needs.is_some();
            for mode in ExecutionMode::all().take(if is_external { 1 } else { 2 }) {
                assert_protected(script, text, mode, git_file_project, calls_on_a_file());
                assert_protected(script, text, mode, git_link_project, calls_on_a_link());
            }
        }
    }
}

#[test]
fn every_language_of_an_ordinary_user_meets_the_same_protection() {
    ordinary::run_as_nobody("sandbox::identities::every_language_meets_the_same_protection");
}
