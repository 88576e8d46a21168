//! The thread that serves the network of one script: a single loop over all of its sockets, none of which blocks.
//!
//! One thread for all connections, because a script may open hundreds of them and wait on each; only lookups and new connections to
//! hosts, which block, have threads of their own, a few at a time.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSliceMut, PipeReader, PipeWriter, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, accept_with, recvmsg};

use super::connection::{Connection, Step, reset};
use super::connection_permit::ConnectionPermit;
use super::dns_connection::DnsConnection;
use super::dns_message::{MAX_QUERY_BYTES, answer_query};
use super::name_table::NameTable;
use super::network_log::NetworkLog;
use super::refusal::Refusal;
use super::rules::EgressRules;
use super::secret_proxy::{AcceptedConnection, SecretProxies, secure_port};
use super::upstream::{ConnectError, ConnectThreads};
use metier_core::host::NetworkReport;
use metier_sandbox::{FailedConnection, MAX_EGRESS_PORTS};

/// The maximum number of connections of a script at a time.
const MAX_CONNECTIONS: usize = 256;

/// The maximum number of connections to the resolver at a time.
const MAX_DNS_CONNECTIONS: usize = 16;

/// Where programs find the resolver.
const RESOLVER_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Connections accepted and datagrams read before the others have their turn.
const MAX_AT_ONCE: usize = 64;

