//! The configurations of clients start the server.

use crate::support::cli::{Answer, Project};

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
    // The other options are those of the server.
    let given = [
        "--compat",
        "mcp",
        "--print-config=cursor",
        "--allow",
        "write:out",
        "--timeout=2m",
        "--project",
        root,
    ];
    let printed = project.metier(&given).json();
    let expected = ["mcp", "--project", root, "--compat", "--allow", "write:out", "--timeout=2m"];
    assert_eq!(printed["mcpServers"]["metier"]["args"], serde_json::json!(expected));
    let skills = format!("{root}/.metier/skills");
    let given = [
        "mcp",
        "--print-config",
        "cursor",
        "--skills",
        ".metier/skills",
        "--no-input",
        "--json",
        "--project",
        root,
    ];
    let printed = project.metier(&given).json();
    let expected = ["mcp", "--project", root, "--skills", &skills, "--no-input"];
    assert_eq!(printed["mcpServers"]["metier"]["args"], serde_json::json!(expected));
}

#[test]
fn a_client_reaches_a_server_over_http_with_a_token_that_is_never_printed() {
    let project = Project::new().lua("hello", "return 'hello'");
    let secret = "a-token-that-is-in-the-environment";
    let print = |client: &str, more: &[&str]| {
        let args = [&["mcp", "--print-config", client, "--http", "127.0.0.1:8123"], more].concat();
        let answer: Answer = project.command(&args).env("METIER_MCP_TOKEN", secret).output().unwrap().into();
        assert_eq!(answer.code, 0, "{answer:?}");
        assert!(!answer.stdout.contains(secret) && !answer.stderr.contains(secret), "{answer:?}");
        answer
    };
    let url = "http://127.0.0.1:8123/mcp";
    for (client, server, address, authorization) in [
        ("claude-code", "/mcpServers/metier", "url", "Bearer ${METIER_MCP_TOKEN}"),
        ("cursor", "/mcpServers/metier", "url", "Bearer ${env:METIER_MCP_TOKEN}"),
        ("vscode", "/servers/metier", "url", "Bearer ${input:metier-mcp-token}"),
        ("zed", "/context_servers/metier", "url", "Bearer TOKEN"),
        ("gemini", "/mcpServers/metier", "httpUrl", "Bearer $METIER_MCP_TOKEN"),
        ("opencode", "/mcp/metier", "url", "Bearer {env:METIER_MCP_TOKEN}"),
    ] {
        let config = print(client, &[]).json();
        let found = config.pointer(server).unwrap_or_else(|| panic!("{config}"));
        assert_eq!(
            (&found[address], &found["headers"]["Authorization"]),
            (&url.into(), &authorization.into())
        );
        assert_eq!(found.get("command").filter(|command| command.is_string()), None, "{config}");
        let open = print(client, &["--no-token"]).json();
        assert_eq!(open.pointer(server).unwrap().get("headers"), None, "{open}");
        assert_eq!(open.get("inputs"), None, "{open}");
    }
    assert_eq!(print("claude-code", &[]).json()["mcpServers"]["metier"]["type"], "http");
    let question = print("vscode", &[]).json()["inputs"][0].clone();
    assert_eq!((&question["id"], &question["password"]), (&"metier-mcp-token".into(), &true.into()));
    for (client, lines) in [
        ("codex", ["url = \"http://127.0.0.1:8123/mcp\"", "bearer_token_env_var = \"METIER_MCP_TOKEN\""]),
        (
            "goose",
            ["    uri: \"http://127.0.0.1:8123/mcp\"", "      Authorization: \"Bearer ${METIER_MCP_TOKEN}\""],
        ),
    ] {
        let answer = print(client, &[]);
        assert!(lines.iter().all(|line| answer.stdout.lines().any(|found| found == *line)), "{answer:?}");
        assert!(!print(client, &["--no-token"]).stdout.contains("TOKEN"));
    }
    for (address, more, expected) in [
        ("0.0.0.0:8123", &[][..], "http://127.0.0.1:8123/mcp"),
        ("[::1]:8123", &[], "http://[::1]:8123/mcp"),
        ("127.0.0.1:0", &["--allow-host", "tools.example"], "https://tools.example/mcp"),
    ] {
        let args = [&["mcp", "--print-config", "cursor", "--http", address], more].concat();
        assert_eq!(project.metier(&args).json()["mcpServers"]["metier"]["url"], expected);
    }
    let refused = project.metier(&["mcp", "--print-config", "cursor", "--http", "127.0.0.1:0"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("name a port"), "{refused:?}");
}

/// What the client would do with the printed text: it puts the variable in place, and calls a tool.
#[test]
fn the_printed_address_and_header_reach_the_server() {
    let project = Project::new().lua("hello", "return 'hello'").trusted();
    let token = "a-token-of-this-test-alone";
    let mut server = project.http_server_with(&[], &[("METIER_MCP_TOKEN", token)]);
    let printed = project.metier(&["mcp", "--print-config", "claude-code", "--http", &server.address]).json();
    let config = &printed["mcpServers"]["metier"];
    assert_eq!(config["url"], format!("http://{}/mcp", server.address));
    let header = config["headers"]["Authorization"].as_str().unwrap().replace("${METIER_MCP_TOKEN}", token);
    server.token = header.strip_prefix("Bearer ").map(str::to_owned);
    assert_eq!(server.text("hello", serde_json::json!({})), "hello");
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
    assert_eq!(result["_meta"]["metier/error"]["kind"], "timeout", "{result}");
    assert!(!client.tool_names().contains(&"hidden".to_owned()));
}
