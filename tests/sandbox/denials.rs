//! A script that met its sandbox is told so, and which grant would let it through.

use std::os::unix::fs::PermissionsExt;

use metier::policy::SandboxLevel;

use crate::sandbox::fixture::{self, Fixture};
use crate::support::not_run::{find_program, not_run};

/// Command it takes, the script, and what it is told.
type DenialCase = (&'static str, Fixture, &'static str);

fn network() -> Vec<DenialCase> {
    let none = "the sandbox allows no network; if the script needs it, grant net";
    // Without namespaces no single host can be opened, and nothing is observed.
    let has_own = fixture::check_level(SandboxLevel::Namespaces).is_ok();
    let (net, host) = if has_own {
        (
            "the script tried 127.0.0.1:9: it is not granted; if the script needs it, grant net:127.0.0.1:9",
            "the script tried example.com: it is not granted; if the script needs it, grant net:example.com",
        )
    } else {
        (none, none)
    };
    let interfaces =
        if has_own { "sees the network interfaces of the machine only with the whole network" } else { none };
    let bash = |text: &str| Fixture::bash(text);
    let urllib = "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9/')";
    let named = "import urllib.request\nurllib.request.urlopen('http://example.com/')";
    let socket = "import socket\nsocket.create_connection(('127.0.0.1', 9))";
    let server = "import http.server\nhttp.server.HTTPServer(('127.0.0.1', 0), None)";
    let get = "require('http').get('http://127.0.0.1:9/')";
    let fetch = "fetch('http://example.com/')";
    let listen = "require('net').createServer().listen(0)";
    // A network of its own has room for servers.
    let servers = [("python3", Fixture::python(server), none), ("node", Fixture::node(listen), none)];
    let mut cases = vec![
        ("curl", bash("curl -sS http://127.0.0.1:9/"), net),
        ("curl", bash("curl -sS http://example.com/"), host),
        ("wget", bash("wget -O- http://example.com/"), host),
        ("git", bash("git ls-remote https://example.com/x.git"), host),
        ("bash", bash("exec 3<>/dev/tcp/127.0.0.1/9"), net),
        ("python3", Fixture::python(urllib), net),
        ("python3", Fixture::python(named), host),
        ("python3", Fixture::python(socket), net),
        ("node", Fixture::node(get), net),
        ("node", Fixture::node(fetch), host),
        ("node", Fixture::node("require('os').networkInterfaces()"), interfaces),
    ];
    cases.extend(servers.into_iter().filter(|_| !has_own));
    cases
}

/// What no script in a sandbox has, and what a program is that is not there.
fn others() -> Vec<DenialCase> {
    let local_socket = "no local sockets with a path (AF_UNIX) but its own";
    let bash = |text: &str| Fixture::bash(text);
    let watch = "require('fs').watch('.', () => {})";
    let path = "require('net').createServer().listen(process.env.HOME + '/s')";
    let local = "import socket\nsocket.socket(socket.AF_UNIX)";
    vec![
        ("script", bash("script -qc true /dev/null"), "has no terminal and can make none"),
        ("python3", Fixture::python("import pty; pty.spawn(['true'])"), "has no terminal and can make none"),
        ("node", Fixture::node(watch), "may look at them again and again"),
        ("node", Fixture::node(path).grant("net"), local_socket),
        (
            "python3",
            Fixture::python("import multiprocessing\nmultiprocessing.Manager()").grant("net"),
            local_socket,
        ),
        ("python3", Fixture::python(local).grant("net"), local_socket),
        (
            "flock",
            bash("flock \"$0\" true"),
            "cannot lock whole files (flock); if the script needs it, grant write",
        ),
        ("python3", Fixture::python("import fcntl\nfcntl.flock(open(__file__), 2)"), "grant write"),
        (
            "flock",
            bash("echo 'bash: no-such-program: command not found' >&2; exit 127"),
            "127 is how a shell says",
        ),
    ]
}

