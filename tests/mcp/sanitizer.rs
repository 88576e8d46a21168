//! What a model gets over the protocol is sanitized: results, errors, logs, descriptions and texts of skills.

use serde_json::json;

use crate::support::cli::Project;

/// A token of a form that is known, which is none.
fn token() -> String {
    format!("ghp_{}", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0aB3dE6")
}

#[test]
fn results_errors_and_texts_of_skills_are_sanitized() {
    let skill =
        format!("---\nname: talk\ndescription: Talks, with {0}.\n---\nUse {0}, or \u{202e}not.\n", token());
    let project = Project::new()
        .lua(
            "value",
            &format!(r#"return {{a = "x {0}", b = "\27[1mbold\27[0m \u{{202e}}end", c = "naïve"}}"#, token()),
        )
        .lua("fails", &format!(r#"print("log {0}") error("no {0}")"#, token()))
        .file(".metier/skills/talk/SKILL.md", &skill)
        .file(".metier/skills/talk/scripts/main.lua", "return 1")
        .trusted();
    let mut client = project.client(&[]);
    let result = client.call("value", json!({}));
    assert_eq!(
        result["structuredContent"],
        json!({"a": "x [secret:github-token]", "b": r"bold \u{202e}end", "c": "naïve"})
    );
    assert_eq!(result["_meta"]["metier/sanitized"], 4, "{result}");
    let failed = client.call("fails", json!({}));
    assert_eq!(failed["isError"], true);
    let text = failed["content"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("no [secret:github-token]") && text.contains("log [secret:github-token]"),
        "{text}"
    );
    assert!(failed["_meta"]["metier/error"]["message"].as_str().unwrap().contains("[secret:github-token]"));
    let activated = client.text("activate_skill", json!({"name": "talk"}));
    assert!(activated.contains(r"Use [secret:github-token], or \u{202e}not."), "{activated}");
    let all = [
        client.result("tools/list", json!({})),
        client.result("prompts/list", json!({})),
        json!(client.text("skills_list", json!({}))),
        json!(client.text("read_skill_file", json!({"skill": "talk", "path": "SKILL.md"}))),
        result,
        failed,
    ];
    for answer in all {
        assert!(!answer.to_string().contains(&token()), "{answer}");
    }
}
