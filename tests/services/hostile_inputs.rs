//! Hostile texts in every input of every tool: either nothing is sent, or a request that differs from an ordinary one in that text alone.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use metier::error::Result;
use metier::host::{HttpClient, HttpRequest, HttpResponse, SkillContext};
use metier_core::percent_encoding::decode_lenient;
use serde_json::{Value, json};

use crate::services::server::split_url;
use crate::services::{Services, ToolCase, tool_cases};

const HOSTILE: [&str; 44] = [
    "..",
    ".",
    "../..",
    "../../admin",
    "..%2fadmin",
    "%2e%2e",
    "%2e%2e%2f%2e%2e",
    "%252e%252e%252f",
    "a/../../b",
    "/etc/passwd",
    "//evil.test/x",
    "https://evil.test/",
    "https://api.github.com@evil.test/",
    "a\\..\\b",
    "%5c..%5c",
    "a\r\nHost: evil.test",
    "a\r\n\r\nGET /admin HTTP/1.1",
    "a\nb",
    "a\0b",
    "%00",
    "?x=1",
    "a?select=password",
    "a&select=password",
    "a#b",
    "a;b=c",
    "a b",
    " ",
    "",
    "x'; DROP TABLE users; --",
    "x/**/OR/**/1=1",
    "`id`",
    "$(id)",
    "${secrets.GITHUB_TOKEN}",
    "$inputs.repo",
    "{{secrets}}",
    "\u{202e}txt.exe",
    "\u{feff}a",
    "\u{2028}",
    "ä/ö",
    "..;/admin",
    ".../...//",
    "a%2Fb",
    "__proto__",
    "*",
];

/// Answers every request with an empty object, and remembers it.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<HttpRequest>>>);

impl HttpClient for Recorder {
    fn send(&self, _: &SkillContext, request: HttpRequest) -> Result<HttpResponse> {
        let url = request.url.clone();
        self.0.lock().unwrap().push(request);
        Ok(HttpResponse::new(200, url, "{}"))
    }
}

#[test]
fn no_input_leaves_its_place_in_a_request() {
    let cases = tool_cases();
    let (mut tried, mut sent) = (0, 0);
    let mut failed = Vec::new();
    for case in first_cases(&cases) {
        let ordinary = ordinary_requests(&cases, case);
        let client = Recorder::default();
        let services = Services::new(case, client.clone());
        for place in text_places(&case.case["input"]) {
            for hostile in HOSTILE {
                let mut input = case.case["input"].clone();
                *input.pointer_mut(&place).unwrap() = hostile.into();
                client.0.lock().unwrap().clear();
                tried += 1;
                drop(services.call(case, input));
                for request in client.0.lock().unwrap().iter() {
                    sent += 1;
                    if let Err(reason) = check(request, &ordinary) {
                        failed.push(format!("{} with {hostile:?} at {place}: {reason}", case.title()));
                    }
                }
            }
        }
    }
    assert!(failed.is_empty(), "{} of {tried}:\n{}", failed.len(), failed.join("\n"));
    assert!(tried >= 3_000 && sent > 0, "{tried} tried, {sent} requests sent");
}

/// The first case of each tool that succeeds and sends something.
fn first_cases(cases: &[ToolCase]) -> Vec<&ToolCase> {
    let mut found: Vec<&ToolCase> = Vec::new();
    for case in cases.iter().filter(|case| case.succeeds() && !case.requests().is_empty()) {
        if found.iter().all(|other| (other.skill, &other.tool) != (case.skill, &case.tool)) {
            found.push(case);
        }
    }
    found
}