fn files() -> Vec<DenialCase> {
    let write = "grant write";
    vec![
        (
            "bash",
            Fixture::bash(
                "echo 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock' >&2; exit 1",
            ),
            "through a local socket, with or without the network",
        ),
        ("bash", Fixture::bash("echo x > out"), "change out; if it should, grant write"),
        ("bash", Fixture::bash("touch new"), write),
        ("bash", Fixture::bash("mkdir deep || exit 1"), write),
        ("bash", Fixture::bash("rm own"), write),
        ("python3", Fixture::python("open('out.txt', 'w')"), "change out.txt; if it should, grant write"),
        ("python3", Fixture::python("import os; os.mkdir(os.environ['METIER_PROJECT_DIR'] + '/d')"), write),
        ("node", Fixture::node("require('fs').writeFileSync('out.txt', '')"), write),
        (
            "node",
            Fixture::node("require('fs').mkdirSync('docs/deep', {recursive: true})")
                .file("project/docs/b", ""),
            "change docs/deep; if it should, grant write:docs",
        ),
        // What the script went on after is not why it failed.
        (
            "node",
            Fixture::node(
                "console.error('getaddrinfo EAI_AGAIN a.test'); require('fs').writeFileSync('o', '')",
            ),
            "change o; if it should, grant write",
        ),
        ("git", Fixture::bash("git init -q ."), write),
        (
            "bash",
            Fixture::bash("echo x > .git/config").file("project/.git/config", ""),
            "change .git/config; if it should, grant write:.git",
        ),
        (
            "bash",
            Fixture::bash("echo x > .git/new").file("project/.git/x", ""),
            "change .git/new; if it should, grant write:.git",
        ),
        (
            "git",
            Fixture::bash("git init -q . && git add -A").grant("write:.git/HEAD").file("project/.git/x", ""),
            "grant write:.git",
        ),
        (
            "node",
            Fixture::node("require('fs').writeFileSync('docs/a.txt', '')").file("project/docs/b", ""),
            "change docs/a.txt; if it should, grant write:docs",
        ),
        (
            "bash",
            Fixture::bash("echo x > .new.txt").grant("write:.new.txt"),
            "create .new.txt before the run, or grant write as",
        ),
        ("bash", Fixture::bash("echo x > /usr/x"), "write into the project"),
        ("bash", Fixture::bash("cat ../outside/secret"), "into the project"),
        ("bash", Fixture::bash("cat link").link("../outside/secret", "project/link"), "into the project"),
        (
            "python3",
            Fixture::python("open('/var/lib/dpkg/status')"),
            "no grant opens anything; copy it into the project",
        ),
        (
            "python3",
            Fixture::python("import multiprocessing; multiprocessing.Lock()"),
            "the sandbox has no memory that programs share by name (/dev/shm); if the script needs it, grant shm",
        ),
    ]
}

/// Packages that nobody has.
fn packages() -> Vec<DenialCase> {
    vec![
        (
            "python3",
            Fixture::python("import metier_x.y"),
            "needs the Python module metier_x, and neither metier_x.py",
        ),
        ("node", Fixture::node("require('metier-x/y')"), "needs the npm package metier-x;"),
        ("perl", Fixture::new("a.pl", "use Metier::X;"), "needs the Perl module Metier::X;"),
    ]
}

#[test]
fn a_script_that_met_its_sandbox_gets_a_hint_with_the_grant_that_would_allow_it() {
    let mut untold = Vec::new();
    for (command, fixture, told) in network().into_iter().chain(files()).chain(others()).chain(packages()) {
        if find_program(command).is_none() {
            not_run("a denial in its words", &format!("{command} is not installed"));
            continue;
        }
        let ran = fixture.run();
        let help = ran.error().help().unwrap_or_default();
        if !help.contains(told) {
            untold.push(format!("{told:?} is not in {help:?}, where it said {}", ran.process().stderr));
        }
    }
    assert!(untold.is_empty(), "{}", untold.join("\n"));
}

