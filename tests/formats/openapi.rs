//! Descriptions of APIs: what is made of one is listed, validated and called, and a server sees the requests that the description means.

#[cfg(feature = "http")]
use std::io::{Read, Write};
#[cfg(feature = "http")]
use std::net::TcpListener;
#[cfg(feature = "http")]
use std::sync::{Arc, Mutex};

use metier::formats::{OpenApiOptions, import_openapi};
use serde_json::{Value, json};

use crate::support::cli::{Answer, Project};

#[path = "../../fuzz/checks/openapi.rs"]
mod checks;

const DESCRIPTION: &str = include_str!("samples/shop-openapi.yaml");

/// A request as a server received it: the line, the headers by small names, and the body.
#[cfg(feature = "http")]
#[derive(Clone, Debug)]
struct Request {
    line: String,
    headers: Vec<(String, String)>,
    body: String,
}

#[cfg(feature = "http")]
impl Request {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A server on this machine that answers every request with this type of content and body, and records the requests.
#[cfg(feature = "http")]
fn serve(
    answer: impl Fn(&Request) -> (&'static str, String) + Send + 'static,
) -> (String, Arc<Mutex<Vec<Request>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).unwrap();
            let mut lines = head.lines();
            let line = lines.next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned();
            let headers: Vec<(String, String)> = lines
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect();
            let mut request = Request { line, headers, body: String::new() };
            let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            request.body = String::from_utf8(body).unwrap();
            let (kind, body) = answer(&request);
            received.lock().unwrap().push(request);
            let head = format!(
                "200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            drop(stream.write_all(format!("HTTP/1.1 {head}").as_bytes()));
        }
    });
    (format!("http://{address}"), requests)
}

fn imported(project: &Project, args: &[&str]) -> Answer {
    let args: Vec<&str> =
        ["import", "openapi", "shop.yaml"].into_iter().chain(args.iter().copied()).collect();
    project.metier(&args)
}

fn shop() -> Project {
    Project::new().file("shop.yaml", DESCRIPTION)
}

#[test]
fn a_description_becomes_a_skill_that_has_no_fault() {
    let project = shop();
    let made = imported(&project, &["--json"]);
    assert_eq!(made.code, 0, "{made:?}");
    let made = &made.json()[0];
    assert_eq!((&made["name"], &made["path"]), (&json!("acme-shop"), &json!(".metier/skills/acme-shop")));
    assert_eq!(
        (&made["operations"], &made["chosen"], &made["tools"]),
        (&json!(16), &json!(16), &json!(11)),
        "{made}"
    );
    let mut reasons: Vec<(&str, &str)> = made["left_out"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| (group["reason"].as_str().unwrap(), group["examples"][0].as_str().unwrap()))
        .collect();
    reasons.sort_unstable();
    assert_eq!(
        reasons,
        [
            ("it answers with image/png, which is neither JSON nor a text", "GET /items/{id}/picture"),
            ("it has a server of its own", "POST /uploads"),
            ("it is deprecated, and no pattern names it", "GET /old"),
            ("it needs OAuth 2", "GET /account"),
            ("its body is multipart/form-data and not JSON", "POST /pictures"),
        ]
    );
    let validated = project.metier(&["validate", ".metier/skills/acme-shop"]);
    assert!(validated.code == 0 && validated.stdout.contains("1 skill checked: 1 valid"), "{validated:?}");
    assert!(!validated.stdout.contains("warning"), "{validated:?}");
    let shown = project.metier(&["show", "acme-shop", "--json"]).json();
    let tools = shown["contract"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "list_items",
            "create_item",
            "get_item",
            "update_item",
            "delete_item",
            "get_files_path",
            "items_label",
            "ping",
            "rate_item",
            "list_staff",
            "get_search"
        ]
    );
    let risks: Vec<&str> = tools.iter().map(|tool| tool["risk_level"].as_str().unwrap()).collect();
    assert_eq!(
        risks,
        ["none", "medium", "none", "medium", "high", "none", "none", "none", "medium", "none", "none"]
    );
    let again = imported(&project, &[]);
    assert!(again.code == 2 && again.stderr.contains("there is a skill of that name already"), "{again:?}");
}

#[test]
fn a_person_reads_what_became_of_the_operations() {
    let made = imported(&shop(), &["--only", "tag:items,GET /old", "--name", "things", "--out", "made"]);
    assert_eq!(made.code, 0, "{made:?}");
    for line in [
        "made made/things from shop.yaml",
        "8 of 9 chosen operations became tools; the description has 16",
        "left out:",
        "     1  it answers with image/png, which is neither JSON nor a text: GET /items/{id}/picture",
    ] {
        assert!(made.stdout.lines().any(|known| known == line), "{line}: {made:?}");
    }
}

