//! Looks up hosts for the connections of processes.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

/// The addresses of a host, by its name and port.
#[derive(Clone)]
pub struct HostLookup(Arc<LookupFn>);

type LookupFn = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

impl HostLookup {
    /// Looks hosts up with this function. What it returns is judged like any other address.
    pub fn from_fn(
        lookup: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(lookup))
    }

    /// The addresses of a host, with that port.
    #[cfg_attr(not(unix), allow(dead_code, reason = "only processes connect by themselves"))]
    pub fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        (self.0)(host, port)
    }
}

impl Default for HostLookup {
    /// Looks hosts up as the system does.
    fn default() -> Self {
        Self::from_fn(|host, port| Ok((host, port).to_socket_addrs()?.collect()))
    }
}

impl fmt::Debug for HostLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostLookup")
    }
}
