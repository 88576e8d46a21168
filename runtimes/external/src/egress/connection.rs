//! One connection of a script to a granted host: what it begins with is inspected, and the rest is passed on in both directions.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt;

use super::connection_permit::ConnectionPermit;
use super::http_guard::HttpGuard;
use super::network_log::NetworkLog;
use super::refusal::Refusal;
use super::tls_hello::TlsHello;
use metier_core::host::RunSecrets;

/// How long the first bytes of a connection, or those of a later request, may take.
pub(super) const INSPECTION_TIME: Duration = Duration::from_secs(10);

/// What inspects the bytes of a script.
enum Guard {
    None,
    Tls(TlsHello),
    Http(HttpGuard),
}

/// Bytes in one direction.
#[derive(Default)]
struct Flow {
    /// Those that could not be written yet.
    pending: Vec<u8>,
    has_ended: bool,
    is_shut: bool,
}

/// What comes of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Continue,
    /// The connection to the host is wanted now.
    Connect,
    /// Nothing is left to do.
    Done,
    /// One side has ended it in the middle.
    Broken,
    Refused(Refusal),
}

pub(super) struct Connection {
    pub(super) host: String,
    pub(super) port: u16,
    client: TcpStream,
    server: Option<TcpStream>,
    is_connecting: bool,
    guard: Guard,
    to_server: Flow,
    to_client: Flow,
    inspected_until: Option<Instant>,
    /// The secrets of the run, of which placeholders may be sent here.
    secrets: Option<RunSecrets>,
    _permit: ConnectionPermit,
}

impl Connection {
    pub(super) fn new(
        client: TcpStream,
        (host, port): (String, u16),
        secrets: Option<RunSecrets>,
        permit: ConnectionPermit,
    ) -> Self {
        let is_address = host.parse::<std::net::IpAddr>().is_ok();
        let guard = match port {
            443 => Guard::Tls(TlsHello::new(&host, is_address)),
            80 => Guard::Http(HttpGuard::new(&host)),
            _ => Guard::None,
        };
        let inspected_until = (!matches!(guard, Guard::None)).then(|| Instant::now() + INSPECTION_TIME);
        Self {
            host,
            port,
            client,
            server: None,
            is_connecting: false,
            guard,
            to_server: Flow::default(),
            to_client: Flow::default(),
            inspected_until,
            secrets,
            _permit: permit,
        }
    }

    /// Whether nothing need be inspected before the connection to the host.
    pub(super) fn begins_at_once(&self) -> bool {
        matches!(self.guard, Guard::None)
    }

    pub(super) fn set_connecting(&mut self) {
        self.is_connecting = true;
    }

    pub(super) fn set_server(&mut self, server: TcpStream) -> io::Result<()> {
        server.set_nonblocking(true)?;
        server.set_nodelay(true).ok();
        self.server = Some(server);
        self.is_connecting = false;
        Ok(())
    }

