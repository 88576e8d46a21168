//! The scopes of `net` and `secret`: hosts, and names of secrets that are read or only used in requests to one host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The ports that a process reaches at a host that is granted without a port.
pub const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// The parsed scope of `net`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostScope<'a> {
    /// A name, a pattern, or an address without brackets.
    pub(crate) host: &'a str,
    /// The port; the usual ones if none is named.
    pub port: Option<u16>,
}

/// The port of an access, by how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessPort {
    /// By a URL, for which a host without a port means every port.
    Url(u16),
    /// By a connection of a process, for which it means the ports of the web.
    Connection(u16),
    /// As a permission names it.
    Named(u16),
}

impl<'a> HostScope<'a> {
    /// Parses a scope; an error says what is wrong with it.
    pub(crate) fn parse(scope: &'a str) -> Result<Self, &'static str> {
        let (host, port) = match scope.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, rest)) if address.parse::<Ipv6Addr>().is_ok() => match rest {
                "" => (address, None),
                rest => (address, Some(rest.strip_prefix(':').ok_or(INVALID_PORT)?)),
            },
            Some(_) => return Err("the text in brackets must be an IPv6 address"),
            None if scope.parse::<Ipv6Addr>().is_ok() => (scope, None),
            None => match scope.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (scope, None),
            },
        };
        if !is_host(host) {
            return Err(INVALID_HOST);
        }
        Ok(Self { host, port: port.map(parse_port).transpose()? })
    }

    /// Whether it is a pattern for all names below a domain.
    pub(crate) fn domain(&self) -> Option<&'a str> {
        self.host.strip_prefix("*.")
    }

    /// The host, where it is an address.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    pub(super) fn covers(&self, host: &str, port: Option<AccessPort>) -> bool {
        let has_port = match (self.port, port) {
            (None, None | Some(AccessPort::Url(_))) => true,
            (None, Some(AccessPort::Connection(port) | AccessPort::Named(port))) => {
                DEFAULT_PORTS.contains(&port)
            }
            (Some(own), Some(port)) => own == port.number(),
            (Some(_), None) => false,
        };
        has_port && self.covers_host(host)
    }

    /// Whether denying it forbids a connection to this host; without a port, to any of its ports.
    pub(super) fn forbids(&self, host: &str, port: Option<AccessPort>) -> bool {
        // Names may end with the root of all names.
        let host = host.strip_suffix('.').unwrap_or(host);
        let has_port = self.port.is_none_or(|own| port.is_none_or(|port| own == port.number()));
        has_port && self.covers_host(host)
    }

    fn covers_host(&self, host: &str) -> bool {
        let Some(domain) = self.domain() else {
            return self.host.eq_ignore_ascii_case(host)
                || self.address().is_some_and(|own| host.parse() == Ok(own));
        };
        let Some(start) = host.len().checked_sub(domain.len() + 1).filter(|start| *start > 0) else {
            return false;
        };
        let is_below = host
            .get(start..)
            .is_some_and(|end| end.strip_prefix('.').is_some_and(|end| end.eq_ignore_ascii_case(domain)));
        is_below && host.parse::<Ipv4Addr>().is_err()
    }
}

impl AccessPort {
    pub(super) fn number(self) -> u16 {
        match self {
            Self::Url(port) | Self::Connection(port) | Self::Named(port) => port,
        }
    }

    /// The port that a permission for it names, if it names one.
    pub(super) fn in_permission(self) -> Option<u16> {
        match self {
            Self::Url(_) => None,
            Self::Connection(port) => (!DEFAULT_PORTS.contains(&port)).then_some(port),
            Self::Named(port) => Some(port),
        }
    }
}

/// The scope that names this host and port.
pub(super) fn host_scope(host: &str, port: Option<u16>) -> String {
    match port {
        None => host.to_owned(),
        Some(port) if host.contains(':') => format!("[{host}]:{port}"),
        Some(port) => format!("{host}:{port}"),
    }
}

const INVALID_HOST: &str = "write a host (api.example.com), a domain with all hosts below it (*.example.com) or an address, without a scheme or a path";

const INVALID_PORT: &str = "the port must be a number between 1 and 65535";

fn parse_port(text: &str) -> Result<u16, &'static str> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| is_number && *port > 0).ok_or(INVALID_PORT)
}

fn is_host(host: &str) -> bool {
    let name = host.strip_prefix("*.").unwrap_or(host);
    // A pattern for a whole top-level domain would be a pattern for half of the world.
    let is_too_wide = name.len() < host.len() && (!name.contains('.') || name.parse::<Ipv4Addr>().is_ok());
    host.parse::<Ipv6Addr>().is_ok() || (is_host_name(name) && !is_too_wide)
}

/// Whether it is a name of labels with letters, digits, `-` and `_`.
pub fn is_host_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_plain);
    name.len() <= 253 && name.split('.').all(is_label)
}

/// The name, and the host if there is one.
pub(super) fn split_secret(scope: &str) -> (&str, Option<&str>) {
    scope.rsplit_once('@').map_or((scope, None), |(name, host)| (name, Some(host)))
}

/// The one spelling of a scope; an error says what is wrong with it.
pub(super) fn normalize_secret(scope: &str) -> Result<String, &'static str> {
    let (name, Some(host)) = split_secret(scope) else { return Ok(scope.to_owned()) };
    if name.is_empty() {
        return Err("write secret:NAME, or secret:NAME@HOST");
    }
    Ok(format!("{name}@{}", normalize_secret_host(host)?))
}

