//! Permissions that open more than they seem to, which a person has to think about.

use std::net::IpAddr;

use super::http::non_public_kind;
use crate::policy::{PathProtection, Permission};

/// Whether a permission opens secrets, programs that run by themselves, or services that nobody else reaches. A script may have printed the name of
/// such a file for no other reason than to be granted it.
pub fn opens_more(name: &str) -> bool {
    let Ok(permission) = name.parse::<Permission>() else { return true };
    let scope = permission.scope().unwrap_or_default();
    match permission.name() {
        "exec" => true,
        "write" => {
            let is_obeyed = |part: &str| {
                let part = part.to_ascii_lowercase();
                part.starts_with('.') || [".git", "hooks"].iter().any(|end| part.ends_with(end))
            };
            scope.split('/').any(is_obeyed) || PathProtection::default().protects_write(scope)
        }
        "home-write" => PathProtection::default().protects_write(scope),
        "home" => PathProtection::default().protects_read(scope),
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
    fn secrets_programs_and_addresses_near_the_machine_are_doubtful_however_they_are_written() {
        for name in [
            "net:2130706433",
            "net:127.1",
            "net:0x7f.1",
            "net:localhost.",
            "net:a.localhost:8080",
            "net:10.0.0.1",
            "write:.git",
            "write:repo.git/hooks",
            "write:githooks",
            "write:id_rsa",
            "write:keys/server.pem",
            "write:credentials.json",
            "home-write:keys/id_rsa",
            "home:keys/id_rsa",
        ] {
            assert!(opens_more(name), "{name}");
        }
        for name in ["net:example.com", "net:1.example.com:8443", "net:8.8.8.8", "write:docs", "env:KEY"] {
            assert!(!opens_more(name), "{name}");
        }
    }
}
