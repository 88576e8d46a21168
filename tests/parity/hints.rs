//! What the error of a script says that met its sandbox, or that failed for reasons of its own: the hint is right, or there is none.

use std::process::Command;

use serde_json::Value;

use crate::support::cli::{Answer, Project};
use crate::support::not_run::{find_program, not_run};

/// A script that fails, and what its help says.
pub(crate) struct FailedScript {
    pub(crate) program: &'static str,
    pub(crate) text: &'static str,
    pub(crate) options: &'static [&'static str],
    /// Parts of the help; none if there must be no help.
    pub(crate) help: &'static [&'static str],
}

pub(crate) const PYTHON: (&str, &str) = ("python3", "main.py");
pub(crate) const SHELL: (&str, &str) = ("bash", "main.sh");
pub(crate) const NODE: (&str, &str) = ("node", "main.js");

pub(crate) fn script(
    (program, _): (&'static str, &str),
    text: &'static str,
    help: &'static [&'static str],
) -> FailedScript {
    FailedScript { program, text, options: &[], help }
}

/// The script as that of a skill `x`, in a project with a few files and a home with one.
pub(crate) fn project_with(program: &str, text: &str) -> Project {
    let (_, name) = [PYTHON, SHELL, NODE].into_iter().find(|(known, _)| *known == program).unwrap_or(SHELL);
    let project = Project::new()
        .skill(".metier/skills/x")
        .file(&format!(".metier/skills/x/scripts/{name}"), text)
        .file(".metier/skills/x/references/data.md", "data")
        .file(".metier/skills/x/.maintenance/check.sh", "true")
        .file("f", "text")
        .file("docs/a.md", "text");
    std::fs::create_dir_all(project.home().join(".myapp")).unwrap();
    std::fs::write(project.home().join(".myapp/config.json"), "{}").unwrap();
    project
}

fn make_repository(project: &Project) {
    let commands = "git init -q -b main . && git add f && git -c user.name=a -c user.email=a@b commit -qm a";
    let mut shell = Command::new("sh");
    shell.args(["-c", commands]).current_dir(project.path("."));
    shell.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    assert!(shell.status().unwrap().success());
}

