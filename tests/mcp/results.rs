//! Results that are too large for an answer, and results that are more than text.

use serde_json::json;

use crate::support::cli::Project;

fn project() -> Project {
    Project::new()
        .lua("large", "return 'begin' .. string.rep('0123456789', input.n) .. 'end'")
        .lua("table", "local t = {} for i = 1, input.n do t[i] = i end return {items = t}")
        .file(
            ".metier/skills/table/skill.yaml",
            "inputs: {n: {type: integer, required: true}}\noutputs: {items: {type: array}}",
        )
        .lua("image", "return {content = {{type = 'image', data = 'AAAA', mimeType = 'image/png'}}}")
        .trusted()
}

#[test]
fn a_large_text_is_cut_and_read_by_its_link() {
    // SY-35
    let project = project();
    let mut client = project.client(&[]);
    let result = client.call("large", json!({"input": {"n": 20_000}}));
    assert_eq!(result["isError"], false);
    let shown = result["content"][0]["text"].as_str().unwrap();
    assert!(shown.starts_with("begin0123") && shown.ends_with("789end") && shown.len() < 41_000);
    let link = &result["content"][2];
    assert_eq!((&link["type"], &link["size"]), (&json!("resource_link"), &json!(200_008)));
    let uri = link["uri"].as_str().unwrap();
    let whole = client.result("resources/read", json!({"uri": uri}))["contents"][0]["text"].clone();
    assert_eq!(whole.as_str().unwrap().len(), 200_008);
    let (mut parts, mut offset) = (String::new(), 0);
    while offset < 200_008 {
        let part = client.text("read_result", json!({"uri": uri, "offset": offset}));
        assert!(part.len() <= 40_000);
        let text = part.split("\n\n[").next().unwrap();
        offset += text.len();
        parts.push_str(text);
    }
    assert_eq!(json!(parts), whole);
    let other = project.client(&[]).call("read_result", json!({"uri": uri}));
    assert_eq!(other["isError"], true, "another client");
}

#[test]
fn structured_content_is_whole_or_the_call_fails_with_a_link() {
    let project = project();
    let mut client = project.client(&[]);
    assert_eq!(client.call("table", json!({"n": 3}))["structuredContent"], json!({"items": [1, 2, 3]}));
    let large = client.call("table", json!({"n": 20_000}));
    assert_eq!((&large["isError"], large.get("structuredContent")), (&json!(true), None));
    assert_eq!(large["_meta"]["metier/error"]["kind"], "output");
    let uri = large["content"][3]["uri"].clone();
    let whole = client.result("resources/read", json!({"uri": uri}))["contents"][0].clone();
    assert_eq!(whole["mimeType"], "application/json");
    let value: serde_json::Value = serde_json::from_str(whole["text"].as_str().unwrap()).unwrap();
    assert_eq!(value["items"][19_999], 20_000);
}

#[test]
fn a_result_beyond_the_output_limit_fails_and_ends_nothing() {
    let project = project();
    let mut client = project.client(&["--output", "100KB"]);
    let result = client.call("large", json!({"input": {"n": 100_000}}));
    assert_eq!(result["_meta"]["metier/error"]["kind"], "output");
    assert_eq!(client.call("table", json!({"n": 1}))["isError"], false);
}

#[test]
fn a_result_of_100_mb_is_cut_and_ends_nothing() {
    let project = project();
    let mut client = project.client(&["--memory", "400MB", "--output", "200MB"]);
    let result = client.call("large", json!({"input": {"n": 10_000_000}}));
    assert_eq!(result["isError"], false);
    let content = result["content"].as_array().unwrap();
    // It is more than a client may keep, so there is no link.
    assert!(content.len() == 1 && content[0]["text"].as_str().unwrap().len() < 41_000);
    assert_eq!(client.call("table", json!({"n": 1}))["isError"], false);
}

#[test]
fn an_image_is_an_image() {
    let result = project().client(&[]).call("image", json!({}));
    assert_eq!(result["content"], json!([{"type": "image", "data": "AAAA", "mimeType": "image/png"}]));
}

#[test]
fn a_skill_that_declares_larger_results_has_them_whole_and_the_client_is_informed() {
    let contract =
        |size: &str| format!("outputs: {{items: {{type: array}}}}\nmetadata: {{max_result_size: {size}}}");
    let script = "local t = {} for i = 1, 20000 do t[i] = i end return {items = t}";
    let project = Project::new()
        .lua("declared", script)
        .file(".metier/skills/declared/skill.yaml", contract("200KB"))
        .lua("greedy", "return string.rep('x', 600000)")
        .file(".metier/skills/greedy/skill.yaml", "metadata: {max_result_size: 1GB}")
        .lua("modest", "return string.rep('x', 50000)")
        .file(".metier/skills/modest/skill.yaml", "metadata: {max_result_size: 1KB}")
        .trusted();
    let mut client = project.client(&[]);
    let size = |tool: serde_json::Value| tool["_meta"]["anthropic/maxResultSizeChars"].clone();
    assert_eq!(size(client.tool("declared")), 204_800);
    assert_eq!(size(client.tool("greedy")), 500_000);
    assert_eq!(size(client.tool("modest")), json!(null));
    assert_eq!(client.call("declared", json!({}))["structuredContent"]["items"][19_999], 20_000);
    let shown = |client: &mut crate::mcp::client::Client, tool: &str| {
        client.call(tool, json!({}))["content"][0]["text"].as_str().unwrap().len()
    };
    assert!((500_000..501_000).contains(&shown(&mut client, "greedy")));
    assert!((40_000..41_000).contains(&shown(&mut client, "modest")));
}

/// The script swallows that it has no network, and answers wrongly.
#[test]
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
fn a_run_that_went_on_without_a_host_says_so() {
    let script = "import socket\ntry: socket.create_connection(('api.example.org', 443), 5)\nexcept OSError: pass\nprint('[]')";
    let project = Project::new()
        .skill(".metier/skills/items")
        .file(".metier/skills/items/scripts/main.py", script)
        .trusted();
    if crate::support::not_run::find_program("python3").is_none() {
        crate::support::not_run::not_run("a run without a host", "python3 is not installed");
        return;
    }
    let result = project.client(&[]).call("items", json!({}));
    assert_eq!(result["isError"], false, "{result}");
    if result["_meta"]["metier/refused"].is_null() {
        crate::support::not_run::not_run("a run without a host", "this machine gives no network of its own");
        return;
    }
    assert_eq!(result["_meta"]["metier/refused"][0]["permission"], "net:api.example.org", "{result}");
    let last = result["content"].as_array().unwrap().last().unwrap()["text"].as_str().unwrap();
    let expected = "refused this run the host api.example.org, so its answer may lack what it wanted there. If items should have \
                    it, a person grants it net:api.example.org";
    assert!(last.contains(expected), "{last}");
}
