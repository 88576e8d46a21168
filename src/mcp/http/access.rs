//! Decides by the headers of a request whether it is served, and for which caller: against web pages that reach the server by a
//! name of their own (DNS rebinding) or from another origin, and against everyone without a token.

use std::net::{IpAddr, SocketAddr};

use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Method, Request, StatusCode, Uri};

use super::options::{BearerToken, McpHttpOptions, PATH};

/// Who is let in.
pub(super) struct AccessRules {
    address: SocketAddr,
    /// One for each caller; `None` if everyone is the same caller.
    tokens: Option<Vec<BearerToken>>,
    allowed_hosts: Vec<String>,
}

/// Why a request is not served.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) reason: &'static str,
}

/// The place of a caller's token among the tokens.
pub(super) type CallerIndex = usize;

impl AccessRules {
    pub(super) fn new(address: SocketAddr, options: &McpHttpOptions) -> Self {
        Self {
            address,
            tokens: (!options.needs_no_token).then(|| options.tokens.clone()),
            allowed_hosts: options.allowed_hosts.clone(),
        }
    }

    pub(super) fn check<B>(&self, request: &Request<B>) -> Result<CallerIndex, Refusal> {
        let headers = request.headers();
        if !self.is_own_host(request.uri(), headers) {
            let reason = "the Host header names another server";
            return Err(Refusal { status: StatusCode::FORBIDDEN, reason });
        }
        if !self.is_own_origin(request.uri(), headers) {
            let reason = "web pages of another origin are not served";
            return Err(Refusal { status: StatusCode::FORBIDDEN, reason });
        }
        let path = request.uri().path();
        if path.strip_suffix('/').unwrap_or(path) != PATH {
            return Err(Refusal { status: StatusCode::NOT_FOUND, reason: "the server is at /mcp" });
        }
        let caller = self.caller(headers)?;
        if !matches!(*request.method(), Method::POST | Method::GET | Method::DELETE) {
            let reason = "the methods are POST, GET and DELETE";
            return Err(Refusal { status: StatusCode::METHOD_NOT_ALLOWED, reason });
        }
        Ok(caller)
    }

    fn caller(&self, headers: &HeaderMap) -> Result<CallerIndex, Refusal> {
        let Some(tokens) = &self.tokens else { return Ok(0) };
        let refuse = |reason| Refusal { status: StatusCode::UNAUTHORIZED, reason };
        let sent = only_value(headers, &AUTHORIZATION)
            .ok_or(refuse("send the token of the server: Authorization: Bearer TOKEN"))?;
        let (scheme, token) = sent
            .iter()
            .position(|byte| *byte == b' ')
            .map(|at| sent.split_at(at))
            .ok_or(refuse("the Authorization header is not Bearer TOKEN"))?;
        if !scheme.eq_ignore_ascii_case(b"bearer") {
            return Err(refuse("the Authorization header is not Bearer TOKEN"));
        }
        let token = token.trim_ascii();
        // All are compared, so that the time does not tell which one it is.
        let mut found = None;
        for (index, known) in tokens.iter().enumerate() {
            if known.is(token) {
                found = Some(index);
            }
        }
        found.ok_or(refuse("this is not the token of the server"))
    }

    fn is_own_host(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let Some(host) = only_value(headers, &HOST) else { return false };
        let is_own =
            |text: &[u8]| Authority::try_from(text).is_ok_and(|authority| self.is_own_name(authority.host()));
        // A request that names a server in its first line, too, names the same one.
        is_own(host) && uri.authority().is_none_or(|authority| self.is_own_name(authority.host()))
    }

    /// An address cannot be given another meaning by a name server, a name can.
    fn is_own_name(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&host);
        let is_own_address = address
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback() || !self.address.ip().to_canonical().is_loopback());
        is_own_address || host == "localhost" || self.allowed_hosts.contains(&host)
    }

    /// No origin, as programs send it, or one under which this server itself is reached: by whoever sent the request to the same
    /// host and port, or through a proxy at `https://NAME` of a name that is allowed.
    fn is_own_origin(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        if !headers.contains_key(ORIGIN) {
            return true;
        }
        let Some(origin) = only_value(headers, &ORIGIN).and_then(parse_origin) else { return false };
        let is_allowed_host = self.allowed_hosts.contains(&origin.host);
        // The proxy may have put the address of this server in place of its own name.
        if origin.scheme == "https" {
            return is_allowed_host && origin.port == 443;
        }
        let host = only_value(headers, &HOST).and_then(parse_authority);
        let is_requested = host.is_some_and(|host| host == (origin.host.clone(), origin.port))
            && uri.authority().is_none_or(|authority| {
                parse_authority(authority.as_str().as_bytes()) == Some((origin.host.clone(), origin.port))
            });
        let is_own_name = is_allowed_host || self.is_listening_name(&origin.host);
        is_requested && is_own_name && origin.port == self.address.port()
    }

    /// Whether it is the address that the server listens on, or `localhost` if that is a loopback address. Where it listens on all
    /// addresses, none of them is its own: whoever sends a request chooses which one to write.
    fn is_listening_name(&self, host: &str) -> bool {
        let own = self.address.ip().to_canonical();
        let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let is_own_address = address.parse::<IpAddr>().is_ok_and(|address| address.to_canonical() == own);
        (is_own_address && !own.is_unspecified()) || (host == "localhost" && own.is_loopback())
    }
}