/// The one spelling of the host of a secret, perhaps with a port; an error says what is wrong with it.
pub fn normalize_secret_host(host: &str) -> Result<String, &'static str> {
    let host = HostScope::parse(host)?;
    if host.domain().is_some() {
        return Err("a secret is for one host, and not for all hosts of a domain");
    }
    Ok(host_scope(&host.host.to_ascii_lowercase(), host.port))
}

/// Whether a permission with this scope permits the use of a secret at a host, or without a host the reading of it: who may read a secret
/// may use it anywhere.
pub(super) fn covers_secret(scope: &str, name: &str, host: Option<&str>) -> bool {
    let (own_name, own_host) = split_secret(scope);
    own_name == name && (own_host.is_none() || own_host == host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(scope: &str, host: &str, port: u16) -> (bool, bool) {
        let scope = HostScope::parse(scope).unwrap();
        (
            scope.covers(host, Some(AccessPort::Url(port))),
            scope.covers(host, Some(AccessPort::Connection(port))),
        )
    }

    #[test]
    fn a_scope_has_a_host_and_perhaps_a_port() {
        for (scope, host, port) in [
            ("api.example.com", "api.example.com", None),
            ("localhost", "localhost", None),
            ("api.example.com:8443", "api.example.com", Some(8443)),
            ("*.example.com", "*.example.com", None),
            ("*.example.com:22", "*.example.com", Some(22)),
            ("127.0.0.1:1", "127.0.0.1", Some(1)),
            ("::1", "::1", None),
            ("[::1]", "::1", None),
            ("[fd00::1]:65535", "fd00::1", Some(65535)),
        ] {
            assert_eq!(HostScope::parse(scope), Ok(HostScope { host, port }), "{scope}");
        }
        for scope in [
            "",
            ":80",
            "a:",
            "a:0",
            "a:65536",
            "a:+1",
            "a:80:80",
            "a b",
            "https://a",
            "a/b",
            "*",
            "*.",
            "*.com",
            "*.1.2.3.4",
            "a.*.com",
            "a..b",
            ".a",
            "a.",
            "[a]",
            "[::1",
            "[::1]80",
            "[127.0.0.1]:80",
            "*.[::1]",
            "a@b",
            "grün.example",
        ] {
            assert!(HostScope::parse(scope).is_err(), "{scope}");
        }
    }

    #[test]
    fn a_host_without_a_port_means_every_port_of_a_url_and_those_of_the_web_for_a_connection() {
        for (scope, host, port, expected) in [
            ("a.example", "a.example", 443, (true, true)),
            ("a.example", "A.EXAMPLE", 80, (true, true)),
            ("a.example", "a.example", 8080, (true, false)),
            ("a.example:8080", "a.example", 8080, (true, true)),
            ("a.example:8080", "a.example", 443, (false, false)),
            ("a.example", "b.a.example", 443, (false, false)),
            ("*.a.example", "b.a.example", 443, (true, true)),
            ("*.a.example", "c.b.a.example", 443, (true, true)),
            ("*.a.example", "a.example", 443, (false, false)),
            ("*.a.example", ".a.example", 443, (false, false)),
            ("*.a.example", "xa.example", 443, (false, false)),
            ("*.3.4", "1.2.3.4", 443, (false, false)),
            ("[::1]:8080", "0:0::1", 8080, (true, true)),
        ] {
            assert_eq!(covers(scope, host, port), expected, "{scope} {host} {port}");
        }
    }

    #[test]
    fn a_scope_is_a_name_or_a_name_at_one_host() {
        for (scope, normal) in [
            ("KEY", "KEY"),
            ("KEY@API.example.com", "KEY@api.example.com"),
            ("KEY@api.example.com:8443", "KEY@api.example.com:8443"),
            ("KEY@127.0.0.1:80", "KEY@127.0.0.1:80"),
            ("KEY@[::1]:80", "KEY@[::1]:80"),
            ("me@home@api.example.com", "me@home@api.example.com"),
        ] {
            assert_eq!(normalize_secret(scope).as_deref(), Ok(normal), "{scope}");
        }
        for scope in ["@a.example", "KEY@", "KEY@*.example.com", "KEY@a/b", "KEY@https://a", "KEY@a b"] {
            assert!(normalize_secret(scope).is_err(), "{scope}");
        }
    }

    #[test]
    fn reading_a_secret_includes_its_use_and_the_use_includes_no_reading() {
        for (scope, name, host, is_covered) in [
            ("KEY", "KEY", None, true),
            ("KEY", "KEY", Some("a.example"), true),
            ("KEY@a.example", "KEY", Some("a.example"), true),
            ("KEY@a.example", "KEY", None, false),
            ("KEY@a.example", "KEY", Some("b.example"), false),
            ("KEY@a.example", "KEY", Some("a.example:8443"), false),
            // A name that looks like a use is none.
            ("KEY@a.example", "KEY@a.example", None, false),
            ("KEY", "KEY@a.example", None, false),
            ("KEY", "KEY2", Some("a.example"), false),
        ] {
            assert_eq!(covers_secret(scope, name, host), is_covered, "{scope} {name} {host:?}");
        }
    }
}
