//! Host function for HTTP: one request, one response.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::provider_call::call_provider;
use super::read::Encoding;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::function::{AccessRule, FunctionExample, HostFunction, Param, ValueType};
use crate::host::http::{missing_client_error, require_below, url_host, validate_headers};
use crate::host::{Args, HttpRequest, HttpResponse, RunContext, SkillContext, enter_secrets, memory_size};

pub(super) const HTTP: HostFunction = HostFunction {
    name: "http",
    aliases: &["host_http"],
    params: &[
        Param {
            name: "url",
            value_type: ValueType::Text,
            required: true,
            doc: "where to: `http` or `https`",
        },
        Param {
            name: "options",
            value_type: ValueType::Record(OPTIONS),
            required: false,
            doc: "what to send, and how",
        },
    ],
    returns: ValueType::Record(RESPONSE_FIELDS),
    access: AccessRule::Net(0),
    doc: "Sends a request and answers with what came back; a status such as 404 is an answer, not an error. \
          Follows up to 5 redirects to hosts that are permitted too. What goes to an `http` URL can be read on the way.",
    example: FunctionExample {
        files: &[],
        fixtures: r#"{"http": {"https://example.com/greeting":
            {"status": 200, "headers": {"content-type": "text/plain"}, "body": "hello"}}}"#,
        grants: &["net:example.com"],
        args: r#"["https://example.com/greeting"]"#,
        answer: r#"{"status": 200, "url": "https://example.com/greeting",
            "headers": {"content-type": "text/plain"}, "body": "hello"}"#,
    },
    body: http,
};

