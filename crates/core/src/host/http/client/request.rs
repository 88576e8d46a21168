//! One HTTP request, the request that follows a redirect, and the headers that go along and come back.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};

use crate::error::{ErrorKind, Result, SkillError};
use crate::host::http::url::WebUrl;
use crate::host::http::validate_headers;
use crate::host::{HttpRequest, SkillContext};

/// What is sent to one host.
#[derive(Clone)]
pub(super) struct OutgoingRequest {
    pub(super) url: WebUrl,
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Vec<u8>>,
}

impl OutgoingRequest {
    /// The request as the script made it.
    pub(super) fn from_script(request: HttpRequest) -> Result<Self> {
        let method = request.method.parse().map_err(|_| {
            SkillError::new(
                ErrorKind::InvalidArgument,
                format!("{:?} is not a method of HTTP", request.method),
            )
        })?;
        let headers = validate_headers(&request.headers)?;
        Ok(Self { url: WebUrl::parse(&request.url)?, method, headers, body: request.body })
    }

    /// Fails if a redirect brought the value of a secret that is not for its host.
    pub(super) fn check_secrets(&self, ctx: &SkillContext) -> Result<()> {
        let url = self.url.uri().to_string();
        if !ctx.secrets_for(self.url.host(), self.url.port()).finds_foreign_value(url.as_bytes()) {
            return Ok(());
        }
        let sentence = "failed to follow a redirect: its URL has a secret that is for another host";
        Err(SkillError::new(ErrorKind::Denied, sentence))
    }

    /// The same with the secrets of the run that are for its host.
    pub(super) fn with_secrets(&self, ctx: &SkillContext) -> Result<Cow<'_, Self>> {
        if ctx.secret_broker().is_empty() {
            return Ok(Cow::Borrowed(self));
        }
        let url = self.url.uri().to_string();
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let mut request = HttpRequest::new(self.method.as_str(), url, 0);
        request.headers =
            self.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
        request.body.clone_from(&self.body);
        Self::from_script(ctx.fill_secrets(request)?).map(Cow::Owned)
    }

    /// The request as it is sent, around this body.
    pub(super) fn to_http<B>(&self, body: B) -> Request<B> {
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.url.uri().clone();
        *request.headers_mut() = self.headers.clone();
        request
    }

    /// The request that follows this redirect (RFC 9110, 15.4). From https to http none does, and nothing that may be a
    /// credential goes to another origin.
    pub(super) fn follow_redirect(mut self, status: u16, location: &str) -> Result<Self> {
        let from = self.url;
        let url = from.join(location).map_err(|error| {
            let sentence = format!("failed to follow the redirect of {}: {}", from.host(), error.message());
            SkillError::new(ErrorKind::Io, sentence)
        })?;
        if from.is_encrypted() && !url.is_encrypted() {
            let (from, to) = (from.host(), url.host());
            let sentence =
                format!("failed to follow the redirect of {from} to {to}: it leads from https to http");
            return Err(SkillError::new(ErrorKind::Denied, sentence)
                .with_help("ask for the http URL itself where that is meant"));
        }
        if becomes_get(status, &self.method) {
            self.method = Method::GET;
            self.body = None;
            strip_content(&mut self.headers);
        }
        if !url.shares_origin(&from) {
            strip_credentials(&mut self.headers);
        }
        Ok(Self { url, ..self })
    }
}

fn becomes_get(status: u16, method: &Method) -> bool {
    match status {
        303 => *method != Method::HEAD,
        301 | 302 => *method == Method::POST,
        _ => false,
    }
}

/// What may follow a redirect to another origin. Everything else may be a credential, whatever it is called.
const CROSS_ORIGIN_HEADERS: [&str; 5] =
    ["accept", "accept-encoding", "accept-language", "content-type", "user-agent"];

/// Keeps only headers that may be sent to another origin.
fn strip_credentials(headers: &mut HeaderMap) {
    retain_headers(headers, |name| CROSS_ORIGIN_HEADERS.contains(&name));
}

