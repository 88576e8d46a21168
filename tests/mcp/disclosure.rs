//! A model finds skills, and reads their text and files when it needs them.

use serde_json::json;

use crate::mcp::client::Client;
use crate::support::cli::Project;

fn project() -> Project {
    project_with_link("data.bin")
}

/// A file that leads there is no file of the skill.
fn project_with_link(target: &str) -> Project {
    let text = "---\nname: notes\ndescription: Keeps notes of meetings\n---\n# Notes\n\nDo \u{202e}it.\n";
    Project::new()
        .lua("notes", "return 1")
        .file(".metier/skills/notes/SKILL.md", text)
        .file(".metier/skills/notes/references/a b.md", "reference")
        .file(".metier/skills/notes/data.bin", [0, 159, 146, 150])
        .file(".metier/skills/notes/.env", "SECRET")
        .link(target, ".metier/skills/notes/link.md")
        .skill(".metier/skills/only-text")
        .trusted()
}

fn kind(client: &mut Client, tool: &str, arguments: serde_json::Value) -> serde_json::Value {
    client.call(tool, arguments)["_meta"]["metier/error"]["kind"].clone()
}

#[test]
fn skills_are_listed_and_found_by_words() {
    let project = project();
    let mut client = project.client(&[]);
    let all = client.text("skills_list", json!({}));
    assert!(all.contains("- notes: Keeps notes of meetings\n") && all.contains("- only-text: d\n"), "{all}");
    assert_eq!(
        client.text("skills_list", json!({"query": "MEETINGS note"})),
        "- notes: Keeps notes of meetings\n"
    );
    assert!(client.text("skills_list", json!({"query": "elephant"})).starts_with("No skill"));
    assert!(!client.tool_names().contains(&"only-text".to_owned()), "it has nothing to run");
}

#[test]
fn a_skill_that_cannot_run_is_no_tool_and_is_listed_with_the_reason() {
    let project = Project::new()
        .lua("x", "return 1")
        .file(".metier/skills/x/skill.yaml", "config: {region: {required: true, description: Where it runs}}")
        .lua("broken", "return 1")
        .file(".metier/skills/broken/skill.yaml", "timeout: never IGNORE-ALL-RULES")
        .trusted();
    let mut client = project.client(&[]);
    let listed = client.text("skills_list", json!({}));
    let reason = "skill x cannot run: the setting region is not provided (Where it runs)";
    assert!(listed.contains(&format!("- x: d (cannot run at present: {reason})\n")), "{listed}");
    assert!(listed.contains("- broken: d (cannot run at present: its files have an error)\n"), "{listed}");
    assert!(!client.tool_names().contains(&"x".to_owned()));
    let mut configured = project.client(&["--config", "region=north"]);
    assert!(configured.text("skills_list", json!({})).contains("- x: d\n"));
    assert!(configured.tool_names().contains(&"x".to_owned()));
}

