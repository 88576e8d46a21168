//! Connects to a granted host: looks it up, judges every address, and connects to a judged address.
//!
//! Both wait for the system, so each connection is made on a thread of its own. A connection that is being made ends with its run.
//! A lookup cannot be ended from outside; it ends by itself, soon after its run.

use std::io::{self, PipeReader, PipeWriter};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};

use super::rules::EgressRules;

/// Threads that a script has whatever others do.
const OWN_THREADS: usize = 4;

/// The maximum number of threads of a script; further connections wait.
const MAX_OWN_THREADS: usize = 16;

/// While so many run for all scripts of this process, each has its own ones alone.
const SHARED_THREADS: usize = 64;

/// The maximum of all threads: lookups of scripts that have ended may still run.
const MAX_THREADS: usize = 1_024;

/// The time for all addresses of a host.
const CONNECT_TIME: Duration = Duration::from_secs(20);

/// The maximum number of addresses of a host that are tried.
const MAX_ADDRESSES: usize = 16;

/// Why there is no connection.
pub(super) enum ConnectError {
    /// An address of the host is not the public internet.
    NotPublic(IpAddr, u16, &'static str),
    Failed(io::Error),
}

/// The threads of all scripts of this process, also of those that have ended.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The threads that connect for one script.
pub(super) struct ConnectThreads {
    running: usize,
    /// Closed when this is dropped, which ends what is being connected; a lookup goes on until the system ends it.
    _open: PipeWriter,
    has_ended: Arc<PipeReader>,
}

impl ConnectThreads {
    pub(super) fn new() -> io::Result<Self> {
        let (has_ended, open) = io::pipe()?;
        Ok(Self { running: 0, _open: open, has_ended: Arc::new(has_ended) })
    }

    /// Connects on the thread of its caller.
    pub(super) fn connector(&self) -> Connector {
        Connector(self.has_ended.clone())
    }

    /// Whether one more may be started now: its own ones whatever other scripts do, and further ones while few run.
    pub(super) fn has_place(&self) -> bool {
        may_start(self.running, THREADS.load(Ordering::Relaxed))
    }

    /// Counts one as ended, whose result has come.
    pub(super) fn finish(&mut self) {
        self.running -= 1;
    }

    /// Connects on a thread of its own, which passes the result on.
    pub(super) fn start(
        &mut self,
        rules: &EgressRules,
        host: &str,
        port: u16,
        done: impl FnOnce(Result<TcpStream, ConnectError>) + Send + 'static,
    ) -> io::Result<()> {
        let counted = CountedThread::new();
        if THREADS.load(Ordering::Relaxed) > MAX_THREADS {
            return Err(io::Error::other("too many lookups of this program do not end"));
        }
        let (rules, host, has_ended) = (rules.clone(), host.to_owned(), self.has_ended.clone());
        let work = move || {
            let connect = || connect(&rules, &host, port, &has_ended);
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(connect));
            drop(counted);
            done(result.unwrap_or_else(|_| Err(ConnectError::Failed(io::Error::other("its lookup failed")))));
        };
        thread::Builder::new().name("metier-connect".into()).spawn(work)?;
        self.running += 1;
        Ok(())
    }
}

/// Makes connections until the run ends.
#[derive(Clone)]
pub(super) struct Connector(Arc<PipeReader>);

impl Connector {
    pub(super) fn connect(
        &self,
        rules: &EgressRules,
        host: &str,
        port: u16,
    ) -> Result<TcpStream, ConnectError> {
        connect(rules, host, port, &self.0)
    }
}

fn may_start(own: usize, all: usize) -> bool {
    own < OWN_THREADS || (own < MAX_OWN_THREADS && all < SHARED_THREADS)
}

/// Counts a thread until it is dropped.
struct CountedThread;

impl CountedThread {
    fn new() -> Self {
        THREADS.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for CountedThread {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

fn connect(
    rules: &EgressRules,
    host: &str,
    port: u16,
    has_ended: &PipeReader,
) -> Result<TcpStream, ConnectError> {
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
        match connect_until(address, Instant::now() + share, has_ended) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(ConnectError::Failed(last))
}

/// Connects before this moment, unless the run ends first.
fn connect_until(address: SocketAddr, until: Instant, has_ended: &PipeReader) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) => return Ok(socket.into()),
        Err(Errno::INPROGRESS | Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        let mut fds = [PollFd::new(&socket, PollFlags::OUT), PollFd::new(has_ended, PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) if !fds[1].revents().is_empty() => return Err(io::ErrorKind::ConnectionAborted.into()),
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    sockopt::socket_error(&socket)??;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_script_has_threads_of_its_own_whatever_others_take() {
        let most = |all: usize| (0..2_000).take_while(|own| may_start(*own, all + own)).count();
        assert_eq!([0, 48, 56, 60, 64, 1_000].map(most), [16, 16, 8, 4, 4, 4]);
    }

    /// A host that answers nobody: its queue is full.
    fn silent_host() -> (TcpListener, SocketAddr, Vec<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let short = Duration::from_millis(200);
        let queue: Vec<_> = (0..8).map_while(|_| TcpStream::connect_timeout(&address, short).ok()).collect();
        assert!(queue.len() < 8, "the queue takes everybody");
        (listener, address, queue)
    }

    #[test]
    fn what_is_being_connected_ends_with_its_run_or_its_time() {
        let (_listener, address, _queue) = silent_host();
        let (has_ended, open) = io::pipe().unwrap();
        let in_time = |time| connect_until(address, Instant::now() + time, &has_ended).unwrap_err().kind();
        assert_eq!(in_time(Duration::from_millis(20)), io::ErrorKind::TimedOut);
        let ending = thread::spawn(move || drop(open));
        assert_eq!(in_time(Duration::from_mins(10)), io::ErrorKind::ConnectionAborted);
        ending.join().unwrap();
    }

    #[test]
    fn a_host_that_answers_is_connected_to_and_one_that_refuses_is_not() {
        let (has_ended, _open) = io::pipe().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let until = Instant::now() + Duration::from_mins(1);
        let stream = connect_until(address, until, &has_ended).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), address);
        drop((listener, stream));
        let refused = connect_until(address, until, &has_ended).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