/// Removes headers that describe a body which is no longer sent.
fn strip_content(headers: &mut HeaderMap) {
    retain_headers(headers, |name| !name.starts_with("content-"));
}

fn retain_headers(headers: &mut HeaderMap, is_kept: impl Fn(&str) -> bool) {
    let gone: Vec<HeaderName> = headers.keys().filter(|name| !is_kept(name.as_str())).cloned().collect();
    for name in gone {
        headers.remove(name);
    }
}

/// The headers of an answer, names in lower case, in the order they came in.
pub(super) fn response_headers<T>(response: &Response<T>) -> Vec<(String, String)> {
    response.headers().iter().map(|(name, value)| (name.as_str().to_owned(), header_text(value))).collect()
}

/// UTF-8 where it is that, otherwise ISO-8859-1, which loses nothing (RFC 9110, 5.5).
fn header_text(value: &HeaderValue) -> String {
    let bytes = value.as_bytes();
    std::str::from_utf8(bytes).map_or_else(|_| bytes.iter().copied().map(char::from).collect(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::http::validate_headers;

    fn outgoing(method: &str, url: &str) -> OutgoingRequest {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers =
            [header("authorization", "x"), header("content-type", "text/plain"), header("accept", "*/*")];
        let body = Some(b"body".to_vec());
        let request = HttpRequest {
            method: method.into(),
            url: url.into(),
            headers: headers.into(),
            body,
            timeout: None,
            max_bytes: 0,
            base_url: None,
        };
        OutgoingRequest::from_script(request).unwrap()
    }

    #[test]
    fn methods_and_bodies_follow_as_the_standard_says() {
        for (status, method, next) in [
            (301, "POST", "GET"),
            (302, "POST", "GET"),
            (303, "POST", "GET"),
            (303, "PUT", "GET"),
            (303, "HEAD", "HEAD"),
            (301, "PUT", "PUT"),
            (302, "DELETE", "DELETE"),
            (307, "POST", "POST"),
            (308, "POST", "POST"),
        ] {
            let after = outgoing(method, "https://a.example/x").follow_redirect(status, "/y").unwrap();
            assert_eq!(after.method.as_str(), next, "{status} {method}");
            let keeps = method == next;
            assert_eq!((after.body.is_some(), after.headers.contains_key("content-type")), (keeps, keeps));
            assert!(after.headers.contains_key("authorization"), "the origin is the same");
        }
    }

    #[test]
    fn another_port_scheme_or_host_is_another_origin() {
        for (from, to, shared) in [
            ("https://a.example/", "https://a.example:443/y", true),
            ("https://a.example/", "https://A.example/y", true),
            ("https://a.example/", "https://a.example:8443/", false),
            ("http://a.example/", "https://a.example/", false),
            ("https://a.example/", "https://b.a.example/", false),
            ("https://a.example/", "//b.example/", false),
        ] {
            let after = outgoing("GET", from).follow_redirect(302, to).unwrap();
            assert_eq!(after.headers.contains_key("authorization"), shared, "{from} to {to}");
            assert!(after.headers.contains_key("accept"));
        }
    }

    #[test]
    fn a_redirect_never_gives_up_encryption_and_never_leaves_the_web() {
        let kind = |to| {
            outgoing("GET", "https://a.example/").follow_redirect(302, to).map(|_| ()).map_err(|e| e.kind())
        };
        assert_eq!(kind("http://a.example/"), Err(ErrorKind::Denied));
        assert_eq!(kind("file:///etc/passwd"), Err(ErrorKind::Io));
        assert_eq!(kind("https://me:pw@a.example/"), Err(ErrorKind::Io));
    }

    #[test]
    fn only_what_is_harmless_goes_along_to_another_origin() {
        let names = ["authorization", "cookie", "x-api-key", "range", "accept", "user-agent", "content-type"];
        let mut headers = validate_headers(&names.map(|name| (name.to_owned(), "x".to_owned()))).unwrap();
        strip_credentials(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "content-type", "user-agent"]);
    }
}
