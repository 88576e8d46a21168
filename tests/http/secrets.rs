//! Secrets that a script uses in requests and never reads: what the host gets, what the script gets, and every way around it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use metier::error::ErrorKind::{Denied, Io, Unavailable};
use metier::error::Result;
use metier::host::{HttpClient, HttpRequest, HttpResponse, Providers, SecretProvider, SkillContext};
use metier::policy::{Permission, Permissions, RequestedPermissions};
use metier_core::host::RunMessages;
use metier_core::policy::PathProtection;
use serde_json::{Value, json};

use crate::http::secure::{AUTHORITY, secure_with, url};
use crate::http::server::{Server, answer, redirect};
use crate::http::web;

const TOKEN: &str = "ghp_0123456789abcdefABCDEF0123456789abcd";
const PASSWORD: &str = "Correct+Horse/Battery=Staple&9";

const NAMES: &[(&str, &str)] = &[("secure.test", "127.0.0.1"), ("other.test", "127.0.0.1")];

/// Secrets by their names, each with the hosts to which alone it goes, if it has any.
struct Secrets(BTreeMap<&'static str, (&'static str, Option<Vec<String>>)>);

impl SecretProvider for Secrets {
    fn secret(&self, _: &SkillContext, name: &str) -> Result<Option<String>> {
        Ok(self.0.get(name).map(|(value, _)| (*value).to_owned()))
    }

    fn hosts(&self, _: &SkillContext, name: &str) -> Option<Vec<String>> {
        self.0.get(name)?.1.clone()
    }
}

fn run_with(grants: &[String], client: impl HttpClient + 'static) -> SkillContext {
    run_bound(grants, client, None)
}

fn run_bound(
    grants: &[String],
    client: impl HttpClient + 'static,
    hosts: Option<Vec<String>>,
) -> SkillContext {
    let granted: Vec<Permission> = grants.iter().map(|text| text.parse().unwrap()).collect();
    let secrets = [("TOKEN", (TOKEN, hosts)), ("PASSWORD", (PASSWORD, None)), ("SHORT", ("hunter2", None))];
    SkillContext::builder("web")
        .permissions(Permissions::new(RequestedPermissions::All, granted, PathProtection::default()))
        .providers(Providers::default().secrets(Secrets(secrets.into())).http(client))
        .build()
}

fn trusting() -> impl HttpClient + 'static {
    web(NAMES).root_certificates(AUTHORITY).unwrap()
}

/// A run that may use both secrets at `secure.test` and reach all servers of the tests.
fn run_for(server: &Server) -> SkillContext {
    run_with(&grants(server), trusting())
}

fn grants(server: &Server) -> Vec<String> {
    let host = format!("secure.test:{}", server.port());
    let secrets = ["TOKEN", "PASSWORD"].map(|name| format!("secret:{name}@{host}"));
    let hosts = ["net:secure.test", "net:other.test", "net:127.0.0.1"].map(str::to_owned);
    secrets.into_iter().chain(hosts).collect()
}

fn secret(ctx: &SkillContext, name: &str) -> String {
    ctx.call("secret", vec![name.into()]).unwrap().as_str().unwrap().to_owned()
}

fn http(ctx: &SkillContext, url: String, options: Value) -> Result<Value> {
    ctx.call("http", vec![url.into(), options])
}

/// A server that answers with the request itself, in its body and in a header.
fn echo() -> Server {
    secure_with(|request| {
        let line = request.lines().next().unwrap().to_owned();
        answer("200 OK", &[&format!("x-line: {line}")], request)
    })
}

