//! Connects to a host: looks it up once, checks every address, and connects to a checked address.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use super::timeout::RequestTimeout;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::http::addresses::non_public_kind;
use crate::host::http::url::WebUrl;
use crate::policy::{Access, Permissions, RunPermissions};

/// The addresses of a host by its name.
#[derive(Clone)]
pub(super) struct Resolver(Arc<ResolveFn>);

type ResolveFn = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Maximum addresses of one host that are tried.
const MAX_ADDRESSES: usize = 16;

/// The most time one address gets to accept a connection.
const MAX_CONNECT_TIME: Duration = Duration::from_secs(10);

/// The minimum: the system refuses a timeout of zero.
const MIN_CONNECT_TIME: Duration = Duration::from_millis(1);

/// A connection to the host of the URL, at an address this run may reach.
pub(super) fn connect(
    url: &WebUrl,
    permissions: &Permissions,
    lookup: &Resolver,
    timeout: &RequestTimeout,
) -> Result<TcpStream> {
    let addresses = resolve(url, lookup, timeout)?;
    check_addresses(url, &addresses, permissions)?;
    let mut untried = addresses.into_iter().take(MAX_ADDRESSES).peekable();
    let mut last = None;
    while let Some(address) = untried.next() {
        let left = timeout.remaining()?;
        // An address that never answers leaves time for the others.
        let share = if untried.peek().is_some() { left / 2 } else { left };
        let (place, time) =
            (SocketAddr::new(address, url.port()), share.clamp(MIN_CONNECT_TIME, MAX_CONNECT_TIME));
        match timeout.run_blocking(move || TcpStream::connect_timeout(&place, time))? {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
    }
    let error = last.unwrap_or_else(|| io::ErrorKind::NotFound.into());
    Err(SkillError::io(format_args!("failed to reach {}", url.host()), error))
}

fn resolve(url: &WebUrl, lookup: &Resolver, timeout: &RequestTimeout) -> Result<Vec<IpAddr>> {
    if let Some(literal) = url.literal_address() {
        return Ok(vec![literal]);
    }
    let (lookup, name) = (lookup.clone(), url.host().to_owned());
    let found = timeout.run_blocking(move || lookup.0(&name))?;
    let attempt = || format!("failed to reach {}", url.host());
    let mut addresses = found.map_err(|error| SkillError::io(attempt(), error))?;
    addresses.dedup();
    if addresses.is_empty() {
        return Err(SkillError::new(ErrorKind::Io, format!("{}: it has no address", attempt())));
    }
    Ok(addresses)
}

/// Refuses the host when only one of its addresses is off limits: a name that mixes them is a trap.
///
/// What is not the public internet opens to a permission that names the address; `localhost` also opens to its own name.
fn check_addresses(url: &WebUrl, addresses: &[IpAddr], permissions: &Permissions) -> Result<()> {
    let (host, port) = (url.host(), url.port());
    let by_name = permissions.scoped_only();
    for address in addresses {
        let Some(what) = non_public_kind(*address) else { continue };
        let own_name =
            (host == "localhost" && address.to_canonical().is_loopback()).then(|| Access::url(host, port));
        let need = Access::url(address.to_string(), port);
        if by_name.allows(&need) || own_name.as_ref().is_some_and(|need| by_name.allows(need)) {
            continue;
        }
        let attempt = if host == address.to_string() {
            format!("failed to reach {host}, {what}")
        } else {
            format!("failed to reach {host} at {address}, {what}")
        };
        by_name.require(&own_name.unwrap_or(need), attempt)?;
    }
    Ok(())
}

impl Resolver {
    /// Looks names up with this function.
    pub(super) fn from_fn(lookup: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(lookup))
    }
}

impl Default for Resolver {
    /// Looks names up as the system does.
    fn default() -> Self {
        Self::from_fn(|name| {
            let found = (name, 0).to_socket_addrs()?;
            Ok(found.map(|place| place.ip()).collect())
        })
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}
