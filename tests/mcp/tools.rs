//! Every skill that can run is a typed tool.

use serde_json::json;

use crate::support::cli::Project;

const CONTRACT: &str = "
inputs:
  text: {type: string, required: true, description: What is counted.}
  times: {type: integer, default: 1}
outputs:
  count: {type: integer, required: true}
entrypoints:
  main: scripts/main.lua
  twice: {path: scripts/twice.lua, description: Counts twice.}
metadata: {risk_level: read-only, idempotent: true}
";

fn counter() -> Project {
    Project::new()
        .lua("counter", "return {count = #input.text * input.times}")
        .file(".metier/skills/counter/scripts/twice.lua", "return {count = 2 * #input.text}")
        .file(".metier/skills/counter/skill.yaml", CONTRACT)
        .trusted()
}

#[test]
fn a_schema_has_its_properties_in_the_order_of_the_contract_and_a_value_its_keys() {
    let names = ["title", "reasoning", "answer"];
    let fields = names.map(|name| format!("  {name}: {{type: string, required: true}}\n")).concat();
    let project = Project::new()
        .shell("judge", "cat")
        .file(".metier/skills/judge/skill.yaml", format!("inputs:\n{fields}outputs:\n{fields}"))
        .trusted();
    let mut client = project.client(&["--sandbox", "best-effort"]);
    let tool = client.tool("judge");
    for schema in ["inputSchema", "outputSchema"] {
        let properties = tool[schema]["properties"].as_object().unwrap();
        assert_eq!(properties.keys().collect::<Vec<_>>(), names);
        assert_eq!(tool[schema]["required"], json!(names));
    }
    let arguments = json!({"title": "t", "reasoning": "r", "answer": "a"});
    let result = client.call("judge", arguments.clone());
    assert_eq!(result["structuredContent"].to_string(), arguments.to_string());
    assert_eq!(result["content"][0]["text"], arguments.to_string());
}

#[test]
fn every_tool_has_a_title_for_people() {
    let project = counter().lua("word-counter", "return 1").trusted();
    for mut client in [project.client(&[]), project.modern_client(&[])] {
        for (name, title) in
            [("counter", "Counter"), ("counter_twice", "Counter: twice"), ("word-counter", "Word counter")]
        {
            assert_eq!(client.tool(name)["title"], title, "{name}");
        }
        let tools = client.tools();
        let without = tools.iter().find(|tool| tool["title"].as_str().is_none_or(str::is_empty));
        assert!(without.is_none(), "{without:?}");
    }
}

#[test]
fn a_schema_of_the_default_dialect_does_not_name_it_and_another_one_does() {
    let older = "inputs: {$schema: 'http://json-schema.org/draft-07/schema#', type: object, properties: {a: {type: string}}}\noutputs: {type: array, items: {type: integer}}\n";
    let project = counter().lua("older", "return {1}").file(".metier/skills/older/skill.yaml", older);
    let project = project.trusted();
    for mut client in [project.client(&[]), project.modern_client(&[])] {
        for tool in client.tools() {
            let input = &tool["inputSchema"]["$schema"];
            if tool["name"] == "older" {
                assert_eq!(*input, "http://json-schema.org/draft-07/schema#");
            } else {
                assert!(input.is_null(), "{tool}");
            }
            assert!(!tool["outputSchema"].to_string().contains("$schema"), "{tool}");
        }
    }
}

#[test]
fn null_for_an_argument_that_may_be_left_out_is_one_that_is_left_out() {
    let project =
        counter().lua("plain", "return input or 'nothing'").shell("words", "cat; echo $#").trusted();
    let mut client = project.client(&["--sandbox", "best-effort"]);
    assert_eq!(client.text("plain", json!({"args": null, "stdin": null, "input": null})), "{}");
    assert_eq!(client.text("words", json!({"args": null, "stdin": null, "input": null})), "0");
    assert_eq!(client.text("words", json!({"script": null, "args": ["a", "b"]})), "2");
    // Of a contract: what is optional has its default, and what is required is still refused.
    assert_eq!(
        client.call("counter", json!({"text": "abc", "times": null}))["structuredContent"]["count"],
        3
    );
    for arguments in
        [json!({"text": null}), json!({"text": "abc", "more": null}), json!({"text": "abc", "times": [null]})]
    {
        let refused = client.call("counter", arguments);
        assert_eq!(refused["_meta"]["metier/error"]["kind"], "invalid-input", "{refused}");
    }
    // Of the server's own tools.
    assert!(client.text("skills_list", json!({"query": null})).contains("counter"));
    assert!(client.text("activate_skill", json!({"name": "counter", "again": null})).contains("counter"));
    let refused = client.call("read_result", json!({"uri": "metier://result/0", "offset": null}));
    assert_eq!(refused["isError"], true);
    for params in [
        json!({"name": "plain", "arguments": null}),
        json!({"name": "plain", "arguments": null, "_meta": null}),
    ] {
        assert_eq!(client.result("tools/call", params)["isError"], false);
    }
    assert!(client.result("tools/list", json!({"cursor": null}))["tools"].is_array());
}

