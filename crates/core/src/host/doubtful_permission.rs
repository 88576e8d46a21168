//! Permissions that open more than they seem to, which a person has to think about.

use std::net::IpAddr;

use super::http::non_public_kind;
use crate::policy::Permission;

/// Whether a permission opens programs that run by themselves, or services that nobody else reaches.
pub fn opens_more(name: &str) -> bool {
    let Ok(permission) = name.parse::<Permission>() else { return true };
    let scope = permission.scope().unwrap_or_default();
    match permission.name() {
        "exec" => true,
        "write" => scope.split('/').any(|part| part.starts_with('.')),
        "net" => {
            let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
            let host =
                scope.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(scope, |(host, _)| host);
            let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
            // Resolvers also read `2130706433`, `127.1` and `0x7f.1` as addresses: no name of the internet ends with a number.
            let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
            let is_number =
                address.is_err() && last.bytes().next().is_none_or(|first| first.is_ascii_digit());
            last == "localhost"
                || is_number
                || address.is_ok_and(|address| non_public_kind(address).is_some())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_near_the_machine_are_doubtful_however_they_are_written() {
        for name in [
            "net:2130706433",
            "net:127.1",
            "net:0x7f.1",
            "net:localhost.",
            "net:a.localhost:8080",
            "net:10.0.0.1",
        ] {
            assert!(opens_more(name), "{name}");
        }
        for name in ["net:example.com", "net:1.example.com:8443", "net:8.8.8.8", "write:docs", "env:KEY"] {
            assert!(!opens_more(name), "{name}");
        }
    }
}
