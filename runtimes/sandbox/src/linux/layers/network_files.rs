//! The files of which a network of the script's own has its own versions.

/// Those by which programs find the resolver.
pub(crate) const NETWORK_FILES: [&str; 3] = ["/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"];
