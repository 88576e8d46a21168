//! The base URL of calls: the first server of a description, or one that somebody names.

use std::net::IpAddr;

use serde_json::Value as Json;

use super::document::{fields, items, text};
use crate::contract::ResolvedBaseUrl;
use metier_core::excerpt::shorten;

/// The most bytes of a URL.
const MAX_URL: usize = 2_000;

/// The URL of the first of these servers, as calls take it, or why there is none. `source_url` is where the description comes from.
pub(super) fn first_server(servers: Option<&Json>, source_url: Option<&str>) -> Result<String, String> {
    let Some(server) = items(servers).first() else {
        return source_url.map_or_else(
            || Err("it names no server".to_owned()),
            |source| parse_base_url(&origin(source).unwrap_or_default()),
        );
    };
    let url = with_variables(server)?;
    let url = absolute_url(&url, source_url)?;
    let url = parse_base_url(&url)?;
    if url.starts_with("https://") || is_loopback(&url) {
        return Ok(url);
    }
    Err(format!("its server {} is not encrypted", excerpt(&url)))
}

/// Whether a base URL names this machine, which is reached without encryption.
fn is_loopback(url: &str) -> bool {
    let authority = url.split('/').nth(2).unwrap_or_default();
    let has_port = !authority.ends_with(']') && authority.contains(':');
    let host = if has_port { authority.rsplit_once(':').map_or("", |(host, _)| host) } else { authority };
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// A URL below which calls stay: a scheme, a host and a plain path.
pub(super) fn parse_base_url(written: &str) -> Result<String, String> {
    let url = written.trim().trim_end_matches('/');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~/:[]".contains(c);
    let is_url = url.len() <= MAX_URL && url.chars().all(is_plain);
    if is_url && ResolvedBaseUrl::parse(url).is_some() {
        return Ok(url.to_owned());
    }
    Err(format!(
        "{} cannot be the base URL of calls, which is a scheme, a host and a plain path",
        excerpt(written)
    ))
}

/// The host of a base URL as secrets are bound to it: with its port, unless that is 443.
pub(super) fn secret_host(base_url: &str) -> String {
    let (scheme, rest) = base_url.split_once("://").unwrap_or_default();
    let authority = rest.split('/').next().unwrap_or_default();
    let has_port =
        authority.rsplit_once(':').is_some_and(|(_, port)| port.chars().all(|c| c.is_ascii_digit()));
    if scheme == "http" && !has_port { format!("{authority}:80") } else { authority.to_owned() }
}

/// The URL of a server with the defaults of its variables.
fn with_variables(server: &Json) -> Result<String, String> {
    let server = fields(Some(server));
    let written = text(server, "url").unwrap_or("/");
    if written.len() > MAX_URL {
        return Err("the URL of its server is too long".to_owned());
    }
    let variables = fields(server.get("variables"));
    let (mut url, mut rest) = (String::new(), written);
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        let default = match variables.get(name).and_then(|variable| variable.get("default")) {
            Some(Json::String(text)) => text.clone(),
            Some(Json::Number(number)) => number.to_string(),
            _ => {
                return Err(format!(
                    "its server {} has the variable {} without a default",
                    excerpt(written),
                    excerpt(name)
                ));
            }
        };
        url.extend([before, default.as_str()]);
        if url.len() > MAX_URL {
            return Err("the URL of its server is too long".to_owned());
        }
        rest = after;
    }
    Ok(url + rest)
}