/// How long nothing is accepted after that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// The served network of a script. Dropping it ends every connection.
pub(crate) struct Egress {
    rules: EgressRules,
    log: Arc<NetworkLog>,
    names: Arc<NameTable>,
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Egress {
    /// Serves the network whose sockets arrive on this one.
    pub(crate) fn start(rules: EgressRules, sockets: OwnedFd) -> io::Result<Self> {
        let (stop_read, stop) = io::pipe()?;
        let (log, names) = (Arc::new(NetworkLog::default()), Arc::new(NameTable::default()));
        let served = (rules.clone(), log.clone(), names.clone());
        let serve = move || {
            if let Ok(Some(mut forwarder)) = Forwarder::receive(&sockets, &stop_read, served) {
                drop(sockets);
                forwarder.serve(&stop_read);
            }
        };
        let thread = thread::Builder::new().name("metier-egress".into()).spawn(serve)?;
        Ok(Self { rules, log, names, stop: Some(stop), thread: Some(thread) })
    }

    /// What happened since the last report, with connections that failed in the network of the script.
    pub(crate) fn take_report(&self, failed: &[FailedConnection]) -> NetworkReport {
        for FailedConnection { address, count } in failed {
            let address_of_host = address.ip().to_canonical();
            let host = self.names.host_at(address_of_host);
            // What was granted was forwarded, or it was logged why not.
            if self.rules.granted_host(&host, address_of_host, address.port()).is_some() {
                continue;
            }
            self.log.miss(&host, address.port(), *count, &self.rules);
        }
        let mut report = self.log.take_report();
        report.hosts = self.rules.host_names();
        report
    }

    /// Ends every connection, and waits for the thread, which never blocks.
    pub(crate) fn stop(&mut self) {
        if let Some(approvals) = &self.rules.approvals {
            approvals.withdraw();
        }
        drop(self.stop.take());
        self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Egress {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Forwarder {
    rules: EgressRules,
    log: Arc<NetworkLog>,
    resolver: UdpSocket,
    resolver_listener: OwnedFd,
    listeners: Vec<OwnedFd>,
    names: Arc<NameTable>,
    dns_connections: Vec<DnsConnection>,
    connections: BTreeMap<u64, Connection>,
    next_id: u64,
    /// Until when nothing is accepted, because the host program had too few descriptors.
    accepts_from: Option<Instant>,
    /// Connections to hosts that a person is asked about.
    unanswered: Vec<UnansweredConnection>,
    /// Connections that wait for the connection to their host.
    waiting: VecDeque<u64>,
    connecting: ConnectThreads,
    /// Connections to hosts of secrets.
    proxies: SecretProxies,
    /// Those of them that began TLS.
    encrypted: mpsc::Receiver<AcceptedConnection>,
    encrypted_sender: mpsc::Sender<AcceptedConnection>,
    results: mpsc::Receiver<ConnectResult>,
    result_sender: mpsc::Sender<ConnectResult>,
    wake: PipeReader,
    waker: Arc<PipeWriter>,
}

/// A connection that waits for the answer of a person.
struct UnansweredConnection {
    stream: TcpStream,
    host: String,
}

type ConnectResult = (u64, Result<TcpStream, ConnectError>);

/// What was waited for, in the order of the descriptors.
enum Source {
    Stop,
    Wake,
    Resolver,
    ResolverListener,
    Listener(usize),
    Dns(usize),
    Connection(u64),
}

impl Forwarder {
    /// Waits for the sockets; `None` if the run ends first, or there are none.
    fn receive(
        sockets: &OwnedFd,
        stop: &PipeReader,
        (rules, log, names): (EgressRules, Arc<NetworkLog>, Arc<NameTable>),
    ) -> io::Result<Option<Self>> {
        let mut fds = [PollFd::new(stop, PollFlags::IN), PollFd::new(sockets, PollFlags::IN)];
        while poll(&mut fds, None) == Err(Errno::INTR) {}
        if !fds[0].revents().is_empty() {
            return Ok(None);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_EGRESS_PORTS + 2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        recvmsg(sockets, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let mut received = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        let mut received = received.by_ref().flatten();
        let (Some(resolver), Some(resolver_listener)) = (received.next(), received.next()) else {
            return Ok(None);
        };
        let listeners = received.collect();
        let (result_sender, results) = mpsc::channel();
        let (encrypted_sender, encrypted) = mpsc::channel();
        let connecting = ConnectThreads::new()?;
        let proxies = SecretProxies::new(&rules, &log, connecting.connector());
        let (wake, waker) = io::pipe()?;
        for end in [rustix::io::ioctl_fionbio(&wake, true), rustix::io::ioctl_fionbio(&waker, true)] {
            end?;
        }
        Ok(Some(Self {
            rules,
            log,
            resolver: resolver.into(),
            resolver_listener,
            listeners,
            names,
            dns_connections: Vec::new(),
            connections: BTreeMap::new(),
            next_id: 0,
            accepts_from: None,
            unanswered: Vec::new(),
            waiting: VecDeque::new(),
            connecting,
            proxies,
            encrypted,
            encrypted_sender,
            results,
            result_sender,
            wake,
            waker: Arc::new(waker),
        }))
    }

    fn serve(&mut self, stop: &PipeReader) {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let (sources, ready) = self.wait(stop);
            for (source, _) in sources.into_iter().zip(ready).filter(|(_, ready)| *ready) {
                match source {
                    Source::Stop => return,
                    Source::Wake => self.take_results(),
                    Source::Resolver => self.answer_datagrams(&mut buffer),
                    Source::ResolverListener => self.accept_dns(),
                    Source::Listener(index) => self.accept(index),
                    Source::Dns(index) => self.advance_dns(index, &mut buffer),
                    Source::Connection(id) => self.advance(id, &mut buffer),
                }
            }
            self.end_overdue();
            self.start_connecting();
        }
    }

    /// Waits until something is ready: what was waited for, and whether it is ready.
    fn wait(&self, stop: &PipeReader) -> (Vec<Source>, Vec<bool>) {
        let mut waited = vec![
            (Source::Stop, PollFd::new(stop, PollFlags::IN)),
            (Source::Wake, PollFd::new(&self.wake, PollFlags::IN)),
            (Source::Resolver, PollFd::new(&self.resolver, PollFlags::IN)),
        ];
        let accepts_from = self.accepts_from.filter(|from| *from > Instant::now());
        if accepts_from.is_none() {
            waited.push((Source::ResolverListener, PollFd::new(&self.resolver_listener, PollFlags::IN)));
            let listeners = self.listeners.iter().enumerate();
            waited.extend(
                listeners.map(|(index, fd)| (Source::Listener(index), PollFd::new(fd, PollFlags::IN))),
            );
        }
        // The last first, so that the positions of the others hold when one is removed.
        let dns = self.dns_connections.iter().enumerate().rev();
        waited.extend(dns.map(|(index, dns)| (Source::Dns(index), PollFd::new(&dns.stream, PollFlags::IN))));
        for (id, connection) in &self.connections {
            waited
                .extend(connection.poll_fds().into_iter().flatten().map(|fd| (Source::Connection(*id), fd)));
        }
        let deadlines = self.connections.values().filter_map(Connection::deadline);
        let deadlines =
            deadlines.chain(self.dns_connections.iter().map(|dns| dns.ends_at)).chain(accepts_from);
        let left = deadlines.min().map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let (sources, mut fds): (Vec<Source>, Vec<PollFd<'_>>) = waited.into_iter().unzip();
        let ready = match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => fds.iter().map(|fd| !fd.revents().is_empty()).collect(),
            Err(Errno::INTR) => vec![false; fds.len()],
            Err(_) => {
                // The system is short of memory.
                thread::sleep(ACCEPT_PAUSE);
                vec![false; fds.len()]
            }
        };
        (sources, ready)
    }

    fn answer_datagrams(&mut self, buffer: &mut [u8]) {
        for _ in 0..MAX_AT_ONCE {
            let Ok((length, sender)) = self.resolver.recv_from(buffer) else { return };
            let query = buffer.get(..length.min(MAX_QUERY_BYTES)).unwrap_or_default();
            let (names, rules, log) = (&self.names, &self.rules, &self.log);
            if let Some(answer) = answer_query(query, |name, kind| names.resolve(name, kind, rules, log)) {
                self.resolver.send_to(&answer, sender).ok();
            }
        }
    }

    fn accept_dns(&mut self) {
        for _ in 0..MAX_AT_ONCE {
            let Some(stream) = accept(&self.resolver_listener, &mut self.accepts_from) else { return };
            // Where port 53 is granted, this listens at all addresses.
            if stream.local_addr().is_ok_and(|local| local.ip().to_canonical() != RESOLVER_ADDRESS) {
                self.admit(stream);
                continue;
            }
            if self.dns_connections.len() < MAX_DNS_CONNECTIONS {
                self.dns_connections.push(DnsConnection::new(stream));
            }
        }
    }

    fn advance_dns(&mut self, index: usize, buffer: &mut [u8]) {
        let (names, rules, log) = (&self.names, &self.rules, &self.log);
        let Some(dns) = self.dns_connections.get_mut(index) else { return };
        let goes_on = dns
            .advance(buffer, |query| answer_query(query, |name, kind| names.resolve(name, kind, rules, log)));
        if !goes_on {
            self.dns_connections.remove(index);
        }
    }

    fn accept(&mut self, index: usize) {
        for _ in 0..MAX_AT_ONCE {
            let Some(listener) = self.listeners.get(index) else { return };
            let Some(stream) = accept(listener, &mut self.accepts_from) else { return };
            self.admit(stream);
        }
    }

    /// Serves a connection of the script if it leads to a granted host.
    fn admit(&mut self, stream: TcpStream) {
        let Ok(local) = stream.local_addr() else { return };
        let (address, port) = (local.ip().to_canonical(), local.port());
        let Some(host) = self.granted_host(address, port) else {
            return self.ask_or_refuse(stream, self.names.host_at(address), port);
        };
        let has_room = self.connections.len() + self.unanswered.len() < MAX_CONNECTIONS;
        let Some(permit) = has_room.then(|| ConnectionPermit::acquire(self.connections.len())).flatten()
        else {
            self.log.refuse_content(&host, port, &Refusal::TooMany);
            reset(&stream);
            return;
        };
        self.log.count_connection();
        stream.set_nodelay(true).ok();
        let connection = AcceptedConnection { stream, host, port, permit };
        let secrets = self.rules.secrets.as_ref();
        let has_secret =
            secrets.is_some_and(|secrets| secrets.has_secret_for(&connection.host, secure_port(port)));
        if !has_secret || port == secure_port(80) && self.rules.authority.is_none() {
            return self.forward(connection, has_secret);
        }
        let (sender, waker) = (self.encrypted_sender.clone(), self.waker.clone());
        self.proxies.start(connection, move |connection| {
            // Nobody waits for it if the run has ended.
            sender.send(connection).ok();
            (&*waker).write_all(b"x").ok();
        });
    }

    /// Lets a connection to a host that is not granted wait for the answer of a person, or ends it where nobody is asked.
    fn ask_or_refuse(&mut self, stream: TcpStream, host: String, port: u16) {
        let has_room = self.connections.len() + self.unanswered.len() < MAX_CONNECTIONS;
        let approvals =
            self.rules.approvals.as_ref().filter(|approvals| has_room && approvals.is_open(&host, port));
        let waker = self.waker.clone();
        let asked = approvals.map(|approvals| {
            approvals.ask(&host, port, move || {
                (&*waker).write_all(b"x").ok();
            })
        });
        if let Some(Ok(())) = asked {
            self.unanswered.push(UnansweredConnection { stream, host });
            return;
        }
        self.log.refuse_connection(&host, port, &self.rules);
        reset(&stream);
    }

    /// Serves or ends the connections to hosts about which there is an answer by now.
    fn take_answers(&mut self) {
        let Some(approvals) = self.rules.approvals.clone() else { return };
        let (pending, answered) = std::mem::take(&mut self.unanswered)
            .into_iter()
            .partition(|waiting| approvals.is_pending(&waiting.host));
        self.unanswered = pending;
        for UnansweredConnection { stream, .. } in answered {
            self.admit(stream);
        }
    }

    /// Passes on what the script sends to a host, as it is.
    fn forward(&mut self, connection: AcceptedConnection, has_secret: bool) {
        let AcceptedConnection { stream, host, port, permit } = connection;
        if has_secret {
            self.log.pass_unopened(&host);
        }
        let secrets = self.rules.secrets.clone().filter(|secrets| !secrets.is_empty());
        let mut connection = Connection::new(stream, (host, port), secrets, permit);
        let id = self.next_id;
        self.next_id += 1;
        if connection.begins_at_once() {
            connection.set_connecting();
            self.waiting.push_back(id);
        }
        self.connections.insert(id, connection);
    }

    /// The granted host that this address and port stand for.
    fn granted_host(&self, address: IpAddr, port: u16) -> Option<String> {
        self.rules.granted_host(&self.names.host_at(address), address, port)
    }

    fn advance(&mut self, id: u64, buffer: &mut [u8]) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match connection.advance(buffer, &self.log) {
            Step::Continue => {}
            Step::Connect => {
                connection.set_connecting();
                self.waiting.push_back(id);
            }
            Step::Done => drop(self.connections.remove(&id)),
            Step::Broken => self.connections.remove(&id).into_iter().for_each(Connection::reset),
            Step::Refused(refusal) => self.refuse(id, refusal),
        }
    }

    fn refuse(&mut self, id: u64, refusal: Refusal) {
        if let Some(connection) = self.connections.remove(&id) {
            self.log.refuse_content(&connection.host, connection.port, &refusal);
            connection.reset();
        }
    }

    /// Ends the connections whose time is over.
    fn end_overdue(&mut self) {
        let now = Instant::now();
        self.dns_connections.retain(|dns| dns.ends_at > now);
        let is_overdue = |connection: &Connection| connection.deadline().is_some_and(|until| until <= now);
        let overdue = self.connections.iter().filter(|(_, connection)| is_overdue(connection));
        for id in overdue.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.refuse(id, Refusal::Slow);
        }
    }

    fn start_connecting(&mut self) {
        while self.connecting.has_place() {
            let Some(id) = self.waiting.pop_front() else { return };
            let Some(connection) = self.connections.get(&id) else { continue };
            let (sender, waker) = (self.result_sender.clone(), self.waker.clone());
            let done = move |result| {
                // Nobody waits for it if the run has ended.
                sender.send((id, result)).ok();
                (&*waker).write_all(b"x").ok();
            };
            let started = self.connecting.start(&self.rules, &connection.host, connection.port, done);
            if let Err(error) = started {
                self.fail(id, &error);
            }
        }
    }

    fn take_results(&mut self) {
        rustix::io::read(&self.wake, &mut [0; 64]).ok();
        self.take_answers();
        while let Ok(connection) = self.encrypted.try_recv() {
            self.forward(connection, true);
        }
        while let Ok((id, result)) = self.results.try_recv() {
            self.connecting.finish();
            match result {
                Ok(server) => {
                    let set = self
                        .connections
                        .get_mut(&id)
                        .map_or(Ok(()), |connection| connection.set_server(server));
                    if let Err(error) = set {
                        self.fail(id, &error);
                    }
                }
                Err(ConnectError::NotPublic(address, port, kind)) => {
                    if let Some(connection) = self.connections.remove(&id) {
                        self.log.refuse_address(&connection.host, (address, port), kind, &self.rules);
                        connection.reset();
                    }
                }
                Err(ConnectError::Failed(error)) => self.fail(id, &error),
            }
        }
    }

    fn fail(&mut self, id: u64, error: &io::Error) {
        if let Some(connection) = self.connections.remove(&id) {
            self.log.fail(&connection.host, connection.port, error);
            connection.reset();
        }
    }
}

/// The next connection, which does not block. If this process has too few descriptors, sets the time from which to try again.
fn accept(listener: &OwnedFd, accepts_from: &mut Option<Instant>) -> Option<TcpStream> {
    match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
        Ok(accepted) => Some(accepted.into()),
        Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => None,
        Err(_) => {
            *accepts_from = Some(Instant::now() + ACCEPT_PAUSE);
            None
        }
    }
}
