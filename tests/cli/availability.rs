//! Whether a skill can run, and why not: one answer, whoever is asked.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::support::cli::{Answer, Project, write};

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

/// Why a skill cannot run, as every face says it.
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
struct UnavailableSkill {
    /// The lines of its `SKILL.md` besides name and description.
    head: &'static str,
    /// Its files, besides `SKILL.md`.
    files: &'static [(&'static str, &'static str)],
    /// The programs on `PATH`, each with what it does.
    programs: &'static [(&'static str, &'static str)],
    /// The reason; `BIN` is the folder of the programs.
    reason: &'static str,
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
const OLD_NODE: (&str, &str) = ("node", "echo v20.20.2");
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
const OLD_PYTHON: (&str, &str) = ("python3", "echo Python 3.11.7");

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
const UNAVAILABLE: &[UnavailableSkill] = &[
    UnavailableSkill {
        head: "",
        files: &[("scripts/main.ts", "console.log(1)")],
        programs: &[OLD_NODE],
        reason: "scripts/main.ts is TypeScript, which Node runs from version 22.18 on, and BIN/node is v20.20.2",
    },
    UnavailableSkill {
        head: "",
        files: &[("scripts/main.mts", "#!/usr/bin/env node\nconsole.log(1)")],
        programs: &[("node", "echo v23.5.0")],
        reason: "scripts/main.mts is TypeScript, which Node runs from version 22.18 on, and BIN/node is v23.5.0",
    },
    UnavailableSkill {
        head: "",
        files: &[
            ("skill.json", r#"{"name": "x", "description": "d", "version": "1.0.0", "action_risk": "none"}"#),
            ("handler.ts", "export default {execute() { return {success: true} }}"),
        ],
        programs: &[OLD_NODE],
        reason: "handler.ts is TypeScript, which Node runs from version 22.18 on, and BIN/node is v20.20.2",
    },
    UnavailableSkill {
        head: "",
        files: &[
            (
                "skill.json",
                r#"{"name": "x", "description": "d", "version": "1.0.0", "action_risk": "none", "capabilities": ["bus"]}"#,
            ),
            ("handler.ts", "export default {execute() { return {success: true} }}"),
        ],
        programs: &[OLD_NODE],
        reason: "skill x cannot run: this host does not offer the capability bus",
    },
    UnavailableSkill {
        head: "",
        files: &[("scripts/main.rb", "puts 1")],
        programs: &[],
        reason: "scripts/main.rb needs ruby, which is not on PATH",
    },
    UnavailableSkill {
        head: "",
        files: &[("scripts/main.py", "# /// script\n# requires-python = \">=3.12\"\n# ///\nprint(1)")],
        // A shim of a release that is not installed names that release, and is none.
        programs: &[OLD_PYTHON, ("python3.13", "echo 'python3.13 is in 3.13.0' >&2; exit 127")],
        reason: "scripts/main.py needs Python >=3.12, and python3 is 3.11.7 (BIN/python3)",
    },
    UnavailableSkill {
        head: "",
        files: &[(
            "scripts/main.py",
            "\u{feff}# /// script\r\n# requires-python = \">=3.12\"\r\n# ///\r\nprint(1)\r\n",
        )],
        programs: &[OLD_PYTHON],
        reason: "scripts/main.py needs Python >=3.12, and python3 is 3.11.7 (BIN/python3)",
    },
    UnavailableSkill {
        head: "",
        files: &[(
            "scripts/main",
            "\u{feff}#!/usr/bin/env -S python3 -u\n# /// script\n# requires-python = \">=3.12,<4\"\n# dependencies = []\n# ///\n",
        )],
        programs: &[OLD_PYTHON],
        reason: "scripts/main needs Python >=3.12,<4, and python3 is 3.11.7 (BIN/python3)",
    },
    UnavailableSkill {
        head: "metadata: {worker: json-lines}\n",
        files: &[("scripts/main.py", "# /// script\n# requires-python = \">=3.12\"\n# ///\nprint(1)")],
        programs: &[OLD_PYTHON],
        reason: "scripts/main.py needs Python >=3.12, and python3 is 3.11.7 (BIN/python3)",
    },
    UnavailableSkill {
        head: "",
        files: &[
            ("scripts/main.py", "print(1)"),
            ("pyproject.toml", "[project]\nname = 'x'\nrequires-python = '~=3.12.1'"),
        ],
        programs: &[OLD_PYTHON, ("python3.13", "echo Python 3.13.0")],
        reason: "scripts/main.py needs Python ~=3.12.1, and python3 is 3.11.7 (BIN/python3)",
    },
    UnavailableSkill {
        head: "metadata: {\"openclaw\": {\"requires\": {\"bins\": [\"definitely-not-here\"]}}}\n",
        files: &[("scripts/main.lua", "return 1")],
        programs: &[],
        reason: "skill x cannot run: definitely-not-here is not on PATH",
    },
    UnavailableSkill {
        head: "metadata: {\"clawdbot\": {\"requires\": {\"anyBins\": [\"this-one\", \"or-that\"]}}}\n",
        files: &[("scripts/main.lua", "return 1")],
        programs: &[],
        reason: "skill x cannot run: none of this-one, or-that is on PATH",
    },
    UnavailableSkill {
        head: "metadata: {\"openclaw\": {\"os\": [\"darwin\"]}}\n",
        files: &[("scripts/main.lua", "return 1")],
        programs: &[],
        reason: "skill x cannot run: it needs darwin, and this system is linux",
    },
    UnavailableSkill {
        head: "metadata: {\"clawdis\": {\"os\": \"macos, win32\", \"requires\": {\"bins\": [\"not-here\", \"node\"]}}}\n",
        files: &[
            ("scripts/main.ts", "console.log(1)"),
            ("skill.yaml", "config: {region: {required: true}}\ndependencies: {tools: [nor-this]}"),
        ],
        programs: &[OLD_NODE],
        reason: "skill x cannot run: it needs darwin or win32, and this system is linux; not-here is not on PATH; \
                 nor-this is not on PATH; the setting region is not provided",
    },
    UnavailableSkill {
        head: "",
        files: &[
            ("scripts/main.lua", "return 1"),
            ("skill.yaml", "dependencies: {tools: [{name: kubectl, version: '>=1.28'}]}"),
        ],
        programs: &[(
            "kubectl",
            "[ $1 = version ] && echo 'Client Version: v1.10.2'; echo 'dial tcp 127.0.0.1:8080: refused' >&2; exit 1",
        )],
        reason: "skill x cannot run: kubectl >=1.28 is here as 1.10.2",
    },
    UnavailableSkill {
        head: "",
        files: &[("scripts/a.ts", "console.log(1)"), ("scripts/b.rb", "puts 1")],
        programs: &[OLD_NODE],
        reason: "scripts/a.ts is TypeScript, which Node runs from version 22.18 on, and BIN/node is v20.20.2",
    },
    UnavailableSkill {
        head: "metadata: {\"moltbot\": {\"requires\": {\"bins\": [\"not-here\"]}}}\n",
        files: &[],
        programs: &[],
        reason: "skill x cannot run: not-here is not on PATH",
    },
];

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn whatever_keeps_a_skill_from_running_is_said_everywhere_in_the_same_sentence() {
    for UnavailableSkill { head, files, programs, reason } in UNAVAILABLE {
        let project = stand_in_project(head, files, programs);
        let bin = project.root().parent().unwrap().join("home/bin");
        let reason = reason.replace("BIN", bin.to_str().unwrap());
        let answer =
            |args: &[&str]| -> Answer { project.command(args).env("PATH", &bin).output().unwrap().into() };
        let json = |args: &[&str]| answer(args).json();
        let named = |rows: &Value| {
            rows.as_array().unwrap().iter().find(|row| row["name"] == "x").map(|row| row["reason"].clone())
        };
        assert_eq!(named(&json(&["list", "--json"])), Some(json!(reason)));
        let shown = json(&["show", "x", "--json"]);
        assert_eq!((&shown["reason"], &shown["runnable"]), (&json!(reason), &json!(false)));
        assert_eq!(named(&json(&["catalog", "--json", "--all", "--trust"])), Some(json!(reason)));
        assert_eq!(named(&json(&["catalog", "--json", "--trust"])), None, "{reason}: it is offered");
        let findings = json(&["doctor", "--json"])["findings"].to_string();
        assert!(findings.contains(&format!("cannot run: {reason}")), "{reason}: {findings}");
        let ran = json(&["run", "x", "--json"]);
        assert_eq!(ran["error"]["message"], reason);
        assert_eq!(ran["error"]["kind"], "unavailable", "{reason}");
        let page = answer(&["show", "x"]).stdout;
        assert!(page.contains(&format!("runs         no: {reason}")), "{reason}: {page}");
        let explained = answer(&["run", "x", "--explain"]);
        assert!(explained.stderr.contains(&reason), "{reason}: {explained:?}");
        assert!(!explained.stdout.contains("cannot be set up"), "{explained:?}");
        if !files.is_empty() {
            let tested = answer(&["test", "x", "--allow", "net"]);
            assert!(tested.stdout.contains(&format!("not run  x one: {reason}")), "{reason}: {tested:?}");
        }
    }
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
fn stand_in_project(head: &str, files: &[(&str, &str)], programs: &[(&str, &str)]) -> Project {
    let skill = format!("---\nname: x\ndescription: d\n{head}---\nDo it.\n");
    let mut project = Project::new()
        .file(".metier/skills/x/SKILL.md", skill)
        .file(".metier/skills/x/cases/one.json", r#"{"input": {}, "expect": {"value": "one"}}"#);
    for (path, text) in files {
        project = project.file(&format!(".metier/skills/x/{path}"), text);
    }
    std::fs::create_dir_all(project.root().parent().unwrap().join("home/bin")).unwrap();
    programs.iter().fold(project, |project, (name, script)| project.program(name, script))
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn what_fits_runs_whichever_program_of_that_name_comes_first() {
    const VERSION: &str = "[ $1 = --version ] && echo";
    let ran = |head: &str, files: &[(&str, &str)], programs: &[(&str, String)]| {
        let programs: Vec<(&str, &str)> =
            programs.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let project = stand_in_project(head, files, &programs);
        let bin = project.root().parent().unwrap().join("home/bin");
        let answer =
            |args: &[&str]| -> Answer { project.command(args).env("PATH", &bin).output().unwrap().into() };
        let shown = answer(&["show", "x", "--json"]).json();
        assert_eq!(shown["reason"], Value::Null, "{shown}");
        answer(&["run", "x", "--json"]).json()["value"].clone()
    };
    let python = |name: &'static str, version: &str| {
        (name, format!("{VERSION} Python {version} && exit; echo '\"{version}\"'"))
    };
    let block = [("scripts/main.py", "# /// script\n# requires-python = \">=3.12\"\n# ///\n")];
    assert_eq!(ran("", &block, &[python("python3", "3.12.4")]), "3.12.4");
    // Another release by its own name, the newest that fits; not one that is too old or broken.
    let others = [
        python("python3", "3.11.7"),
        python("python3.8", "3.8.1"),
        python("python3.12", "3.12.1"),
        python("python3.13", "3.13.0"),
    ];
    assert_eq!(ran("", &block, &others), "3.13.0");
    assert_eq!(ran("", &block, &[python("python3.12", "3.12.1")]), "3.12.1");
    let no_block = [("scripts/main.py", "print(1)")];
    // What is no range requires nothing.
    let alternatives =
        [("scripts/main.py", "# /// script\n# requires-python = \">=3.13 || >=3.11\"\n# ///\n")];
    for files in [&no_block, &alternatives] {
        assert_eq!(ran("", files, &others), "3.11.7");
    }
    // A program that says its version and fails.
    let contract = [
        ("scripts/main.lua", "return 'ok'"),
        ("skill.yaml", "dependencies: {tools: [{name: kubectl, version: '>=1.28'}]}"),
    ];
    let kubectl = "[ $1 = version ] && echo 'Client Version: v1.30.2'; exit 1".to_owned();
    assert_eq!(ran("", &contract, &[("kubectl", kubectl)]), "ok");
    let head = "metadata: {\"openclaw\": {\"os\": [\"linux\", \"darwin\"], \"requires\": {\"anyBins\": [\"a\", \"b\"]}}}\n";
    assert_eq!(ran(head, &contract[..1], &[("b", String::new())]), "ok");
    let head = "metadata: {\"openclaw\": {\"always\": true, \"requires\": {\"bins\": [\"not-here\"]}}}\n";
    assert_eq!(ran(head, &contract[..1], &[]), "ok");
}

#[test]
fn a_skill_without_a_script_of_its_own_is_not_broken() {
    let tool = |entrypoint: &str| {
        format!("tools: [{{name: hello, description: Says it., entrypoint: {entrypoint}}}]")
    };
    let project = Project::new()
        .skill(".metier/skills/text")
        .skill(".metier/skills/tools")
        .file(".metier/skills/tools/skill.yaml", tool("scripts/hello.lua"))
        .file(".metier/skills/tools/scripts/hello.lua", "return 1")
        .skill(".metier/skills/several")
        .file(".metier/skills/several/scripts/a.lua", "return 1")
        .file(".metier/skills/several/scripts/b.lua", "return 2");
    let page = |name: &str| project.metier(&["show", name]).stdout;
    for (name, runs, content) in [
        ("text", "runs         nothing: it holds instructions for a model", "instructions"),
        ("tools", "runs         by its tools: it has no other script", "tools"),
        (
            "several",
            "runs         yes, one script that is named: scripts/a.lua in lua, scripts/b.lua in lua",
            "scripts",
        ),
    ] {
        assert!(page(name).contains(runs), "{}", page(name));
        assert_eq!(project.metier(&["show", name, "--json"]).json()["content"], content);
        assert!(project.metier(&["catalog", "--trust"]).stdout.contains(&format!("{name}: d")));
    }
    assert!(page("tools").contains("runs in lua"), "{}", page("tools"));
    let listed = project.metier(&["list", "--json"]).json();
    let wrong = project.metier(&["doctor", "--json"]).json()["findings"].to_string();
    for name in ["text", "tools", "several"] {
        assert!(listed.as_array().unwrap().iter().any(|row| row["name"] == name), "{listed}");
        assert!(!wrong.contains(&format!(":{name}@0.0.0 cannot run")), "{wrong}");
    }
}

#[test]
fn a_skill_that_does_not_load_is_validated_by_its_name_as_by_its_path() {
    let project = Project::new()
        .file(".metier/skills/misspelt/SKILL.md", "---\nname: misspelt\ndescripton: d\n---\n")
        .file(".metier/skills/unclosed/SKILL.md", "---\nname: unclosed\n")
        .file(".metier/skills/json/skill.json", "{\"name\": \"json\", ")
        .file(".metier/skills/yaml/skill.yaml", "inputs: [")
        .file(".metier/skills/empty/scripts/main.lua", "return 1")
        .file(".metier/skills/folder/SKILL.md", "---\nname: other-name\ndescription: d\n---\n");
    for name in ["misspelt", "unclosed", "json", "yaml", "empty", "folder"] {
        let by_name = project.metier(&["validate", name]);
        let by_path = project.metier(&["validate", &format!(".metier/skills/{name}")]);
        let lines = |answer: &Answer| {
            let text = answer.stdout.replace(project.root().to_str().unwrap(), "");
            text.replace("/.metier", ".metier")
        };
        assert_eq!((by_name.code, lines(&by_name)), (by_path.code, lines(&by_path)), "{name}");
        assert!(!by_name.stdout.contains("Path does not exist"), "{by_name:?}");
    }
    let misspelt = project.metier(&["validate", "misspelt"]).stdout;
    assert!(misspelt.contains("descripton") && misspelt.contains("SKILL.md:"), "{misspelt}");
    let near = project.metier(&["validate", "mispelt"]).stdout;
    assert!(near.contains("did you mean `misspelt`?"), "{near}");
}