const OPTIONS: &[Param] = &[
    option("method", ValueType::Text, "GET, the default, or HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),
    option("headers", ValueType::Map(&ValueType::Text), "headers to send, by name"),
    option("body", ValueType::Text, "the body, as text"),
    option(
        "body_base64",
        ValueType::Text,
        "the body, as bytes in base64 (standard alphabet, padded); instead of `body`",
    ),
    option(
        "json",
        ValueType::Any,
        "the body, as a value to be sent as JSON, any but null; instead of `body`",
    ),
    option("timeout_ms", ValueType::Count, "milliseconds it may take; what is left of the run by default"),
    option(
        "max_bytes",
        ValueType::Count,
        "bytes the answer's body may have; by default and at most 8 MiB and the output limit",
    ),
    option(
        "base_url",
        ValueType::Text,
        "a URL below which the request and every redirect must stay: its scheme, host, port and path",
    ),
    option(
        "encoding",
        ValueType::Text,
        "the answer's body as `utf-8`, the default, or `base64` for bytes (standard alphabet, padded)",
    ),
];

const RESPONSE_FIELDS: &[Param] = &[
    field("status", ValueType::Count, "the status code"),
    field("url", ValueType::Text, "where the answer came from, redirects followed"),
    field(
        "headers",
        ValueType::Map(&ValueType::Text),
        "headers, names in lower case; several of one name joined by `, `, `set-cookie` by newlines",
    ),
    field("body", ValueType::Text, "the body"),
];

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Methods whose request has no body that means anything (RFC 9110, 9.3).
const BODILESS: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

/// The most bytes an answer's body may have, whatever the output limit.
const MAX_BODY_BYTES: u64 = 8 << 20;

/// The most bytes a URL may have.
const MAX_URL_BYTES: usize = 64 << 10;

const fn option(name: &'static str, kind: ValueType, doc: &'static str) -> Param {
    Param { name, value_type: kind, required: false, doc }
}

const fn field(name: &'static str, kind: ValueType, doc: &'static str) -> Param {
    Param { name, value_type: kind, required: true, doc }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Options {
    method: Option<String>,
    headers: BTreeMap<String, String>,
    body: Option<String>,
    body_base64: Option<String>,
    json: Option<Value>,
    timeout_ms: Option<u64>,
    max_bytes: Option<u64>,
    base_url: Option<String>,
    encoding: Encoding,
}

fn http(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let (url, mut reservation) = (args.text(0), ctx.host_memory().empty_reservation());
    if url.len() > MAX_URL_BYTES {
        let sentence = format!("http: url has more than {MAX_URL_BYTES} bytes");
        return Err(SkillError::new(ErrorKind::InvalidArgument, sentence));
    }
    reservation.add(memory_of_request(args.value(1)))?;
    let options = args.options::<Options>(1)?;
    let (host, encoding) = (url_host(url)?, options.encoding);
    let request = request(url, options, ctx.limits().output.min(MAX_BODY_BYTES))?;
    let base = request.base_url.clone();
    if let Some(base) = &base {
        require_below(url, base, "failed to send the request")?;
    }
    let Some(client) = &ctx.providers().http else {
        return Err(missing_client_error(&host));
    };
    enter_secrets(ctx);
    if !ctx.secret_broker().is_empty() {
        // The request with the secrets, and as it was.
        reservation.add(2 * request.body.as_ref().map_or(0, Vec::len) as u64)?;
    }
    let request = ctx.fill_secrets_for(&**client, request)?;
    let base = base.or_else(|| request.base_url.clone());
    let response = call_provider(ctx, client, "the web", move |client, ctx| client.send(ctx, request));
    let response = ctx.hide_secrets(&host, response)?;
    // A client of the embedder may follow redirects by its own rules.
    if let Some(base) = &base {
        require_below(&response.url, base, "failed to use the response")?;
    }
    reservation.add(answer_memory_size(&response, encoding))?;
    Ok(json!({
        "status": response.status,
        "headers": headers(&response),
        "url": response.url,
        "body": body(response.body, encoding, &host)?,
    }))
}

/// Approximate bytes that the options and the request of them take: they are copied, a body in JSON has six letters for one at the
/// worst, and the bytes of a body in base64 are three quarters of its text.
fn memory_of_request(options: &Value) -> u64 {
    let copies = match options {
        Value::Object(options) if options.contains_key("json") => 8,
        Value::Object(options) if options.contains_key("body_base64") => 3,
        _ => 2,
    };
    copies * memory_size(options)
}

/// Approximate bytes of the value that a response becomes.
fn answer_memory_size(response: &HttpResponse, encoding: Encoding) -> u64 {
    let headers: usize = response.headers.iter().map(|(name, value)| name.len() + value.len() + 256).sum();
    let bytes = response.body.len() + headers;
    (if matches!(encoding, Encoding::Base64) { bytes * 7 / 3 } else { bytes }) as u64
}

fn request(url: &str, options: Options, ceiling: u64) -> Result<HttpRequest> {
    let refused = |why: String| Err(SkillError::new(ErrorKind::InvalidArgument, why));
    let method = options.method.as_deref().unwrap_or("GET").to_ascii_uppercase();
    if !METHODS.contains(&method.as_str()) {
        return refused(format!("options: method must be one of {}", METHODS.join(", ")));
    }
    let mut headers: Vec<_> = options.headers.into_iter().collect();
    let bytes = match options.body_base64.map(|text| STANDARD.decode(text)).transpose() {
        Ok(bytes) => bytes,
        Err(error) => return refused(format!("options: body_base64 is not base64: {error}")),
    };
    if bytes.is_some() && (options.body.is_some() || options.json.is_some()) {
        return refused("options: give `body_base64`, or `body` or `json`, not both".into());
    }
    let body = match (options.body, options.json) {
        (Some(_), Some(_)) => return refused("options: give `body` or `json`, not both".into()),
        (None, None) => bytes,
        (None, Some(value)) => {
            if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
                headers.push(("content-type".into(), "application/json".into()));
            }
            Some(value.to_string().into_bytes())
        }
        (text, None) => text.map(String::into_bytes),
    };
    if body.is_some() && BODILESS.contains(&method.as_str()) {
        return refused(format!("options: a {method} request has no body; POST has one"));
    }
    validate_headers(&headers)?;
    Ok(HttpRequest {
        method,
        url: url.to_owned(),
        headers,
        body,
        timeout: options.timeout_ms.map(Duration::from_millis),
        max_bytes: options.max_bytes.unwrap_or(ceiling).min(ceiling),
        base_url: options.base_url,
    })
}

/// Headers by name. Several of one name are one list (RFC 9110, 5.3), but for cookies, which may hold commas.
fn headers(response: &HttpResponse) -> Map<String, Value> {
    let mut joined = BTreeMap::<&str, String>::new();
    for (name, value) in &response.headers {
        let between = if name == "set-cookie" { "\n" } else { ", " };
        joined
            .entry(name)
            .and_modify(|values| {
                values.push_str(between);
                values.push_str(value);
            })
            .or_insert_with(|| value.clone());
    }
    joined.into_iter().map(|(name, values)| (name.to_owned(), values.into())).collect()
}

fn body(bytes: Vec<u8>, encoding: Encoding, host: &str) -> Result<String> {
    match encoding {
        Encoding::Base64 => Ok(STANDARD.encode(bytes)),
        Encoding::Text => String::from_utf8(bytes).map_err(|error| {
            let help = r#"take its bytes with http(url, {encoding: "base64"})"#;
            let at = error.utf8_error().valid_up_to();
            let sentence =
                format!("failed to read the answer of {host}: it is not UTF-8 text (byte {at}); {help}");
            SkillError::new(ErrorKind::Io, sentence).with_help(help)
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::host::{HttpClient, Providers, RunContextBuilder};
    use crate::policy::{Limits, PathProtection, Permissions, RequestedPermissions};

    /// Answers every request with the same, and remembers the last.
    struct FixedResponse {
        asked: Mutex<Option<HttpRequest>>,
        body: &'static [u8],
    }

    impl HttpClient for FixedResponse {
        fn send(&self, _: &SkillContext, request: HttpRequest) -> Result<HttpResponse> {
            let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            let url = request.url.clone();
            *self.asked.lock().unwrap() = Some(request);
            let headers = vec![
                header("vary", "a"),
                header("set-cookie", "a=1, 2"),
                header("vary", "b"),
                header("set-cookie", "b=2"),
            ];
            Ok(HttpResponse { status: 404, url, headers, body: self.body.to_vec() })
        }
    }

    fn call(body: &'static [u8], arguments: Value) -> (Result<Value>, Option<HttpRequest>) {
        let client = Arc::new(FixedResponse { asked: Mutex::default(), body });
        let answer = HTTP.call(&run(Some(client.clone()), &["net:a.test"]), list(arguments));
        (answer, client.asked.lock().unwrap().take())
    }

    fn run(client: Option<Arc<dyn HttpClient>>, grants: &[&str]) -> SkillContext {
        let granted = grants.iter().map(|text| text.parse().unwrap());
        SkillContext::builder("web")
            .permissions(Permissions::new(RequestedPermissions::All, granted, PathProtection::default()))
            .limits(Limits::default().output(1000))
            .providers(Providers { http: client, ..Providers::default() })
            .build()
    }

    fn list(arguments: Value) -> Vec<Value> {
        serde_json::from_value(arguments).unwrap()
    }

    #[test]
    fn an_answer_is_a_record_whatever_its_status() {
        let (answer, asked) = call(b"gone", json!(["https://a.test/x"]));
        let headers = json!({"vary": "a, b", "set-cookie": "a=1, 2\nb=2"});
        let record = json!({"status": 404, "url": "https://a.test/x", "headers": headers, "body": "gone"});
        assert_eq!(answer.unwrap(), record);
        let plain = HttpRequest {
            method: "GET".into(),
            url: "https://a.test/x".into(),
            headers: Vec::new(),
            body: None,
            timeout: None,
            max_bytes: 1000,
            base_url: None,
        };
        assert_eq!(asked, Some(plain));
    }

    #[test]
    fn options_become_the_request() {
        let options = json!({
            "method": "put", "json": {"a": [1, null]}, "headers": {"X-A": "b"},
            "timeout_ms": 250, "max_bytes": 10,
        });
        let asked = call(b"", json!(["http://a.test", options])).1.unwrap();
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!((asked.method.as_str(), asked.max_bytes), ("PUT", 10));
        assert_eq!(asked.timeout, Some(Duration::from_millis(250)));
        assert_eq!(asked.headers, [header("X-A", "b"), header("content-type", "application/json")]);
        assert_eq!(asked.body.unwrap(), br#"{"a":[1,null]}"#);
        let bytes = json!({"method": "POST", "body_base64": "AP8="});
        assert_eq!(call(b"", json!(["http://a.test", bytes])).1.unwrap().body.unwrap(), [0, 255]);
        let own =
            json!({"method": "POST", "json": 1, "headers": {"Content-Type": "x/y"}, "max_bytes": 1 << 20});
        let asked = call(b"", json!(["http://a.test", own])).1.unwrap();
        assert_eq!((asked.headers, asked.max_bytes), (vec![header("Content-Type", "x/y")], 1000));
    }

    #[test]
    fn what_a_body_takes_is_reserved_before_it_is_copied() {
        const LENGTH: usize = 1 << 20;
        for (key, copies) in [("body", 2), ("body_base64", 3), ("json", 8)] {
            let attempt = |bytes: usize| {
                let client = Arc::new(FixedResponse { asked: Mutex::default(), body: b"" });
                let granted = ["net:a.test".parse().unwrap()];
                let context = SkillContext::builder("web")
                    .permissions(Permissions::new(
                        RequestedPermissions::All,
                        granted,
                        PathProtection::default(),
                    ))
                    .providers(Providers { http: Some(client.clone()), ..Providers::default() })
                    .host_memory(bytes as u64)
                    .build();
                let options = json!({"method": "POST", key: "A".repeat(LENGTH)});
                HTTP.call(&context, list(json!(["http://a.test", options]))).map(drop)
            };
            assert_eq!(attempt(copies * LENGTH).unwrap_err().kind(), ErrorKind::Memory, "{key}");
            assert!(
                attempt(copies * LENGTH + 64_000).is_ok(),
                "{key}: {:?}",
                attempt(copies * LENGTH + 64_000)
            );
        }
    }

    #[test]
    fn what_cannot_be_sent_is_refused_before_the_client_is_asked() {
        for (options, word) in [
            (json!({"method": "BREW"}), "GET, HEAD"),
            (json!({"method": "GET\r\nx: y"}), "GET, HEAD"),
            (json!({"body": "x"}), "a GET request has no body"),
            (json!({"method": "POST", "body": "x", "json": 1}), "not both"),
            (json!({"method": "POST", "body": "x", "body_base64": "eA=="}), "not both"),
            (json!({"method": "POST", "body_base64": "eA"}), "body_base64 is not base64"),
            (json!({"headers": {"x": "a\r\nb: c"}}), "in one line"),
            (json!({"headers": {"host": "b.test"}}), "scripts may not set the header"),
            (
                json!({"headers": {"x": 1}}),
                "an object whose `headers` is an object, every value of it a string",
            ),
            (json!({"headers": ["x"]}), "an object whose `headers` is an object"),
            (json!({"timeout_ms": -1}), "a whole number"),
            (json!({"proxy": "x"}), "the keys method, headers"),
            (json!({"encoding": "gzip"}), "expected one of `utf-8`"),
        ] {
            let (answer, asked) = call(b"", json!(["http://a.test", options]));
            let error = answer.unwrap_err();
            assert_eq!((error.kind(), asked), (ErrorKind::InvalidArgument, None), "{error}");
            assert!(error.message().contains(word), "{word}: {error}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_come_as_base64() {
        let (answer, _) = call(b"\x00\xff", json!(["http://a.test", {"encoding": "base64"}]));
        assert_eq!(answer.unwrap()["body"], "AP8=");
        let error = call(b"a\xff", json!(["http://a.test"])).0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.message().contains("the answer of a.test: it is not UTF-8 text (byte 1)"), "{error}");
        assert!(error.help().is_some_and(|help| help.contains("base64")));
    }

    #[test]
    fn nobody_is_reached_without_a_permission_and_a_client() {
        let client: Arc<dyn HttpClient> = Arc::new(FixedResponse { asked: Mutex::default(), body: b"" });
        for url in ["http://b.test/?hunter2", "http://a.test.b.test/", "http://b.a.test/", "http://aatest/"] {
            let error = HTTP.call(&run(Some(client.clone()), &["net:a.test"]), vec![url.into()]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{url}");
            assert!(!error.message().contains("hunter2"), "{error}");
        }
        let error = HTTP.call(&run(None, &["net"]), vec!["http://a.test".into()]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}