#[test]
fn the_host_gets_the_secret_wherever_it_stands_and_the_script_a_placeholder() {
    let server = echo();
    let ctx = run_for(&server);
    let (token, password) = (secret(&ctx, "TOKEN"), secret(&ctx, "PASSWORD"));
    assert!(token.starts_with("ghp_") && token.len() == TOKEN.len() && token != TOKEN, "{token}");
    let (symbols, letters): (String, String) = password.chars().partition(|c| !c.is_alphanumeric());
    assert_eq!((symbols.as_str(), letters.len()), ("+/=&", PASSWORD.len() - 4), "{password}");
    assert_eq!(secret(&ctx, "TOKEN"), token, "the same one throughout the run");
    let encoded =
        |text: &str| text.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D").replace('&', "%26");
    let basic = |password: &str| format!("Basic {}", STANDARD.encode(format!("me:{password}")));
    let url = format!(
        "{}p/{token}?key={}&small={}",
        url(&server, "secure.test"),
        encoded(&password),
        encoded(&password).to_lowercase()
    );
    let options = json!({
        "method": "POST",
        "headers": {"Authorization": basic(&password), "X-Key": format!("Bearer {token}"), "Range": "bytes=0-9", "Accept-Encoding": "gzip"},
        "json": {"key": password, "list": [token]},
    });
    let value = http(&ctx, url, options).unwrap();
    let seen = server.requests().remove(0);
    let expected = [
        format!("POST /p/{TOKEN}?key={}&small=", encoded(PASSWORD)),
        format!("authorization: {}\r\n", basic(PASSWORD)),
        format!("x-key: Bearer {TOKEN}\r\n"),
        format!(r#"{{"key":"{PASSWORD}","list":["{TOKEN}"]}}"#),
    ];
    for part in expected {
        assert!(seen.contains(&part), "{part}\n{seen}");
    }
    let lower = seen.to_ascii_lowercase();
    assert!(!lower.contains("range:") && !lower.contains("gzip"), "{seen}");
    // The host sent everything back, also in base64.
    let returned = value.to_string();
    assert!(!returned.contains(TOKEN) && !returned.contains(&encoded(PASSWORD)), "{returned}");
    assert!(!returned.contains(&basic(PASSWORD)[12..]), "{returned}");
    let body = value["body"].as_str().unwrap();
    assert!(body.contains(&token) && body.contains(&password) && body.len() == seen.len(), "{body}");
    assert!(value["url"].as_str().unwrap().contains(&token));
}

#[test]
fn another_host_and_another_port_get_a_placeholder() {
    let (server, other) = (echo(), echo());
    let ctx = run_for(&server);
    let token = secret(&ctx, "TOKEN");
    for host in ["127.0.0.1", "secure.test"] {
        let options = json!({"headers": {"x-key": token}});
        http(&ctx, format!("{}?{token}", url(&other, host)), options).unwrap();
    }
    let seen = other.requests().concat();
    assert!(seen.contains(&format!("x-key: {token}")) && !seen.contains(TOKEN), "{seen}");
    let logged: Vec<String> = ctx.take_log().into_iter().map(|line| line.message).collect();
    let expected = ["127.0.0.1", "secure.test"].map(|host| {
        format!("the placeholder of the secret TOKEN was sent to {host}, for which the secret is not: it stayed a placeholder")
    });
    assert_eq!(logged, expected);
}

#[test]
fn a_redirect_to_another_host_carries_no_secret() {
    let other = echo();
    let target = url(&other, "127.0.0.1");
    for status in [302, 307] {
        let to = target.clone();
        let server = secure_with(move |_| redirect(status, &to));
        let ctx = run_for(&server);
        let token = secret(&ctx, "TOKEN");
        let options =
            json!({"method": "POST", "body": token, "headers": {"authorization": token, "accept": token}});
        http(&ctx, url(&server, "secure.test"), options).unwrap();
        assert!(server.requests()[0].contains(&format!("authorization: {TOKEN}")));
        let seen = other.requests().pop().unwrap();
        assert!(!seen.contains(TOKEN) && !seen.contains("authorization"), "{seen}");
        assert!(seen.contains(&token), "what may follow is a placeholder: {seen}");
    }
    // The host writes the secret into the place where it leads.
    let server = secure_with(move |request| {
        let line = request.lines().next().unwrap_or_default();
        redirect(302, &format!("{target}?{}", line.split(['?', ' ']).nth(2).unwrap_or_default()))
    });
    let ctx = run_for(&server);
    let count = other.requests().len();
    let error = http(&ctx, format!("{}?{}", url(&server, "secure.test"), secret(&ctx, "TOKEN")), json!({}))
        .unwrap_err();
    assert_eq!((error.kind(), other.requests().len()), (Denied, count), "{error}");
    assert!(!error.to_string().contains(TOKEN), "{error}");
}

#[test]
fn a_secret_goes_only_where_nobody_can_listen() {
    let plain = Server::with_answer(answer("200 OK", &[], "x"));
    let host = format!("secure.test:{}", plain.port());
    let grants = [format!("secret:TOKEN@{host}"), "net:secure.test".into(), "net:127.0.0.1".into()];
    let ctx = run_with(&grants, trusting());
    let options = json!({"headers": {"x-key": secret(&ctx, "TOKEN")}});
    let error = http(&ctx, plain.url("secure.test", "/"), options.clone()).unwrap_err();
    assert_eq!((error.kind(), error.help()), (Denied, Some("write https://secure.test")), "{error}");
    assert!(plain.requests().is_empty());
    // On this machine nobody else listens.
    let grants = [format!("secret:TOKEN@127.0.0.1:{}", plain.port()), "net:127.0.0.1".into()];
    let ctx = run_with(&grants, trusting());
    let options = json!({"headers": {"x-key": secret(&ctx, "TOKEN")}});
    http(&ctx, plain.url("127.0.0.1", "/"), options).unwrap();
    assert!(plain.requests()[0].contains(TOKEN));
}

#[test]
fn an_answer_that_cannot_be_searched_is_refused() {
    let server = secure_with(|_| answer("200 OK", &["content-encoding: gzip"], "x"));
    let ctx = run_for(&server);
    secret(&ctx, "TOKEN");
    let error = http(&ctx, url(&server, "secure.test"), json!({})).unwrap_err();
    assert_eq!(error.kind(), Io, "{error}");
    assert!(error.message().contains("it is compressed"), "{error}");
}

#[test]
fn the_hosts_of_a_provider_bind_whoever_may_read() {
    let server = echo();
    let host = format!("secure.test:{}", server.port());
    let readable = ["secret:TOKEN".to_owned(), "net:secure.test".to_owned(), "net:127.0.0.1".to_owned()];
    let ctx = run_with(&readable, trusting());
    assert_eq!(secret(&ctx, "TOKEN"), TOKEN);
    let ctx = run_bound(&readable, trusting(), Some(vec![host.clone()]));
    let token = secret(&ctx, "TOKEN");
    assert_ne!(token, TOKEN);
    http(&ctx, format!("{}?{token}", url(&server, "secure.test")), json!({})).unwrap();
    assert!(server.requests()[0].contains(TOKEN));
    // Granted for one host, and given for another one.
    let ctx = run_bound(&grants(&server), trusting(), Some(vec!["other.test".into()]));
    let error = ctx.call("secret", vec!["TOKEN".into()]).unwrap_err();
    assert_eq!(error.kind(), Unavailable, "{error}");
}

#[test]
fn a_secret_that_has_no_placeholder_is_refused_and_not_given_away() {
    let ctx = run_with(&["secret:SHORT@secure.test".to_owned()], trusting());
    let error = ctx.call("secret", vec!["SHORT".into()]).unwrap_err();
    assert_eq!(error.kind(), Unavailable, "{error}");
    assert!(error.message().contains("too short") && !error.message().contains("hunter2"), "{error}");
    let error = ctx.call("secret", vec!["TOKEN".into()]).unwrap_err();
    assert_eq!(error.kind(), Denied, "{error}");
}

#[test]
fn a_client_of_the_embedder_is_given_the_secret_and_stays_at_its_host() {
    #[derive(Clone, Default)]
    struct Recorder(Arc<Mutex<Vec<HttpRequest>>>);
    impl HttpClient for Recorder {
        fn send(&self, _: &SkillContext, request: HttpRequest) -> Result<HttpResponse> {
            let url = request.url.clone();
            self.0.lock().unwrap().push(request);
            let url = if url.contains("away") { "https://other.test/".to_owned() } else { url };
            Ok(HttpResponse::new(200, url, TOKEN))
        }
    }
    let recorder = Recorder::default();
    let grants = ["secret:TOKEN@secure.test", "net:secure.test", "net:other.test"].map(str::to_owned);
    let ctx = run_with(&grants, recorder.clone());
    let token = secret(&ctx, "TOKEN");
    let value = http(&ctx, "https://secure.test/a".into(), json!({"headers": {"x-key": token}})).unwrap();
    assert_eq!(value["body"], *token);
    let error = http(&ctx, format!("https://secure.test/away?{token}"), json!({})).unwrap_err();
    assert_eq!(error.kind(), Denied, "what comes from elsewhere is dropped: {error}");
    http(&ctx, format!("https://other.test/?{token}"), json!({})).unwrap();
    let seen = recorder.0.lock().unwrap();
    assert_eq!(seen[0].headers, [("x-key".to_owned(), TOKEN.to_owned())]);
    assert_eq!(seen[0].base_url.as_deref(), Some("https://secure.test"));
    assert_eq!((seen[2].url.as_str(), &seen[2].base_url), (&*format!("https://other.test/?{token}"), &None));
}
