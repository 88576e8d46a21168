//! Declared HTTP calls: a request made of the input, and a value made of the response.

use std::sync::{Arc, Mutex};

use metier::engine::{Engine, Invocation, Outcome};
use metier::error::{ErrorKind, Result};
use metier::host::{Fixtures, HttpClient, HttpRequest, HttpResponse, SkillContext};
use metier::skill::contract::parse;
use serde_json::{Value, json};

use crate::support::engine::{Project, granted, kind, sentence, value};
use crate::tools::call;

/// A client that answers every request with the same, and records the requests.
#[derive(Clone)]
pub struct Recorder {
    requests: Arc<Mutex<Vec<HttpRequest>>>,
    status: u16,
    body: &'static str,
    /// Where the response comes from, if not from the URL of the request.
    url: Option<&'static str>,
    /// The statuses and headers of the first responses.
    first: FirstResponses,
}

/// Statuses, each with headers.
type FirstResponses = &'static [(u16, &'static [(&'static str, &'static str)])];

impl Recorder {
    pub fn new(status: u16, body: &'static str) -> Self {
        Self { requests: Arc::default(), status, body, url: None, first: &[] }
    }

    pub fn at_url(self, url: &'static str) -> Self {
        Self { url: Some(url), ..self }
    }

    /// Answers the first requests with these statuses and headers.
    pub fn after(self, first: FirstResponses) -> Self {
        Self { first, ..self }
    }

    pub fn requests(&self) -> Vec<HttpRequest> {
        self.requests.lock().unwrap().clone()
    }
}

