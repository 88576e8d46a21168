//! The configurations of clients start the server.

use crate::cli::Project;

#[test]
fn each_client_gets_a_configuration_that_its_parser_reads() {
    let project = Project::new().lua("hello", "return 'hello'");
    let root = std::fs::canonicalize(project.root()).unwrap();
    let root = root.to_str().unwrap();
    for (client, key) in [
        ("claude-code", "mcpServers"),
        ("cursor", "mcpServers"),
        ("vscode", "servers"),
        ("zed", "context_servers"),
        ("gemini", "mcpServers"),
    ] {
        let answer = project.metier(&["mcp", "--print-config", client, "--project", root]);
        let server = &answer.json()[key]["metier"];
        assert_eq!(server["command"], "metier", "{answer:?}");
        assert_eq!(server["args"], serde_json::json!(["mcp", "--project", root]));
    }
    let opencode = project.metier(&["mcp", "--print-config", "opencode", "--project", root]).json();
    assert_eq!(opencode["mcp"]["metier"]["command"][1], "mcp");
    for (client, lines) in [
        ("codex", ["[mcp_servers.metier]", "command = \"metier\""]),
        ("goose", ["  metier:", "    cmd: \"metier\""]),
    ] {
        let answer = project.metier(&["mcp", "--print-config", client, "--project", root]);
        assert!(lines.iter().all(|line| answer.stdout.lines().any(|found| found == *line)), "{answer:?}");
        assert!(answer.stdout.contains(&format!("[\"mcp\",\"--project\",\"{root}\"]")), "{answer:?}");
    }
    assert_eq!(project.metier(&["mcp", "--print-config", "netscape"]).code, 2);
}

#[test]
fn a_configuration_that_demands_the_lock_shows_locked_skills_only() {
    let project = Project::new()
        .lua("hello", "return 'hello'")
        .lua("later", "return 'later'")
        .file(".metier/config.toml", "[trust]\nlocked = true\n")
        .trusted();
    let names = |project: &Project| {
        let names = project.client(&[]).tool_names();
        ["hello", "later", "word-count"].map(|name| names.contains(&name.to_owned()))
    };
    assert_eq!(names(&project), [false, false, true], "there is no lock file yet");
    assert_eq!(project.metier(&["lock", "hello"]).code, 0);
    assert_eq!(names(&project), [true, false, true]);
    let mut client = project.client(&[]);
    let project = project.lua("hello", "return 'changed'");
    assert_eq!(project.metier(&["trust", "--yes"]).code, 0);
    let result = client.call("hello", serde_json::json!({}));
    assert_eq!(result["_meta"]["metier/error"]["kind"], "untrusted", "{result}");
    let catalog = project.metier(&["catalog"]);
    assert!(!catalog.stdout.contains("hello") && catalog.stdout.contains("word-count"), "{catalog:?}");
}

#[test]
fn the_configuration_decides_the_limits_and_which_skills_are_there() {
    let project = Project::new()
        .lua("endless", "while true do end")
        .lua("hidden", "return 1")
        .file(".metier/config.toml", "[limits]\ntimeout = \"150ms\"\n[skills.hidden]\nenabled = false\n")
        .trusted();
    let mut client = project.client(&[]);
    let result = client.call("endless", serde_json::json!({}));
    assert_eq!(result["_meta"]["metier/error"]["kind"], "deadline", "{result}");
    assert!(!client.tool_names().contains(&"hidden".to_owned()));
}