#[test]
fn what_cannot_be_imported_is_refused_and_nothing_is_made() {
    let swagger = r#"{"swagger": "2.0", "info": {"title": "x"}, "paths": {}}"#;
    let far = DESCRIPTION.replace("https://shop.acme.test/v1", "http://shop.acme.test/v1");
    let relative = DESCRIPTION.replace("https://shop.acme.test/v1", "/v1");
    let project = shop()
        .file("swagger.json", swagger)
        .file("far.yaml", far)
        .file("relative.yaml", relative)
        .file("text.md", "Hello")
        .file("pair/a.yaml", DESCRIPTION);
    for (args, words) in [
        (&["swagger.json"][..], "it is written in Swagger 2.0"),
        (&["far.yaml"], "is not encrypted"),
        (&["relative.yaml"], "name the base URL of the calls (--base-url)"),
        (&["text.md"], "it has no `openapi`"),
        (&["none.yaml"], "none.yaml"),
        (&["pair"], "it is not a regular file"),
        (&["shop.yaml", "--only", "tag:itmes"], "(--only)"),
        (&["shop.yaml", "--name", "A B"], "write a-b (--name)"),
        (&["shop.yaml", "--base-url", "https://u:p@x.test"], "(--base-url)"),
        (&["shop.yaml", "--auth", "digest"], "expected bearer, basic"),
        (&["shop.yaml", "pair/a.yaml"], "there is a skill of that name already"),
        (&["shop.yaml", "pair/a.yaml", "--name", "x"], "are for one description"),
        (&[], "required"),
    ] {
        let args: Vec<&str> = ["import", "openapi"].into_iter().chain(args.iter().copied()).collect();
        let refused = project.metier(&args);
        assert!(refused.code != 0 && refused.stderr.contains(words), "{args:?}: {refused:?}");
        assert!(!project.path(".metier").exists(), "{args:?}");
    }
    let named = project.metier(&["import", "openapi", "far.yaml", "--base-url", "http://shop.acme.test/v1"]);
    assert_eq!(named.code, 0, "{named:?}");
}

#[test]
fn a_description_that_is_taken_for_a_definition_is_sent_to_its_own_form() {
    let large = format!("{DESCRIPTION}x-more: {}\n", "x".repeat(300_000));
    let project = shop().file("large.yaml", large).file("api.json", r#"{"openapi": "3.1.0", "paths": {}}"#);
    for file in ["shop.yaml", "large.yaml", "api.json"] {
        let refused = project.metier(&["import", file]);
        assert!(
            refused.code != 0 && refused.stderr.contains("`metier import openapi`"),
            "{file}: {refused:?}"
        );
    }
    let other = Project::new().file("a.yaml", "name: x\n").metier(&["import", "a.yaml"]);
    assert!(other.code != 0 && !other.stderr.contains("metier import openapi"), "{other:?}");
}

#[test]
fn a_file_with_the_name_of_the_form_is_still_imported() {
    let contract = "skill: {name: many, description: d, inputs: {}}\n";
    let project = Project::new().file("openapi/skill.yaml", contract);
    let made = project.metier(&["import", "./openapi"]);
    assert!(made.code == 0 && made.stdout.contains("skills/many from ./openapi"), "{made:?}");
    let project =
        Project::new().file("openapi/skill.yaml", contract).file("a.yaml", contract.replace("many", "one"));
    let made = project.metier(&["import", "a.yaml", "openapi"]);
    assert!(made.code == 0 && made.stdout.contains("skills/many from openapi"), "{made:?}");
}

#[test]
fn a_program_makes_the_same_files() {
    let made = import_openapi("shop.yaml", DESCRIPTION.as_bytes(), &OpenApiOptions::default()).unwrap();
    let project = shop();
    assert_eq!(imported(&project, &[]).code, 0);
    for (path, content) in &made.skill.files {
        let written = project.read(&format!(".metier/skills/acme-shop/{path}"));
        assert_eq!(written.as_bytes(), content, "{path}");
    }
}

/// Values that may stand anywhere in a description.
fn odd_values() -> Vec<Value> {
    let deep =
        (0..40).fold(json!({"type": "string"}), |inner, _| json!({"properties": {"a": {"items": inner}}}));
    vec![
        json!(null),
        json!(true),
        json!(false),
        json!(-1),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("a"),
        json!("\u{0}\u{202e}\r\n"),
        json!("$inputs.x ${secrets.T} $$ $"),
        json!("../../x"),
        json!("{a}"),
        json!("/"),
        json!("x".repeat(5_000)),
        json!([]),
        json!([[]]),
        json!({}),
        json!([null, 1, "a", {}]),
        json!({"a": {"a": {}}}),
        json!({"$ref": "#"}),
        json!({"$ref": "#/components/schemas/n"}),
        json!({"$ref": "x"}),
        json!({"$ref": 7}),
        json!({"type": "object", "properties": {"a": {}}}),
        json!({"type": "null"}),
        json!({"enum": []}),
        json!({"allOf": [false]}),
        json!({"anyOf": [true, false]}),
        json!({"const": {"a": [1]}}),
        json!({"pattern": "(a{1000}){1000}"}),
        json!({"pattern": "["}),
        json!({"minimum": 5, "maximum": 1, "minLength": 9, "maxLength": 0, "multipleOf": 0}),
        json!({"minLength": 1.5, "maxItems": -1, "format": "\u{1b}"}),
        json!({"required": ["a", "a", 1]}),
        json!({"additionalProperties": {"$ref": "#"}}),
        json!({"$id": "urn:x", "$anchor": "a", "$schema": "x", "$defs": {"a": {"$id": "x"}}, "$dynamicRef": "#a", "id": "x"}),
        deep,
    ]
}

/// The JSON Pointers of all values below a value.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    let below = |key: &str| format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| places(value, &below(key), found)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| places(item, &below(&at.to_string()), found));
        }
        _ => {}
    }
}

