//! Strict, single parsing of a web URL: the checked host is the one that is connected to.

use std::net::{IpAddr, Ipv6Addr};

use http::Uri;

use crate::error::{ErrorKind, Result, SkillError};
use crate::percent_encoding::decode_lenient;

/// An `http` or `https` URL with a whole host, no name or password, and no fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WebUrl {
    uri: Uri,
    host: String,
    port: u16,
}

/// The host of an `http` or `https` URL in lower case, IPv6 without brackets; `invalid-argument` for anything else.
pub(in crate::host) fn url_host(url: &str) -> Result<String> {
    Ok(WebUrl::parse(url)?.host)
}

/// The same host with the port.
pub(in crate::host) fn url_host_and_port(url: &str) -> Result<(String, u16)> {
    let WebUrl { host, port, .. } = WebUrl::parse(url)?;
    Ok((host, port))
}

/// Whether what is sent to a URL is encrypted.
pub(in crate::host) fn is_encrypted(url: &str) -> Result<bool> {
    Ok(WebUrl::parse(url)?.is_encrypted())
}

/// The scheme, the host and the port of a URL, as a URL.
pub(in crate::host) fn url_origin(url: &str) -> Result<String> {
    let WebUrl { uri, .. } = WebUrl::parse(url)?;
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    Ok(format!("{}://{authority}", uri.scheme_str().unwrap_or_default()))
}

/// Refuses a URL that does not stay below a base URL, in a sentence that begins with `attempt`.
pub(in crate::host) fn require_below(url: &str, base: &str, attempt: &str) -> Result<()> {
    WebUrl::parse(url)?.require_below(base, attempt)
}

impl WebUrl {
    /// The same for a URL that is parsed already.
    pub(super) fn require_below(&self, base: &str, attempt: &str) -> Result<()> {
        let parsed = Self::parse(base)?;
        if self.is_below(&parsed) {
            return Ok(());
        }
        let sentence = format!("{attempt}: it leads out of the base URL at {}", parsed.host());
        Err(SkillError::new(ErrorKind::Denied, sentence)
            .with_help("a call with a base URL stays at its scheme, host, port and path"))
    }

    /// Whether it has the origin of the base and a path below that of the base. A path that a server could read as another one is not
    /// below any.
    fn is_below(&self, base: &Self) -> bool {
        let (path, folder) = (self.uri.path(), base.uri.path().trim_end_matches('/'));
        let rest = path.strip_prefix(folder);
        self.shares_origin(base)
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            && !path.split('/').any(|segment| is_dot_segment(&percent_decoded(segment)))
    }