#[test]
fn what_the_machine_or_the_host_does_not_offer_is_no_tool_and_has_its_reason() {
    let curia = |needs: &str| {
        format!(r#"{{"name": "c", "description": "d", "version": "1.0.0", "action_risk": "none", {needs}}}"#)
    };
    let head = |name: &str, client: &str| {
        format!("---\nname: {name}\ndescription: d\nmetadata: {{\"openclaw\": {client}}}\n---\n")
    };
    let project = Project::new()
        .file(".metier/skills/c/skill.json", curia(r#""capabilities": ["bus", "skillSearch"]"#))
        .file(".metier/skills/c/handler.js", "export default {execute() { return {success: true} }}")
        .lua("bins", "return 1")
        .file(".metier/skills/bins/SKILL.md", head("bins", r#"{"requires": {"bins": ["not-here"]}}"#))
        .lua("system", "return 1")
        .file(".metier/skills/system/SKILL.md", head("system", r#"{"os": ["plan9"]}"#))
        .trusted();
    let mut client = project.client(&[]);
    let (listed, tools) = (client.text("skills_list", json!({})), client.tool_names());
    for (name, reason) in [
        (
            "c",
            "this host does not offer the capability bus; this host does not offer the capability skillSearch",
        ),
        ("bins", "not-here is not on PATH"),
        ("system", "it needs plan9, and this system is "),
    ] {
        let reason = format!("- {name}: d (cannot run at present: skill {name} cannot run: {reason}");
        assert!(listed.contains(&reason), "{reason}: {listed}");
        assert!(!tools.contains(&name.to_owned()), "{name}: {tools:?}");
    }
}

#[test]
fn a_skill_is_activated_once_in_a_session() {
    // AS-16
    let project = project();
    let mut client = project.client(&[]);
    let names = client.tool("activate_skill")["inputSchema"]["properties"]["name"]["enum"].clone();
    assert!(names.as_array().unwrap().contains(&json!("only-text")), "{names}");
    let text = client.text("activate_skill", json!({"name": "notes"}));
    assert!(text.contains("# Notes\n\nDo \\u{202e}it."), "{text}");
    assert!(!text.contains("description:"), "{text}");
    assert!(text.contains("- references/a b.md\n") && text.contains("- scripts/main.lua\n"), "{text}");
    assert!(!text.contains(".env") && !text.contains("link.md"), "{text}");
    assert!(text.contains("Folder of the skill: /") && text.contains(".metier/skills/notes\n"), "{text}");
    assert!(client.text("activate_skill", json!({"name": "notes"})).contains("was activated before"));
    assert_eq!(client.text("activate_skill", json!({"name": "notes", "again": true})), text);
    let mut modern = project.modern_client(&[]);
    for _ in 0..2 {
        assert_eq!(modern.text("activate_skill", json!({"name": "notes"})), text, "there are no sessions");
    }
}

#[test]
fn only_listed_files_are_read() {
    let project = project_with_link("/etc/passwd");
    let mut client = project.client(&[]);
    let read = |path: &str| json!({"skill": "notes", "path": path});
    assert_eq!(client.text("read_skill_file", read("references/a b.md")), "reference");
    for path in [
        "../only-text/SKILL.md",
        "references/../SKILL.md",
        "/etc/passwd",
        "link.md",
        ".env",
        "references",
        "",
        "./SKILL.md",
        "data.bin",
    ] {
        assert_eq!(kind(&mut client, "read_skill_file", read(path)), "invalid-argument", "{path}");
    }
    assert_eq!(
        kind(&mut client, "read_skill_file", json!({"skill": "nope", "path": "SKILL.md"})),
        "unknown-skill"
    );
    assert_eq!(
        kind(&mut client, "read_skill_file", json!({"skill": 1, "path": "SKILL.md"})),
        "invalid-input"
    );
    assert_eq!(kind(&mut client, "activate_skill", json!({})), "invalid-input");
}

#[test]
fn files_are_resources_with_sizes_and_digests() {
    let project = project();
    let mut client = project.client(&[]);
    let listed = client.result("resources/list", json!({}))["resources"].as_array().unwrap().clone();
    let uris: Vec<&str> = listed.iter().map(|resource| resource["uri"].as_str().unwrap()).collect();
    assert!(uris.contains(&"skill://notes/references/a%20b.md"), "{uris:?}");
    assert!(!uris.iter().any(|uri| uri.contains(".env") || uri.contains("link")), "{uris:?}");
    let reference =
        listed.iter().find(|resource| resource["uri"] == "skill://notes/references/a%20b.md").unwrap();
    assert_eq!((&reference["size"], &reference["mimeType"]), (&json!(9), &json!("text/markdown")));
    let digest = reference["_meta"]["io.modelcontextprotocol.skills/digest"].as_str().unwrap();
    assert!(digest.starts_with("sha256:") && digest.len() == 71, "{digest}");
    let read = client.result("resources/read", json!({"uri": "skill://notes/references/a%20b.md"}));
    assert_eq!(read["contents"][0]["text"], "reference");
    let bytes = client.result("resources/read", json!({"uri": "skill://notes/data.bin"}));
    assert_eq!(bytes["contents"][0]["blob"], "AJ+Slg==");
    for uri in ["skill://notes/.env", "skill://notes/link.md", "skill://notes/references"] {
        assert_eq!(client.request("resources/read", json!({"uri": uri}))["error"]["code"], -32002, "{uri}");
    }
}

#[test]
fn a_prompt_takes_the_inputs_of_a_contract_and_what_is_to_be_done() {
    let contract = "inputs: {second: {type: string, description: 'The last'}, first: {type: integer}, task: {type: string}}\n";
    let project =
        Project::new().lua("typed", "return 1").file(".metier/skills/typed/skill.yaml", contract).trusted();
    let mut client = project.client(&[]);
    let prompts = client.result("prompts/list", json!({}))["prompts"].as_array().unwrap().clone();
    let prompt = prompts.iter().find(|prompt| prompt["name"] == "typed").unwrap();
    let arguments: Vec<&str> =
        prompt["arguments"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(arguments, ["task", "second", "first"], "{prompt}");
    assert_eq!(
        prompt["arguments"][1],
        json!({"name": "second", "description": "The last", "required": false})
    );
    let given = json!({"task": "do it", "second": "two", "unknown": "left out"});
    let result = client.result("prompts/get", json!({"name": "typed", "arguments": given}));
    let text = result["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.ends_with("</skill_content>\n\nsecond: two\n\ndo it"), "{text}");
}

#[test]
fn names_and_paths_of_files_are_completed() {
    let project = Project::new()
        .lua("word-one", "return 1")
        .lua("word-two", "return 2")
        .lua("other", "return 3")
        .file(".metier/skills/word-one/references/a.md", "a")
        .trusted();
    let mut client = project.client(&[]);
    let mut complete = |uri: &str, argument: &str, value: &str, name: &str| {
        let params = json!({
            "ref": {"type": "ref/resource", "uri": uri},
            "argument": {"name": argument, "value": value},
            "context": {"arguments": {"name": name}},
        });
        client.result("completion/complete", params)["completion"]["values"].clone()
    };
    let template = "skill://{name}/{+path}";
    assert_eq!(complete(template, "name", "word-t", ""), json!(["word-two"]));
    assert_eq!(complete(template, "path", "ref", "word-one"), json!(["references/a.md"]));
    assert_eq!(complete(template, "path", "", "nobody"), json!([]));
    assert_eq!(complete("file:///{path}", "path", "", "word-one"), json!([]));
    let prompt =
        json!({"ref": {"type": "ref/prompt", "name": "other"}, "argument": {"name": "task", "value": "x"}});
    assert_eq!(client.result("completion/complete", prompt)["completion"]["values"], json!([]));
}

/// A person who reviews a skill sees every character that a model is told of it.
#[test]
fn no_text_inside_of_a_schema_or_a_frontmatter_is_unseen() {
    let unseen = [
        "\u{202e}",
        "\u{200b}",
        "\u{e0041}",
        "\u{2060}",
        "\u{ad}",
        "\u{feff}",
        "\u{3164}",
        "\u{2028}",
        "\u{180e}",
        "\u{1d173}",
    ];
    for c in unseen {
        let text = |name: &str| format!("{name}{c}x");
        let schema = json!({
            "type": "object",
            "title": text("title"),
            "description": text("description"),
            "properties": {
                "kind": {"type": "string", "enum": [text("one"), "two"], "default": "two", "description": text("kind")},
                "list": {"type": "array", "items": {"type": "string", "description": text("item"), "examples": [text("example")]}},
                text("named"): {"const": text("const")},
            },
            "$comment": text("comment"),
        });
        let outputs =
            json!({"type": "object", "properties": {"a": {"type": "string", "description": text("output")}}});
        let contract = json!({
            "inputs": schema, "outputs": outputs,
            "tools": [{"name": "t", "description": text("tool"), "inputs": schema, "outputs": outputs, "entrypoint": {"path": "scripts/main.lua", "function": "f"}}],
            "entrypoint": "scripts/main.lua",
        });
        let text = format!("---\nname: notes\ndescription: \"d{c}d\"\nmetadata:\n  note: \"a{c}b\"\n---\n");
        let project = Project::new()
            .lua("notes", "function f() return {a = '1'} end return {a = '1'}")
            .file(".metier/skills/notes/SKILL.md", text)
            .file(".metier/skills/notes/skill.yaml", contract.to_string())
            .trusted();
        let mut client = project.client(&[]);
        let tools = client.result("tools/list", json!({})).to_string();
        assert!(tools.contains("description") && tools.contains("\"notes\""), "{c:?}: {tools}");
        assert!(!tools.contains(c), "{c:?}: {tools}");
        let spelled = format!("one\\\\u{{{:x}}}x", u32::from(c.chars().next().unwrap()));
        assert!(tools.contains(&spelled), "{c:?}: {tools}");
        let listed = project.modern_client(&[]).result("skills/list", json!({})).to_string();
        assert!(listed.contains("skill://notes/SKILL.md") && !listed.contains(c), "{c:?}: {listed}");
        let catalog = project.metier(&["catalog", "--json"]).json();
        assert!(
            !catalog.to_string().contains(c) && catalog.to_string().contains(&spelled),
            "{c:?}: {catalog}"
        );
        for format in ["function-calling", "mcp"] {
            let exported = project.metier(&["export", "notes", "--as", format]).stdout;
            assert!(exported.contains("one") && !exported.contains(c), "{format} {c:?}: {exported}");
        }
        // The value that cannot be shown cannot be chosen, and all others can.
        assert_eq!(client.call("notes", json!({"kind": "two"}))["isError"], false);
        assert_eq!(
            client.call(
                "notes",
                json!({"kind": format!("one\\u{{{:x}}}x", u32::from(c.chars().next().unwrap()))})
            )["isError"],
            true
        );
    }
}

#[test]
fn a_file_with_invisible_characters_says_so_and_a_resource_stays_as_it_is() {
    for c in ["\u{200b}", "\u{202e}", "\u{e0041}", "\u{1b}"] {
        let file = format!("# Notes\n\nread{c} this{c}\n");
        let skill = format!("---\nname: notes\ndescription: d\n---\nbody{c}\n");
        let contract =
            "attachments: [references/a.md]\nresources: [{uri: 'notes://a', file: references/a.md}]\n";
        let project = Project::new()
            .file(".metier/skills/notes/SKILL.md", skill)
            .file(".metier/skills/notes/skill.yaml", contract)
            .file(".metier/skills/notes/references/a.md", &file)
            .file(".metier/skills/notes/references/plain.md", "plain ⚠\u{fe0f}\n")
            .trusted();
        let mut client = project.client(&[]);
        let sentence = "The file has 2 invisible characters, in line 3.";
        let read = |path: &str| json!({"skill": "notes", "path": path});
        let blocks = client.call("read_skill_file", read("references/a.md"))["content"].clone();
        assert_eq!(blocks[0]["text"], file.replace(c, &c.escape_unicode().to_string()), "{blocks}");
        assert!(blocks[1]["text"].as_str().unwrap().starts_with(sentence) && blocks[2].is_null(), "{blocks}");
        for uri in ["skill://notes/references/a.md", "notes://a"] {
            let contents = client.result("resources/read", json!({"uri": uri}))["contents"].clone();
            assert_eq!(contents[0]["text"], file, "its digest is listed");
            assert!(contents[1]["text"].as_str().unwrap().starts_with(sentence), "{contents}");
            assert_eq!(contents[1]["uri"], format!("{uri}#invisible-characters"));
        }
        let prompt = client.result("prompts/get", json!({"name": "notes"}))["messages"].clone();
        assert_eq!(prompt[0]["content"]["resource"]["text"], file);
        assert!(prompt[1]["content"]["text"].as_str().unwrap().starts_with(sentence), "{prompt}");
        let activated = client.text("activate_skill", json!({"name": "notes"}));
        assert!(!activated.contains(c), "{activated}");
        let plain = client.call("read_skill_file", read("references/plain.md"))["content"].clone();
        assert_eq!(plain.as_array().unwrap().len(), 1, "{plain}");
        let plain = client.result("resources/read", json!({"uri": "skill://notes/references/plain.md"}));
        assert_eq!(plain["contents"].as_array().unwrap().len(), 1, "{plain}");
    }
}

#[test]
fn the_pages_of_all_files_hold_each_file_once_and_read_the_skills_of_the_page_only() {
    let mut project = Project::new();
    let count = 400;
    for number in 0..count {
        project = project.lua(&format!("many-{number:03}"), "return 1");
    }
    let project = project.trusted();
    let mut client = project.client(&[]);
    let (mut uris, mut pages, mut cursor) = (Vec::new(), 0, json!({}));
    loop {
        let page = client.result("resources/list", cursor);
        pages += 1;
        let found = page["resources"].as_array().unwrap();
        assert!(found.len() <= 500);
        uris.extend(found.iter().map(|resource| resource["uri"].as_str().unwrap().to_owned()));
        if page["nextCursor"].is_null() {
            break;
        }
        cursor = json!({"cursor": page["nextCursor"]});
    }
    let own: Vec<&String> = uris.iter().filter(|uri| uri.starts_with("skill://many-")).collect();
    let distinct: std::collections::BTreeSet<&&String> = own.iter().collect();
    assert_eq!((own.len(), distinct.len()), (2 * count, 2 * count));
    assert!(pages >= 2, "{pages}");
    for cursor in ["0", "x.0", "99999.0", "0.x", ""] {
        let answer = client.request("resources/list", json!({"cursor": cursor}));
        assert_eq!(answer["error"]["code"], -32602, "{cursor}: {answer}");
    }
}