#[test]
fn any_value_of_a_description_may_be_another() {
    let description: Value =
        serde_json::from_str(include_str!("../../fuzz/corpus/openapi/shop.json")).unwrap();
    let mut found = Vec::new();
    places(&description, "", &mut found);
    assert!(found.len() > 80, "{}", found.len());
    // Every fourth of all pairs is tried, so that each place and each value is.
    for (at, place) in found.iter().enumerate() {
        for odd in odd_values().into_iter().skip(at % 4).step_by(4) {
            let mut changed = description.clone();
            *changed.pointer_mut(place).unwrap() = odd.clone();
            checks::openapi(changed.to_string().as_bytes());
            // The same as a key beside the others.
            if let Some(Value::Object(fields)) =
                changed.pointer_mut(place.rsplit_once('/').map_or("", |(parent, _)| parent))
                && let Some(key) = odd.as_str()
            {
                fields.insert(key.to_owned(), json!({"type": "string"}));
                checks::openapi(changed.to_string().as_bytes());
            }
        }
    }
}

#[cfg(feature = "http")]
#[test]
fn a_description_is_imported_from_its_address() {
    let relative = DESCRIPTION.replace("https://shop.acme.test/v1", "../v2");
    let (server, _) = serve(move |request| match request.line.as_str() {
        "GET /docs/a/openapi?token=s3cret" => ("text/plain", relative.clone()),
        _ => ("text/html", "<html></html>".to_owned()),
    });
    let project = Project::new();
    let made =
        project.metier(&["import", "openapi", &format!("{server}/docs/a/openapi?token=s3cret"), "--json"]);
    assert_eq!(made.code, 0, "{made:?}");
    assert_eq!(
        made.json()[0]["origin"],
        format!("{server}/docs/a/openapi"),
        "without what may be a credential"
    );
    let contract = project.read(".metier/skills/acme-shop/skill.yaml");
    assert!(
        contract.contains(&format!("base_url: \"{server}/docs/v2\""))
            || contract.contains(&format!("base_url: {server}/docs/v2")),
        "{contract}"
    );
    let page = project.metier(&["import", "openapi", &format!("{server}/page")]);
    assert!(page.code != 0 && page.stderr.contains("its raw form"), "{page:?}");
}

#[cfg(feature = "http")]
const TOKEN: (&str, Option<&str>) = ("authorization", Some("Bearer tok-0123456789-abcdefghijklmnop"));

