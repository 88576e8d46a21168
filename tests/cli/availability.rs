//! Whether a skill can run, and why not: one answer, whoever is asked.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use super::cli::{Answer, Project, write};

impl Project {
    /// Adds a skill in Lua that returns 1, with this contract.
    fn needing(self, name: &str, contract: &str) -> Self {
        self.lua(name, "return 1").file(&format!(".metier/skills/{name}/skill.yaml"), contract)
    }

    /// Adds a program to a folder outside of the project.
    fn program(self, name: &str, script: &str) -> Self {
        self.program_in("home/bin", name, script)
    }

    #[allow(clippy::needless_pass_by_value, reason = "the project is built step by step")]
    fn program_in(self, folder: &str, name: &str, script: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let path = self.root().parent().unwrap().join(folder).join(name);
        write(&path, format!("#!/bin/sh\n{script}\n"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// What the command answers where the folders of these programs are first on `PATH`.
    fn with_programs(&self, args: &[&str]) -> Answer {
        let own = ["home/bin", "project/bin"].map(|folder| self.root().parent().unwrap().join(folder));
        let path = std::env::var_os("PATH").unwrap();
        let path = std::env::join_paths(own.into_iter().chain(std::env::split_paths(&path))).unwrap();
        self.command(args).env("PATH", path).output().unwrap().into()
    }

    fn record(&self, name: &str) -> Value {
        self.with_programs(&["show", name, "--json"]).json()
    }
}

fn requirement(record: &Value, name: &str) -> Value {
    let requirements = record["requirements"].as_array().unwrap();
    requirements.iter().find(|found| found["name"] == name).unwrap().clone()
}

#[test]
fn every_face_gives_the_same_reason() {
    let contract = "
dependencies:
  tools: [{name: no-such-program, version: '>=3', reason: Renders}]
  skills: [broken]
config:
  region: {required: true, description: Where it runs}";
    let project = Project::new()
        .needing("x", contract)
        .needing("broken", "dependencies: {tools: [neither-this-one]}")
        .needing("other", "version: 1.0.0");
    let reason = "skill x cannot run: no-such-program >=3 is not on PATH (Renders); broken is here and cannot run itself: \
                  neither-this-one is not on PATH; the setting region is not provided (Where it runs)";
    let named = |rows: &Value| {
        rows.as_array().unwrap().iter().find(|row| row["name"] == "x").map(|row| row["reason"].clone())
    };
    let json = |args: &[&str]| project.metier(args).json();
    assert_eq!(named(&json(&["list", "--json"])), Some(json!(reason)));
    assert_eq!(json(&["show", "x", "--json"])["reason"], reason);
    assert_eq!(named(&json(&["catalog", "--json", "--all", "--trust"])), Some(json!(reason)));
    assert_eq!(named(&json(&["catalog", "--json", "--trust"])), None, "it is not offered");
    assert_eq!(json(&["run", "x", "--json"])["error"]["message"], reason);
    assert_eq!(json(&["run", "x", "--explain", "--json"])["reason"]["message"], reason);
    let findings = json(&["doctor", "--json"])["findings"].to_string();
    assert!(findings.contains(&format!("cannot run: {reason}")), "{findings}");
    let page = project.metier(&["show", "x"]).stdout;
    assert!(
        page.contains("requires     program no-such-program >=3 is missing: no-such-program >=3"),
        "{page}"
    );
    assert_eq!(json(&["run", "other", "--json"])["value"], 1, "others run");
    let explained = project.metier(&["run", "x", "--explain"]);
    assert!(explained.stdout.contains("skill broken is missing, as 0.0.0: broken is here"), "{explained:?}");
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn ar_t09_the_version_of_a_program_is_asked_in_a_sandbox() {
    // AR-11
    let mark = "/var/tmp/metier-test-of-a-version";
    std::fs::remove_file(mark).ok();
    let project = Project::new()
        .program(
            "helm",
            "case $1 in version) echo 'version.BuildInfo{Version:\"v3.11.9\"}';; *) exit 1;; esac",
        )
        .program("writes", &format!("echo x > {mark}; echo 1.0.0"))
        .program("asks", "[ \"$*\" = 'version --client' ] && echo 'Client Version: v1.30.2'")
        .needing("old", "dependencies: {tools: [{name: helm, version: '>=3.12.0', reason: Renders}]}")
        .needing("new", "dependencies: {tools: [{name: helm, version: '>=3.11'}]}")
        .needing(
            "writer",
            "dependencies: {tools: [{name: writes, version: '*'}, {name: writes, version: ^1}]}",
        )
        .needing(
            "client",
            "dependencies: {tools: [{name: asks, version: '^1.28', version_command: asks version --client}]}",
        );
    assert_eq!(
        project.record("old")["reason"],
        "skill old cannot run: helm >=3.12.0 is here as 3.11.9 (Renders)"
    );
    assert_eq!(requirement(&project.record("new"), "helm")["found"], "3.11.9");
    assert_eq!(requirement(&project.record("client"), "asks")["found"], "1.30.2");
    project.record("writer");
    assert!(!std::path::Path::new(mark).exists(), "it was in no sandbox");
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn a_hostile_program_holds_nothing_up_and_leaves_nothing_behind() {
    let project = Project::new()
        .program("hangs", "exec sleep 98761")
        .program("forks", "for i in 1 2 3 4 5 6 7 8; do sleep 98762 & done; (setsid sleep 98762 &); wait")
        .program("prints", "exec head -c 1000000000 /dev/zero")
        .program_in("project/bin", "of-the-project", "cat \"$0\" > /dev/null && echo 2.0.0")
        .program("secret", "cat /proc/1/environ; echo 9.9.9 >&2; exit 3");
    let project = ["hangs", "forks", "prints", "secret"].into_iter().fold(project, |project, name| {
        project.needing(name, &format!("dependencies: {{tools: [{{name: {name}, version: '>=1'}}]}}"))
    });
    let project = project.needing("own", "dependencies: {tools: [{name: of-the-project, version: '>=1'}]}");
    let rows = project.with_programs(&["list", "--json"]).json();
    for row in rows.as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        if ["hangs", "forks", "prints", "secret"].contains(&name) {
            let reason =
                format!("skill {name} cannot run: {name} >=1 is on PATH, but does not say its version");
            assert_eq!(row["reason"], reason);
        }
    }
    assert_eq!(requirement(&project.record("own"), "of-the-project")["found"], "2.0.0");
    let left = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter(|process| {
        let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command);
        command.contains("98761") || command.contains("98762")
    });
    assert_eq!(left.count(), 0, "no process is left");
}

#[test]
fn nothing_but_a_question_for_a_version_is_a_version_command() {
    for command in [
        "sh -c 'touch x'",
        "other --version",
        "git commit",
        "git --exec-path=x version",
        "git version a",
        "git",
        "git -c version",
        "git --version --a --b --c",
    ] {
        let contract =
            format!("dependencies: {{tools: [{{name: git, version: ^1, version_command: \"{command}\"}}]}}");
        let answer = Project::new().needing("x", &contract).metier(&["run", "x", "--json"]).json();
        assert_eq!(answer["error"]["kind"], "invalid-skill", "{command}: {answer}");
    }
}

#[test]
fn infrastructure_is_looked_for_on_request_alone() {
    // AR-13
    let (open, closed) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let (open_port, closed_port, web_port) = (port(&open), port(&closed), port(&web));
    drop(closed);
    let server = std::thread::spawn(move || {
        for answer in ["200 OK", "503 Busy"] {
            let (mut stream, _) = web.accept().unwrap();
            let mut request = [0; 1024];
            assert!(stream.read(&mut request).unwrap() > 0);
            write!(stream, "HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        }
    });
    let contract = format!(
        "
dependencies:
  infrastructure:
    - {{name: open, kind: tcp, target: '127.0.0.1:{open_port}'}}
    - {{name: closed, kind: tcp, target: '127.0.0.1:{closed_port}', reason: Keeps the rows}}
    - {{name: web, kind: http, target: 'http://127.0.0.1:{web_port}/health'}}
    - {{name: busy, kind: http, target: 'http://127.0.0.1:{web_port}/health', required: false}}
    - {{name: here, kind: file, target: data.txt}}
    - {{name: gone, kind: file, target: missing.txt, required: false}}
    - {{name: outside, kind: file, target: ../secret, required: false}}
    - {{name: other, kind: gpu, target: any}}
    - only a name"
    );
    let project = Project::new().needing("x", &contract).file("data.txt", "");
    write(&project.root().parent().unwrap().join("secret"), "");
    let unprobed = project.metier(&["show", "x", "--json"]).json();
    assert_eq!(unprobed["runnable"], true);
    let states = |record: &Value| -> Vec<Value> {
        let requirements = record["requirements"].as_array().unwrap().iter();
        requirements
            .filter(|found| found["kind"] == "infrastructure")
            .map(|found| found["state"].clone())
            .collect()
    };
    assert_eq!(states(&unprobed), vec![json!("unchecked"); 9]);
    let probed = project.metier(&["show", "x", "--json", "--probe"]).json();
    assert_eq!(
        probed["reason"],
        format!(
            "skill x cannot run: 127.0.0.1:{closed_port} of closed cannot be reached: connection refused (Keeps the rows)"
        )
    );
    let words = [
        "available",
        "missing",
        "available",
        "missing",
        "available",
        "missing",
        "missing",
        "unchecked",
        "unchecked",
    ];
    assert_eq!(states(&probed), words.map(|word| json!(word)), "{probed}");
    let outside = requirement(&probed, "outside");
    assert_eq!(outside["reason"], "the file ../secret of outside is outside of the project");
    server.join().unwrap();
    drop(open);
}

#[test]
fn a_target_that_does_not_fit_its_kind_is_an_error() {
    for (part, reason) in [
        ("{name: a, kind: tcp, target: db}", "write HOST:PORT"),
        ("{name: a, kind: tcp, target: 'db:0'}", "write HOST:PORT"),
        ("{name: a, kind: tcp}", "write HOST:PORT"),
        ("{name: a, kind: http, target: 'file:///etc/passwd'}", "http:// or https://"),
        ("{name: a, kind: env, target: LD_PRELOAD}", "LD_PRELOAD"),
        ("{name: a, kind: file}", "write a path"),
    ] {
        let project = Project::new().needing("x", &format!("dependencies: {{infrastructure: [{part}]}}"));
        let answer = project.metier(&["run", "x", "--json"]).json();
        assert_eq!(answer["error"]["kind"], "invalid-skill", "{part}: {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(reason), "{part}: {answer}");
    }
}

#[test]
fn a_setting_comes_from_the_option_the_environment_the_configuration_and_the_default() {
    let project = Project::new().lua("x", "return ctx.config('region')").file(
        ".metier/skills/x/skill.yaml",
        "config: {region: {required: true, env: X_REGION, default: east}}",
    );
    let value = |args: &[&str], variable: Option<&str>| {
        let mut command = project.command(&[&["run", "x", "--json"], args].concat());
        if let Some(variable) = variable {
            command.env("X_REGION", variable);
        }
        let answer: Answer = command.output().unwrap().into();
        answer.json()["value"].clone()
    };
    let grant = ["--allow", "env:X_REGION"];
    assert_eq!(value(&[], None), "east");
    write(&project.home().join(".config/metier/config.toml"), "skills.x.config.region = 'west'");
    assert_eq!(value(&[], None), "east", "the user set it for a skill that he trusts");
    assert_eq!(project.metier(&["trust", "--yes"]).code, 0);
    assert_eq!(value(&[], None), "west");
    assert_eq!(value(&[], Some("south")), "west", "nobody granted the variable");
    assert_eq!(value(&grant, Some("south")), "south");
    assert_eq!(value(&["--config", "region=north", grant[0], grant[1]], Some("south")), "north");
    assert_eq!(project.metier(&["show", "x"]).stdout.matches("env:X_REGION").count(), 1, "it requests it");
}

#[test]
fn a_missing_setting_names_the_option() {
    let project = Project::new().needing("x", "config: {region: {required: true}}");
    let answer = project.metier(&["run", "x"]);
    assert_eq!(answer.code, 3);
    assert!(answer.stderr.contains("set the setting region (--config region=VALUE)"), "{answer:?}");
    let doctor = project.metier(&["doctor"]).stdout;
    assert!(doctor.contains("settings     project/.metier:x@0.0.0 (category unknown): not set"), "{doctor}");
}

#[test]
fn ar_24_a_name_with_a_range_is_taken_wherever_a_name_is() {
    let version = |project: Project, folder: &str, version: &str, script: &str| {
        let case = r#"{"input": {}, "expect": {"value": 1}}"#;
        project
            .file(
                &format!(".metier/skills/{folder}/SKILL.md"),
                format!("---\nname: y\ndescription: d\nallowed-tools: write:out\nmetadata:\n  version: \"{version}\"\n---\n"),
            )
            .file(&format!(".metier/skills/{folder}/scripts/main.lua"), script)
            .file(&format!(".metier/skills/{folder}/cases/one.json"), case)
    };
    let project = version(Project::new(), "y", "2.0.0", "return 2");
    let project = version(project, "y-1", "1.5.0", "return 1");
    let project = &project;
    assert_eq!(project.metier(&["run", "y", "--json"]).json()["value"], 2);
    assert_eq!(project.metier(&["run", "y@^1", "--json"]).json()["value"], 1);
    assert_eq!(project.metier(&["show", "y@^1", "--json"]).json()["version"], "1.5.0");
    assert_eq!(project.metier(&["test", "y@^1", "--json"]).json()["ok"], true);
    assert_eq!(project.metier(&["test", "y@^2", "--json"]).json()["ok"], false);
    let validated = project.metier(&["validate", "y@^1"]);
    assert!(validated.stdout.contains("y-1") || validated.stderr.contains("y-1"), "{validated:?}");
    let trusted = project.metier(&["trust", "y@^1", "--yes", "--json"]).json();
    assert_eq!(trusted["trusted"], json!(["y"]));
    let trust = |name: &str| project.metier(&["show", name, "--json"]).json()["trust"].clone();
    assert_eq!((trust("y@^1"), trust("y@^2")), (json!("trusted"), json!("untrusted")));
    assert_eq!(project.metier(&["allow", "y@^1", "write:out"]).code, 0);
    let grants =
        |name: &str| project.metier(&["show", name, "--json"]).json()["grants"].as_array().unwrap().len();
    assert_eq!((grants("y@^1"), grants("y@^2")), (1, 0));
    let refused = project.metier(&["run", "y@^3"]);
    assert_eq!(refused.code, 3);
    assert!(refused.stderr.contains("no skill `y` has a version that fits `^3`"), "{refused:?}");
}

#[test]
fn a_circle_of_skills_is_an_error_that_validate_finds() {
    let project = Project::new()
        .needing("a", "dependencies: {skills: [b@*]}")
        .needing("b", "dependencies: {skills: [a]}")
        .needing("c", "dependencies: {skills: [a]}");
    let answer = project.metier(&["validate", ".metier/skills/a"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    let text = format!("{}{}", answer.stdout, answer.stderr);
    assert!(text.contains("skill a cannot run: skills need each other in a circle: a -> b -> a"), "{text}");
    assert!(text.contains("dependency-circle"), "{text}");
    assert_eq!(project.metier(&["validate", ".metier/skills/c"]).code, 0, "it is in none");
    assert_eq!(project.metier(&["run", "b", "--json"]).json()["error"]["kind"], "invalid-skill");
    assert_eq!(project.metier(&["run", "c", "--json"]).json()["error"]["kind"], "unavailable");
}
