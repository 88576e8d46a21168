//! Headers on their way: which of them go along to another origin, and those of an answer.

use http::{HeaderMap, HeaderName, HeaderValue, Response};

/// What may follow a redirect to another origin. Everything else may be a credential, whatever it is called.
const CROSS_ORIGIN_HEADERS: [&str; 5] =
    ["accept", "accept-encoding", "accept-language", "content-type", "user-agent"];

/// Keeps only headers that may be sent to another origin.
pub(super) fn strip_credentials(headers: &mut HeaderMap) {
    retain_headers(headers, |name| CROSS_ORIGIN_HEADERS.contains(&name));
}

/// Removes headers that describe a body which is no longer sent.
pub(super) fn strip_content(headers: &mut HeaderMap) {
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
