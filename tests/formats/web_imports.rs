//! Definitions from the web and alone: where they come from, and what they name and do not bring.

#[cfg(feature = "http")]
use std::io::{Read, Write};
#[cfg(feature = "http")]
use std::net::TcpListener;

use serde_json::json;

use crate::support::cli::Project;

/// A server on this machine that answers each request with what the function makes of its path: content type and body.
#[cfg(feature = "http")]
fn serve(answer: impl Fn(&str) -> Option<(&'static str, String)> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut request, mut byte) = (Vec::new(), [0]);
            while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                request.push(byte[0]);
            }
            let request = String::from_utf8(request).unwrap();
            let head = match answer(request.split(' ').nth(1).unwrap_or_default()) {
                Some((kind, body)) => {
                    format!("200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
                }
                None => "404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
            };
            drop(stream.write_all(format!("HTTP/1.1 {head}").as_bytes()));
        }
    });
    format!("http://{address}")
}

fn curia() -> String {
    json!({"name": "ask", "description": "Asks.", "version": "1.0.0", "action_risk": "none"}).to_string()
}

#[cfg(feature = "http")]
#[test]
fn a_definition_is_imported_from_its_address() {
    const WORKFLOW: &str = "nodes: []\nskills:\n  triage: {instruction: Sort them.}\n";
    const TEXT: &str = "---\nname: notes\ndescription: Keeps notes.\n---\n\nRun `scripts/keep.py`, see references/FORM.md.\n";
    let server = serve(|path| match path {
        "/a/skill.json?token=s3cret" => Some(("text/plain", curia())),
        "/workflow.yaml" => Some(("text/plain", WORKFLOW.to_owned())),
        "/raw" => Some(("text/markdown; charset=utf-8", TEXT.to_owned())),
        "/page/skill.json" => Some(("text/html; charset=utf-8", "<html></html>".to_owned())),
        "/skill.zip" => Some(("application/zip", "PK".to_owned())),
        "/large.json" => Some(("application/json", " ".repeat((4 << 20) + 1))),
        _ => None,
    });
    let project = Project::new();
    let import = |paths: &[&str]| {
        let urls: Vec<String> = paths.iter().map(|path| format!("{server}{path}")).collect();
        let args: Vec<&str> =
            ["import", "--json"].into_iter().chain(urls.iter().map(String::as_str)).collect();
        project.metier(&args)
    };
    let made = import(&["/a/skill.json?token=s3cret", "/workflow.yaml", "/raw"]);
    assert_eq!(made.code, 0, "{made:?}");
    let made = made.json();
    let of = |key: &str| made.as_array().unwrap().iter().map(|skill| skill[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("name"), ["ask", "triage", "notes"]);
    let origins = ["/a/skill.json", "/workflow.yaml", "/raw"].map(|path| json!(format!("{server}{path}")));
    assert_eq!(of("origin"), origins, "without what may be a credential");
    assert_eq!(
        of("missing"),
        [json!(["handler.ts or handler.js"]), json!([]), json!(["scripts/keep.py", "references/FORM.md"])]
    );
    assert!(
        project.path(".metier/skills/ask/skill.json").is_file()
            && project.path(".metier/skills/notes/SKILL.md").is_file()
    );
    for (path, words) in [
        ("/page/skill.json", "its raw form"),
        ("/skill.zip", "an archive is not unpacked"),
        ("/none.json", "status 404"),
        ("/large.json", "more than 4194304 bytes"),
    ] {
        let refused = import(&[path]);
        assert!(refused.code != 0 && refused.stdout.contains(words), "{path}: {refused:?}");
    }
}

#[cfg(feature = "http")]
#[test]
fn a_definition_on_an_open_line_or_in_a_private_network_is_not_imported() {
    let project = Project::new();
    for url in
        ["http://example.com/skill.json", "https://10.0.0.1/skill.json", "https://169.254.169.254/skill.json"]
    {
        let refused = project.metier(&["import", url]);
        assert!(refused.code != 0 && refused.stderr.contains("download the file"), "{url}: {refused:?}");
        assert!(!refused.stderr.contains("--allow"), "{refused:?}");
    }
}

#[cfg(not(feature = "http"))]
#[test]
fn a_build_without_a_client_says_so() {
    let refused = Project::new().metier(&["import", "https://example.com/skill.json"]);
    assert!(refused.code != 0 && refused.stderr.contains("the Cargo feature `http`"), "{refused:?}");
}

#[test]
fn what_a_definition_names_and_does_not_bring_is_listed() {
    let contract = "skill: {name: many, description: d, entrypoint: scripts/a.lua, entrypoints: {b: scripts/b.py, a: scripts/a.lua}}\n";
    let project = Project::new()
        .file("ask.json", curia())
        .file("many.yaml", contract)
        .file("folder/skill.json", curia().replace("ask", "whole"))
        .file("folder/handler.js", "export default {execute: () => ({success: true})}");
    let made = project.metier(&["import", "ask.json", "many.yaml", "folder"]);
    assert_eq!(made.code, 0, "{made:?}");
    assert!(made.stdout.contains("made .metier/skills/ask from ask.json"), "{made:?}");
    for line in [
        "ask: it names handler.ts or handler.js,",
        "many: it names scripts/a.lua,",
        "many: it names scripts/b.py,",
    ] {
        assert_eq!(made.stderr.matches(line).count(), 1, "{line}: {made:?}");
    }
    assert!(!made.stderr.contains("whole: it names"), "{made:?}");
}

#[test]
fn what_is_no_definition_of_a_skill_is_not_imported() {
    for (file, text, what) in [
        (
            "ci.yaml",
            "name: CI\non: push\npermissions: {contents: read}\njobs: {a: {steps: []}}\n",
            "a workflow of GitHub Actions",
        ),
        (
            "action.yml",
            "name: x\ndescription: d\ninputs: {}\noutputs: {}\nruns: {using: node20, main: a.js}\n",
            "an action of GitHub Actions",
        ),
        ("compose.yaml", "name: shop\nservices: {web: {image: nginx}}\nconfigs: {}\n", "a Compose file"),
        ("api.yaml", "openapi: 3.1.0\nname: api\npaths: {}\n", "an OpenAPI document"),
        ("api.json", r#"{"openapi": "3.1.0", "paths": {}}"#, "an OpenAPI document"),
        ("mcp.json", r#"{"mcpServers": {"a": {"command": "b"}}}"#, "a list of MCP servers"),
        ("mcp.yaml", "mcpServers: {a: {command: b}}\n", "a list of MCP servers"),
        ("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {}\n", "an object of Kubernetes"),
        (
            "package.json",
            r#"{"name": "x", "version": "1.0.0", "main": "a.js", "scripts": {"a": "b"}}"#,
            "a package of npm",
        ),
    ] {
        let project = Project::new().file(file, text);
        let answer = project.metier(&["import", file]);
        assert_ne!(answer.code, 0, "{file}: {answer:?}");
        let sentence = format!("the file is {what}, and not the definition of a skill");
        assert!(answer.stderr.contains(&sentence), "{file}: {answer:?}");
        assert!(answer.stderr.contains("a SWEny skill `id` and `category`"), "{file}: {answer:?}");
        assert!(!project.path(".metier/skills").exists(), "{file}");
    }
}

#[test]
fn a_passed_yaml_file_needs_a_key_of_its_format() {
    for (file, text) in [
        ("notes.yaml", "name: notes\n"),
        ("pubspec.yaml", "name: x\ndescription: d\nversion: 1.0.0\ndependencies: {a: 1}\n"),
        ("site.yml", "title: x\nnav: []\n"),
    ] {
        let project = Project::new().file(file, text);
        let answer = project.metier(&["import", file]);
        assert!(
            answer.code != 0 && answer.stderr.contains("in no format of skill definitions"),
            "{file}: {answer:?}"
        );
    }
    let by_name = Project::new().file("skill.yaml", "name: notes\ndescription: d\n");
    assert_eq!(by_name.metier(&["import", "skill.yaml"]).code, 0);
    let by_key = Project::new().file("any.yaml", "name: notes\ndescription: d\ninputs: {}\n");
    assert_eq!(by_key.metier(&["import", "any.yaml"]).code, 0);
}