#[test]
fn the_contract_is_the_schema_and_the_value_is_structured() {
    // SY-W02, SY-W03
    let project = counter();
    let mut client = project.client(&[]);
    let tool = client.tool("counter");
    assert_eq!(tool["description"], "d");
    assert_eq!(tool["inputSchema"]["properties"]["text"]["description"], "What is counted.");
    assert_eq!(tool["inputSchema"]["required"], json!(["text"]));
    assert_eq!(tool["outputSchema"]["properties"]["count"]["type"], "integer");
    let annotations = json!({
        "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false,
    });
    assert_eq!(tool["annotations"], annotations);
    let result = client.call("counter", json!({"text": "four", "times": 2}));
    assert_eq!(result["structuredContent"], json!({"count": 8}));
    assert_eq!(result["content"], json!([{"type": "text", "text": "{\"count\":8}"}]));
    assert_eq!(client.tool("counter_twice")["description"], "Counts twice.");
    assert_eq!(
        client.call("counter_twice", json!({"text": "four"}))["structuredContent"],
        json!({"count": 8})
    );
}

#[test]
fn an_invalid_input_is_an_error_that_says_where() {
    let project = counter();
    let mut client = project.client(&[]);
    for (arguments, part) in
        [(json!({}), "text"), (json!({"text": 1}), "/text"), (json!({"text": "a", "tmes": 2}), "times")]
    {
        let result = client.call("counter", arguments.clone());
        assert_eq!(result["isError"], true, "{arguments}");
        assert_eq!(result["_meta"]["metier/error"]["kind"], "invalid-input");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(part) && text.ends_with("kind: invalid-input"), "{text}");
        assert_eq!(result.get("structuredContent"), None);
    }
}