struct Origin {
    scheme: &'static str,
    host: String,
    port: u16,
}

/// An origin as browsers write it: a scheme, a host, and a port if it is not that of the scheme.
fn parse_origin(origin: &[u8]) -> Option<Origin> {
    let text = std::str::from_utf8(origin).ok()?;
    let (scheme, rest) = text.split_once("://")?;
    let scheme = ["http", "https"].into_iter().find(|known| scheme.eq_ignore_ascii_case(known))?;
    if rest.contains(['@', '/', '?', '#']) {
        return None;
    }
    let authority = Authority::try_from(rest).ok()?;
    let port = port(&authority, if scheme == "https" { 443 } else { 80 })?;
    Some(Origin { scheme, host: authority.host().to_ascii_lowercase(), port })
}

/// The host and the port of a request without TLS.
fn parse_authority(text: &[u8]) -> Option<(String, u16)> {
    let authority = Authority::try_from(text).ok()?;
    Some((authority.host().to_ascii_lowercase(), port(&authority, 80)?))
}

/// The port, or the default one if there is none; `None` for something else in its place.
fn port(authority: &Authority, default: u16) -> Option<u16> {
    let written = authority.as_str().rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
    match (written, authority.port_u16()) {
        (None, _) => Some(default),
        (Some(_), port) => port,
    }
}