/// A program of the user's own is outside, and that is another matter than one that nobody installed.
#[test]
fn a_script_that_misses_a_program_of_the_user_gets_a_hint_where_it_lies() {
    const FOLDER: &str = "METIER_SANDBOX_PROGRAMS";
    if std::env::var_os(FOLDER).is_some() {
        for fixture in [
            Fixture::bash("own-tool --version"),
            Fixture::python("import subprocess; subprocess.run(['own-tool'])"),
        ] {
            let ran = fixture.run();
            let help = ran.error().help().unwrap_or_default();
            assert!(help.contains("own-tool is outside of the system's folders"), "{help}");
            assert!(!help.contains("exec:unsandboxed"), "{help}");
        }
        return;
    }
    if find_program("python3").is_none() {
        return not_run("a program of the user's", "python3 is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let tool = folder.path().join("own-tool");
    std::fs::write(&tool, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let ended = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "sandbox::denials::a_script_that_misses_a_program_of_the_user_gets_a_hint_where_it_lies",
            "--nocapture",
        ])
        .env(FOLDER, folder.path())
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn a_script_that_looked_for_a_secret_gets_the_hint_that_it_is_protected() {
    if let Err(reason) = fixture::check_level(SandboxLevel::Namespaces) {
        return not_run("a secret that is kept", &reason);
    }
    let ran = Fixture::bash("cat .env").file("project/.env", "secret").run();
    let help = ran.error().help().unwrap_or_default();
    assert!(help.contains("if it should read it, grant read:.env"), "{help}");
}

/// A hint that is wrong is worse than none.
#[test]
fn a_script_that_failed_for_reasons_of_its_own_gets_no_hint_about_sandboxes() {
    for fixture in [
        Fixture::bash("echo broken >&2; exit 3"),
        Fixture::bash("cat missing"),
        Fixture::bash("echo 'could not resolve host' >&2; exit 1").grant("net"),
        Fixture::bash("curl -sS http://127.0.0.1:9/").grant("net"),
        Fixture::bash("echo 'moduleacces denied' >&2; exit 1"),
        Fixture::python("raise ValueError('no')"),
        Fixture::python("open('missing')"),
        Fixture::python("class DocumentENotFound(Exception): pass\nraise DocumentENotFound('gone')"),
        Fixture::python("import helpers.x").file("skills/x/helpers/y.py", ""),
        Fixture::python("import sys\nprint('websocket: operation not permitted')\nsys.exit(1)"),
        Fixture::node("require('fs').readFileSync('missing')"),
        Fixture::node("require('./missing')"),
        Fixture::node("throw new Error('DocumentENotFound')"),
    ] {
        let ran = fixture.run();
        let help = ran.error().help().unwrap_or_default();
        assert_eq!(help, "", "{}", ran.process().stderr);
    }
    // Nor one that had no sandbox.
    let ran = Fixture::bash("echo 'could not resolve host' >&2; exit 1").grant("exec:unsandboxed").run();
    assert_eq!(ran.error().help(), None);
}

#[test]
fn a_skill_that_lists_its_permissions_gets_the_hint_to_list_the_missing_one() {
    let fixture = Fixture::bash("exec 3<>/dev/tcp/127.0.0.1/9");
    fixture.write("skills/x/SKILL.md", "---\nname: x\ndescription: d\nallowed-tools: write\n---\n");
    let ran = fixture.run();
    let help = ran.error().help().unwrap_or_default();
    let net = match fixture::check_level(SandboxLevel::Namespaces) {
        Ok(()) => "net:127.0.0.1:9",
        Err(_) => "net",
    };
    assert!(help.contains(&format!("list {net} under allowed-tools in SKILL.md and grant {net}")), "{help}");
}