pub(crate) fn check(cases: impl IntoIterator<Item = FailedScript>, prepare: impl Fn(&Project)) {
    let mut wrong = Vec::new();
    for FailedScript { program, text, options, help } in cases {
        if find_program(program).is_none() {
            not_run("a hint", &format!("{program} is not installed"));
            continue;
        }
        let project = project_with(program, text);
        prepare(&project);
        let answer = project.metier(&[&["run", "x", "--json"], options].concat());
        let outcome = answer.json();
        let said = outcome["error"]["help"].as_str().unwrap_or_default();
        let is_right = match help {
            [] => said.is_empty(),
            parts => parts.iter().all(|part| said.contains(part)),
        };
        if outcome["error"].is_null() || !is_right {
            let stderr = &outcome["process"]["stderr"];
            wrong.push(format!("{text}\n  help: {said:?}\n  expected: {help:?}\n  stderr: {stderr}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is said of a refusal that nothing was observed of.
pub(crate) const WATCH: &[&str] =
    &["the sandbox may have refused the script something; `metier try x` shows what it was"];

#[test]
fn a_refused_change_of_the_repository_is_answered_with_the_whole_of_it() {
    if find_program("git").is_none() {
        return not_run("hints about git", "git is not installed");
    }
    let commands = [
        "git hash-object -w f",
        "git notes add -m x",
        "git branch -m other",
        "git config a.b c",
        "git remote add o https://x.test/z",
        "git branch x",
        "git branch x/y",
        "git stash",
        "git add docs",
        "git -c user.name=a -c user.email=a@b commit --allow-empty -m x",
        "git tag v1",
        "git hash-object -w f || { echo failed >&2; exit 3; }",
    ];
    check(
        commands.map(|command| {
            let text = Box::leak(format!("echo more >> $TMPDIR/x; {command}").into_boxed_str());
            script(SHELL, text, &["run with --allow write:.git"])
        }),
        make_repository,
    );
    check(
        [
            script(SHELL, "git branch main", &[]),
            script(SHELL, "git show nowhere", &[]),
            script(
                SHELL,
                "echo 'error: could not write docs/b.md: Permission denied' >&2; exit 1",
                &["change docs/b.md"],
            ),
            script(SHELL, "echo 'fatal: cannot lock ref: file exists' >&2; exit 1", &[]),
        ],
        make_repository,
    );
}

#[test]
fn a_refused_file_is_named_and_no_word_of_a_sentence_is_taken_for_one() {
    check(
        [
            script(
                ("tar", ""),
                "tar cf out.tar f",
                &["change out.tar; if it should, run with --allow write"],
            ),
            script(
                ("zip", ""),
                "zip -q out.zip f",
                &["change out.zip; if it should, run with --allow write"],
            ),
            script(
                SHELL,
                "echo 'df: cannot read table of mounted file systems: Permission denied' >&2; exit 1",
                WATCH,
            ),
            script(SHELL, "echo 'error: open: Permission denied' >&2; exit 1", WATCH),
            script(SHELL, "echo 'git@x.test: Permission denied (publickey).' >&2; exit 1", &[]),
            script(
                SHELL,
                "touch 'a; grant exec:unsandboxed'",
                &["change \"a; grant exec:unsandboxed\"; if it should, run with --allow write"],
            ),
            script(
                SHELL,
                "printf 'x: ' >&2; head -c 20000 /dev/zero | tr '\\0' / >&2; echo ': Permission denied' >&2; exit 1",
                WATCH,
            ),
            script(
                SHELL,
                "mkdir -p $TMPDIR/x; echo x > docs/.env",
                &["create docs/.env", "create it before the run"],
            ),
            script(
                SHELL,
                "echo x > .env",
                &[
                    "does not let this script create .env",
                    "create it before the run and run with --allow write:.env",
                ],
            ),
            script(PYTHON, "open('k.pem', 'w')", &["create k.pem", "create it before the run"]),
            FailedScript {
                options: &["--allow", "write:.env"],
                ..script(
                    SHELL,
                    "echo x > .env",
                    &["create .env before the run, or run with --allow write as well"],
                )
            },
            script(
                NODE,
                "require('fs').mkdirSync('a/b/c', {recursive: true})",
                &["change a/b/c; if it should, run with --allow write"],
            ),
            script(
                NODE,
                "require('fs').mkdirSync('docs/b/c', {recursive: true})",
                &["change docs/b/c; if it should, run with --allow write:docs"],
            ),
            script(
                NODE,
                "require('fs').mkdirSync('.claude/b/c', {recursive: true})",
                &["run with --allow write:.claude"],
            ),
            script(NODE, "require('fs').mkdirSync('f/b/c', {recursive: true})", &[]),
            script(PYTHON, "import sqlite3; sqlite3.connect('n.db').execute('create table x(a)')", WATCH),
            script(PYTHON, "raise Exception('attempt to write a readonly database')", WATCH),
            script(PYTHON, "raise Exception('cannot open the database')", &[]),
        ],
        |_| {},
    );
}

/// What was observed of a script that looked up `x.test`.
pub(crate) const OBSERVED: &[&str] =
    &["the script tried x.test: it is not granted; if the script needs it, run with --allow net:x.test"];

#[test]
fn a_missing_network_is_named_however_little_the_script_says() {
    check(
        [
            script(("curl", ""), "set -e\nR=$(curl -s \"https://x.test$1\")\necho $R", OBSERVED),
            script(
                ("wget", ""),
                "wget -q https://x.test/a https://y.test/a",
                &["if the script needs them, run with --allow net:x.test --allow net:y.test"],
            ),
            script(
                NODE,
                "fetch('https://x.test').catch(e => { console.error(e.message); process.exit(1) })",
                OBSERVED,
            ),
            // Where the network is observed, what a script says of it proves nothing.
            script(
                SHELL,
                "echo 'ssh: Could not resolve hostname x.test: Name or service not known' >&2; exit 255",
                &[],
            ),
            script(
                SHELL,
                "printf 'Pseudo-terminal will not be allocated because stdin is not a terminal.\\r\\nssh: Could not resolve hostname x: Temporary failure in name resolution\\n' >&2; exit 255",
                &[],
            ),
            script(SHELL, "exit 6", &[]),
            script(("curl", ""), "echo 'please configure curl first' >&2; exit 7", &[]),
            script(SHELL, "# no curl here\nexit 7", &[]),
            script(SHELL, "echo 'git fetch failed' >&2; exit 1", &[]),
            script(SHELL, "echo 'prefetch failed' >&2; exit 1", &[]),
        ],
        |_| {},
    );
}

#[test]
fn a_deadline_that_passed_while_a_script_waited_for_the_network_says_so() {
    let short = &["--timeout", "2s"][..];
    let waits = |program, text, help| FailedScript { options: short, ..script(program, text, help) };
    check(
        [
            waits(
                SHELL,
                "(exec 3<>/dev/tcp/x.test/80) 2>/dev/null; sleep 30",
                &["may have waited for the network", "run with --allow net:x.test"],
            ),
            // It tried nothing, whatever it says.
            waits(
                SHELL,
                "echo 'getaddrinfo EAI_AGAIN registry.x.test' >&2; sleep 30",
                &["give it more time, or make it do less (--timeout)"],
            ),
            waits(SHELL, "sleep 30", &["give it more time, or make it do less (--timeout)"]),
            waits(PYTHON, "while True: pass", &["give it more time, or make it do less (--timeout)"]),
            FailedScript {
                options: &["--timeout", "2s", "--allow", "net"],
                ..script(
                    SHELL,
                    "echo 'getaddrinfo EAI_AGAIN x.test' >&2; sleep 30",
                    &["give it more time, or make it do less (--timeout)"],
                )
            },
        ],
        |_| {},
    );
    let project = project_with("bash", "sleep 30");
    let outcome = project.metier(&["run", "x", "--json", "--timeout", "2s", "--allow", "net"]).json();
    assert_eq!(outcome["error"]["help"], "give it more time, or make it do less (--timeout)");
}

#[test]
fn a_package_that_a_script_asks_for_is_prepared() {
    let prepare = &["needs the Python package metier-x", "`metier prepare x --with metier-x`"][..];
    check(
        [
            script(
                PYTHON,
                "import sys\ntry: import metier_x\nexcept ImportError:\n    print('Error: metier-x not installed. Run: pip install metier-x', file=sys.stderr); sys.exit(1)",
                prepare,
            ),
            script(
                PYTHON,
                "import sys\ntry: import metier_x\nexcept ImportError:\n    print('metier-x is required.\\n  uv pip install metier-x'); sys.exit(2)",
                prepare,
            ),
            script(
                PYTHON,
                "raise ImportError('metier-x is required, pip install \"metier-x[all]\"')",
                &["needs the Python package metier-x[all]"],
            ),
            script(
                NODE,
                "console.error('metier-x is not installed. Run: npm install metier-x'); process.exit(1)",
                &["needs the npm package metier-x", "`metier prepare x --with metier-x@latest`"],
            ),
            script(
                NODE,
                "console.error('metier-x is not installed. Run `bun add metier-x` above this script'); process.exit(1)",
                &["needs the npm package metier-x", "`metier prepare x --with metier-x@latest`"],
            ),
            script(
                PYTHON,
                "import sys; print('metier-x and metier-y are missing. Run:\\n  pip install metier-x\\n  pip install metier-y', file=sys.stderr); sys.exit(1)",
                &[
                    "needs the Python packages metier-x, metier-y",
                    "the lines metier-x, metier-y to",
                    "`metier prepare x --with metier-x --with metier-y`",
                ],
            ),
            script(
                PYTHON,
                "import sys; sys.exit('Missing dependencies. Run: pip install -r requirements.txt')",
                &["needs the Python packages of requirements.txt", "`metier prepare x`"],
            ),
            script(
                PYTHON,
                "import sys; sys.exit('ERROR: No matching distribution found for metier-x')",
                &["tried to install the Python package metier-x", "`metier prepare x --with metier-x`"],
            ),
            script(
                PYTHON,
                "print('optional: pip install metier-x (not installed)')\nraise ValueError('bad')",
                &[],
            ),
            script(PYTHON, "import sys; print('bad file'); sys.exit(1)", &[]),
        ],
        |_| {},
    );
}

#[test]
fn a_variable_that_a_script_asks_for_is_named() {
    check(
        [
            script(SHELL, ": \"${SESSION_ID:?call it with a session}\"", &["run with --env SESSION_ID"]),
            script(
                SHELL,
                "[ -n \"$SESSION_ID\" ] || { echo 'x: SESSION_ID is unset -- cannot go on' >&2; exit 1; }",
                &["run with --env SESSION_ID"],
            ),
            script(
                NODE,
                "const {BASE_URL, API_KEY} = process.env; if (!BASE_URL) throw new Error('BASE_URL and API_KEY must be set')",
                &["run with --env BASE_URL --env API_KEY"],
            ),
            script(
                PYTHON,
                "import os, sys; os.environ.get('MY_API_KEY') or sys.exit('No API key found. Set MY_API_KEY in .env')",
                &["run with --env MY_API_KEY"],
            ),
            script(PYTHON, "import sys; sys.exit('the aws CLI is required in the environment')", &[]),
        ],
        |_| {},
    );
}

#[test]
fn what_a_script_looks_for_elsewhere_is_where_the_help_says() {
    let home = &["~/.myapp/config.json is in your home folder"][..];
    check(
        [
            script(PYTHON, "import pathlib; (pathlib.Path.home() / '.myapp/config.json').read_text()", home),
            script(SHELL, "cat ~/.myapp/config.json", home),
            script(NODE, "require('fs').readFileSync(process.env.HOME + '/.myapp/config.json')", home),
            script(SHELL, "cat ~/.myapp/other.json", &[]),
            // A path that stands in the error is looked at, whatever is said of it.
            script(SHELL, "echo 'settings: ~/.myapp/config.json' >&2; exit 1", home),
            script(SHELL, "echo 'settings: ~/.myapp/other.json' >&2; exit 1", &[]),
            FailedScript {
                options: &["--for-model", "--trust"],
                ..script(SHELL, "cat ~/.myapp/config.json", &[])
            },
            script(PYTHON, "open('references/data.md')", &["METIER_SKILL_DIR"]),
            script(SHELL, "cat references/data.md", &["METIER_SKILL_DIR"]),
            script(NODE, "require('fs').readFileSync('references/data.md')", &["METIER_SKILL_DIR"]),
            script(SHELL, "cat references/none.md", &[]),
            script(SHELL, "echo 'ERROR: SKILL.md: No such file or directory' >&2; exit 1", &[]),
            script(
                PYTHON,
                "import sys; print('notice: ~/.myapp/config.json not found', file=sys.stderr)\nraise ValueError('bad')",
                &[],
            ),
        ],
        |_| {},
    );
    let project = project_with("bash", "cat ~/.myapp/other.json");
    let outcome = project.metier(&["run", "x", "--json"]).json();
    let message = outcome["error"]["message"].as_str().unwrap();
    // With namespaces the path is one of the user's; elsewhere nobody could do anything with it.
    let is_named = message.contains("/.myapp/other.json: No such file");
    assert!(is_named && !message.contains("metier-"), "{message}");
}

pub(crate) fn warnings(outcome: &Value) -> Vec<&str> {
    let lines = outcome["log"].as_array().unwrap().iter();
    lines.filter(|line| line["level"] == "warn").filter_map(|line| line["message"].as_str()).collect()
}

#[test]
fn a_script_that_ends_well_after_a_refused_change_has_a_warning() {
    for (program, text) in [
        ("bash", "echo x > out.txt; echo done"),
        ("bash", "rm docs/a.md; echo done"),
        ("python3", "try: open('out.txt', 'w')\nexcept OSError as e: print('warning:', e)"),
        ("python3", "import sys\ntry: open('out.txt', 'w')\nexcept OSError as e: print(e, file=sys.stderr)"),
        ("node", "try { require('fs').writeFileSync('out.txt', '') } catch (e) { console.error(e.message) }"),
    ] {
        if find_program(program).is_none() {
            not_run("a warning", &format!("{program} is not installed"));
            continue;
        }
        let project = project_with(program, text);
        let answer = project.metier(&["run", "x", "--json"]);
        let outcome = answer.json();
        assert_eq!(answer.code, 0, "{answer:?}");
        let said = warnings(&outcome).join("\n");
        assert!(
            said.contains("ended well, but the sandbox does not let this script change"),
            "{text}: {outcome}"
        );
        let answer = project.metier(&["run", "x", "--raw"]);
        assert!(answer.code == 0 && answer.stderr.contains("run with --allow write"), "{answer:?}");
        assert!(warnings(&project.metier(&["run", "x", "--json", "--allow", "write"]).json()).is_empty());
    }
    let project = project_with("bash", "mkdir .claude 2>&1; mkdir .claude/commands; true");
    let said = project.metier(&["run", "x"]).stderr;
    assert!(said.contains("change .claude") && said.contains("run with --allow write:.claude"), "{said}");
    for text in [
        "echo 'Permission denied (publickey)' >&2",
        "echo 'read-only file system' >&2",
        "cat .env 2>&1; echo 'cat: .env: Permission denied' >&2",
        "cat /root/.x 2>/dev/null; echo 'find: /var/x: Permission denied' >&2",
        "echo x > $HOME/../x 2>/dev/null; echo done",
    ] {
        let outcome = project_with("bash", text).metier(&["run", "x", "--json"]).json();
        assert!(!warnings(&outcome).iter().any(|said| said.contains("ended well")), "{text}: {outcome}");
    }
}

#[test]
fn a_raw_run_and_a_command_say_afterwards_what_they_could_not_know() {
    let project = project_with("bash", "echo x > ~/kept; echo out");
    let answer = project.metier(&["run", "x", "--raw"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, "out\n"), "{answer:?}");
    assert!(answer.stderr.contains("thrown away: kept; to keep them, run with --allow state"), "{answer:?}");
    let answer = project.metier(&["run", "x"]);
    assert!(
        answer.stderr.contains("run with --allow state") && !answer.stderr.contains("grant state"),
        "{answer:?}"
    );
    let project = project_with("bash", "echo x > out.txt");
    let answer = project.metier(&["run", "x", "--raw"]);
    assert!(
        answer.code == 1 && answer.stderr.contains("help: the sandbox does not let this script"),
        "{answer:?}"
    );
    let answer = project.metier(&["exec", "--", "sh", "-c", "echo x > out.txt; true"]);
    assert!(answer.code == 0 && answer.stderr.contains("run with --allow write"), "{answer:?}");
}

#[test]
fn a_grant_that_names_a_dot_folder_creates_it() {
    for (folder, text) in [
        (
            ".claude",
            "import pathlib; p = pathlib.Path('.claude/handoffs'); p.mkdir(parents=True); (p / 'a').write_text('x')",
        ),
        (".vscode", "import os; os.makedirs('.vscode', exist_ok=True); open('.vscode/tasks.json', 'w')"),
        (".github", "import os; os.makedirs('.github/workflows'); open('.github/workflows/a.yml', 'w')"),
    ] {
        if find_program("python3").is_none() {
            return not_run("dot folders", "python3 is not installed");
        }
        let project = project_with("python3", text);
        let answer: Answer = project.metier(&["run", "x", "--json"]);
        let help = answer.json()["error"]["help"].as_str().unwrap_or_default().to_owned();
        let grant = format!("write:{folder}");
        let is_named = help.contains(&format!("run with --allow {grant}")) || help.ends_with("--allow write");
        assert!(is_named, "{help}");
        let answer = project.metier(&["run", "x", "--json", "--allow", &grant]);
        assert_eq!(answer.code, 0, "{answer:?}");
        assert!(!project.tree().iter().any(|path| path.contains("quarantine")), "{:?}", project.tree());
    }
}

#[test]
fn a_script_that_misses_a_hidden_file_and_ends_well_gets_a_warning() {
    let scan = "[ -s .env ] && echo '.env has text' || echo 'no .env here'";
    let project = Project::new().shell("scan", scan).file(".env", "KEY=value\n").file("key.pem", "x");
    let run = |options: &[&str]| project.metier(&[&["run", "scan"], options].concat());
    let told = run(&[]);
    let expected =
        "the sandbox hides .env from this script; if it should read it, run with --allow read:.env";
    assert!(told.stdout == "no .env here\n" && told.stderr.contains(expected), "{told:?}");
    let granted = run(&["--allow", "read:.env"]);
    assert!(granted.stdout == ".env has text\n" && granted.stderr.is_empty(), "{granted:?}");
    assert!(!run(&["--for-model", "--trust"]).stderr.contains(".env"));
    let lists = Project::new().shell("scan", "find . -name .env; exit 1").file(".env", "KEY=value\n");
    let answer = lists.metier(&["run", "scan"]);
    assert!(answer.stderr.contains(expected), "{answer:?}");
    for quiet in [
        "SKIP='.env node_modules'; echo '3 files, none skipped'",
        "grep -r TODO . --exclude=.env || echo 'nothing found'",
        "echo 'never reads .env'",
    ] {
        let project = Project::new().shell("scan", quiet).file(".env", "KEY=value\n");
        let answer = project.metier(&["run", "scan"]);
        assert_eq!((answer.code, answer.stderr.as_str()), (0, ""), "{quiet}");
    }
}
