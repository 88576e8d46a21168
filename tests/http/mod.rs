//! The web as a skill reaches it: every promise of the client as an attack on it, over loopback and without the internet.

mod addresses;
mod answers;
mod download;
mod redirects;
mod secrets;
mod secrets_attacks;
mod secure;
pub mod server;
mod stopping;

use std::net::IpAddr;
use std::time::Duration;

use metier::error::{ErrorKind, Result, SkillError};
use metier::host::{HttpClient, HttpRequest, HttpResponse, SkillContext, WebClient};
use metier::policy::{CancelToken, Limits, Permission, Permissions, RequestedPermissions};
use metier_core::policy::PathProtection;

/// What reaches the servers of these tests by their address.
const HOME: &[&str] = &["net:127.0.0.1"];

/// A run with these grants.
fn run(grants: &[&str]) -> SkillContext {
    run_with_token(grants, &CancelToken::new())
}

fn run_with_token(grants: &[&str], token: &CancelToken) -> SkillContext {
    let granted: Vec<Permission> = grants.iter().map(|text| text.parse().unwrap()).collect();
    SkillContext::builder("web")
        .permissions(Permissions::new(RequestedPermissions::All, granted, PathProtection::default()))
        .limits(Limits::default().timeout(Duration::from_secs(20)))
        .cancel(token.clone())
        .build()
}

fn get(url: impl Into<String>) -> HttpRequest {
    HttpRequest::new("GET", url, 1 << 20)
}

fn with(mut request: HttpRequest, change: impl FnOnce(&mut HttpRequest)) -> HttpRequest {
    change(&mut request);
    request
}

fn post(url: impl Into<String>, body: impl Into<Vec<u8>>) -> HttpRequest {
    with(HttpRequest::new("POST", url, 1 << 20), |request| request.body = Some(body.into()))
}

fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// A client whose names mean these addresses.
fn web(names: &'static [(&str, &str)]) -> WebClient {
    WebClient::new().resolver(|name| {
        let known = names.iter().filter(|(known, _)| *known == name);
        Ok(known.map(|(_, address)| address.parse::<IpAddr>().unwrap()).collect())
    })
}

/// Sends with the grants that a request to the servers here takes.
fn send(request: HttpRequest) -> Result<HttpResponse> {
    web(&[]).send(&run(HOME), request)
}

fn refused(result: Result<HttpResponse>, kind: ErrorKind, words: &[&str]) -> SkillError {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.message().contains(word), "{word}: {error}");
    }
    error
}