impl HttpClient for Recorder {
    fn send(&self, _: &SkillContext, request: HttpRequest) -> Result<HttpResponse> {
        let url = self.url.map_or_else(|| request.url.clone(), str::to_owned);
        let mut requests = self.requests.lock().unwrap();
        requests.push(request);
        if let Some((status, headers)) = self.first.get(requests.len() - 1) {
            let response = HttpResponse::new(*status, url, r#"{"message": "Slow down"}"#);
            return Ok(headers
                .iter()
                .fold(response, |response, (name, value)| response.header(*name, *value)));
        }
        Ok(HttpResponse::new(self.status, url, self.body).header("x-page", "2"))
    }
}

/// A project and its engine, for a skill with this base URL and the tool `t`, whose `http` has these lines.
pub fn offering(http: &str, client: &Recorder) -> (Project, Engine) {
    let lines: Vec<String> = http.trim().lines().map(|line| format!("      {line}")).collect();
    let lines = lines.join("\n");
    let contract = format!(
        "base_url: https://api.test/v1/
config:
  token: {{secret: true}}
  region: {{default: north}}
tools:
  - name: t
    http:
{lines}"
    );
    let project = Project::offering(&contract, &[]);
    let fixtures = Fixtures::new(r#"{"secrets": {"token": "hunter2/secret"}}"#).unwrap();
    let engine = project.builder().providers(fixtures.providers().http(client.clone())).build().unwrap();
    let registry = engine.registry();
    let reason = registry.find("weather").unwrap().contract_error();
    assert!(reason.is_none(), "{reason:?}");
    (project, engine)
}

/// Calls the tool that [`offering`] describes.
pub fn call_with(http: &str, client: &Recorder, input: Value) -> Outcome {
    let (_project, engine) = offering(http, client);
    call(&engine, "t", input, &GRANTS)
}

pub const GRANTS: [&str; 2] = ["net:api.test", "secret:token"];

pub fn send(http: &str, input: Value) -> (Outcome, Vec<HttpRequest>) {
    let client =
        Recorder::new(200, r#"{"id": 7, "items": [{"a": 1}, {"a": null}], "big": 9007199254740993}"#);
    let outcome = call_with(http, &client, input);
    (outcome, client.requests())
}

#[test]
fn the_parts_of_a_request_are_those_of_the_declaration() {
    let http = r#"
method: POST
path: /repos/$inputs.owner/${inputs.repo}.git/$inputs.number
query: {page: $inputs.page, "a b": [1, $inputs.tag], none: $inputs.gone, region: $config.region}
headers: {Authorization: "Bearer ${secrets.token}", X-Page: $inputs.page, X-Gone: $inputs.gone}
body: {title: $inputs.title, n: $inputs.number, list: [$inputs.tag, "x ${inputs.tag}"], gone: $inputs.gone}
"#;
    let input = json!({"owner": "ä b", "repo": "r", "number": 5, "page": 2, "tag": "t&u=v", "title": null});
    let (outcome, requests) = send(http, input);
    assert!(outcome.result.is_ok(), "{:?}", outcome.result);
    let request = &requests[0];
    assert_eq!(request.method, "POST");
    assert_eq!(
        request.url,
        "https://api.test/v1/repos/%C3%A4%20b/r.git/5?page=2&a%20b=1&a%20b=t%26u%3Dv&region=north"
    );
    let header = |name: &str| {
        request
            .headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    };
    assert_eq!(header("authorization"), Some("Bearer hunter2/secret"));
    assert_eq!(
        (header("x-page"), header("x-gone"), header("content-type")),
        (Some("2"), None, Some("application/json"))
    );
    let body: Value = serde_json::from_slice(request.body.as_ref().unwrap()).unwrap();
    assert_eq!(body, json!({"title": null, "n": 5, "list": ["t&u=v", "x t&u=v"]}));
    assert_eq!(request.base_url.as_deref(), Some("https://api.test/v1"));
}

#[test]
fn a_value_is_the_body_or_what_the_declaration_makes_of_the_response() {
    for (http, expected) in [
        ("path: /x", json!({"id": 7, "items": [{"a": 1}, {"a": null}], "big": 9_007_199_254_740_993_u64})),
        ("path: /x\nresult: $response.body.items[0].a", json!(1)),
        ("path: /x\nresult: $response.body.gone", json!(null)),
        (
            "path: /x\nresult: {id: $response.body.id, status: $response.status, page: '$response.headers[\"x-page\"]', of: $inputs.a, text: 'no ${response.body.id}'}",
            json!({"id": 7, "status": 200, "page": "2", "of": "in", "text": "no 7"}),
        ),
        (
            "path: /x\nresponse: text",
            json!(r#"{"id": 7, "items": [{"a": 1}, {"a": null}], "big": 9007199254740993}"#),
        ),
    ] {
        assert_eq!(value(send(http, json!({"a": "in"})).0), expected, "{http}");
    }
}

#[test]
fn half_of_a_character_in_a_response_is_replaced() {
    let client = Recorder::new(200, r#"{"text": "cut \ud83d"}"#);
    let outcome = call_with("path: /x", &client, json!({"a": "in"}));
    assert_eq!(value(outcome), json!({"text": "cut \u{fffd}"}));
}

#[test]
fn a_response_that_is_not_the_expected_one_is_a_failure_of_the_tool() {
    for (http, status, body, words) in [
        ("path: /x", 404, "no such thing", "[api.test] no such thing (HTTP 404)"),
        ("path: /x", 302, "", "[api.test] Found (HTTP 302)"),
        ("path: /x\nexpect: {status: 204}", 200, "{}", "[api.test] {} (HTTP 200)"),
        (
            "path: /x\nexpect: {status: [200-204, 404]}",
            500,
            "",
            "[api.test] Internal Server Error (HTTP 500)",
        ),
        ("path: /x", 404, r#"{"message": "Not Found", "status": "404"}"#, "[api.test] Not Found (HTTP 404)"),
        ("path: /x", 400, r#"{"error": {"message": "No such id"}}"#, "[api.test] No such id (HTTP 400)"),
        ("path: /x", 401, r#"{"errors": [{"message": "Expired"}]}"#, "[api.test] Expired (HTTP 401)"),
        ("path: /x", 422, r#"{"ok": false, "error": "bad_channel"}"#, "[api.test] bad_channel (HTTP 422)"),
        ("path: /x", 400, r#"{"message": " "}"#, r#"[api.test] {"message": " "} (HTTP 400)"#),
        (
            "path: /x\nexpect: {fields: [$response.body.id]}",
            200,
            "{}",
            "the response has no $response.body.id",
        ),
        ("path: /x\nexpect: {fields: [$response.body.id]}", 200, r#"{"id": null}"#, "the response has no"),
        ("path: /x", 200, "<html>", "no JSON"),
        ("path: /x", 200, r#"{"a": 1, "a": 2}"#, "no JSON"),
        ("path: /x\nresult: 'x${response.body.gone}'", 200, "{}", "the response has no"),
    ] {
        let client = Recorder::new(status, body);
        let outcome = call_with(http, &client, json!({}));
        assert_eq!(kind(&outcome), ErrorKind::Tool, "{http}: {:?}", outcome.result);
        let sentence = sentence(&outcome);
        assert!(
            sentence == words || sentence.starts_with("tool t: ") && sentence.contains(words),
            "{outcome:?}"
        );
    }
    let client = Recorder::new(404, r#"{"gone": true}"#);
    let http = "path: /x\nexpect: {status: [200, 404]}";
    assert_eq!(value(call_with(http, &client, json!({}))), json!({"gone": true}));
    let empty = Recorder::new(204, "");
    assert_eq!(value(call_with("method: DELETE\npath: /x", &empty, json!({}))), json!(null));
}

#[test]
fn a_call_needs_the_host_and_every_secret_and_the_base_url_is_the_request() {
    let http = "path: /x\nheaders: {Authorization: $secrets.token}";
    let client = Recorder::new(200, "{}");
    let (_project, engine) = offering(http, &client);
    for grants in [&["secret:token"][..], &["net:api.test"], &["net:other.test", "secret:token"], &[]] {
        let outcome = call(&engine, "t", json!({}), grants);
        assert_eq!(kind(&outcome), ErrorKind::Denied, "{grants:?}");
    }
    assert!(client.requests().is_empty());
    assert!(call(&engine, "t", json!({}), &GRANTS).result.is_ok());
    let registry = engine.registry();
    let skill = registry.find("weather").unwrap();
    let requested = engine.requested_permissions(skill);
    let requested: Vec<String> = requested.iter().map(|it| it.permission.to_string()).collect();
    assert_eq!(requested, ["read", "net:api.test", "secret:token"]);
    let tool = engine.tool_permissions(skill, skill.contract().unwrap().tool("t").unwrap()).unwrap();
    let tool: Vec<String> = tool.iter().map(ToString::to_string).collect();
    assert_eq!(tool, ["net:api.test", "secret:token"]);
}

#[test]
fn a_secret_is_in_the_request_and_in_nothing_that_is_shown() {
    let http = "path: /x\nquery: {key: $secrets.token}\nexpect: {status: 200}";
    let client = Recorder::new(403, "your key hunter2/secret is not a key");
    let outcome = call_with(http, &client, json!({}));
    assert!(client.requests()[0].url.ends_with("?key=hunter2%2Fsecret"));
    let told = sentence(&outcome);
    assert!(told.contains("[secret:token]") && !told.contains("hunter2"), "{told}");
    let echo = Recorder::new(200, r#"{"echo": "hunter2/secret", "encoded": "hunter2%2Fsecret"}"#);
    let answer = value(call_with(http, &echo, json!({}))).to_string();
    assert!(!answer.contains("hunter2"), "{answer}");
}

#[test]
fn the_input_and_the_value_are_validated_around_the_call() {
    let contract = "
base_url: https://api.test
tools:
  - name: t
    inputs: {id: {type: integer, required: true}}
    outputs: {id: {type: string}}
    http: {path: /$inputs.id}
";
    let client = Recorder::new(200, r#"{"id": 7}"#);
    let project = Project::offering(contract, &[]);
    let engine = project.builder().http(client.clone()).build().unwrap();
    assert_eq!(kind(&call(&engine, "t", json!({"id": "x"}), &GRANTS)), ErrorKind::InvalidInput);
    assert!(client.requests().is_empty(), "AK-T3: nothing is sent");
    assert_eq!(kind(&call(&engine, "t", json!({"id": 1}), &GRANTS)), ErrorKind::InvalidOutput);
    let project =
        project.caller("tool:weather.t net:api.test", "return (pcall(ctx.tool, 'weather.t', {id = 1}))");
    let engine = project.builder().http(client.clone()).build().unwrap();
    let run = granted(Invocation::new("x"), &["tool:weather.t", "net:api.test"]);
    assert_eq!(value(engine.run(run)), false);
    assert_eq!(client.requests().len(), 2);
}

/// Why a call with this line is refused, at that line.
pub fn refusal(line: &str) -> String {
    let contract = format!(
        "base_url: https://api.test/v1\nconfig: {{token: {{secret: true}}, region: {{}}}}\ntools:\n  - name: t\n    inputs: {{id: {{type: string}}}}\n    http:\n      {line}\n"
    );
    let parsed = parse(contract.as_bytes());
    let found = parsed.blocking_diagnostic().unwrap_or_else(|| panic!("accepted: {line}")).clone();
    assert_eq!(found.line, 7, "{line}: {found:?}");
    found.message
}

#[test]
fn what_cannot_be_a_call_is_refused_at_its_line() {
    for (line, words) in [
        ("method: CONNECT", "is not a method"),
        ("method: \"GET\\r\\nX: y\"", "is not a method"),
        ("path: /a/../b", "another path"),
        ("path: /a//b", "another path"),
        ("path: /a?x=y", "another path"),
        ("path: /a#b", "another path"),
        ("path: /a%2fb", "another path"),
        ("path: '/a\\b'", "another path"),
        ("path: '/a b'", "another path"),
        ("path: /$inputs.idd", "not an input of the tool"),
        ("path: /$secrets.region", "no secret that the skill declares"),
        ("path: /$config.token", "no setting that the skill declares"),
        ("path: /$env.HOME", "means nothing here"),
        ("path: /$steps.a.outputs", "means nothing here"),
        ("path: /$response.body", "means nothing here"),
        ("path: /$", "dollar sign"),
        ("headers: {Host: evil.test}", "not a header that a call may set"),
        ("headers: {content-length: '5'}", "not a header that a call may set"),
        ("headers: {Transfer-Encoding: chunked}", "not a header that a call may set"),
        ("headers: {Connection: close}", "not a header that a call may set"),
        ("headers: {Proxy-Authorization: x}", "not a header that a call may set"),
        ("headers: {\"a: b\\r\\nc\": d}", "not a header that a call may set"),
        ("headers: {a: \"b\\r\\nc: d\"}", "printable ASCII"),
        ("headers: {a: [b]}", "must be a text"),
        ("body: {a: 1}", "a GET request has no body"),
        ("query: {a: {b: $secrets.nothing}}", "no secret"),
        ("response: xml", "json, json_lines or text"),
        ("expect: {status: 2xx}", "a status is a number"),
        ("expect: {status: []}", "every call would fail"),
        ("expect: {fields: [$inputs.id]}", "not part of the response"),
        ("result: $secrets.token", "means nothing here"),
        ("result: $config.region", "means nothing here"),
        ("multi_segment: [id]", "not an input that is a segment"),
        ("{query: {a: 1}, deep_object: [b]}", "neither a parameter of `query` nor a field of `form`"),
        ("{query: $inputs.id, deep_object: [id]}", "neither a parameter of `query` nor a field of `form`"),
    ] {
        let told = refusal(line);
        assert!(told.contains(words), "{line}: {told}");
    }
    for url in [
        "ftp://a.test",
        "https://",
        "https://me:pw@a.test",
        "https://a.test?x",
        "https://a.test#x",
        "https://a.test/../x",
        "https://a.test/%2e%2e",
        "https://$inputs.host",
        "//a.test",
        "a.test",
        "https://a.test\\@b.test",
        "https://*.test",
        "https://a.test/a//b",
        "'https://a.test/ b'",
        "https://gr\u{fc}n.test",
        "https://a.test:0",
        "https://a.test:99999",
    ] {
        let parsed = parse(format!("\nbase_url: {url}\n").as_bytes());
        let found = parsed.blocking_diagnostic().unwrap_or_else(|| panic!("accepted: {url}"));
        assert_eq!(found.line, 2, "{url}");
    }
    let without = parse(b"tools: [{name: t, http: {path: /x}}]");
    assert!(without.blocking_diagnostic().unwrap().message.contains("no `base_url`"));
    let asking =
        parse(b"base_url: https://a.test\ntools: [{name: t, http: {path: /x}, permissions: [exec]}]");
    assert!(asking.blocking_diagnostic().unwrap().message.contains("and nothing more"));
}

#[test]
fn the_runtime_of_declared_calls_can_be_switched_off_and_runs_no_script() {
    let contract = "base_url: http://localhost/v1\ntools: [{name: t, http: {path: /x}}]";
    let project = Project::offering(contract, &[]);
    let configuration = metier::config::Configuration::new();
    let configuration = configuration.with("runtimes.disabled", json!(["http-call"])).unwrap();
    let engine = project.builder().configuration(configuration).build().unwrap();
    let outcome = call(&engine, "t", json!({}), &["net"]);
    assert_eq!(kind(&outcome), ErrorKind::Unavailable, "{outcome:?}");
    assert!(sentence(&outcome).contains("switched off"), "{outcome:?}");
    for contract in ["runtime: http-call", "entrypoint: {path: scripts/main.txt, runtime: http-call}"] {
        let project = Project::offering(contract, &[("main.txt", "anything")]);
        let outcome = project.engine().run(metier::engine::Invocation::new("weather"));
        assert_eq!(kind(&outcome), ErrorKind::InvalidSkill, "{outcome:?}");
    }
}

#[test]
fn a_call_that_reads_is_made_again_after_answers_that_pass() {
    for (http, tries) in [
        ("path: /x", 3),
        ("method: POST\npath: /x\nheaders: {Idempotency-Key: $inputs.key}\nbody: {a: 1}", 3),
        ("method: POST\npath: /x\nbody: {a: 1}", 1),
        ("method: DELETE\npath: /x", 1),
    ] {
        let client = Recorder::new(200, "7").after(&[(503, &[]), (429, &[("retry-after", "0")])]);
        let outcome = call_with(http, &client, json!({"key": "k-1"}));
        let requests = client.requests();
        assert_eq!(requests.len(), tries, "{http}");
        assert!(requests.iter().all(|request| *request == requests[0]), "{requests:?}");
        if tries == 1 {
            assert_eq!(sentence(&outcome), "[api.test] Slow down (HTTP 503)");
            continue;
        }
        let logged = &outcome.log[0].message;
        assert!(logged.contains("status 503; the request is made again in 500"), "{logged}");
        assert_eq!(value(outcome), json!(7));
    }
    let for_good = Recorder::new(503, r#"{"detail": "Down for today"}"#);
    let outcome = call_with("path: /x", &for_good, json!({}));
    assert_eq!(sentence(&outcome), "[api.test] Down for today (HTTP 503)");
    assert_eq!(for_good.requests().len(), 4);
}

#[test]
fn a_pause_that_is_longer_than_the_run_is_an_error_that_names_it() {
    let limited = Recorder::new(200, "7")
        .after(&[(403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "99999999999")])]);
    for client in [Recorder::new(200, "7").after(&[(429, &[("retry-after", "3600")])]), limited] {
        let outcome = call_with("path: /x", &client, json!({}));
        let error = outcome.result.as_ref().unwrap_err();
        assert_eq!(client.requests().len(), 1);
        assert!(error.message().starts_with("[api.test] Slow down (HTTP 4"), "{error}");
        assert!(error.help().unwrap().starts_with("call it again in "), "{error:?}");
    }
    // A run that is stopped does not wait to its end.
    let client = Recorder::new(200, "7").after(&[(429, &[("retry-after", "20")])]);
    let (_project, engine) = offering("path: /x", &client);
    let token = metier::policy::CancelToken::new();
    let invocation =
        granted(Invocation::new("weather").tool("t").input(json!({})), &GRANTS).cancel(token.clone());
    let started = std::time::Instant::now();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| engine.run(invocation));
        while client.requests().is_empty() {
            std::thread::yield_now();
        }
        token.cancel();
        assert_eq!(kind(&run.join().unwrap()), ErrorKind::Cancelled);
    });
    assert!(started.elapsed() < std::time::Duration::from_secs(10));
}

#[test]
fn errors_name_the_service_as_the_contract_does() {
    let project = Project::offering(
        "base_url: https://api.test/v1
service: Example
tools:
  - name: t
    http: {path: /x}",
        &[],
    );
    let client = Recorder::new(404, r#"{"message": "Not Found"}"#);
    let engine = project.builder().http(client).build().unwrap();
    let outcome = call(&engine, "t", json!({}), &["net:api.test"]);
    assert_eq!(sentence(&outcome), "[Example] Not Found (HTTP 404)");
}
