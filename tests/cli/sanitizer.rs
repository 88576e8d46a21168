//! `metier run --for-model`: what is printed is sanitized.

use crate::support::cli::Project;

#[test]
fn what_a_run_for_a_model_prints_is_sanitized() {
    let token = format!("ghp_{}", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0aB3dE6");
    let project = Project::new()
        .lua("x", &format!(r#"print("log {token}") return {{"\27[1m{token}\27[0m", "a\u{{202e}}b"}}"#))
        .lua("fails", &format!(r#"error("no {token}")"#));
    let answer = project.metier(&["run", "x", "--for-model", "--trust"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(answer.stdout, "[\n  \"[secret:github-token]\",\n  \"a\\\\u{202e}b\"\n]\n");
    assert_eq!(answer.stderr, "info: log [secret:github-token]\n");
    let outcome = project.metier(&["run", "x", "--for-model", "--trust", "--json"]).json();
    assert_eq!(
        (&outcome["sanitized"], &outcome["cached"]),
        (&5.into(), &serde_json::Value::Null),
        "{outcome}"
    );
    let failed = project.metier(&["run", "fails", "--for-model", "--trust"]);
    assert!(failed.stderr.contains("no [secret:github-token]"), "{failed:?}");
    for args in [&["run", "x"][..], &["run", "x", "--json"]] {
        assert!(project.metier(args).stdout.contains(&token), "a person gets it as it is");
    }
    let raw = project.metier(&["run", "x", "--for-model", "--trust", "--raw"]);
    assert!(raw.code == 2 && raw.stderr.contains("a model reads it"), "{raw:?}");
}
