//! Permissions that open more than they seem to, which a person has to think about.

use std::net::IpAddr;

use metier::policy::Permission;
use metier_core::host::non_public_kind;

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
            host == "localhost" || address.is_ok_and(|address| non_public_kind(address).is_some())
        }
        _ => false,
    }
}
