//! The audit log as the command writes, shows and checks it.

use serde_json::Value;

use crate::support::cli::{Answer, Project, write};
#[cfg(all(target_os = "linux", feature = "sandboxed"))]
use crate::support::not_run::not_run;

impl Project {
    fn audited(self, text: &str) -> Self {
        write(&self.home().join(".config/metier/config.toml"), text);
        self
    }

    fn audit_file(&self) -> std::path::PathBuf {
        self.home().join(".local/share/metier/audit/audit.jsonl")
    }

    fn records(&self, args: &[&str]) -> Vec<Value> {
        let answer = self.metier(&[&["audit", "show", "--json"], args].concat());
        assert_eq!(answer.code, 0, "{answer:?}");
        answer.json().as_array().unwrap().iter().map(|line| line["record"].clone()).collect()
    }

    fn kinds(&self, args: &[&str]) -> Vec<String> {
        self.records(args).iter().map(|record| record["kind"].as_str().unwrap().to_owned()).collect()
    }
}

fn tool(name: &str, tools: &str, script: &str) -> Project {
    let folder = format!(".metier/skills/{name}");
    let text = format!("---\nname: {name}\ndescription: d\nallowed-tools: {tools}\n---\n");
    Project::new()
        .file(&format!("{folder}/SKILL.md"), text)
        .file(&format!("{folder}/scripts/main.lua"), script)
}

fn succeeds(answer: &Answer) {
    assert_eq!(answer.code, 0, "{answer:?}");
}

#[test]
fn one_flow_writes_each_kind_of_line_and_no_secret() {
    let script = "local key = ctx.secret('TOKEN') pcall(ctx.write, 'else.txt', key) \
                  ctx.write('out/a.txt', 'a') return key";
    let project = tool("x", "secret:TOKEN write:out", script).audited("[audit]\nenabled = true\n");
    let run = |args: &[&str]| -> Answer {
        let args = [&["run", "x"], args].concat();
        project.command(&args).env("TOKEN", "correct-horse-battery").output().unwrap().into()
    };
    assert_ne!(run(&["--for-model"]).code, 0, "it is not trusted");
    succeeds(&project.metier(&["trust", "--yes", "."]));
    succeeds(&project.metier(&["allow", "x", "write:out"]));
    succeeds(&run(&["--secret", "TOKEN", "--", "correct-horse-battery"]));
    succeeds(&project.metier(&["allow", "x", "--revoke"]));
    succeeds(&project.metier(&["trust", "--revoke", "."]));
    assert_eq!(
        project.kinds(&[]),
        [
            "run_refused",
            "trust_changed",
            "grants_changed",
            "run_started",
            "secret_read",
            "access_refused",
            "run_ended",
            "grants_changed",
            "trust_changed"
        ]
    );
    let text = std::fs::read_to_string(project.audit_file()).unwrap();
    assert!(!text.contains("horse"), "{text}");
    let records = project.records(&["--skill", "x", "--kind", "run_started"]);
    let [started] = &records[..] else { panic!("{records:?}") };
    assert_eq!((&started["who"]["actor"], &started["who"]["face"]), (&"person".into(), &"cli".into()));
    let origins: Vec<&Value> =
        started["grants"].as_array().unwrap().iter().map(|grant| &grant["origin"]).collect();
    assert!(origins.contains(&&"remembered".into()) && origins.contains(&&"caller".into()), "{started}");
    assert!(started["digest"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(project.kinds(&["--skill", "y"]).len(), 0);
    assert_eq!(project.kinds(&["--since", "2999-01-01"]).len(), 0);
    assert_eq!(project.kinds(&["--since", "1h"]).len(), 9);
    let shown = project.metier(&["audit", "show"]);
    assert_eq!(shown.stdout.lines().count(), 9, "{shown:?}");
    let refused = project.metier(&["audit", "show", "--kind", "no_kind"]);
    assert!(refused.code != 0 && refused.stderr.contains("run_started"), "{refused:?}");
}

#[test]
fn verify_names_the_first_line_that_does_not_fit_and_a_kept_head_shows_what_is_missing() {
    let project = tool("x", "read", "return 1").audited("[audit]\nenabled = true\n");
    let answer = project.metier(&["audit", "verify"]);
    assert!(answer.code == 0 && answer.stdout.contains("0 lines"), "{answer:?}");
    for _ in 0..2 {
        succeeds(&project.metier(&["run", "x"]));
    }
    let head = project.metier(&["audit", "head"]).stdout.trim().to_owned();
    assert_eq!(head.len(), 64);
    succeeds(&project.metier(&["audit", "verify", "--head", &head]));
    let text = std::fs::read_to_string(project.audit_file()).unwrap();
    std::fs::write(project.audit_file(), text.replacen("person", "nobody", 2)).unwrap();
    let answer = project.metier(&["audit", "verify"]);
    assert!(answer.code == 1 && answer.stderr.contains("line 1 of audit.jsonl does not fit"), "{answer:?}");
    let shorter: String = text.split_inclusive('\n').take(3).collect();
    std::fs::write(project.audit_file(), shorter).unwrap();
    succeeds(&project.metier(&["audit", "verify"]));
    let answer = project.metier(&["audit", "verify", "--head", &head]);
    assert!(answer.code == 1 && answer.stderr.contains("no line has the expected hash"), "{answer:?}");
    assert_eq!(project.metier(&["audit", "verify", "--head", "abc"]).code, 2);
    succeeds(&project.metier(&["audit", "rotate"]));
    let report = project.metier(&["audit", "verify", "--json"]).json();
    assert_eq!((&report["files"], &report["lines"]), (&2.into(), &4.into()));
}

#[test]
fn nothing_is_recorded_unless_the_configuration_says_so_and_no_project_switches_it_off() {
    let project = tool("x", "read", "return 1");
    succeeds(&project.metier(&["run", "x"]));
    assert!(!project.audit_file().exists());
    let project = project.audited("[audit]\nenabled = true\n");
    let project = project.file(".metier/config.toml", "[audit]\nenabled = false\n");
    let answer = project.metier(&["run", "x"]);
    assert!(answer.code != 0 && answer.stderr.contains("can only set it to `true`"), "{answer:?}");
}

#[test]
fn where_it_is_required_and_cannot_be_written_nothing_runs() {
    let project = tool("x", "write:out", "ctx.write('out/canary.txt', '') return 1");
    let project = project.audited("[audit]\nrequired = true\n");
    let args = ["run", "x", "--allow", "write:out"];
    write(&project.home().join("taken"), "");
    let no_folder = |args: &[&str]| -> Answer {
        project
            .command(args)
            .env("METIER_DATA_DIR", project.home().join("taken/data"))
            .output()
            .unwrap()
            .into()
    };
    let full = |args: &[&str]| -> Answer {
        // No file may grow: a write fails as on a full disk.
        let call = project.command(args);
        let mut limited = std::process::Command::new("sh");
        limited.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]).arg(call.get_program());
        limited.args(args).current_dir(project.root()).env("HOME", project.home());
        limited.env_remove("XDG_DATA_HOME").env_remove("XDG_CONFIG_HOME").env_remove("METIER_DATA_DIR");
        limited.env_remove("METIER_CONFIG_DIR").output().unwrap().into()
    };
    for answer in [no_folder(&args), full(&args)] {
        assert_ne!(answer.code, 0, "{answer:?}");
        assert!(answer.stderr.contains("the audit log was not written"), "{answer:?}");
        assert!(!project.path("out").exists(), "nothing ran: {answer:?}");
    }
    let answer = full(&["trust", "--folder", "--yes", "."]);
    assert!(answer.code != 0 && answer.stderr.contains("the audit log was not written"), "{answer:?}");
    write(&project.home().join(".config/metier/config.toml"), "[audit]\nenabled = true\n");
    let answer = full(&args);
    assert!(answer.code == 0 && answer.stderr.contains("the audit log was not written"), "{answer:?}");
    assert!(project.path("out/canary.txt").exists());
}

