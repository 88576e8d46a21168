//! A request of `ctx.http` and its response.

use std::time::Duration;

/// A request with validated arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpRequest {
    /// `GET`, `POST` and so on, in capitals.
    pub method: String,
    /// The URL: `http` or `https`.
    pub url: String,
    /// Headers, in the script's order.
    pub headers: Vec<(String, String)>,
    /// The body, if there is one.
    pub body: Option<Vec<u8>>,
    /// Timeout of the request; the run's deadline applies in any case.
    pub timeout: Option<Duration>,
    /// Maximum bytes of the response body.
    pub max_bytes: u64,
    /// The URL below which the request and every redirect must stay, if there is one. The URL of the request was checked already; a client
    /// that follows a redirect refuses one that leads elsewhere, and what it returns from elsewhere is dropped.
    pub base_url: Option<String>,
}

/// An HTTP response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpResponse {
    /// The status code; an error status is returned like any other.
    pub status: u16,
    /// The URL of the response, after redirects.
    pub url: String,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// A request with that method, in capitals, for that URL, whose response has at most this many bytes. It has no headers, no
    /// body and no timeout.
    pub fn new(method: impl Into<String>, url: impl Into<String>, max_bytes: u64) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            headers: Vec::new(),
            body: None,
            timeout: None,
            max_bytes,
            base_url: None,
        }
    }
}

impl HttpResponse {
    /// A response with that status, from that URL; it has no headers.
    pub fn new(status: u16, url: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Self { status, url: url.into(), headers: Vec::new(), body: body.into() }
    }

    /// Adds a header, whose name is in lower case.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}