#[test]
fn a_skill_without_a_contract_has_typed_arguments() {
    let project = Project::new()
        .lua("plain", "return {got = input}")
        .skill(".metier/skills/several")
        .file(".metier/skills/several/scripts/a.lua", "return 'a'")
        .file(".metier/skills/several/scripts/b.lua", "return 'b'")
        .file(".metier/skills/several/scripts/notes.txt", "not a script")
        .trusted();
    let mut client = project.client(&[]);
    let plain = client.tool("plain");
    let names: Vec<&String> = plain["inputSchema"]["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["input"]);
    assert_eq!(plain.get("outputSchema"), None);
    assert_eq!(
        client.call("plain", json!({"input": {"n": 1}}))["structuredContent"],
        json!({"got": {"n": 1}})
    );
    let schema = &client.tool("several")["inputSchema"];
    assert_eq!(schema["properties"]["script"]["enum"], json!(["scripts/a.lua", "scripts/b.lua"]));
    assert_eq!(schema["required"], json!(["script"]));
    assert_eq!(client.text("several", json!({"script": "scripts/b.lua"})), "b");
    for arguments in [
        json!({}),
        json!({"script": "scripts/notes.txt"}),
        json!({"script": "../several/scripts/a.lua"}),
        json!({"script": 1}),
        json!({"script": "scripts/a.lua", "args": ["x"]}),
        json!({"script": "scripts/a.lua", "more": 1}),
    ] {
        let result = client.call("several", arguments.clone());
        assert_eq!(result["_meta"]["metier/error"]["kind"], "invalid-input", "{arguments}: {result}");
    }
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn a_process_gets_its_arguments_and_its_input() {
    let project = Project::new().shell("echo-args", "printf '%s|' \"$@\"; cat").trusted();
    let mut client = project.client(&[]);
    let schema = &client.tool("echo-args")["inputSchema"]["properties"];
    assert_eq!(schema["args"]["items"]["type"], "string");
    assert_eq!(
        client.text("echo-args", json!({"args": ["a b", "-c"], "input": {"n": 1}})),
        "a b|-c|{\"n\":1}"
    );
    assert_eq!(client.text("echo-args", json!({"stdin": "as \"it\" is"})), "|as \"it\" is");
    for wrong in [json!({"args": "a"}), json!({"args": [1]}), json!({"stdin": 1})] {
        assert_eq!(client.call("echo-args", wrong)["_meta"]["metier/error"]["kind"], "invalid-input");
    }
}

#[test]
fn values_that_are_no_object_are_wrapped_for_older_revisions() {
    let project = Project::new()
        .lua("list", "return {1, 2}")
        .file(".metier/skills/list/skill.yaml", "outputs: {type: array, items: {type: integer}}")
        .trusted();
    let mut old = project.client(&[]);
    let schema = old.tool("list")["outputSchema"].clone();
    assert_eq!(
        (&schema["type"], &schema["properties"]["result"]["type"]),
        (&json!("object"), &json!("array"))
    );
    assert_eq!(old.call("list", json!({}))["structuredContent"], json!({"result": [1, 2]}));
    let mut new = project.modern_client(&[]);
    assert_eq!(new.tool("list")["outputSchema"]["type"], "array");
    assert_eq!(new.call("list", json!({}))["structuredContent"], json!([1, 2]));
}

#[test]
fn names_have_plain_letters_and_none_takes_that_of_another() {
    // SY-W05, AK-08
    let contract = "entrypoints: {main: scripts/main.lua, b: scripts/main.lua}";
    let project = Project::new()
        .lua("a", "return 'entry'")
        .file(".metier/skills/a/skill.yaml", contract)
        .lua("a_b", "return 'skill'")
        .lua("skills_list", "return 'mine'")
        .lua("技能", "return 'unicode'")
        .trusted();
    let mut client = project.client(&[]);
    let names = client.tool_names();
    let is_plain = |name: &String| {
        name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    };
    assert!(names.iter().all(is_plain), "{names:?}");
    assert!(names.is_sorted(), "{names:?}");
    assert_eq!(names.iter().filter(|name| *name == "a_b").count(), 1);
    assert_eq!(client.text("a_b", json!({})), "skill");
    assert!(client.text("skills_list", json!({})).contains("- a_b: d"));
    let unicode = names.iter().find(|name| name.starts_with("___")).unwrap().clone();
    assert_eq!(client.text(&unicode, json!({})), "unicode");
    client.close();
    let (code, stderr) = client.wait();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("the entrypoint b of the skill a is not offered as the tool a_b"), "{stderr}");
    assert!(stderr.contains("the skill skills_list is not offered"), "{stderr}");
}

#[test]
fn a_long_description_is_cut() {
    // SY-35
    let text = format!("---\nname: long\ndescription: {}\n---\n", "ü".repeat(900));
    let project = Project::new().lua("long", "return 1").file(".metier/skills/long/SKILL.md", text).trusted();
    let shown = project.client(&[]).tool("long")["description"].as_str().unwrap().chars().count();
    assert_eq!(shown, 500);
}

#[test]
fn an_unknown_tool_is_a_protocol_error() {
    let answer =
        counter().client(&[]).request("tools/call", json!({"name": "no\u{202e}pe", "arguments": {}}));
    assert_eq!(answer["error"]["code"], -32602);
    assert!(answer["error"]["message"].as_str().unwrap().contains("\\u{202e}"), "{answer}");
}

#[test]
fn each_revision_is_spoken() {
    let project = counter();
    for (asked, answered) in [
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut client = project.silent_client(&[]);
        let answer = client.initialize(asked);
        assert_eq!(answer["result"]["protocolVersion"], answered);
        assert_eq!(answer["result"]["serverInfo"]["name"], "metier");
        let capabilities = &answer["result"]["capabilities"];
        assert_eq!(capabilities["tools"]["listChanged"], true);
        assert_eq!(client.result("ping", json!({})), json!({}));
    }
    let mut client = project.modern_client(&[]);
    let found = client.result("server/discover", json!({}));
    assert_eq!(found["supportedVersions"], json!(["2025-06-18", "2025-11-25", "2026-07-28"]));
    assert_eq!(
        found["capabilities"]["extensions"]["io.modelcontextprotocol/skills"],
        json!({"directoryRead": true})
    );
    let list = client.result("tools/list", json!({}));
    assert_eq!((&list["resultType"], &list["cacheScope"]), (&json!("complete"), &json!("private")));
    assert!(list["ttlMs"].is_u64());
}

/// What a client is told about the risk of a tool: whether it only reads, may destroy, and reaches the world.
fn hints(tool: &serde_json::Value) -> [bool; 3] {
    ["readOnlyHint", "destructiveHint", "openWorldHint"]
        .map(|hint| tool["annotations"][hint].as_bool().unwrap())
}

/// A skill, its scripts, and each of its tools with its three hints.
type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [(&'a str, [bool; 3])]);

#[test]
fn a_tool_is_as_risky_as_the_scripts_that_a_call_can_choose() {
    const READS: [bool; 3] = [true, false, false];
    const ANYTHING: [bool; 3] = [false, true, true];
    const WRITES: [bool; 3] = [false, true, false];
    let (shell, lua) = ("true", "return 1");
    let entered = "entrypoints: {main: scripts/a.lua, other: scripts/b.sh}\n";
    let typed = "inputs: {a: {type: string}}\nentrypoint: scripts/main.lua\n";
    let tools = "tools: [{name: t, entrypoint: scripts/b.sh}]\n";
    let listing = "permissions: ['write:out']\n";
    let rows: [Row<'_>; 11] = [
        ("one-shell", &[("main.sh", shell)], &[("one-shell", ANYTHING)]),
        ("two-shells", &[("a.sh", shell), ("b.sh", shell)], &[("two-shells", ANYTHING)]),
        ("two-luas", &[("a.lua", lua), ("b.lua", lua)], &[("two-luas", READS)]),
        ("mixed", &[("a.lua", lua), ("b.sh", shell)], &[("mixed", ANYTHING)]),
        ("main-and-other", &[("main.lua", lua), ("b.sh", shell)], &[("main-and-other", ANYTHING)]),
        ("by-shebang", &[("a.lua", lua), ("b", "#!/bin/sh\ntrue")], &[("by-shebang", ANYTHING)]),
        ("with-data", &[("a.lua", lua), ("b.lua", lua), ("c.txt", "x")], &[("with-data", READS)]),
        (
            "entered",
            &[("a.lua", lua), ("b.sh", shell), ("../skill.yaml", entered)],
            &[("entered", READS), ("entered_other", ANYTHING)],
        ),
        ("typed", &[("main.lua", lua), ("b.sh", shell), ("../skill.yaml", typed)], &[("typed", READS)]),
        (
            "tools",
            &[("main.lua", lua), ("b.sh", shell), ("../skill.yaml", tools)],
            &[("tools", READS), ("tools_t", ANYTHING)],
        ),
        ("listing", &[("a.sh", shell), ("b.sh", shell), ("../skill.yaml", listing)], &[("listing", WRITES)]),
    ];
    let mut project = Project::new();
    for (name, files, _) in rows {
        project = project.skill(&format!(".metier/skills/{name}"));
        for (path, text) in files {
            let path = format!(".metier/skills/{name}/scripts/{path}").replace("scripts/../", "");
            project = project.file(&path, text);
        }
    }
    let mut client = project.trusted().client(&[]);
    for (_, _, tools) in rows {
        for (tool, expected) in tools {
            assert_eq!(hints(&client.tool(tool)), *expected, "{tool}");
        }
    }
}

#[test]
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
fn the_help_of_a_refused_call_can_be_followed() {
    let folder = ".metier/skills/several";
    let project = Project::new()
        .skill(folder)
        .file(&format!("{folder}/scripts/a.sh"), "cat > /dev/null; echo x > a.txt && echo '\"done\"'")
        .file(&format!("{folder}/scripts/b.sh"), "true")
        .lua("plain", "ctx.write('b.txt', 'x') return 'written'")
        .file(".metier/skills/alone.lua", "-- Writes.\nctx.write('c.txt', 'x') return 'written'")
        .trusted();
    let mut client = project.client(&[]);
    let call = json!({"script": "scripts/a.sh"});
    let refused = client.call("several", call.clone());
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("a person can allow it: `metier allow several write`"), "{text}");
    let allowed = project.metier(&["allow", "several", "write"]);
    assert_eq!(allowed.code, 0, "{allowed:?}");
    assert_eq!(client.text("several", call), "done");
    // Where the skill does not list it, a grant is not enough.
    for (name, place) in [
        ("plain", "list write under allowed-tools in SKILL.md"),
        ("alone", "list write under permissions of the comment block /// skill in alone.lua"),
    ] {
        let refused = client.call(name, json!({}));
        let text = refused["content"][0]["text"].as_str().unwrap();
        let help = format!(
            "{place} and trust the skill again (`metier trust`); then a person can allow it: `metier allow {name} write`"
        );
        assert!(text.contains(&help), "{text}");
    }
    let listing = "---\nname: plain\ndescription: d\nallowed-tools: write\n---\n";
    let project = project.file(".metier/skills/plain/SKILL.md", listing);
    assert_eq!(project.metier(&["allow", "plain", "write"]).code, 0);
    assert_eq!(project.client(&[]).text("plain", json!({})), "written");
}
