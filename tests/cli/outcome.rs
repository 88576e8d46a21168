//! `metier run --json`: the outcome, in one shape whatever happened.

use serde_json::{Value, json};

use super::cli::Project;

/// Holds the outcome against the promised shape: every key always, and no others.
pub(super) fn in_shape(outcome: &Value) {
    let keys =
        ["duration_ms", "error", "limits", "log", "ok", "process", "sandbox", "skill", "value", "version"];
    assert_eq!(keys_of(outcome), keys);
    assert_eq!(keys_of(&outcome["limits"]), ["deadline_ms", "hit", "memory_bytes", "output_bytes"]);
    assert!(outcome["duration_ms"].is_u64() && outcome["skill"].is_string());
    assert_eq!(outcome["ok"], outcome["error"].is_null());
    if !outcome["error"].is_null() {
        assert_eq!(keys_of(&outcome["error"]), ["help", "kind", "location", "message", "traceback"]);
        assert!(outcome["value"].is_null());
    }
    if !outcome["error"]["location"].is_null() {
        assert_eq!(keys_of(&outcome["error"]["location"]), ["column", "file", "line"]);
    }
    if !outcome["process"].is_null() {
        let keys = [
            "cpu_ms",
            "exit_code",
            "memory_bytes",
            "signal",
            "stderr",
            "stderr_truncated",
            "stdout",
            "stdout_truncated",
            "tree_memory_bytes",
        ];
        assert_eq!(keys_of(&outcome["process"]), keys);
    }
    if !outcome["sandbox"].is_null() {
        let keys = [
            "files",
            "metadata_outside",
            "network",
            "process_count",
            "protected_paths",
            "signals",
            "tier",
            "tree_kill",
            "unix_sockets",
        ];
        assert_eq!(keys_of(&outcome["sandbox"]), keys);
    }
    for line in outcome["log"].as_array().unwrap() {
        assert_eq!(keys_of(line), ["level", "message"]);
    }
}

fn keys_of(object: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn a_success_is_the_whole_outcome_and_nothing_is_said_beside_it() {
    let project = Project::new()
        .file(".metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\nmetadata:\n  version: 1.2.0\n---\n")
        .file(".metier/skills/x/scripts/main.lua", "ctx.log('warn', 'careful') return {n = 1}");
    let answer = project.metier(&["run", "x", "--json"]);
    let outcome = answer.json();
    in_shape(&outcome);
    assert_eq!((answer.code, answer.stderr.as_str()), (0, ""));
    assert_eq!((&outcome["skill"], &outcome["version"]), (&json!("x"), &json!("1.2.0")));
    assert_eq!(outcome["value"], json!({"n": 1}));
    assert_eq!(outcome["log"], json!([{"level": "warn", "message": "careful"}]));
}

#[test]
fn the_limits_are_those_that_held() {
    let project = Project::new().lua("in", "return 1").shell("out", "echo 1");
    let limits = |args: &[&str]| {
        project.metier(&[&["run", "--json", "--allow", "exec"], args].concat()).json()["limits"].clone()
    };
    let of = |memory: Value| json!({"hit": null, "deadline_ms": 30_000, "memory_bytes": memory, "output_bytes": 8 << 20});
    assert_eq!(limits(&["in"]), of(json!(64 << 20)));
    assert_eq!(limits(&["out"]), of(json!(2_u64 << 30)));
    assert_eq!(limits(&["nobody"]), of(Value::Null));
    assert_eq!(
        limits(&["in", "--timeout", "5s", "--memory", "32MB", "--output", "1KB"]),
        json!({"hit": null, "deadline_ms": 5000, "memory_bytes": 32 << 20, "output_bytes": 1024})
    );
}

#[test]
fn a_process_is_reported_and_its_value_is_what_it_wrote() {
    let project =
        Project::new().shell("json", "echo '{\"a\": 1}'; echo talk >&2").shell("text", "echo hello");
    let mut outcome = project.metier(&["run", "json", "--json"]).json();
    in_shape(&outcome);
    assert_eq!(outcome["value"], json!({"a": 1}));
    let process = outcome["process"].as_object_mut().unwrap();
    assert!(process.remove("cpu_ms").unwrap().as_u64().unwrap() < 1000);
    let memory = process.remove("memory_bytes").unwrap().as_u64().unwrap();
    assert!(memory > 100_000 && process.remove("tree_memory_bytes").unwrap().as_u64().unwrap() >= memory);
    assert_eq!(
        outcome["process"],
        json!({"exit_code": 0, "signal": null, "stdout": "{\"a\": 1}\n", "stderr": "talk\n",
            "stdout_truncated": false, "stderr_truncated": false})
    );
    assert_eq!(outcome["log"], json!([]));
    let tier = outcome["sandbox"]["tier"].as_str().unwrap();
    assert!(["namespaces", "landlock"].contains(&tier), "{tier}");
    let outcome = project.metier(&["run", "text", "--json", "--allow", "exec:unsandboxed"]).json();
    assert!(outcome["log"][0]["message"].as_str().unwrap().contains("without a sandbox"));
    assert_eq!((&outcome["process"]["cpu_ms"], &outcome["sandbox"]["tier"]), (&Value::Null, &json!("none")));
    assert_eq!(outcome["value"], json!("hello\n"));
}
