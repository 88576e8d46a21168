//! `metier run --json`: the outcome, in one shape whatever happened.

use serde_json::{Value, json};

use crate::support::cli::Project;

/// Checks the shape of an outcome: every key is present, and no others.
pub(super) fn assert_shape(outcome: &Value) {
    let keys = [
        "cached",
        "changes",
        "digest",
        "duration_ms",
        "error",
        "grants",
        "limits",
        "log",
        "ok",
        "process",
        "refused",
        "sandbox",
        "sanitized",
        "skill",
        "steps",
        "value",
        "version",
        "warnings",
    ];
    assert_eq!(keys_of(outcome), keys);
    let limits = [
        "cpu_ms",
        "file_bytes",
        "hit",
        "memory_bytes",
        "not_applied",
        "on_output",
        "open_files",
        "operations",
        "output_bytes",
        "timeout_ms",
        "truncated",
    ];
    assert_eq!(keys_of(&outcome["limits"]), limits);
    assert!(outcome["duration_ms"].is_u64() && outcome["skill"].is_string());
    assert_eq!(outcome["ok"], outcome["error"].is_null());
    if !outcome["error"].is_null() {
        assert_eq!(
            keys_of(&outcome["error"]),
            ["help", "kind", "location", "message", "missing", "output", "traceback", "violations"]
        );
        assert!(outcome["value"].is_null());
    }
    if !outcome["error"]["location"].is_null() {
        assert_eq!(keys_of(&outcome["error"]["location"]), ["column", "file", "line"]);
    }
    if !outcome["process"].is_null() {
        let keys = [
            "exit_code",
            "network",
            "signal",
            "stderr",
            "stderr_truncated",
            "stdout",
            "stdout_truncated",
            "usage",
        ];
        assert_eq!(keys_of(&outcome["process"]), keys);
        let usage =
            ["cpu_ms", "left_behind", "memory_bytes", "stderr_bytes", "stdout_bytes", "tree_memory_bytes"];
        assert_eq!(keys_of(&outcome["process"]["usage"]), usage);
    }
    if !outcome["sandbox"].is_null() {
        let keys = [
            "files",
            "level",
            "metadata_outside",
            "network",
            "process_count",
            "protected_paths",
            "signals",
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
fn a_success_is_the_whole_outcome_and_nothing_else_is_printed() {
    let project = Project::new()
        .file(".metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\nmetadata:\n  version: 1.2.0\n---\n")
        .file(".metier/skills/x/scripts/main.lua", "ctx.log('warn', 'careful') return {n = 1}");
    let answer = project.metier(&["run", "x", "--json"]);
    let outcome = answer.json();
    assert_shape(&outcome);
    assert_eq!((answer.code, answer.stderr.as_str()), (0, ""));
    assert_eq!((&outcome["skill"], &outcome["version"]), (&json!("x"), &json!("1.2.0")));
    assert_eq!(outcome["value"], json!({"n": 1}));
    assert_eq!(outcome["log"], json!([{"level": "warn", "message": "careful"}]));
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn the_limits_are_those_that_applied() {
    let project =
        Project::new().lua("in", "return 1").shell("out", "ulimit -f; ulimit -n; ulimit -t; ulimit -d");
    let outcome = |args: &[&str]| project.metier(&[&["run", "--json"], args].concat()).json();
    let of = |more: Value| {
        let mut limits = json!({"hit": null, "timeout_ms": 30_000, "memory_bytes": null, "operations": null, "cpu_ms": null,
            "file_bytes": null, "open_files": null, "not_applied": [], "output_bytes": 8 << 20, "on_output": "kill", "truncated": false});
        limits.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        limits
    };
    assert_eq!(outcome(&["in"])["limits"], of(json!({"memory_bytes": 64 << 20, "file_bytes": 256 << 20})));
    assert_eq!(outcome(&["nobody"])["limits"], of(json!({})));
    assert_eq!(
        outcome(&["in", "--timeout", "5s", "--memory", "32MB", "--output", "1KB", "--cpu", "1s"])["limits"],
        of(
            json!({"timeout_ms": 5000, "memory_bytes": 32 << 20, "file_bytes": 256 << 20, "output_bytes": 1024, "not_applied": ["cpu"]})
        )
    );
    // Where nothing is said, what processors can give in that time.
    let limited = outcome(&["out"]);
    let cpu = limited["limits"]["cpu_ms"].as_u64().unwrap();
    assert!(cpu >= 32_000, "{limited}");
    assert_eq!(
        limited["limits"],
        of(json!({"memory_bytes": 2_u64 << 30, "file_bytes": 256 << 20, "open_files": 512, "cpu_ms": cpu}))
    );
    let named = [
        "--cpu",
        "1500ms",
        "--file-size",
        "1MB",
        "--open-files",
        "50",
        "--memory",
        "1GB",
        "--on-output",
        "truncate",
    ];
    let limited = outcome(&[&["out"], &named[..]].concat());
    assert_eq!(
        limited["limits"],
        of(
            json!({"memory_bytes": 1 << 30, "file_bytes": 1 << 20, "open_files": 50, "cpu_ms": 2000, "on_output": "truncate"})
        )
    );
    // What the script is told by the system: kibibytes of a file and of memory, descriptors, seconds.
    assert_eq!(limited["value"], json!("1024\n50\n2\n1048576\n"));
}

#[test]
fn rhai_reports_its_limit_of_operations() {
    let project = Project::new().skill(".metier/skills/x").file(".metier/skills/x/scripts/main.rhai", "1");
    if metier::supports(metier::executor::RuntimeId::RHAI).is_ok() {
        let outcome = project.metier(&["run", "x", "--json"]).json();
        assert_eq!(outcome["limits"]["operations"], json!(10_000_000));
    }
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn a_process_is_reported_and_its_value_is_what_it_wrote() {
    let project =
        Project::new().shell("json", "echo '{\"a\": 1}'; echo talk >&2").shell("text", "echo hello");
    let mut outcome = project.metier(&["run", "json", "--json"]).json();
    assert_shape(&outcome);
    assert_eq!(outcome["value"], json!({"a": 1}));
    let process = outcome["process"].as_object_mut().unwrap();
    let mut usage = process.shift_remove("usage").unwrap();
    assert!(usage["cpu_ms"].take().as_u64().unwrap() < 1000);
    assert!(usage["memory_bytes"].take().as_u64().unwrap() > 100_000);
    assert!(usage["tree_memory_bytes"].take().as_u64().unwrap() > 100_000);
    assert_eq!(
        usage,
        json!({"cpu_ms": null, "memory_bytes": null, "tree_memory_bytes": null, "stdout_bytes": 9, "stderr_bytes": 5,
            "left_behind": 0})
    );
    assert_eq!(
        outcome["process"],
        json!({"exit_code": 0, "signal": null, "network": null, "stdout": "{\"a\": 1}\n", "stderr": "talk\n",
            "stdout_truncated": false, "stderr_truncated": false})
    );
    assert_eq!(outcome["log"], json!([]));
    let level = outcome["sandbox"]["level"].as_str().unwrap();
    assert!(["namespaces", "landlock"].contains(&level), "{level}");
    let outcome = project.metier(&["run", "text", "--json", "--allow", "exec:unsandboxed"]).json();
    assert!(outcome["log"][0]["message"].as_str().unwrap().contains("without a sandbox"));
    assert_eq!(
        (&outcome["process"]["usage"]["cpu_ms"], &outcome["sandbox"]["level"]),
        (&Value::Null, &json!("none"))
    );
    assert_eq!(outcome["value"], json!("hello\n"));
}
