//! A script that met its cage is told so, and which grant would let it through.

use metier::policy::Tier;

use crate::not_run::{found, not_run};
use crate::stage::{self, Stage};

/// Command it takes, the script, and what it is told.
type Told = (&'static str, Stage, &'static str);

fn network() -> Vec<Told> {
    let net = "the cage allows no network; if the script needs it, run with --allow net";
    let bash = |text: &str| Stage::bash(text);
    let urllib = "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9/')";
    let named = "import urllib.request\nurllib.request.urlopen('http://example.com/')";
    let socket = "import socket\nsocket.create_connection(('127.0.0.1', 9))";
    let server = "import http.server\nhttp.server.HTTPServer(('127.0.0.1', 0), None)";
    let get = "require('http').get('http://127.0.0.1:9/')";
    let fetch = "fetch('http://example.com/')";
    let listen = "require('net').createServer().listen(0)";
    vec![
        ("curl", bash("curl -sS http://127.0.0.1:9/"), net),
        ("curl", bash("curl -sS http://example.com/"), net),
        ("wget", bash("wget -O- http://example.com/"), net),
        ("git", bash("git ls-remote https://example.com/x.git"), net),
        ("bash", bash("exec 3<>/dev/tcp/127.0.0.1/9"), net),
        ("python3", Stage::python(urllib), net),
        ("python3", Stage::python(named), net),
        ("python3", Stage::python(socket), net),
        ("python3", Stage::python(server), net),
        ("node", Stage::node(get), net),
        ("node", Stage::node(fetch), net),
        ("node", Stage::node(listen), net),
    ]
}

fn files() -> Vec<Told> {
    let write = "run with --allow write";
    vec![
        (
            "bash",
            Stage::bash(
                "echo 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock' >&2; exit 1",
            ),
            "through a local socket, with or without the network; if the script needs it, run with --allow exec:unsandboxed",
        ),
        ("bash", Stage::bash("echo x > out"), "not change out; if it should, run with --allow write"),
        ("bash", Stage::bash("touch new"), write),
        ("bash", Stage::bash("mkdir deep || exit 1"), write),
        ("bash", Stage::bash("rm own"), write),
        (
            "python3",
            Stage::python("open('out.txt', 'w')"),
            "not change out.txt; if it should, run with --allow write",
        ),
        ("python3", Stage::python("import os; os.mkdir(os.environ['METIER_PROJECT_DIR'] + '/d')"), write),
        ("node", Stage::node("require('fs').writeFileSync('out.txt', '')"), write),
        ("git", Stage::bash("git init -q ."), write),
        (
            "bash",
            Stage::bash("echo x > .git/config").file("project/.git/x", ""),
            "run with --allow write:.git/config",
        ),
        ("bash", Stage::bash("mkdir new").grant("write:new"), "make its folder before"),
        ("bash", Stage::bash("echo x > /usr/x"), "write to the project"),
        ("bash", Stage::bash("cat ../outside/secret"), "lies outside of the project"),
        (
            "bash",
            Stage::bash("cat link").link("../outside/secret", "project/link"),
            "lies outside of the project",
        ),
        ("python3", Stage::python("open('/var/lib/dpkg/status')"), "copy what it needs into the project"),
        (
            "python3",
            Stage::python("import multiprocessing; multiprocessing.Lock()"),
            "the cage has no memory that programs share by name (/dev/shm); if the script needs it, run with --allow shm",
        ),
    ]
}

#[test]
fn a_script_that_met_its_cage_is_told_which_grant_would_let_it_through() {
    let mut untold = Vec::new();
    for (command, stage, told) in network().into_iter().chain(files()) {
        if found(command).is_none() {
            not_run("a denial in its words", &format!("{command} is not installed"));
            continue;
        }
        let ran = stage.run();
        let help = ran.error().help().unwrap_or_default();
        if !help.contains(told) {
            untold.push(format!("{told:?} is not in {help:?}, where it said {}", ran.process().stderr));
        }
    }
    assert!(untold.is_empty(), "{}", untold.join("\n"));
}

#[test]
fn a_script_that_looked_for_a_secret_is_told_that_it_is_kept() {
    if let Err(reason) = stage::gives(Tier::Namespaces) {
        return not_run("a secret that is kept", &reason);
    }
    let ran = Stage::bash("cat .env").file("project/.env", "secret").run();
    let help = ran.error().help().unwrap_or_default();
    assert!(help.contains("if it should read it, run with --allow read:.env"), "{help}");
}

#[test]
fn a_script_that_failed_for_reasons_of_its_own_is_told_nothing_of_cages() {
    for stage in [
        Stage::bash("echo broken >&2; exit 3"),
        Stage::bash("cat missing"),
        Stage::bash("echo 'could not resolve host' >&2; exit 1").grant("net"),
        Stage::bash("curl -sS http://127.0.0.1:9/").grant("net"),
        Stage::python("raise ValueError('no')"),
    ] {
        let ran = stage.run();
        let help = ran.error().help().unwrap_or_default();
        assert!(!help.contains("cage") && !help.contains("--allow"), "{help:?}\n{}", ran.process().stderr);
    }
    // Nor one that had no cage.
    let ran = Stage::bash("echo 'could not resolve host' >&2; exit 1").grant("exec:unsandboxed").run();
    assert_eq!(ran.error().help(), None);
}

#[test]
fn a_skill_that_lists_its_permissions_is_told_to_list_the_missing_one() {
    let stage = Stage::bash("exec 3<>/dev/tcp/127.0.0.1/9");
    stage.write("skills/x/SKILL.md", "---\nname: x\ndescription: d\nallowed-tools: write\n---\n");
    let ran = stage.run();
    let help = ran.error().help().unwrap_or_default();
    assert!(help.contains("list net under allowed-tools in SKILL.md and run with --allow net"), "{help}");
}
