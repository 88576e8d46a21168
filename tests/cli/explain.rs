//! `metier run --explain`: what it shows is what a run reaches.

use serde_json::{Value, json};

use crate::support::cli::{Answer, Project};

/// Tries what it is told to: `read PATH`, `write PATH`; prints what failed, and how it finds itself.
const TRIES: &str = r#"
while [ $# -gt 0 ]; do
  case $1 in
    read) if [ -d "$2" ]; then ls "$2" > /dev/null 2>&1; else { : < "$2"; } 2> /dev/null; fi || echo "read $2";;
    write) if [ -d "$2" ]; then (> "$2/.tried") 2> /dev/null && rm "$2/.tried"; else (> "$2") 2> /dev/null; fi || echo "write $2";;
  esac
  shift 2
done
(> "$HOME/.tried") 2> /dev/null || echo "write home"
(exec 9<>/dev/tcp/127.0.0.1/9) 2>&1 | grep -q 'Operation not permitted' && echo "network"
echo "folder $PWD"
echo "limits $(ulimit -f) $(ulimit -n) $(ulimit -t) $(ulimit -d)"
echo "variables $(compgen -e | sort | grep -vxE '_|PWD|OLDPWD|SHLVL' | tr '\n' ' ')"
"#;

fn project() -> Project {
    Project::new().shell("x", TRIES).file("out/a", "").file("other/a", "")
}

fn explain(project: &Project, args: &[&str]) -> Value {
    let answer = project.metier(&[&["run", "x", "--explain", "--json"], args].concat());
    assert_eq!(answer.code, 0, "{answer:?}");
    answer.json()
}

