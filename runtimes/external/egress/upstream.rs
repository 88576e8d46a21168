//! Connects to a granted host: looks it up, judges every address, and connects to a judged address.
//!
//! Both wait for the system, so each connection is made on a thread of its own. It cannot be ended from outside; it ends by itself,
//! soon after its run.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::rules::EgressRules;

/// The maximum number of threads that connect for all scripts of this process.
const MAX_THREADS: usize = 64;

/// The time for all addresses of a host.
const CONNECT_TIME: Duration = Duration::from_secs(20);

/// The minimum for one: the system refuses a timeout of zero.
const MIN_CONNECT_TIME: Duration = Duration::from_millis(1);

/// The maximum number of addresses of a host that are tried.
const MAX_ADDRESSES: usize = 16;

/// Why there is no connection.
pub(super) enum ConnectError {
    /// An address of the host is not the public internet.
    NotPublic(IpAddr, u16, &'static str),
    Failed(io::Error),
}

static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Connects on a thread of its own, which passes the result on. Returns whether it was started: not if there are too many.
pub(super) fn start_connect(
    rules: &EgressRules,
    host: &str,
    port: u16,
    done: impl FnOnce(Result<TcpStream, ConnectError>) + Send + 'static,
) -> bool {
    if THREADS.fetch_add(1, Ordering::Relaxed) >= MAX_THREADS {
        THREADS.fetch_sub(1, Ordering::Relaxed);
        return false;
    }
    let (rules, host) = (rules.clone(), host.to_owned());
    let work = move || {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| connect(&rules, &host, port)));
        THREADS.fetch_sub(1, Ordering::Relaxed);
        done(result.unwrap_or_else(|_| Err(ConnectError::Failed(io::Error::other("its lookup failed")))));
    };
    let started = thread::Builder::new().name("metier-connect".into()).spawn(work).is_ok();
    if !started {
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
    started
}

fn connect(rules: &EgressRules, host: &str, port: u16) -> Result<TcpStream, ConnectError> {
    let addresses = match host.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, port)],
        Err(_) => rules.lookup.addresses(host, port).map_err(ConnectError::Failed)?,
    };
    // One address that is refused refuses the host: a name that mixes them is a trap.
    for address in &addresses {
        if let Some(kind) = rules.refused_kind(host, address.ip(), address.port()) {
            return Err(ConnectError::NotPublic(address.ip(), address.port(), kind));
        }
    }
    let until = Instant::now() + CONNECT_TIME;
    let mut untried = addresses.into_iter().take(MAX_ADDRESSES).peekable();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "it has no address");
    while let Some(address) = untried.next() {
        let left = until.saturating_duration_since(Instant::now());
        // An address that never answers leaves time for the others.
        let share = if untried.peek().is_some() { left / 2 } else { left };
        match TcpStream::connect_timeout(&address, share.max(MIN_CONNECT_TIME)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(ConnectError::Failed(last))
}