    /// Parses a URL; `invalid-argument` if it is not valid. A URL may contain a secret, so no error repeats it.
    pub(super) fn parse(text: &str) -> Result<Self> {
        if let Some(odd) = text.chars().find(|c| !c.is_ascii_graphic() || *c == '\\') {
            return url_error(format!(
                "must be printable ASCII; write {odd:?} percent-encoded, a host as punycode"
            ));
        }
        let Ok(uri) = text.parse::<Uri>() else { return url_error("is not valid") };
        let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return url_error("must begin with http:// or https:// and a host");
        };
        if authority.as_str().contains('@') {
            return url_error("must not contain a user name or password; send them in a header");
        }
        let host = canonical_host(authority.host())?;
        let default = if scheme == "https" { 443 } else { 80 };
        let port = match authority.as_str().strip_prefix(authority.host()) {
            Some("") => default,
            _ => match authority.port_u16() {
                Some(port) if port > 0 => port,
                _ => return url_error("must have a port between 1 and 65535, or none"),
            },
        };
        Ok(Self { uri, host, port })
    }

    /// Where a reference found at this URL leads (RFC 3986, 5.2); `invalid-argument` where that is no URL of the web.
    ///
    /// Joined here because the type that is sent, [`Uri`], cannot do it, and a second parser could read another host than the
    /// first: what is checked, looked up and sent must be one text. The crate `url` rewrites it (backslashes, hosts), and
    /// `fluent-uri` comes with JSON Schema only. The result is parsed like any other URL.
    pub(super) fn join(&self, reference: &str) -> Result<Self> {
        let reference = reference.split('#').next().unwrap_or_default();
        let (scheme, authority) = (self.scheme(), self.uri.authority().map_or("", |whole| whole.as_str()));
        if has_scheme(reference) {
            return Self::parse(reference);
        }
        if reference.starts_with("//") {
            return Self::parse(&format!("{scheme}:{reference}"));
        }
        let (path, query) = match reference.find('?') {
            Some(at) => reference.split_at(at),
            None => (reference, ""),
        };
        let target = match path {
            "" if query.is_empty() => {
                self.uri.path_and_query().map_or("/", |whole| whole.as_str()).to_owned()
            }
            "" => format!("{}{query}", self.uri.path()),
            path if path.starts_with('/') => format!("{}{query}", remove_dot_segments(path)),
            path => {
                let folder = self.uri.path().rsplit_once('/').map_or("", |(folder, _)| folder);
                format!("{}{query}", remove_dot_segments(&format!("{folder}/{path}")))
            }
        };
        Self::parse(&format!("{scheme}://{authority}{target}"))
    }

    /// The host in lower case, IPv6 in its shortest spelling and without brackets.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// The host, where it is written as an address.
    pub(super) fn literal_address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// The port, the scheme's own where none is written.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// The URL as it is sent.
    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Whether what is sent there is encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.scheme() == "https"
    }

    /// Whether both have the same scheme, host and port.
    pub(super) fn shares_origin(&self, other: &Self) -> bool {
        (self.scheme(), &self.host, self.port) == (other.scheme(), &other.host, other.port)
    }

    fn scheme(&self) -> &str {
        self.uri.scheme_str().unwrap_or_default()
    }
}

fn url_error<T>(why: impl std::fmt::Display) -> Result<T> {
    Err(SkillError::new(ErrorKind::InvalidArgument, format!("the URL {why}")))
}

/// The one spelling of a host. Numeric disguises (`0x7f.1`) pass as names: the address they resolve to is what is judged.
fn canonical_host(host: &str) -> Result<String> {
    if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return match inner.parse::<Ipv6Addr>() {
            Ok(address) => Ok(address.to_string()),
            Err(_) => url_error("has no valid host: the text in brackets is not an IPv6 address"),
        };
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_label = |label: &str| !label.is_empty() && label.len() <= 63 && label.chars().all(is_plain);
    if host.len() > 253 || !host.split('.').all(is_label) {
        return url_error(
            "has no valid host: a host has letters, digits, `-` and `_`, in parts separated by single dots",
        );
    }
    Ok(host.to_ascii_lowercase())
}

/// Whether a server could read a decoded segment as a step up, or as several segments.
fn is_dot_segment(segment: &[u8]) -> bool {
    segment.split(|byte| matches!(byte, b'/' | b'\\')).any(|part| matches!(part, b"." | b".."))
}

/// The bytes of a segment, decoded until nothing is encoded any more: a server may do so twice. What is encoded more often than that
/// counts as a step up.
fn percent_decoded(segment: &str) -> Vec<u8> {
    const MAX_PASSES: usize = 4;
    let mut bytes = segment.as_bytes().to_vec();
    for _ in 0..MAX_PASSES {
        let decoded = decode_lenient(&bytes);
        if decoded.len() == bytes.len() {
            return decoded;
        }
        bytes = decoded;
    }
    b"..".to_vec()
}

fn has_scheme(reference: &str) -> bool {
    let end = reference.find([':', '/', '?']);
    end.is_some_and(|end| end > 0 && reference[end..].starts_with(':'))
}