/// A URL that is relative to where the description comes from.
fn absolute_url(url: &str, source_url: Option<&str>) -> Result<String, String> {
    let lower = url.to_ascii_lowercase();
    if lower.starts_with("https://") || lower.starts_with("http://") {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        return Ok(format!("{}://{rest}", scheme.to_ascii_lowercase()));
    }
    let has_scheme = url.split(['/', '?', '#']).next().is_some_and(|first| first.contains(':'));
    if has_scheme {
        return Err(format!("its server {} is none of the web", excerpt(url)));
    }
    if let Some(rest) = url.strip_prefix("//") {
        return Ok(format!("https://{rest}"));
    }
    let Some((source, origin)) = source_url.and_then(|source| Some((source, origin(source)?))) else {
        return Err(format!("its server {} is relative to where the description comes from", excerpt(url)));
    };
    let path = source[origin.len()..].split(['?', '#']).next().unwrap_or_default();
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let joined = if url.starts_with('/') { url.to_owned() } else { format!("{folder}/{url}") };
    let mut segments: Vec<&str> = Vec::new();
    for segment in joined.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    Ok(format!("{origin}/{}", segments.join("/")))
}

/// The scheme and the host of a URL.
fn origin(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().filter(|authority| !authority.is_empty())?;
    Some(format!("{}://{authority}", scheme.to_ascii_lowercase()))
}

fn excerpt(text: &str) -> String {
    format!("`{}`", shorten(text, 80).escape_debug())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_base_url_is_the_first_server_with_the_defaults_of_its_variables() {
        let variables = json!({"region": {"default": "eu"}, "port": {"default": 8443}});
        for (url, expected) in [
            ("https://api.test/v1/", "https://api.test/v1"),
            ("HTTPS://{region}.api.test:{port}/v1", "https://eu.api.test:8443/v1"),
            ("http://localhost:8080", "http://localhost:8080"),
            ("http://127.0.0.1", "http://127.0.0.1"),
            ("http://[::1]:80/x", "http://[::1]:80/x"),
            ("//api.test/v2", "https://api.test/v2"),
            ("/v3", "https://docs.test/v3"),
            ("v3", "https://docs.test/a/v3"),
            ("../v3/./x", "https://docs.test/v3/x"),
            ("/", "https://docs.test"),
        ] {
            let servers = json!([{"url": url, "variables": variables}]);
            let found = first_server(Some(&servers), Some("https://docs.test/a/openapi.json?token=x"));
            assert_eq!(found.as_deref(), Ok(expected), "{url}");
        }
        assert_eq!(first_server(None, Some("https://docs.test/a")).as_deref(), Ok("https://docs.test"));
    }

    #[test]
    fn a_server_that_calls_cannot_have_is_refused() {
        for (url, words) in [
            ("file:///etc", "none of the web"),
            ("javascript:alert(1)", "none of the web"),
            ("https://user:pw@api.test", "cannot be the base URL"),
            ("https://api.test/?key=1", "cannot be the base URL"),
            ("https://api.test/#a", "cannot be the base URL"),
            ("https://api.test/a/../b", "cannot be the base URL"),
            ("https://api.test/a//b", "cannot be the base URL"),
            ("https://", "cannot be the base URL"),
            ("https://*.api.test", "cannot be the base URL"),
            ("https://api.test\r\nHost: b", "cannot be the base URL"),
            ("https://{tenant}.api.test", "without a default"),
            ("https://{", "without a default"),
            ("http://api.test", "is not encrypted"),
            ("http://localhost.evil.test", "is not encrypted"),
            ("http://127.0.0.1.evil.test", "is not encrypted"),
            ("/v1", "is relative"),
        ] {
            let found = first_server(Some(&json!([{"url": url}])), None);
            assert!(found.as_ref().is_err_and(|reason| reason.contains(words)), "{url}: {found:?}");
        }
        assert!(first_server(Some(&json!([{"url": "a".repeat(10_000)}])), None).is_err());
        assert!(first_server(None, None).is_err());
    }

    #[test]
    fn a_secret_is_bound_to_the_host_and_the_port() {
        for (url, host) in [
            ("https://api.test/v1", "api.test"),
            ("https://api.test:8443", "api.test:8443"),
            ("http://localhost/x", "localhost:80"),
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://[::1]", "[::1]:80"),
        ] {
            assert_eq!(secret_host(url), host, "{url}");
        }
    }
}