/// The JSON pointers of the texts in an input.
fn text_places(input: &Value) -> Vec<String> {
    let escape = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match input {
        Value::String(_) => vec![String::new()],
        Value::Array(items) => {
            let nested = items.iter().enumerate();
            nested
                .flat_map(|(at, item)| text_places(item).into_iter().map(move |it| format!("/{at}{it}")))
                .collect()
        }
        Value::Object(entries) => entries
            .iter()
            .flat_map(|(key, item)| {
                text_places(item).into_iter().map(move |it| format!("/{}{it}", escape(key)))
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// What the requests of a tool look like, over all of its cases: origins, methods, names of parameters, headers and fields.
#[derive(Default)]
struct Ordinary {
    origins: BTreeSet<String>,
    methods: BTreeSet<String>,
    /// How many segments the paths have; the largest number also for an input that has several.
    segments: BTreeSet<usize>,
    first_segments: BTreeSet<String>,
    parameters: BTreeSet<String>,
    fields: BTreeSet<String>,
}

fn ordinary_requests(cases: &[ToolCase], of: &ToolCase) -> Ordinary {
    let mut ordinary = Ordinary::default();
    let same = cases.iter().filter(|case| (case.skill, &case.tool) == (of.skill, &of.tool));
    for request in same.flat_map(ToolCase::requests) {
        let url = request["url"].as_str().unwrap_or_default();
        let (origin, rest) = split_url(url);
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        ordinary.origins.insert(origin.into());
        ordinary.methods.insert(request["method"].as_str().unwrap_or("GET").into());
        ordinary.segments.insert(path.split('/').count());
        ordinary.first_segments.insert(path.split('/').nth(1).unwrap_or_default().into());
        ordinary.parameters.extend(names(query));
        ordinary
            .fields
            .extend(request["json"].as_object().into_iter().flat_map(|fields| fields.keys().cloned()));
    }
    ordinary
}

fn names(query: &str) -> impl Iterator<Item = String> + '_ {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split('=').next().unwrap_or_default().to_owned())
}

/// Whether a request is one that the tool makes: what an input says is in its segment, its parameter or its field.
fn check(request: &HttpRequest, ordinary: &Ordinary) -> std::result::Result<(), String> {
    let wrong = |what: &str| Err(format!("{what}: {} {}", request.method, request.url));
    let (origin, rest) = split_url(&request.url);
    if !ordinary.origins.contains(origin) {
        return wrong("another origin");
    }
    if !ordinary.methods.contains(&request.method) {
        return wrong("another method");
    }
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let first = path.split('/').nth(1).unwrap_or_default();
    let most = ordinary.segments.iter().max().copied().unwrap_or_default();
    // A path of a file may have more segments.
    if !ordinary.first_segments.contains(first) || path.split('/').count() > most + 3 {
        return wrong("another path");
    }
    for segment in path.split('/').skip(1) {
        let once = decoded(segment);
        let twice = decoded(&once);
        let is_step = |text: &str| matches!(text, "." | "..") || text.contains(['/', '\\', '\r', '\n', '\0']);
        if is_step(&once) || is_step(&twice) {
            return wrong("a segment that leads elsewhere");
        }
    }
    if let Some(name) = names(query).find(|name| !is_known_parameter(name, ordinary)) {
        return wrong(&format!("a parameter {name}"));
    }
    if request.headers.iter().any(|(name, value)| format!("{name}{value}").contains(['\r', '\n', '\0'])) {
        return wrong("a header with a line break");
    }
    let body: Value =
        request.body.as_ref().map_or(json!({}), |body| serde_json::from_slice(body).unwrap_or_default());
    let field = body.as_object().and_then(|body| body.keys().find(|key| !ordinary.fields.contains(*key)));
    match field {
        Some(field) if !ordinary.fields.is_empty() => wrong(&format!("a field {field}")),
        _ => Ok(()),
    }
}

/// The columns of a filter are parameters too, of letters that no other part of a request has.
fn is_known_parameter(name: &str, ordinary: &Ordinary) -> bool {
    const OF_POSTGREST: [&str; 6] = ["select", "order", "limit", "offset", "on_conflict", "columns"];
    let is_column = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    ordinary.parameters.contains(name)
        || (ordinary.parameters.contains("select") && is_column && !OF_POSTGREST.contains(&name))
}

fn decoded(text: &str) -> String {
    String::from_utf8_lossy(&decode_lenient(text.as_bytes())).into_owned()
}
