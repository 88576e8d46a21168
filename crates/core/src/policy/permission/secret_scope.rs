//! The scope of `secret`: a name for reading the secret, or a name, `@` and a host for using it in requests to that host only.

use super::host_scope::{HostScope, host_scope};

/// The name, and the host if there is one.
pub(super) fn split(scope: &str) -> (&str, Option<&str>) {
    scope.rsplit_once('@').map_or((scope, None), |(name, host)| (name, Some(host)))
}

/// The one spelling of a scope; an error says what is wrong with it.
pub(super) fn normalize(scope: &str) -> Result<String, &'static str> {
    let (name, Some(host)) = split(scope) else { return Ok(scope.to_owned()) };
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
pub(super) fn covers(scope: &str, name: &str, host: Option<&str>) -> bool {
    let (own_name, own_host) = split(scope);
    own_name == name && (own_host.is_none() || own_host == host)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(normalize(scope).as_deref(), Ok(normal), "{scope}");
        }
        for scope in ["@a.example", "KEY@", "KEY@*.example.com", "KEY@a/b", "KEY@https://a", "KEY@a b"] {
            assert!(normalize(scope).is_err(), "{scope}");
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
            assert_eq!(covers(scope, name, host), is_covered, "{scope} {name} {host:?}");
        }
    }
}
