//! In containers: with what the default profiles of container engines leave a program, scripts run in the level `landlock`. Where there
//! is no Landlock either, the refusal says why, and what needs no sandbox around it runs.

use std::process::Command;

use serde_json::Value;

use crate::sandbox::attackers;
use crate::sandbox::fixture::{self, Fixture};
use crate::sandbox::ordinary;
use crate::support::not_run::{find_program, not_run};

/// Skills that say `ran` if the secret is out of their reach, by name, with the file of their script.
const SANDBOXED: &[(&str, &str, &str)] = &[
    ("python", "main.py", "try: open('../outside/secret').read()\nexcept PermissionError: print('ran')"),
    ("shell", "main.sh", "cat ../outside/secret 2>/dev/null || echo ran"),
];
const IN_PROCESS: &[(&str, bool, &str, &str)] = &[
    ("lua", cfg!(feature = "lua-runtime"), "main.lua", "return 7"),
    ("rhai", cfg!(feature = "rhai-runtime"), "main.rhai", "7"),
    (
        "wasm",
        cfg!(feature = "wasm-runtime"),
        "main.wat",
        r#"(module
            (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
            (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
            (import "extism:host/env" "output_set" (func $output (param i64 i64)))
            (func (export "run") (result i32) (local $at i64)
                (local.set $at (call $alloc (i64.const 1)))
                (call $store (local.get $at) (i32.const 55))
                (call $output (local.get $at) (i64.const 1))
                (i32.const 0)))"#,
    ),
];

/// The command in a project with these skills, started in a container of that kind; `None` where it cannot be.
struct Container {
    fixture: Fixture,
    command: [std::path::PathBuf; 2],
    kind: &'static str,
}

struct Answer {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Container {
    fn new(kind: &'static str) -> Result<Self, &'static str> {
        let container = attackers::program("container").map_err(|_| "there is no C compiler")?;
        let metier = fixture::helper().ok_or("the command line is not built in")?;
        find_program("python3").ok_or("python3 is not installed")?;
        let mut fixture = Fixture::bash("").file("home/empty", "");
        let in_process = IN_PROCESS.iter().map(|(name, _, file, text)| (name, file, text));
        for (name, file, text) in
            SANDBOXED.iter().map(|(name, file, text)| (name, file, text)).chain(in_process)
        {
            let folder = format!("project/.metier/skills/{name}");
            fixture = fixture
                .file(&format!("{folder}/SKILL.md"), format!("---\nname: {name}\ndescription: runs\n---\n"))
                .file(&format!("{folder}/scripts/{file}"), text);
        }
        Ok(Self { fixture, command: [container, metier], kind })
    }

    fn metier(&self, args: &[&str]) -> Answer {
        let [container, metier] = &self.command;
        let mut command = Command::new(container);
        command.arg(self.kind).arg(metier).args(args).current_dir(self.fixture.at("project"));
        command.env("HOME", self.fixture.at("home"));
        for variable in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"] {
            command.env_remove(variable);
        }
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Answer { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    fn run(&self, skill: &str, args: &[&str]) -> Value {
        let answer = self.metier(&[&["run", skill, "--json"], args].concat());
        serde_json::from_str(&answer.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", answer.stdout, answer.stderr))
    }

    fn first_line_of_doctor(&self) -> String {
        self.metier(&["doctor"]).stdout.lines().next().unwrap_or_default().to_owned()
    }
}

#[test]
fn scripts_run_in_a_default_container_in_the_level_landlock() {
    let container = match Container::new("docker") {
        Ok(container) => container,
        Err(reason) => return not_run("a default container", reason),
    };
    for (skill, ..) in SANDBOXED {
        for _ in 0..2 {
            let outcome = container.run(skill, &[]);
            assert_eq!(outcome["value"], "ran\n", "{outcome}");
            let sandbox = &outcome["sandbox"];
            assert_eq!(sandbox["level"], "landlock", "{sandbox}");
            for key in ["files", "network", "signals", "tree_kill", "unix_sockets"] {
                assert_eq!(sandbox[key], true, "{key}: {sandbox}");
            }
        }
    }
    for (skill, is_built_in, ..) in IN_PROCESS {
        assert!(!is_built_in || container.run(skill, &[])["value"] == 7, "{skill}");
    }
    assert_eq!(container.first_line_of_doctor(), "Python and shell skills run here, level landlock");
}

/// What only namespaces enforce is refused with the reason why there are none.
#[test]
fn what_takes_namespaces_is_refused_in_a_default_container_with_the_reason() {
    let container = match Container::new("docker") {
        Ok(container) => container,
        Err(reason) => return not_run("a default container", reason),
    };
    let error = container.run("shell", &["--allow", "net:example.com"])["error"].take();
    let message = error["message"].as_str().unwrap();
    assert_eq!(error["kind"], "unavailable", "{error}");
    assert!(
        message.contains("filter of system calls") && message.contains("refuses namespaces"),
        "{message}"
    );
    assert!(!message.contains("os error"), "{message}");
    assert!(error["help"].as_str().unwrap().contains("--allow net"), "{error}");
}

#[test]
fn without_landlock_and_namespaces_the_refusal_says_so_and_the_rest_runs() {
    let container = match Container::new("gvisor") {
        Ok(container) => container,
        Err(reason) => return not_run("a container without Landlock", reason),
    };
    let first_line = container.first_line_of_doctor();
    let reason = first_line
        .strip_prefix("Python and shell skills do not run here: ")
        .unwrap_or_else(|| panic!("{first_line}"));
    assert!(reason.contains("refuses namespaces") && reason.contains("refuses Landlock"), "{reason}");
    for (skill, file, _) in SANDBOXED {
        let error = container.run(skill, &[])["error"].take();
        assert_eq!(error["kind"], "sandbox-unavailable", "{error}");
        let message = format!("failed to run scripts/{file}: the sandbox could not be set up: {reason}");
        assert_eq!(error["message"], message);
        assert!(error["help"].as_str().unwrap().contains("run with --allow exec:unsandboxed"), "{error}");
        let explained = container.metier(&["run", skill, "--explain"]);
        assert!(explained.code == Some(3) && explained.stderr.contains(reason), "{}", explained.stderr);
    }
    for (skill, is_built_in, ..) in IN_PROCESS {
        let outcome = if *is_built_in { container.run(skill, &[]) } else { continue };
        assert_eq!(outcome["value"], 7, "{skill}: {outcome}");
    }
}

#[test]
fn an_ordinary_user_has_the_same_in_a_container() {
    for test in [
        "scripts_run_in_a_default_container_in_the_level_landlock",
        "what_takes_namespaces_is_refused_in_a_default_container_with_the_reason",
        "without_landlock_and_namespaces_the_refusal_says_so_and_the_rest_runs",
    ] {
        ordinary::run_as_nobody(&format!("sandbox::containers::{test}"));
    }
}