/// The path with `.` and `..` taken out (RFC 3986, 5.2.4).
fn remove_dot_segments(path: &str) -> String {
    let mut kept = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if segments.peek().is_none() {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_spelling() {
        for (url, host) in [
            ("https://Example.COM/a?b", "example.com"),
            ("http://example.com:8080", "example.com"),
            ("http://127.0.0.1/", "127.0.0.1"),
            ("http://[0:0::1]:80/", "::1"),
            ("http://[::FFFF:127.0.0.1]/", "::ffff:127.0.0.1"),
            ("https://xn--grn-hoa.example/", "xn--grn-hoa.example"),
            ("https://example.com/@evil.com", "example.com"),
            ("https://example.com?@evil.com/", "example.com"),
            ("https://example.com#@evil.com/", "example.com"),
        ] {
            assert_eq!(url_host(url).unwrap(), host, "{url}");
        }
    }

    #[test]
    fn what_two_readers_could_read_differently_is_no_url() {
        for url in [
            "",
            "/path",
            "example.com",
            "//example.com/",
            "ftp://example.com/",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "http:example.com",
            "http:///path",
            "http://",
            "http://:80/",
            "http://user@example.com/",
            "http://user:pw@example.com/",
            "http://example.com:80@evil.com/",
            "http://example.com\\@evil.com/",
            "http://example.com\\.evil.com/",
            "http://exa mple.com/",
            "http://example.com/\r\nx: y",
            "http://example.com/\t",
            "http://example.com/\0",
            " http://example.com/",
            "http://example.com./",
            "http://.example.com/",
            "http://a..b/",
            "http://exam%70le.com/",
            "http://grün.example/",
            "http://\u{ff11}27.0.0.1/",
            "http://example.com:0/",
            "http://example.com:99999/",
            "http://example.com:/",
            "http://example.com:80:80/",
            "http://[::1/",
            "http://[::1%25eth0]/",
            "http://[::1]evil.com/",
            "http://[v1.x]/",
            "http://a,b/",
        ] {
            let kind = url_host(url).map_err(|error| error.kind());
            assert_eq!(kind, Err(ErrorKind::InvalidArgument), "{url:?}");
        }
    }

    #[test]
    fn below_a_base_is_its_origin_and_its_path() {
        let below = |url: &str, base: &str| require_below(url, base, "failed").is_ok();
        for url in [
            "https://a.test/v1",
            "https://a.test/v1/",
            "https://A.test:443/v1/x?y=/../z",
            "https://a.test/v1/a..b/c",
        ] {
            assert!(below(url, "https://a.test/v1"), "{url}");
        }
        for url in [
            "http://a.test/v1/x",
            "https://b.test/v1/x",
            "https://a.test:8443/v1/x",
            "https://a.test/v2/x",
            "https://a.test/v10",
            "https://a.test/",
            "https://a.test/v1/../admin",
            "https://a.test/v1/%2e%2e/admin",
            "https://a.test/v1/%2E./admin",
            "https://a.test/v1/x%2f..%2f..%2fadmin",
            "https://a.test/v1/x%5c..%5cadmin",
            "https://a.test/v1/%252e%252e/admin",
            "https://a.test/v1/%25252525252e",
            "https://a.test/v1/./x",
            "https://a.test.evil.test/v1/x",
        ] {
            assert!(!below(url, "https://a.test/v1"), "{url}");
        }
        assert!(below("https://a.test/anything", "https://a.test"));
    }

    #[test]
    fn no_error_repeats_the_url() {
        for url in ["http://me:hunter2@example.com/", "ftp://example.com/hunter2", "http://a b/hunter2"] {
            assert!(!url_host(url).unwrap_err().message().contains("hunter2"), "{url}");
        }
    }

    #[test]
    fn references_are_resolved_as_the_standard_says() {
        let base = WebUrl::parse("http://a/b/c/d;p?q").unwrap();
        for (reference, target) in [
            ("https://g/x", "https://g/x"),
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g/x", "http://g/x"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("g#s", "http://a/b/c/g"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("/../g", "http://a/g"),
            ("g?y/../x", "http://a/b/c/g?y/../x"),
        ] {
            assert_eq!(base.join(reference).unwrap().uri().to_string(), target, "{reference}");
        }
        for reference in ["javascript:alert(1)", "//user@g/", "///x", "file:///etc/passwd"] {
            assert!(base.join(reference).is_err(), "{reference}");
        }
    }
}
