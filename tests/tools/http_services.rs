//! What declared calls need for real services: addresses from settings, optional parts, forms, pages, shaped results, internal tools.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use metier::engine::{Engine, Invocation, Outcome};
use metier::error::{ErrorKind, Result};
use metier::host::{Fixtures, HttpClient, HttpRequest, HttpResponse, SkillContext};
use serde_json::{Value, json};

use crate::support::engine::{Project, granted, kind, sentence, value};
use crate::tools::call;
use crate::tools::http::{Recorder, call_with, refusal, send};

/// A status, headers and a body.
type Answer = (u16, Vec<(&'static str, String)>, String);

/// A client that answers each request with what a function makes of it, and records the requests.
#[derive(Clone)]
struct Service {
    requests: Arc<Mutex<Vec<HttpRequest>>>,
    answer: fn(&HttpRequest) -> Answer,
}

impl Service {
    fn new(answer: fn(&HttpRequest) -> Answer) -> Self {
        Self { requests: Arc::default(), answer }
    }

    fn requests(&self) -> Vec<HttpRequest> {
        self.requests.lock().unwrap().clone()
    }

    fn urls(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.url).collect()
    }
}

impl HttpClient for Service {
    fn send(&self, _: &SkillContext, request: HttpRequest) -> Result<HttpResponse> {
        let (status, headers, body) = (self.answer)(&request);
        let response = HttpResponse::new(status, request.url.clone(), body);
        self.requests.lock().unwrap().push(request);
        Ok(headers.iter().fold(response, |response, (name, value)| response.header(*name, value)))
    }
}

/// An engine for the skill `weather` with this contract, this client, and what else a case gives.
fn engine(project: &Project, client: &Service, given: &Value) -> Engine {
    let fixtures = Fixtures::new(&given.to_string()).unwrap();
    project.builder().providers(fixtures.providers().http(client.clone())).build().unwrap()
}

fn run(contract: &str, client: &Service, given: &Value, input: Value, grants: &[&str]) -> Outcome {
    let project = Project::offering(contract, &[]);
    call(&engine(&project, client, given), "t", input, grants)
}

fn ok(_: &HttpRequest) -> Answer {
    (200, Vec::new(), "{}".into())
}

const SETTABLE: &str = "
base_url: $config.URL
config:
  URL: {env: SERVICE_URL, default: https://api.test/v1}
  token: {secret: true}
tools:
  - name: t
    http: {path: /me, headers: {Authorization: 'Bearer ${secrets.token}'}}
";

#[test]
fn the_host_follows_the_setting_and_the_grant_stays_the_persons() {
    let secrets = json!({"token": "hunter2/secret"});
    for (given, url, host) in [
        (json!({"secrets": secrets}), "https://api.test/v1/me", "net:api.test"),
        (
            json!({"secrets": secrets, "config": {"URL": "https://ghe.test:8443/api/"}}),
            "https://ghe.test:8443/api/me",
            "net:ghe.test:8443",
        ),
    ] {
        let client = Service::new(ok);
        value(run(SETTABLE, &client, &given, json!({}), &[host, "secret:token"]));
        assert_eq!(client.urls(), [url]);
        let other = if host == "net:api.test" { "net:ghe.test:8443" } else { "net:api.test" };
        let client = Service::new(ok);
        let outcome = run(SETTABLE, &client, &given, json!({}), &[other, "secret:token"]);
        assert_eq!(kind(&outcome), ErrorKind::Denied);
        assert!(sentence(&outcome).contains(host.split(':').nth(1).unwrap()), "{}", sentence(&outcome));
        assert!(client.requests().is_empty(), "nothing is sent to a host that nobody granted");
        let project = Project::offering(SETTABLE, &[]);
        let engine = engine(&project, &client, &given);
        let registry = engine.registry();
        let skill = registry.find("weather").unwrap();
        let requested: Vec<String> =
            engine.requested_permissions(skill).iter().map(|it| it.permission.to_string()).collect();
        assert!(
            requested.contains(&host.to_owned()) && !requested.contains(&other.to_owned()),
            "{requested:?}"
        );
        let tool = skill.contract().unwrap().tool("t").unwrap();
        let of_tool = engine.tool_permissions(skill, tool).unwrap();
        assert!(of_tool.iter().any(|it| it.to_string() == host), "{of_tool:?}");
    }
}

#[test]
fn an_address_that_cannot_be_is_refused_before_anything_is_sent() {
    for url in [
        "",
        "api.test",
        "https://me:pw@evil.test",
        "https://a.test/../x",
        "ftp://a.test",
        "https://a.test\\@b.test",
        "https://a.test#@b.test",
    ] {
        let client = Service::new(ok);
        let given = json!({"secrets": {"token": "hunter2/secret"}, "config": {"URL": url}});
        let outcome = run(SETTABLE, &client, &given, json!({}), &["net", "secret:token"]);
        assert_eq!(kind(&outcome), ErrorKind::Unavailable, "{url}");
        assert!(sentence(&outcome).contains("the address of URL"), "{url}: {}", sentence(&outcome));
        assert!(client.requests().is_empty(), "{url}");
    }
}

#[test]
fn a_variable_that_may_not_be_read_does_not_lead_to_the_default_address() {
    let client = Service::new(ok);
    let project = Project::offering(SETTABLE, &[]);
    let given = json!({"secrets": {"token": "hunter2/secret"}});
    let engine = engine(&project, &client, &given);
    let run = |grants: &[&str]| {
        let run = Invocation::new("weather").tool("t").env("SERVICE_URL", "https://ghe.test");
        engine.run(granted(run, grants))
    };
    let outcome = run(&["net:api.test", "net:ghe.test", "secret:token"]);
    assert_eq!(kind(&outcome), ErrorKind::Denied);
    assert!(sentence(&outcome).contains("SERVICE_URL"), "{}", sentence(&outcome));
    assert!(client.requests().is_empty());
    value(run(&["net:ghe.test", "secret:token", "env:SERVICE_URL"]));
    assert_eq!(client.urls(), ["https://ghe.test/me"]);
}

#[test]
fn what_a_skill_requests_tells_no_variable() {
    let contract = "
config: {x: {env: CARGO_PKG_NAME}}
tools:
  - name: t
    http: {base_url: 'https://${config.x}.evil.test', path: /x}
";
    let client = Service::new(ok);
    let project = Project::offering(contract, &[]);
    let engine = engine(&project, &client, &json!({}));
    let registry = engine.registry();
    let skill = registry.find("weather").unwrap();
    let tool = skill.contract().unwrap().tool("t").unwrap();
    let requested = format!("{:?}", engine.requested_permissions(skill));
    let of_tool = format!("{:?}", engine.tool_permissions(skill, tool));
    for text in [requested, of_tool] {
        assert!(!text.contains("evil.test"), "{text}");
    }
    let outcome = call(&engine, "t", json!({}), &["net"]);
    // Outside of `cargo test`, the variable is not set.
    assert!(matches!(kind(&outcome), ErrorKind::Denied | ErrorKind::Unavailable), "{outcome:?}");
    assert!(!serde_json::to_string(&outcome).unwrap().contains("evil.test"), "{outcome:?}");
    assert!(client.requests().is_empty());
}

#[test]
fn what_a_service_repeats_of_credentials_is_redacted() {
    let contract = "
config: {HOOK: {secret: true}, user: {secret: true}, password: {secret: true}}
tools:
  - {name: hook, http: {base_url: $secrets.HOOK, method: POST, body: {}}}
  - {name: basic, http: {base_url: 'https://a.test', basic: {user: $secrets.user, password: $secrets.password}}}
";
    let given = json!({"secrets": {
        "HOOK": "https://hooks.test/services/T0123456/Bsecretsecretsecret?sig=abcdefabcdefabcdef", "user": "reader-of-tests", "password": "hunter2/secret",
    }});
    // Repeats the path and the header.
    let client = Service::new(|request| {
        let path = request.url.split_once(".test").unwrap().1.to_owned();
        let header = request.headers.iter().find(|(name, _)| name == "Authorization").map(|it| it.1.clone());
        (
            400,
            Vec::new(),
            json!({"message": format!("Cannot POST {path} {}", header.unwrap_or_default())}).to_string(),
        )
    });
    let project = Project::offering(contract, &[]);
    let engine = engine(&project, &client, &given);
    for (tool, grants, secrets) in [
        ("hook", &["net:hooks.test", "secret:HOOK"][..], &["Bsecretsecretsecret", "abcdefabcdefabcdef"][..]),
        ("basic", &["net:a.test", "secret:user", "secret:password"], &["cmVhZGVyLW9mLXRlc3Rz"]),
    ] {
        let outcome = call(&engine, tool, json!({}), grants);
        let text = serde_json::to_string(&outcome).unwrap();
        assert!(text.contains("Cannot POST"), "{text}");
        for secret in secrets {
            assert!(!text.contains(secret), "{tool}: {text}");
        }
    }
    assert_eq!(client.requests().len(), 2);
}

#[test]
fn a_result_that_would_never_end_or_fill_the_memory_is_refused() {
    let numbers =
        Service::new(|_| (200, Vec::new(), json!({"items": (0..2_000).collect::<Vec<_>>()}).to_string()));
    let empty = "result: {for_each: $response.body.items, as: a, value: {for_each: $response.body.items, as: b, value: {for_each: $response.body.items, as: c, value: {for_each: $response.body.none, value: 1}}}}";
    let started = Instant::now();
    let outcome = paged(empty, json!({}), &numbers);
    assert_eq!(kind(&outcome), ErrorKind::Output, "{outcome:?}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    let nested = Service::new(|_| (200, Vec::new(), format!("[{}[0]]", "[0],".repeat(1_500_000))));
    for http in ["path: /x", "result: {for_each: $response.body, value: 1}", "response: json_lines"] {
        let outcome = paged(http, json!({}), &nested);
        assert_eq!(kind(&outcome), ErrorKind::Memory, "{http}");
    }
}

#[test]
fn the_address_of_a_webhook_is_a_secret_and_keeps_its_parameters() {
    let contract = "
config: {HOOK: {secret: true}}
tools:
  - name: t
    inputs: {text: {type: string, required: true}}
    http: {base_url: $secrets.HOOK, method: POST, body: {text: $inputs.text}, response: text}
";
    let given = json!({"secrets": {"HOOK": "https://hooks.test/T1@x/B2?sig=abcdefgh12&v=1"}});
    let client =
        Service::new(|_| (500, Vec::new(), "no https://hooks.test/T1@x/B2?sig=abcdefgh12&v=1".into()));
    let outcome =
        run(contract, &client, &given, json!({"text": "hello"}), &["net:hooks.test", "secret:HOOK"]);
    assert_eq!(client.urls(), ["https://hooks.test/T1@x/B2?sig=abcdefgh12&v=1"]);
    assert_eq!(kind(&outcome), ErrorKind::Tool);
    assert!(!serde_json::to_string(&outcome).unwrap().contains("abcdefgh12"), "{}", sentence(&outcome));
    let client = Service::new(ok);
    let outcome =
        run(contract, &client, &given, json!({"text": "hello"}), &["net:other.test", "secret:HOOK"]);
    assert_eq!(kind(&outcome), ErrorKind::Denied);
    assert!(client.requests().is_empty());
}

#[test]
fn a_part_is_left_out_where_its_input_is_absent() {
    let http = "
method: POST
query: {q: '${inputs.query}$[ repo:${inputs.repo}]', sort: '$[by-${inputs.sort}]'}
headers: {X-Trace: '$[id ${inputs.trace}]'}
body: {text: '${inputs.query}$[ (${inputs.repo})]', labels: $inputs.labels, note: '$[${inputs.note}!]'}
";
    let (_, requests) =
        send(http, json!({"query": "a b", "repo": "o/r", "sort": "up", "trace": 7, "note": "x"}));
    assert!(requests[0].url.ends_with("?q=a%20b%20repo%3Ao%2Fr&sort=by-up"), "{}", requests[0].url);
    assert!(requests[0].headers.contains(&("X-Trace".into(), "id 7".into())));
    let body: Value = serde_json::from_slice(requests[0].body.as_ref().unwrap()).unwrap();
    assert_eq!(body, json!({"text": "a b (o/r)", "note": "x!"}));
    let (_, requests) = send(http, json!({"query": "a", "repo": null}));
    assert!(requests[0].url.ends_with("?q=a"), "{}", requests[0].url);
    assert!(!requests[0].headers.iter().any(|(name, _)| name == "X-Trace"));
    let body: Value = serde_json::from_slice(requests[0].body.as_ref().unwrap()).unwrap();
    assert_eq!(body, json!({"text": "a"}));
}

#[test]
fn forms_texts_and_basic_are_sent_as_services_read_them() {
    let header = |request: &HttpRequest, name: &str| {
        let found = request.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let (_, requests) = send(
        "method: POST\nform: {'a b': $inputs.list, 'n[x]': 1, gone: $inputs.gone}\nbasic: {user: me, password: $secrets.token}",
        json!({"list": ["x&y=z", "ä"]}),
    );
    assert_eq!(requests[0].body.as_deref(), Some(&b"a%20b=x%26y%3Dz&a%20b=%C3%A4&n%5Bx%5D=1"[..]));
    assert_eq!(header(&requests[0], "content-type"), "application/x-www-form-urlencoded");
    // me:hunter2/secret
    assert_eq!(header(&requests[0], "authorization"), "Basic bWU6aHVudGVyMi9zZWNyZXQ=");
    let (outcome, requests) = send(
        "method: POST\ntext: '${inputs.sql} FORMAT JSON'\nresponse: json_lines",
        json!({"sql": "SELECT 1"}),
    );
    assert_eq!(requests[0].body.as_deref(), Some(&b"SELECT 1 FORMAT JSON"[..]));
    assert_eq!(header(&requests[0], "content-type"), "text/plain; charset=utf-8");
    assert_eq!(value(outcome)[0]["id"], 7);
    for (http, input) in [
        ("basic: {user: $inputs.user, password: b}", json!({"user": "a:b"})),
        ("basic: {user: $inputs.user, password: b}", json!({"user": "a\nb"})),
        ("basic: {user: $inputs.user, password: b}", json!({})),
        ("method: POST\nform: {a: $inputs.user}", json!({"user": {"b": 1}})),
        ("method: POST\ntext: $inputs.user", json!({"user": [1]})),
        ("query: $inputs.user", json!({"user": "a=b"})),
        ("query: $inputs.user", json!({"user": {"a": {"b": 1}}})),
    ] {
        let (outcome, requests) = send(http, input);
        assert_eq!(kind(&outcome), ErrorKind::InvalidInput, "{http}");
        assert!(requests.is_empty(), "{http}");
    }
    let (_, requests) =
        send("query: $inputs.p", json!({"p": {"a&b": ["eq.1", "lt.2"], "select": null, "x": "y&z=1"}}));
    assert!(requests[0].url.ends_with("?a%26b=eq.1&a%26b=lt.2&x=y%26z%3D1"), "{}", requests[0].url);
}

#[test]
fn deep_objects_are_sent_with_brackets() {
    let http = "method: POST\nquery: {created: $inputs.created, q: 1}\nform: {'n[x]': $inputs.map, items: $inputs.items, tags: $inputs.tags}\ndeep_object: [created, 'n[x]', items]";
    let (_, requests) = send(
        http,
        json!({
            "created": {"gte": 5, "lt": 9.5, "gone": null},
            "map": {"key a": "x&y=z", "ä": true},
            "items": [{"price": "p1", "ids": [1, 2]}, {"price": {"amount": 3}}],
            "tags": ["a", "b"],
        }),
    );
    assert!(requests[0].url.ends_with("?created%5Bgte%5D=5&created%5Blt%5D=9.5&q=1"), "{}", requests[0].url);
    let fields = [
        "n%5Bx%5D%5Bkey%20a%5D=x%26y%3Dz",
        "n%5Bx%5D%5B%C3%A4%5D=true",
        "items%5B0%5D%5Bprice%5D=p1",
        "items%5B0%5D%5Bids%5D%5B%5D=1",
        "items%5B0%5D%5Bids%5D%5B%5D=2",
        "items%5B1%5D%5Bprice%5D%5Bamount%5D=3",
        "tags=a",
        "tags=b",
    ];
    assert_eq!(requests[0].body.as_deref(), Some(fields.join("&").as_bytes()));
    let (_, requests) = send(http, json!({"created": 5, "items": [], "map": null}));
    assert!(requests[0].url.ends_with("?created=5&q=1"), "{}", requests[0].url);
    assert_eq!(requests[0].body.as_deref(), Some(&b""[..]));
}

#[test]
fn answers_that_say_that_a_call_failed_are_errors_whatever_their_status() {
    for (http, body, sentence_of_service) in [
        (
            "expect: {absent: [$response.body.errors]}",
            r#"{"errors": [{"message": "No such team"}]}"#,
            "[api.test] No such team (HTTP 200)",
        ),
        (
            "expect: {is_true: [$response.body.ok]}",
            r#"{"ok": false, "error": "channel_not_found"}"#,
            "[api.test] channel_not_found (HTTP 200)",
        ),
        (
            "expect: {is_true: [$response.body.ok]}",
            r"{}",
            "[api.test] the response says that the call failed: $response.body.ok is not true (HTTP 200)",
        ),
        (
            "expect: {absent: [$response.body.fault]}",
            r#"{"fault": 1}"#,
            "[api.test] the response has $response.body.fault (HTTP 200)",
        ),
    ] {
        let outcome = call_with(http, &Recorder::new(200, body), json!({}));
        assert_eq!(kind(&outcome), ErrorKind::Tool);
        assert_eq!(sentence(&outcome), sentence_of_service);
    }
    for body in [r"{}", r#"{"errors": null}"#, r#"{"errors": []}"#] {
        value(call_with("expect: {absent: [$response.body.errors]}", &Recorder::new(200, body), json!({})));
    }
}

#[test]
fn an_error_says_what_the_service_says_and_its_first_cause() {
    for (body, reason) in [
        (r#"{"message": "Not Found"}"#, "Not Found"),
        (
            r#"{"message": "Validation Failed", "errors": [{"message": "A pull request exists"}]}"#,
            "Validation Failed: A pull request exists",
        ),
        (r#"{"message": "a", "errors": ["a"]}"#, "a"),
        (r#"{"errors": ["Forbidden"]}"#, "Forbidden"),
        (r#"{"error": "invalid_grant", "error_description": "expired"}"#, "expired"),
        (r#"{"code": "42P01", "message": "no such table", "details": null}"#, "no such table"),
        ("<h1>Bad Gateway</h1>", "<h1>Bad Gateway</h1>"),
        ("", "Bad Request"),
    ] {
        let outcome = call_with("path: /x", &Recorder::new(400, body), json!({}));
        assert_eq!(sentence(&outcome), format!("[api.test] {reason} (HTTP 400)"), "{body}");
    }
}

#[test]
fn an_optional_secret_that_is_not_set_leaves_its_header_out() {
    let contract = "
base_url: https://api.test
config: {token: {secret: true}, needed: {secret: true, required: on_use}}
tools:
  - {name: t, http: {headers: {Authorization: '$[Bearer ${secrets.token}]'}}}
  - {name: strict, http: {headers: {Authorization: 'Bearer ${secrets.needed}'}}}
";
    let client = Service::new(ok);
    let project = Project::offering(contract, &[]);
    let engine = engine(&project, &client, &json!({"secrets": {}}));
    value(call(&engine, "t", json!({}), &["net:api.test", "secret:token"]));
    assert!(client.requests()[0].headers.is_empty(), "{:?}", client.requests());
    let outcome = call(&engine, "strict", json!({}), &["net:api.test", "secret:needed"]);
    assert_eq!(kind(&outcome), ErrorKind::Unavailable);
    assert_eq!(client.requests().len(), 1);
}

#[test]
fn a_result_has_the_fields_that_are_asked_for() {
    let body = r#"{"total": 2, "items": [{"n": 1, "user": {"login": "a"}, "labels": [{"name": "x"}, {"name": "y"}], "z": 9}, {"n": 2, "labels": null}]}"#;
    let http = "
result:
  total: $response.body.total
  issues:
    for_each: $response.body.items
    as: issue
    value: {n: $issue.n, by: $issue.user.login, labels: {for_each: $issue.labels, value: $item.name}, q: $inputs.q}
  none: {for_each: $response.body.gone, value: $item}
  pair: [$response.status, {for_each: $response.body.items, value: 'no. ${item.n}'}]
";
    let found = value(call_with(http, &Recorder::new(200, body), json!({"q": "x"})));
    let expected = json!({
        "total": 2,
        "issues": [{"n": 1, "by": "a", "labels": ["x", "y"], "q": "x"}, {"n": 2, "labels": [], "q": "x"}],
        "none": [],
        "pair": [200, ["no. 1", "no. 2"]],
    });
    assert_eq!(found, expected);
    let outcome = call_with(
        "result: {for_each: $response.body.total, value: $item}",
        &Recorder::new(200, body),
        json!({}),
    );
    assert_eq!(sentence(&outcome), "tool t: $response.body.total is not a list");
}

/// Pages of two items, of five in all, by `page`, `cursor` in the body or the query, and the header `Link`.
fn pages(request: &HttpRequest) -> Answer {
    let body: Value = request.body.as_ref().map_or(Value::Null, |body| serde_json::from_slice(body).unwrap());
    let of_query = request.url.split(['?', '&']).find_map(|part| part.strip_prefix("page="));
    let of_body = body["variables"]["after"].as_str();
    let page: usize = of_query.or(of_body).map_or(1, |page| page.parse().unwrap());
    let items: Vec<Value> =
        (0..5).skip((page - 1) * 2).take(2).map(|n| json!({"n": n, "noise": "x".repeat(50)})).collect();
    let is_last = page >= 3;
    let link = format!(
        r#"<https://evil.test/elsewhere?page={}>; rel="next", <https://api.test/x?page=3>; rel="last""#,
        page + 1
    );
    let headers = if is_last { Vec::new() } else { vec![("link", link)] };
    let next = if is_last { Value::Null } else { (page + 1).to_string().into() };
    (
        200,
        headers,
        json!({"items": items, "info": {"end": (page + 1).to_string(), "more": !is_last}, "next": next})
            .to_string(),
    )
}

fn paged(http: &str, input: Value, service: &Service) -> Outcome {
    let lines: Vec<String> = http.trim().lines().map(|line| format!("      {line}")).collect();
    let contract =
        format!("base_url: https://api.test/v1\ntools:\n  - name: t\n    http:\n{}", lines.join("\n"));
    run(&contract, service, &json!({}), input, &["net:api.test"])
}

fn numbers(items: &Value) -> Vec<u64> {
    items.as_array().unwrap().iter().map(|item| item.get("n").unwrap_or(item).as_u64().unwrap()).collect()
}

#[test]
fn pages_are_joined_however_a_service_names_the_next_one() {
    for (http, requests) in [
        ("paging: {next: link, into: query.page, items: $response.body.items}", 3),
        ("paging: {next: number, into: query.page, items: $response.body.items}", 4),
        ("paging: {next: $response.body.next, into: query.page, items: $response.body.items}", 3),
        (
            "method: POST\nsafe: true\nbody: {query: q, variables: {first: 2}}\npaging: {next: $response.body.info.end, more: $response.body.info.more, into: body.variables.after, items: $response.body.items}",
            3,
        ),
    ] {
        let service = Service::new(pages);
        let found = value(paged(http, json!({}), &service));
        assert_eq!((numbers(&found["items"]), &found["next"]), (vec![0, 1, 2, 3, 4], &Value::Null), "{http}");
        assert_eq!(service.requests().len(), requests, "{http}");
        assert!(
            service.urls().iter().all(|url| url.starts_with("https://api.test/v1")),
            "{:?}",
            service.urls()
        );
    }
}

#[test]
fn a_list_ends_at_its_bound_and_says_where_it_goes_on() {
    let http = "paging: {next: link, into: query.page, from: $inputs.page, items: $response.body.items, item: $item.n, max_items: $inputs.limit}";
    let found = |input| value(paged(http, input, &Service::new(pages)));
    assert_eq!(found(json!({"limit": 2})), json!({"items": [0, 1], "next": "2"}));
    // A page that is too much is left to the next call.
    assert_eq!(found(json!({"limit": 3})), json!({"items": [0, 1], "next": "2"}));
    assert_eq!(found(json!({"limit": 4, "page": "2"})), json!({"items": [2, 3, 4], "next": null}));
    assert_eq!(found(json!({})), json!({"items": [0, 1, 2, 3, 4], "next": null}));
    // Of a first page that is too much by itself, the rest is left out, and the log says so.
    let outcome = paged(http, json!({"limit": 1}), &Service::new(pages));
    assert!(
        outcome.log.iter().any(|line| line.message.contains("1 items of a page were left out")),
        "{:?}",
        outcome.log
    );
    assert_eq!(value(outcome), json!({"items": [0], "next": "2"}));
    let shaped = format!("{http}\nresult: {{found: $items, more: $next, last: $response.body.info.end}}");
    let found = value(paged(&shaped, json!({"limit": 2}), &Service::new(pages)));
    assert_eq!(found, json!({"found": [0, 1], "more": "2", "last": "2"}));
    for input in [json!({"limit": 0}), json!({"limit": "x"}), json!({"page": {"a": 1}}), json!({"page": -1})]
    {
        let service = Service::new(pages);
        assert_eq!(kind(&paged(http, input.clone(), &service)), ErrorKind::InvalidInput, "{input}");
        assert!(service.requests().is_empty(), "{input}");
    }
}

#[test]
fn hostile_pages_end() {
    let same = Service::new(|_| (200, Vec::new(), r#"{"items": [1], "next": "again"}"#.into()));
    let http = "paging: {next: $response.body.next, into: query.cursor, items: $response.body.items}";
    let outcome = paged(http, json!({}), &same);
    assert_eq!(kind(&outcome), ErrorKind::Tool);
    assert!(sentence(&outcome).contains("read already"), "{}", sentence(&outcome));
    assert_eq!(same.requests().len(), 2);
    // Another place each time, and never an item.
    let endless = Service::new(|request| {
        let next = request.url.len();
        (200, Vec::new(), format!(r#"{{"items": [], "next": "{}"}}"#, "x".repeat(next)))
    });
    let found = value(paged(http, json!({}), &endless));
    assert_eq!(found["items"], json!([]));
    assert!(endless.requests().len() <= 100);
    let huge = Service::new(|_| {
        (200, Vec::new(), format!(r#"{{"items": ["{}"], "next": {{"a": 1}}}}"#, "x".repeat(1000)))
    });
    assert!(sentence(&paged(http, json!({}), &huge)).contains("is no place of a page"));
    let no_list = Service::new(|_| (200, Vec::new(), r#"{"items": {"a": 1}}"#.into()));
    assert!(sentence(&paged(http, json!({}), &no_list)).contains("is not a list"));
}

#[test]
fn what_cannot_be_a_part_of_a_call_is_refused_at_its_line() {
    for (line, words) in [
        ("path: /a$[/$inputs.id]", "another path"),
        ("query: text", "neither a map nor an input"),
        ("query: $config.region", "neither a map nor an input"),
        ("{method: POST, body: {a: 1}, form: {a: 1}}", "a request has one body"),
        ("{method: POST, form: [1]}", "form must be a map"),
        ("basic: {user: $config.region}", "no `password`"),
        ("{basic: {user: a, password: b}, headers: {authorization: c}}", "has `basic` and the header"),
        ("{method: DELETE, safe: true}", "never safe"),
        ("base_url: $inputs.id", "means nothing here"),
        ("base_url: $secrets.region", "no secret that the skill declares"),
        ("base_url: https://a.test$[/$config.region]", "cannot be the base URL"),
        ("base_url: 'https://a.test?x=$config.region'", "cannot be the base URL"),
        ("expect: {absent: [$inputs.id]}", "not part of the response"),
        ("expect: {is_true: [$response]}", "means nothing here"),
        ("paging: {into: query.page}", "has no `next`"),
        ("paging: {next: link}", "has no `into`"),
        ("paging: {next: number, into: page}", "does not say where"),
        ("paging: {next: number, into: body.page}", "does not say where"),
        ("paging: {next: number, into: query.}", "does not say where"),
        ("{query: {page: 1}, paging: {next: number, into: query.page}}", "sets page too"),
        ("paging: {next: number, into: query.page, first: 2}", "from 0 to 1"),
        ("paging: {next: link, into: query.page, max_items: 0}", "from 1 to 10000"),
        ("paging: {next: link, into: query.page, max_items: 10001}", "from 1 to 10000"),
        ("paging: {next: $inputs.id, into: query.page}", "not part of the response"),
        ("paging: {next: link, into: query.page, from: $config.region}", "must be an input"),
        ("paging: {next: link, into: query.page, item: {a: $items}}", "means nothing here"),
        ("result: $items", "means nothing here"),
        ("result: {for_each: $response.body}", "has no `value`"),
        ("result: {for_each: a, value: b}", "does not name a list"),
        ("result: {for_each: $response.body, as: inputs, value: b}", "cannot have this name"),
        ("result: {for_each: $response.body, as: a-b c, value: b}", "cannot have this name"),
        ("result: [$item]", "means nothing here"),
    ] {
        let message = refusal(line);
        assert!(message.contains(words), "{line}: {message}");
    }
}

const INTERNAL: &str = "
base_url: https://api.test/v1
tools:
  - name: t
    inputs: {path: {type: string, required: true}}
    entrypoint: scripts/t.lua
  - name: read_contents
    internal: true
    inputs: {path: {type: string, required: true}}
    http: {path: /contents/$inputs.path, multi_segment: [path]}
";

#[test]
fn an_internal_tool_is_called_by_its_own_skill_and_offered_to_nobody() {
    let client = Service::new(|_| (200, Vec::new(), r#"{"content": "aGVsbG8="}"#.into()));
    let script = "return ctx.tool('.read_contents', {path = input.path}).content";
    let project = Project::offering(INTERNAL, &[("t.lua", script)]);
    let engine = engine(&project, &client, &json!({}));
    let outcome = call(&engine, "t", json!({"path": "src/a b.rs"}), &["net:api.test"]);
    assert_eq!(value(outcome), "aGVsbG8=");
    assert_eq!(client.urls(), ["https://api.test/v1/contents/src/a%20b.rs"]);
    // The guards of the declared call hold, in its own words.
    let outcome = call(&engine, "t", json!({"path": "../x"}), &["net:api.test"]);
    assert_eq!(kind(&outcome), ErrorKind::InvalidInput);
    assert!(sentence(&outcome).contains("must be one segment"), "{}", sentence(&outcome));
    assert_eq!(client.requests().len(), 1);
    // Without the grant of the host, the part has it neither.
    assert_eq!(kind(&call(&engine, "t", json!({"path": "x"}), &[])), ErrorKind::Denied);
    // Nobody else calls it.
    let outcome = call(&engine, "read_contents", json!({"path": "x"}), &["net:api.test"]);
    assert_eq!(kind(&outcome), ErrorKind::UnknownSkill);
    let project = project.caller(
        "tool:weather.read_contents net:api.test",
        "return ctx.tool('weather.read_contents', {path = 'x'})",
    );
    let engine = self::engine(&project, &client, &json!({}));
    let run = granted(Invocation::new("x"), &["tool:weather.read_contents", "net:api.test"]);
    assert_eq!(kind(&engine.run(run)), ErrorKind::UnknownSkill);
    assert_eq!(client.requests().len(), 1);
    let catalog = engine.registry().catalog().json().to_string();
    assert!(!catalog.contains("read_contents"), "{catalog}");
}