    /// When the bytes that are being inspected must be complete.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.inspected_until
    }

    /// The descriptors to wait for: of the script, and of the host. One without events is left out, because it would always be
    /// ready after the other side has closed it.
    pub(super) fn poll_fds(&self) -> [Option<PollFd<'_>>; 2] {
        let (mut client, mut server) = (PollFlags::empty(), PollFlags::empty());
        if self.reads_client() {
            client |= PollFlags::IN;
        }
        if self.server.is_some() {
            client.set(PollFlags::OUT, !self.to_client.pending.is_empty());
            server.set(PollFlags::IN, self.to_client.reads());
            server.set(PollFlags::OUT, !self.to_server.pending.is_empty());
        }
        let fd = |stream, events: PollFlags| (!events.is_empty()).then(|| PollFd::new(stream, events));
        [fd(&self.client, client), self.server.as_ref().and_then(|stream| fd(stream, server))]
    }

    /// Moves bytes in both directions as far as that is possible without waiting.
    pub(super) fn advance(&mut self, buffer: &mut [u8], log: &NetworkLog) -> Step {
        match self.try_advance(buffer, log) {
            Ok(step) => step,
            Err(_) => Step::Broken,
        }
    }

    /// Ends it so that the script sees an error, and not the end of a whole answer.
    pub(super) fn reset(self) {
        reset(&self.client);
    }

    fn reads_client(&self) -> bool {
        !self.is_connecting && self.to_server.reads()
    }

    fn try_advance(&mut self, buffer: &mut [u8], log: &NetworkLog) -> io::Result<Step> {
        if self.reads_client() {
            match read(&self.client, buffer)? {
                Some(0) => self.to_server.has_ended = true,
                Some(count) => {
                    for name in
                        self.secrets.iter().flat_map(|secrets| secrets.placeholders_in(&buffer[..count]))
                    {
                        log.misplace(&name, &self.host);
                    }
                    if let Err(refusal) = self.inspect(&buffer[..count]) {
                        return Ok(Step::Refused(refusal));
                    }
                }
                None => {}
            }
        }
        let Some(server) = &self.server else {
            // A script that ends before it said what it wants needs no host.
            return Ok(match (self.to_server.pending.is_empty(), self.to_server.has_ended) {
                (false, _) => Step::Connect,
                (true, true) => Step::Done,
                (true, false) => Step::Continue,
            });
        };
        if self.to_client.reads() {
            match read(server, buffer)? {
                Some(0) => self.to_client.has_ended = true,
                Some(count) => {
                    log.count_received(count);
                    self.to_client.pending.extend(&buffer[..count]);
                }
                None => {}
            }
        }
        match self.to_server.write_to(server) {
            Ok(count) => log.count_sent(count),
            // The host may have answered before it stopped reading.
            Err(_) => self.to_server.abandon(),
        }
        self.to_client.write_to(&self.client)?;
        Ok(if self.to_server.is_shut && self.to_client.is_shut { Step::Done } else { Step::Continue })
    }

    fn inspect(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let passed = &mut self.to_server.pending;
        let is_incomplete = match &mut self.guard {
            Guard::None => {
                passed.extend(bytes);
                false
            }
            Guard::Tls(hello) => {
                hello.push(bytes, passed)?;
                hello.is_incomplete()
            }
            Guard::Http(guard) => {
                guard.push(bytes, passed)?;
                guard.is_in_head()
            }
        };
        // The time of a request begins with its first byte, and is not prolonged by the next.
        self.inspected_until = match self.inspected_until {
            _ if !is_incomplete => None,
            None => Some(Instant::now() + INSPECTION_TIME),
            until => until,
        };
        Ok(())
    }
}

impl Flow {
    /// Whether there is room for more.
    fn reads(&self) -> bool {
        self.pending.is_empty() && !self.has_ended
    }

    /// Writes what is pending, and then the end. Returns how many bytes were written.
    fn write_to(&mut self, mut stream: &TcpStream) -> io::Result<usize> {
        let mut written = 0;
        while written < self.pending.len() {
            match stream.write(&self.pending[written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if written == self.pending.len() && self.pending.capacity() > MAX_IDLE_BYTES {
            self.pending = Vec::new();
        } else {
            self.pending.drain(..written);
        }
        if self.pending.is_empty() && self.has_ended && !self.is_shut {
            stream.shutdown(Shutdown::Write)?;
            self.is_shut = true;
        }
        Ok(written)
    }

    /// Ends it: its reader takes no more.
    fn abandon(&mut self) {
        *self = Self { pending: Vec::new(), has_ended: true, is_shut: true };
    }
}

/// The memory that an idle direction may hold.
const MAX_IDLE_BYTES: usize = 4 << 10;

/// The number of bytes read, which is zero at the end; `None` if there are none now.
fn read(mut stream: &TcpStream, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match stream.read(buffer) {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Lets the script see an error when the connection is dropped.
pub(super) fn reset(stream: &TcpStream) {
    sockopt::set_socket_linger(stream, Some(Duration::ZERO)).ok();
}