#[test]
fn no_script_reads_the_log() {
    let script =
        "local ok, text = pcall(ctx.read_file, 'metier/audit/audit.jsonl') return {ok, tostring(text)}";
    let project = tool("x", "read", script).file("metier/audit/audit.jsonl", "{}");
    let answer = project.metier(&["run", "x", "--json"]).json();
    assert_eq!(answer["value"][0], false, "{answer}");
}

#[cfg(all(target_os = "linux", feature = "sandboxed"))]
#[test]
fn a_process_has_lines_for_its_secrets_the_hosts_it_was_refused_and_what_it_took() {
    let script = "import os, socket, sys\n\
                  assert os.environ['TOKEN'] == sys.argv[1]\n\
                  try: socket.create_connection(('elsewhere.example.com', 443), 2)\n\
                  except OSError: pass\n\
                  print(os.environ['TOKEN'])\n";
    let folder = ".metier/skills/x";
    let text = "---\nname: x\ndescription: d\nallowed-tools: secret:TOKEN net:api.example.com\n---\n";
    let project = Project::new().file(&format!("{folder}/SKILL.md"), text);
    let project = project.file(&format!("{folder}/scripts/main.py"), script);
    let project = project.audited("[audit]\nenabled = true\n");
    let args =
        ["run", "x", "--secret", "TOKEN", "--allow", "net:api.example.com", "--", "correct-horse-battery"];
    let answer: Answer =
        project.command(&args).env("TOKEN", "correct-horse-battery").output().unwrap().into();
    if answer.stderr.contains("namespaces") || answer.stderr.contains("python3") {
        return not_run("a process that is refused a host", &answer.stderr);
    }
    succeeds(&answer);
    let records = project.records(&[]);
    let kinds: Vec<&str> = records.iter().map(|record| record["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["run_started", "secret_read", "access_refused", "run_ended"], "{records:?}");
    assert_eq!(records[1]["secret"]["name"], "TOKEN");
    assert!(records[2]["target"].as_str().unwrap().starts_with("elsewhere.example.com"), "{records:?}");
    assert!(records[2]["permissions"][0].as_str().unwrap().starts_with("net:elsewhere"), "{records:?}");
    assert!(records[3]["resources"]["memory_bytes"].as_u64().unwrap() > 0, "{records:?}");
    assert_eq!(records[3]["args"][0], "[secret:TOKEN]");
    let text = std::fs::read_to_string(project.audit_file()).unwrap();
    assert!(!text.contains("horse"), "{text}");
}
