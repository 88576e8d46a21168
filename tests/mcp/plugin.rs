//! The server of a plug-in, started as a client starts it from the plug-in's own file.

use serde_json::{Value, json};

use crate::support::cli::Project;

#[test]
fn the_server_of_a_plugin_serves_its_skills_alone_in_the_folder_of_the_client() {
    let project = Project::new()
        .lua("greet", "ctx.write('seen.txt', 'x') return 'hello'")
        .lua("other", "return 1")
        .file(
            ".metier/skills/greet/SKILL.md",
            "---\nname: greet\ndescription: Greets.\nallowed-tools: write\n---\nSay hello.\n",
        );
    let answer = project.metier(&["export", "greet", "--as", "plugin", "--out", "plugin"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    // Another user's machine, with nothing of the project but the plug-in.
    let installed = Project::new().file("data/own", "").file("workspace/own", "");
    std::fs::rename(project.path("plugin"), installed.path("plugin")).unwrap();
    let server: Value =
        serde_json::from_str(&std::fs::read_to_string(installed.path("plugin/mcp.json")).unwrap()).unwrap();
    let arguments: Vec<String> = server["mcpServers"]["greet"]["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|argument| {
            let argument = argument.as_str().unwrap();
            let argument = argument.replace("${PLUGIN_ROOT}", installed.path("plugin").to_str().unwrap());
            argument.replace("${PLUGIN_DATA}", installed.path("data").to_str().unwrap())
        })
        .collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    assert_eq!(arguments[0], "mcp");
    let mut client = installed.client(&arguments[1..]);
    let names = client.tool_names();
    assert_eq!(names, ["activate_skill", "greet", "read_result", "read_skill_file", "skills_list"]);
    let denied = client.call("greet", json!({}));
    assert_eq!(denied["_meta"]["metier/error"]["kind"], "denied", "{denied}");
    assert!(denied["content"][0]["text"].as_str().unwrap().contains("by `--allow write`"), "{denied}");
    let mut client = installed.client(&[&arguments[1..], &["--allow", "write"]].concat());
    assert_eq!(client.text("greet", json!({})), "hello");
    assert!(installed.path("data/seen.txt").exists());
    assert!(client.text("activate_skill", json!({"name": "greet"})).contains("Say hello."));
}