/// The value of a header that is there once.
fn only_value<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    values.next().is_none().then(|| first.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(address: &str, tokens: &[&str]) -> AccessRules {
        let tokens = tokens.iter().map(|token| BearerToken::parse(token).unwrap()).collect();
        AccessRules {
            address: address.parse().unwrap(),
            tokens: Some(tokens),
            allowed_hosts: vec!["metier.example".to_owned()],
        }
    }

    const TOKENS: [&str; 2] = ["the-first-token-1", "the-second-token"];

    fn status(rules: &AccessRules, headers: &[(&str, &str)]) -> Result<CallerIndex, u16> {
        let mut request = Request::post("/mcp");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        rules.check(&request.body(()).unwrap()).map_err(|refusal| refusal.status.as_u16())
    }

    #[test]
    fn a_token_leads_to_its_caller_and_nothing_else_leads_anywhere() {
        let rules = rules("127.0.0.1:8000", &TOKENS);
        for (value, expected) in [
            ("Bearer the-first-token-1", Ok(0)),
            ("bearer   the-second-token", Ok(1)),
            ("Bearer the-second-toke", Err(401)),
            ("Bearer ", Err(401)),
            ("Bearer", Err(401)),
            ("Basic the-first-token-1", Err(401)),
            ("the-first-token-1", Err(401)),
        ] {
            assert_eq!(
                status(&rules, &[("host", "localhost"), ("authorization", value)]),
                expected,
                "{value}"
            );
        }
        assert_eq!(status(&rules, &[("host", "localhost")]), Err(401));
        let token = ("authorization", "Bearer the-first-token-1");
        assert_eq!(status(&rules, &[("host", "localhost"), token, token]), Err(401));
    }

    #[test]
    fn names_that_lead_here_by_a_name_server_are_refused() {
        let local = rules("127.0.0.1:8000", &TOKENS);
        let open = rules("0.0.0.0:8000", &TOKENS);
        for (host, on_loopback, elsewhere) in [
            ("127.0.0.1:8000", true, true),
            ("LOCALHOST", true, true),
            ("[::1]:8000", true, true),
            ("metier.example:443", true, true),
            ("192.168.1.2:8000", false, true),
            ("evil.example:8000", false, false),
            ("localhost.evil.example", false, false),
            ("127.0.0.1.evil.example", false, false),
            ("evil.example@localhost", true, true),
            ("localhost@evil.example", false, false),
            ("", false, false),
            ("localhost/../evil", false, false),
        ] {
            for (rules, expected) in [(&local, on_loopback), (&open, elsewhere)] {
                let found = status(rules, &[("host", host), ("authorization", "Bearer the-first-token-1")]);
                assert_eq!(found.is_ok(), expected, "{host} {found:?}");
            }
        }
        assert_eq!(status(&local, &[("authorization", "Bearer the-first-token-1")]), Err(403));
        let twice =
            [("host", "localhost"), ("host", "localhost"), ("authorization", "Bearer the-first-token-1")];
        assert_eq!(status(&local, &twice), Err(403));
    }

    #[test]
    fn pages_of_another_origin_are_refused() {
        let token = ("authorization", "Bearer the-first-token-1");
        let is_let_in = |rules: &AccessRules, host: &str, origin: &str| {
            status(rules, &[("host", host), ("origin", origin), token]).is_ok()
        };
        let local = rules("127.0.0.1:8000", &TOKENS);
        for (host, origin, expected) in [
            ("localhost:8000", "http://localhost:8000", true),
            ("LOCALHOST:8000", "http://localhost:8000", true),
            ("127.0.0.1:8000", "http://127.0.0.1:8000", true),
            ("localhost", "https://metier.example", true),
            ("metier.example", "https://metier.example", true),
            ("metier.example", "https://metier.example:443", true),
            ("metier.example:8000", "http://metier.example:8000", true),
            ("localhost", "http://localhost:3000", false),
            ("localhost", "http://localhost", false),
            ("localhost", "https://evil.example", false),
            ("localhost", "http://evil.example:8000", false),
            ("localhost", "null", false),
            ("localhost", "", false),
            ("localhost", "file://localhost:8000", false),
            // Another server of this machine, perhaps of another user.
            ("127.0.0.1:8000", "http://127.0.0.9:8000", false),
            ("127.0.0.9:8000", "http://127.0.0.9:8000", false),
            ("[::1]:8000", "http://[::1]:8000", false),
            ("127.0.0.1:8000", "https://127.0.0.1:8000", false),
            ("localhost:8000", "https://localhost:8000", false),
            ("metier.example", "http://metier.example:9999", false),
            ("metier.example:9999", "http://metier.example:9999", false),
            ("metier.example", "https://metier.example:9999", false),
            ("metier.example", "http://metier.example", false),
            // Another origin than that of the request.
            ("127.0.0.1:8000", "http://localhost:8000", false),
            ("localhost:8000", "http://127.0.0.1:8000", false),
            ("localhost:8000", "http://localhost:8000/", false),
            ("localhost:8000", "http://x@localhost:8000", false),
            ("localhost:8000", "http://localhost:8000 http://localhost:8000", false),
            ("localhost:8000", "http://localhost:", false),
            ("localhost:8000", "http://localhost:99999", false),
            ("localhost:8000", "http://localhost.:8000", false),
            ("localhost:8000", "http://0x7f.1:8000", false),
        ] {
            assert_eq!(is_let_in(&local, host, origin), expected, "{host} {origin}");
        }
        let open = rules("0.0.0.0:8000", &TOKENS);
        for (host, origin, expected) in [
            ("6.6.6.6:8000", "http://6.6.6.6:8000", false),
            ("6.6.6.6:8000", "https://6.6.6.6:8000", false),
            ("[2001:db8::1]:8000", "http://[2001:db8::1]:8000", false),
            ("127.0.0.1:8000", "http://127.0.0.1:8000", false),
            ("0.0.0.0:8000", "http://0.0.0.0:8000", false),
            ("localhost:8000", "http://localhost:8000", false),
            ("metier.example:8000", "http://metier.example:8000", true),
            ("metier.example", "https://metier.example", true),
        ] {
            assert_eq!(is_let_in(&open, host, origin), expected, "{host} {origin}");
        }
        let lan = rules("192.168.1.2:80", &TOKENS);
        for (host, origin, expected) in [
            ("192.168.1.2", "http://192.168.1.2", true),
            ("192.168.1.2:80", "http://192.168.1.2", true),
            ("localhost", "http://localhost", false),
            ("192.168.1.3", "http://192.168.1.3", false),
        ] {
            assert_eq!(is_let_in(&lan, host, origin), expected, "{host} {origin}");
        }
        let six = rules("[::1]:8000", &TOKENS);
        assert!(is_let_in(&six, "[::1]:8000", "http://[::1]:8000"));
        assert!(!is_let_in(&six, "127.0.0.1:8000", "http://127.0.0.1:8000"));
    }

    #[test]
    fn a_stranger_learns_nothing_from_other_paths_and_methods() {
        let rules = rules("127.0.0.1:8000", &TOKENS);
        for (method, path, expected) in [
            ("GET", "/", 404),
            ("GET", "/mcp/x", 404),
            ("GET", "/mcp//", 404),
            ("GET", "/mcp/", 401),
            ("OPTIONS", "/mcp", 401),
            ("PUT", "/mcp", 401),
        ] {
            let request = Request::builder().method(method).uri(path).header("host", "localhost");
            let refused = rules.check(&request.body(()).unwrap()).unwrap_err();
            assert_eq!(refused.status, expected, "{method} {path}");
        }
    }
}