/// A call of a tool: its name, its input, and the request that it is: the line, the body, headers.
#[cfg(feature = "http")]
type Call = (&'static str, Value, &'static str, Value, &'static [(&'static str, Option<&'static str>)]);

#[cfg(feature = "http")]
fn calls() -> [Call; 12] {
    [
        (
            "list_items",
            json!({}),
            "GET /v1/items",
            json!(null),
            &[("authorization", None), ("x-trace", None)],
        ),
        (
            "list_items",
            json!({"limit": 5, "tag": ["a b", "c&d"], "filter_name": "é", "X-Trace": "t1", "sort": "price"}),
            "GET /v1/items?limit=5&tag=a%20b&tag=c%26d&filter%5Bname%5D=%C3%A9&sort=price",
            json!(null),
            &[("x-trace", Some("t1"))],
        ),
        (
            "create_item",
            json!({"name": "pen", "price": null, "size": {"unit": "mm", "values": [1, 2]}, "kind": "a"}),
            "POST /v1/items",
            json!({"name": "pen", "price": null, "size": {"unit": "mm", "values": [1, 2]}, "kind": "a"}),
            &[TOKEN, ("content-type", Some("application/json"))],
        ),
        ("get_item", json!({"id": 7}), "GET /v1/items/7", json!(null), &[]),
        (
            "update_item",
            json!({"id": 7, "body_id": "new", "name": "pencil"}),
            "PATCH /v1/items/7",
            json!({"id": "new", "name": "pencil"}),
            &[TOKEN, ("content-type", Some("application/merge-patch+json"))],
        ),
        ("delete_item", json!({"id": 7}), "DELETE /v1/items/7", json!(null), &[TOKEN]),
        (
            "get_files_path",
            json!({"path": "a/b c.txt"}),
            "GET /v1/files/a/b%20c.txt",
            json!(null),
            &[("accept", Some("application/json"))],
        ),
        (
            "items_label",
            json!({"id": 7, "format": "x"}),
            "GET /v1/items/7/label.x?key=key-9876543210-zyxwvutsrqponmlk",
            json!(null),
            &[],
        ),
        ("ping", json!({}), "GET /v1/ping", json!(null), &[]),
        ("rate_item", json!({"id": 7, "body": [5, 4]}), "PUT /v1/items/7/rates", json!([5, 4]), &[TOKEN]),
        (
            "list_staff",
            json!({}),
            "GET /v1/staff",
            json!(null),
            &[("authorization", Some("Basic c3RhZmY6b3BlbiBzZXNhbWUgMTIzNDU2Nzg="))],
        ),
        ("get_search", json!({"q": {"a": "b c"}}), "GET /v1/search?q%5Ba%5D=b%20c", json!(null), &[]),
    ]
}

#[cfg(feature = "http")]
#[test]
fn the_calls_are_the_requests_that_the_description_means() {
    let (server, requests) = serve(|request| match request.line.as_str() {
        "GET /v1/ping" => ("text/plain", "pong".to_owned()),
        _ => ("application/json", json!({"ok": true}).to_string()),
    });
    let project = shop();
    let base_url = format!("{server}/v1");
    assert_eq!(imported(&project, &["--base-url", &base_url]).code, 0);
    let host = server.strip_prefix("http://").unwrap();
    let call = |tool: &str, input: &Value| {
        let secrets = ["ACME_SHOP_TOKEN", "ACME_SHOP_API_KEY", "ACME_SHOP_CREDENTIALS"]
            .map(|name| format!("{name}@{host}"));
        let net = format!("net:{host}");
        let input = input.to_string();
        let mut args = vec!["run", "acme-shop", "--tool", tool, "--input", &input, "--allow", &net];
        args.extend(secrets.iter().flat_map(|secret| ["--secret", secret.as_str()]));
        let mut command = project.command(&args);
        command
            .env("ACME_SHOP_TOKEN", "tok-0123456789-abcdefghijklmnop")
            .env("ACME_SHOP_CREDENTIALS", "c3RhZmY6b3BlbiBzZXNhbWUgMTIzNDU2Nzg=")
            .env("ACME_SHOP_API_KEY", "key-9876543210-zyxwvutsrqponmlk");
        Answer::from(command.output().unwrap())
    };
    for (tool, input, line, body, headers) in calls() {
        let answer = call(tool, &input);
        assert_eq!(answer.code, 0, "{tool} {input}: {answer:?}");
        let request = requests.lock().unwrap().pop().unwrap();
        assert_eq!(request.line, line, "{tool}");
        let sent: Value = serde_json::from_str(&request.body).unwrap_or_default();
        assert_eq!(sent, body, "{tool}");
        for (name, value) in headers {
            assert_eq!(request.header(name), *value, "{tool} {name}");
        }
        let expected = if tool == "ping" { json!("pong") } else { json!({"ok": true}) };
        let value =
            serde_json::from_str(&answer.stdout).unwrap_or_else(|_| Value::from(answer.stdout.trim()));
        assert_eq!(value, expected, "{tool}");
    }
    for (tool, input) in [
        ("get_item", json!({})),
        ("get_item", json!({"id": "x"})),
        ("get_item", json!({"id": 7, "other": 1})),
        ("get_item", json!({"id": 0})),
        ("list_items", json!({"sort": "size"})),
        ("create_item", json!({"price": 1})),
        ("create_item", json!({"name": "pen", "created": "2026"})),
        ("get_files_path", json!({"path": "../secret"})),
        ("get_files_path", json!({"path": "a//b"})),
        ("items_label", json!({"id": 7, "format": "a/b"})),
    ] {
        let refused = call(tool, &input);
        assert_eq!(refused.code, 2, "{tool} {input}: {refused:?}");
    }
    assert!(requests.lock().unwrap().is_empty(), "nothing was sent");
}