fn paths(plan: &Value, key: &str) -> Vec<String> {
    let own = |place: &&Value| !["temp-dir", "client"].contains(&place["why"].as_str().unwrap());
    let places = plan["process"][key].as_array().unwrap().iter().filter(own);
    places.map(|place| place["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_is_explained_is_what_a_script_finds() {
    for grants in
        [&[][..], &["--allow", "write:out", "--allow", "net"], &["--allow", "write", "--open-files", "99"]]
    {
        let project = project();
        let plan = explain(&project, grants);
        let (reads, writes) = (paths(&plan, "reads"), paths(&plan, "writes"));
        let outside = ["/root", "/etc/shadow", "/etc/ssl/private", "/var/log", "/home"].map(str::to_owned);
        let mut tries: Vec<&str> = Vec::new();
        for path in reads.iter().chain(&writes).chain(&outside) {
            tries.extend(["read", path]);
        }
        // What is only read cannot be changed; but for devices, to which everybody may write nothing.
        let folders = reads.iter().chain(&outside).filter(|path| std::path::Path::new(path).is_dir());
        for path in writes.iter().chain(folders) {
            tries.extend(["write", path]);
        }
        let run = project.metier(&[&["run", "x"], grants, &["--"], &tries].concat());
        let said: Vec<&str> = run.stdout.lines().collect();
        let mut expected: Vec<String> = Vec::new();
        let is_there = |path: &&String| std::path::Path::new(path).exists();
        expected.extend(outside.iter().map(|path| format!("read {path}")));
        let protected =
            plan["process"]["protected"].as_array().unwrap().iter().map(|path| path.as_str().unwrap());
        let protected: Vec<&str> =
            protected.filter(|_| plan["sandbox"]["protected_paths"] == json!(true)).collect();
        let is_written = |path: &String| {
            writes.iter().any(|write| path.starts_with(write.as_str()))
                && !protected.iter().any(|protected| path.starts_with(protected))
        };
        let kept = reads.iter().chain(outside.iter().filter(is_there));
        let kept = kept.filter(|path| std::path::Path::new(path).is_dir() && !is_written(path));
        expected.extend(kept.map(|path| format!("write {path}")));
        // A network of its own has sockets, which lead nowhere.
        if plan["process"]["network"] == json!(false) && plan["sandbox"]["level"] != "namespaces" {
            expected.push("network".into());
        }
        expected.push(format!("folder {}", plan["process"]["working_dir"].as_str().unwrap()));
        let limits = &plan["limits"];
        let of = |key: &str, unit: u64| limits[key].as_u64().unwrap() / unit;
        expected.push(format!(
            "limits {} {} {} {}",
            of("file_bytes", 1024),
            of("open_files", 1),
            of("cpu_ms", 1000),
            of("memory_bytes", 1024)
        ));
        let variables: Vec<&str> = plan["process"]["environment"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        expected.push(format!("variables {} ", variables.join(" ")));
        assert_eq!(said, expected, "{grants:?}: {}", run.stderr);
        // What is told of the sandbox is what the outcome of the run says.
        let outcome = project.metier(&[&["run", "x", "--json"], grants].concat()).json();
        assert_eq!(outcome["sandbox"], plan["sandbox"], "{grants:?}");
        assert_eq!(outcome["limits"], plan["limits"], "{grants:?}");
    }
}

#[test]
fn nothing_of_the_skill_runs_and_nothing_is_left() {
    // The home folder of these tests lies in the project, and there metier would have folders of its own.
    let project = Project::new().shell("x", "touch ran").file("a", "").file("tmp/a", "");
    let before = project.tree();
    for sandbox in ["required", "best-effort", "off"] {
        assert_eq!(
            project.metier(&["run", "x", "--explain", "--allow", "write", "--sandbox", sandbox]).code,
            0
        );
        let mut command = project.command(&["run", "x", "--explain", "--sandbox", sandbox]);
        command.env("TMPDIR", project.path("tmp")).env("XDG_STATE_HOME", project.path("state"));
        assert!(command.env("XDG_CACHE_HOME", project.path("tmp/cache")).status().unwrap().success());
    }
    assert_eq!(project.tree(), before);
}

#[test]
fn functions_are_allowed_denied_or_allowed_in_part() {
    let plan = explain(&project(), &["--allow", "write:out", "--allow", "tool:search"]);
    let function = |name: &str| {
        let of = plan["functions"].as_array().unwrap();
        of.iter().find(|function| function["name"] == name).unwrap().clone()
    };
    assert_eq!(function("log"), json!({"name": "log", "granted_by": [], "allowed": true, "help": null}));
    assert_eq!(
        function("grep"),
        json!({"name": "grep", "granted_by": ["read"], "allowed": true, "help": null})
    );
    assert_eq!(
        function("write"),
        json!({"name": "write", "granted_by": ["write:out"], "allowed": true, "help": "run with --allow write"})
    );
    assert_eq!(function("tool")["granted_by"], json!(["tool:search"]));
    assert_eq!(
        function("secret"),
        json!({"name": "secret", "granted_by": [], "allowed": false, "help": "run with --allow secret:NAME"})
    );
    assert_eq!(plan["permissions"], json!(["read", "write:out", "tool:search"]));
}

#[test]
fn a_grant_for_a_missing_path_is_reported() {
    let project = project();
    let plan = explain(&project, &["--allow", "write:new", "--allow", "write:out"]);
    assert_eq!(plan["process"]["missing"], json!(["new"]));
    assert!(paths(&plan, "writes").iter().any(|path| path.ends_with("/out")));
    assert!(!project.path("new").exists(), "nobody asked for it to be made");
}

#[test]
fn a_worker_is_explained() {
    let skill = "---\nname: x\ndescription: d\nmetadata:\n  worker: json-lines\n---\n";
    let project = project().file(".metier/skills/x/SKILL.md", skill);
    let plan = explain(&project, &[]);
    assert_eq!(plan["process"]["worker"], json!({"runs": 100, "idle_ms": 30_000}));
    assert_eq!(plan["limits"]["cpu_ms"], Value::Null, "no system counts it run by run");
    let plan = explain(&project, &["--cpu", "5s"]);
    assert_eq!(plan["process"]["worker"]["runs"], json!(1), "it can be held for a single run");
    assert_eq!(plan["limits"]["cpu_ms"], json!(5000));
    let wrong = project.file(".metier/skills/x/SKILL.md", skill.replace("json-lines", "json-pigeons"));
    let answer = wrong.metier(&["run", "x", "--json"]);
    assert_eq!((answer.code, &answer.json()["error"]["kind"]), (3, &json!("invalid-skill")));
    assert_eq!(answer.json()["error"]["help"], json!("write `worker: json-lines`, or leave it out"));
}

#[test]
fn an_in_process_language_is_explained_without_a_process() {
    let project = Project::new().lua("x", "return 1");
    let plan = explain(&project, &["--allow", "write"]);
    assert_eq!((&plan["runtime"], &plan["process"]), (&json!("lua"), &Value::Null));
    assert_eq!(plan["sandbox"]["level"], json!("in-process"));
    let write =
        &plan["functions"].as_array().unwrap().iter().find(|row| row["name"] == "write").unwrap().clone();
    assert_eq!(write["help"], json!("list write under allowed-tools in SKILL.md"), "it does not ask for it");
}

#[test]
fn a_process_without_a_sandbox_is_explained_as_unrestricted() {
    let project = project();
    let plan = explain(&project, &["--sandbox", "off"]);
    assert_eq!(plan["process"]["writes"], json!([{"path": "/", "why": "user"}]));
    assert_eq!((&plan["process"]["has_api"], &plan["sandbox"]["level"]), (&json!(false), &json!("none")));
    let page = project.metier(&["run", "x", "--explain", "--sandbox", "off"]).stdout;
    assert!(page.contains("all the rights of the user"), "{page}");
}

#[test]
fn a_run_that_would_not_start_is_explained_with_its_reason_and_exit_code() {
    let script = ".metier/skills/x/scripts/main.rb";
    let project = Project::new().skill(".metier/skills/x").file(script, "").file("no-programs/README", "");
    let mut command = project.command(&["run", "x", "--explain", "--json"]);
    let answer: Answer = command.env("PATH", project.path("no-programs")).output().unwrap().into();
    assert_eq!((answer.code, &answer.json()["reason"]["kind"]), (3, &json!("unavailable")), "{answer:?}");
    assert_eq!(project.metier(&["run", "nobody", "--explain"]).code, 3);
}

#[test]
fn untrusted_names_are_shown_and_not_obeyed() {
    let skill = "---\nname: x\ndescription: d\n---\n";
    let project = Project::new()
        .file(".metier/skills/x/SKILL.md", skill)
        .file(".metier/skills/x/scripts/a\u{1b}[31m.sh", "true");
    let answer = project.metier(&["run", "x", "--explain"]);
    assert!(answer.code == 0 && !answer.stdout.contains('\u{1b}'), "{answer:?}");
}

#[test]
fn the_limits_of_a_contract_are_explained() {
    let limits = "limits: {timeout: 1s, memory: 8MB, output: 1KB}\n";
    let project = Project::new().lua("x", "return 1").file(".metier/skills/x/skill.yaml", limits);
    let (plan, outcome) = (explain(&project, &[]), project.metier(&["run", "x", "--json"]).json());
    for limit in ["timeout_ms", "memory_bytes", "output_bytes"] {
        assert_eq!(plan["limits"][limit], outcome["limits"][limit], "{limit}");
    }
    assert_eq!(plan["limits"]["timeout_ms"], json!(1000));
}

#[test]
fn the_callees_of_a_plan_are_explained() {
    let plan = json!({"steps": [{"skill": "y"}, {"skill": "z"}]}).to_string();
    let head = |asks: &str| format!("---\nname: x\ndescription: d\nallowed-tools: {asks}\n---\n");
    let project = Project::new()
        .lua("z", "return 1")
        .shell("y", "echo 1")
        .file(".metier/skills/x/SKILL.md", head("exec:unsandboxed"))
        .file(".metier/skills/x/skill.yaml", plan);
    let free = explain(&project, &["--allow", "exec:unsandboxed"]);
    assert_eq!((&free["process"], &free["sandbox"]["level"]), (&Value::Null, &json!("none")), "{free}");
    let callees = free["callees"].as_array().unwrap();
    let of = |key: &str| -> Vec<&Value> { callees.iter().map(|callee| &callee[key]).collect() };
    assert_eq!(of("skill"), ["project/.metier:y@0.0.0", "project/.metier:z@0.0.0"]);
    assert_eq!(callees[0]["process"]["sandbox"]["level"], json!("none"));
    assert_eq!(
        (&callees[1]["process"], &callees[1]["sandbox"]["level"]),
        (&Value::Null, &json!("in-process"))
    );
    let page = project.metier(&["run", "x", "--explain", "--allow", "exec:unsandboxed"]).stdout;
    assert!(!page.contains("not needed") && page.contains("with all the rights of the user"), "{page}");
    let sandboxed = explain(&project, &[]);
    assert_eq!(
        sandboxed["sandbox"], sandboxed["callees"][0]["sandbox"],
        "the weakest is that of the process"
    );
    let project = project.file(".metier/skills/x/SKILL.md", head("write"));
    let unasked = explain(&project, &["--allow", "exec:unsandboxed"]);
    assert_eq!(
        unasked["sandbox"], sandboxed["sandbox"],
        "a callee leaves no sandbox that its caller does not ask to leave"
    );
}

#[test]
fn a_callee_that_would_not_start_is_explained_with_its_reason() {
    let head = |name: &str, more: &str| format!("---\nname: {name}\ndescription: d\n{more}---\n");
    let steps = json!({"steps": [{"skill": "broken"}, {"skill": "kept"}, {"skill": "fine"}]}).to_string();
    let project = Project::new()
        .file(".metier/skills/x/SKILL.md", head("x", "allowed-tools: skill:nobody skill:contract\n"))
        .file(".metier/skills/x/skill.yaml", steps)
        .lua("broken", "return (")
        .shell("kept", "echo 1")
        .file(".metier/skills/kept/SKILL.md", head("kept", "metadata:\n  worker: json-rpc\n"))
        .lua("fine", "return 1")
        .lua("contract", "return 1")
        .file(".metier/skills/contract/skill.yaml", "inputs: [");
    let grants = ["--allow", "skill:nobody", "--allow", "skill:contract"];
    let plan = explain(&project, &grants);
    let explained: Vec<(&str, &Value, bool)> = plan["callees"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| (of["skill"].as_str().unwrap(), &of["reason"]["kind"], of["script"].is_string()))
        .collect();
    let (skill, unknown) = (json!("invalid-skill"), json!("unknown-skill"));
    assert_eq!(
        explained,
        [
            ("project/.metier:broken@0.0.0", &skill, true),
            ("project/.metier:kept@0.0.0", &skill, true),
            ("project/.metier:fine@0.0.0", &Value::Null, true),
            ("project/.metier:contract@0.0.0", &skill, false),
            ("nobody", &unknown, false),
        ]
    );
    assert_eq!(
        (&plan["sandbox"], &plan["reason"]),
        (&Value::Null, &Value::Null),
        "nobody can say what they reach"
    );
    let page = project.metier(&[&["run", "x", "--explain"], &grants[..]].concat()).stdout;
    assert!(page.contains("unknown: not every skill that it calls would start"), "{page}");
    assert!(page.contains("nobody: would not start: no skill"), "{page}");
    assert!(!page.contains("not needed"), "{page}");
}

#[test]
fn granted_hosts_are_explained_and_a_missing_one_is_named_with_its_option() {
    let project = Project::new()
        .shell("x", "getent hosts other.test || { echo 'could not resolve host: other.test' >&2; exit 1; }");
    let grants = ["--allow", "net:api.test", "--allow", "net:db.test:5432"];
    let plan = explain(&project, &grants);
    assert_eq!(plan["process"]["hosts"], json!(["api.test", "db.test:5432"]));
    let page = project.metier(&[&["run", "x", "--explain"], &grants[..]].concat()).stdout;
    assert!(page.contains("network      hosts api.test, db.test:5432\n"), "{page}");
    let run = project.metier(&[&["run", "x"], &grants[..]].concat());
    assert_eq!(run.code, 1, "{run:?}");
    let hint = "the script tried other.test: it is not granted; if the script needs it, run with --allow net:other.test";
    assert!(run.stderr.contains(hint), "{run:?}");
}

#[test]
fn the_text_of_a_script_is_searched_for_what_it_may_want_and_nothing_is_granted_by_it() {
    let text = "import requests, os
requests.get('https://api.example.com/x', headers={'k': os.environ['REPORT_KEY']})
open('out/a\u{1b}[31m.md', 'w')
os.system('git log')
";
    let project = Project::new().skill(".metier/skills/x").file(".metier/skills/x/scripts/main.py", text);
    if crate::support::not_run::find_program("python3").is_none() {
        crate::support::not_run::not_run("guesses about a script", "python3 is not installed");
        return;
    }
    let plan = explain(&project, &[]);
    let expected = json!({
        "hosts": ["api.example.com"], "variables": ["REPORT_KEY"], "paths": ["out/a\u{1b}[31m.md"], "imports": ["requests"],
        "commands": ["git"], "is_cut": false,
    });
    assert_eq!(plan["process"]["guesses"], expected);
    assert_eq!(plan["grants"], json!([]));
    let page = project.metier(&["run", "x", "--explain"]).stdout;
    for line in [
        "hosts: api.example.com",
        "variables: REPORT_KEY",
        "imports: requests",
        "programs: git",
        "`metier try` says",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
    assert!(!page.contains('\u{1b}') && !page.contains("net:api") && !page.contains("env:REPORT"), "{page}");
}
