//! Connections without encryption to hosts of secrets: the host program reads each request, puts the secrets in, carries it on over TLS,
//! and puts placeholders in place of secrets in the answer.
//!
//! Each has a thread of its own, which waits for the script and for the host by turns, as a client and a server of HTTP/1.1 do. The
//! requests are read by the rules of `http_guard`, so they are those that the host gets. A secret and its placeholder have the same
//! length, so lengths stay true.

use std::cell::RefCell;
use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};

use super::client_stream::ClientStream;
use super::connection::{INSPECTION_TIME, reset};
use super::connection_permit::ConnectionPermit;
use super::http_guard::{Framing, RequestHead, bracketed};
use super::network_log::NetworkLog;
use super::open_sockets::{OpenSocket, OpenSockets};
use super::refusal::Refusal;
use super::request_reader::{BodyReader, HeadError, RequestReader};
use super::rules::EgressRules;
use super::upstream::{ConnectError, Connector};
use metier_core::host::{HostSecrets, SecureHost, StreamReplacement, is_dropped_header, unsearchable_answer};

/// The maximum number of such connections of one script at a time.
const MAX_PROXIES: usize = 64;

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 16 << 10;

/// The first byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;

/// Headers of a request that are about its connection.
const DROPPED_OF_REQUEST: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers of an answer that are about its connection, or that lead the script to TLS.
const DROPPED_OF_ANSWER: [&str; 8] = [
    "alt-svc",
    "connection",
    "keep-alive",
    "proxy-connection",
    "strict-transport-security",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The connections of one script. Dropping it ends them.
pub(super) struct SecretProxies {
    rules: EgressRules,
    log: Arc<NetworkLog>,
    connector: Connector,
    sockets: OpenSockets,
    running: Arc<AtomicUsize>,
}

/// A connection of the script to a granted host.
pub(super) struct AcceptedConnection {
    pub(super) stream: TcpStream,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) permit: ConnectionPermit,
}

/// Counts a thread until it is dropped.
struct CountedProxy(Arc<AtomicUsize>);

impl CountedProxy {
    /// `None` if there are as many as there may be.
    fn new(running: &Arc<AtomicUsize>) -> Option<Self> {
        let counted = Self(running.clone());
        (running.fetch_add(1, Ordering::Relaxed) < MAX_PROXIES).then_some(counted)
    }
}

impl Drop for CountedProxy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The port at which a connection of a script to this one is carried on over TLS.
pub(super) fn secure_port(port: u16) -> u16 {
    if port == 80 { 443 } else { port }
}

impl SecretProxies {
    pub(super) fn new(rules: &EgressRules, log: &Arc<NetworkLog>, connector: Connector) -> Self {
        Self {
            rules: rules.clone(),
            log: log.clone(),
            connector,
            sockets: OpenSockets::default(),
            running: Arc::default(),
        }
    }

    /// Serves a connection on a thread of its own. One that turns out to begin TLS goes to the function.
    pub(super) fn start(
        &self,
        connection: AcceptedConnection,
        pass_on: impl FnOnce(AcceptedConnection) + Send + 'static,
    ) {
        let AcceptedConnection { stream, host, port, permit } = connection;
        let Some(counted) = CountedProxy::new(&self.running) else {
            self.log.refuse_content(&host, port, &Refusal::TooMany);
            return reset(&stream);
        };
        let (sockets, log, rules) = (self.sockets.clone(), self.log.clone(), self.rules.clone());
        let (connector, name) = (self.connector.clone(), host.clone());
        let serve = move || {
            let _counted = counted;
            let socket = sockets.add(stream);
            let stream = socket.stream();
            let begun = stream.set_nonblocking(false).and_then(|()| begins_tls(stream));
            let refuse = |refusal: Refusal| {
                log.refuse_content(&host, port, &refusal);
                reset(stream);
            };
            match begun {
                Ok(true) if rules.authority.is_none() => {
                    if stream.set_nonblocking(true).is_ok()
                        && let Some(stream) = socket.into_stream()
                    {
                        pass_on(AcceptedConnection { stream, host, port, permit });
                    }
                }
                Ok(false) if port == secure_port(80) => refuse(Refusal::NotTls),
                Err(_) => refuse(Refusal::Slow),
                Ok(is_opened) => {
                    let (rules, log, connector, sockets) = (&rules, &log, &connector, &sockets);
                    let proxy = SecretProxy { host: &host, port, is_opened, rules, log, connector, sockets };
                    let ended = if is_opened { proxy.open(stream) } else { proxy.serve(&**stream) };
                    if ended.is_err() {
                        reset(stream);
                    }
                }
            }
        };
        if let Err(error) = thread::Builder::new().name("metier-proxy".into()).spawn(serve) {
            self.log.fail(&name, port, &error);
        }
    }
}

impl Drop for SecretProxies {
    fn drop(&mut self) {
        self.sockets.shut_down();
    }
}

/// Whether the first byte begins TLS. It is left to be read.
fn begins_tls(stream: &TcpStream) -> io::Result<bool> {
    stream.set_read_timeout(Some(INSPECTION_TIME))?;
    let mut first = [0];
    let count = stream.peek(&mut first)?;
    stream.set_read_timeout(None)?;
    Ok(count == 1 && first[0] == TLS_HANDSHAKE)
}

/// One connection of the script.
struct SecretProxy<'a> {
    host: &'a str,
    /// The port that the script connected to.
    port: u16,
    /// Whether the script speaks TLS, with the authority of the run.
    is_opened: bool,
    rules: &'a EgressRules,
    log: &'a Arc<NetworkLog>,
    connector: &'a Connector,
    sockets: &'a OpenSockets,
}

impl SecretProxy<'_> {
    /// Serves a connection over TLS, for which the host program stands for the host.
    fn open(&self, stream: &Arc<TcpStream>) -> io::Result<()> {
        let Some(authority) = &self.rules.authority else { return Ok(()) };
        stream.set_read_timeout(Some(INSPECTION_TIME))?;
        let opened = authority.accept(self.host, stream.clone());
        match opened {
            Ok(opened) => {
                self.log.open(self.host);
                self.serve(&RefCell::new(opened))
            }
            Err(error) => {
                self.log.fail(self.host, self.port, &error);
                // Otherwise the script was told why, as TLS tells it, and must have the time to read it.
                let is_meant = error.kind() != io::ErrorKind::PermissionDenied;
                if is_meant { stream.shutdown(Shutdown::Write) } else { Err(error) }
            }
        }
    }

    /// Serves one request after the other. An error ends the connection in the middle of something.
    fn serve(&self, stream: &dyn ClientStream) -> io::Result<()> {
        let connected = Arc::default();
        let upstream = self.upstream(&connected);
        let upstream = upstream.inspect_err(|error| self.log.fail(self.host, self.port, error))?;
        self.serve_requests(stream, &upstream)
    }

    fn serve_requests(&self, stream: &dyn ClientStream, upstream: &SecureHost) -> io::Result<()> {
        let mut reader = RequestReader::new(stream, self.log);
        loop {
            let head = match reader.read_head() {
                Ok(Some(head)) => head,
                Ok(None) => return Ok(()),
                Err(HeadError::Refused(refusal)) => return Err(self.refuse(&refusal)),
                Err(HeadError::Broken(error)) => return Err(error),
            };
            let request = RequestHead::parse(&head, &bracketed(self.host), self.port);
            let request = request.map_err(|refusal| self.refuse(&refusal))?;
            if !self.serve_request(stream, &mut reader, &request, upstream)? {
                return stream.end();
            }
        }
    }

    /// Serves a request; returns whether another one may follow.
    fn serve_request(
        &self,
        stream: &dyn ClientStream,
        reader: &mut RequestReader<'_>,
        request: &RequestHead<'_>,
        upstream: &SecureHost,
    ) -> io::Result<bool> {
        let Some(secrets) = &self.rules.secrets else { return Ok(false) };
        let secrets = secrets.for_host(self.host, secure_port(self.port));
        let outgoing = self
            .outgoing(request, &secrets)
            .map_err(|_| self.refuse(&Refusal::Http("its lines are none that can be sent")))?;
        if request.expects {
            self.write(stream, b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let mut body = FilledBody::new(reader.body(request.framing), &secrets, self);
        let has_body =
            outgoing.headers().contains_key(header::CONTENT_LENGTH) || request.framing == Framing::Chunked;
        let source: Option<&mut dyn Read> = has_body.then_some(&mut body);
        let answer = match upstream.send(outgoing, source) {
            Ok(answer) => answer,
            Err(error) => {
                self.answer_failure(stream, &error)?;
                return Ok(false);
            }
        };
        let is_read = body.is_read();
        let headers = answer.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        if let Some(reason) =
            unsearchable_answer(answer.status().as_u16(), headers).filter(|_| request.method != b"HEAD")
        {
            let reason = format!("the answer of {} is refused: it {reason}", self.host);
            self.log.refuse_answer(self.host, self.port, &reason);
            self.answer_error(stream, &reason)?;
            return Ok(false);
        }
        let goes_on = is_read && request.is_1_1 && !ends_connection(request);
        self.write_answer(stream, answer, &secrets, (request, goes_on))
    }

    /// The host, to which a connection is made when the first request comes. The socket of the last one is kept here.
    fn upstream(&self, connected: &Arc<Mutex<Option<OpenSocket>>>) -> io::Result<SecureHost> {
        let (rules, connector, log) = (self.rules.clone(), self.connector.clone(), self.log.clone());
        let (host, port, sockets) = (self.host.to_owned(), secure_port(self.port), self.sockets.clone());
        let connected = connected.clone();
        SecureHost::new(&self.rules.roots, move || {
            let stream = connector.connect(&rules, &host, port).map_err(|error| match error {
                ConnectError::Failed(error) => error,
                ConnectError::NotPublic(address, port, kind) => {
                    log.refuse_address(&host, (address, port), kind, &rules);
                    io::Error::new(io::ErrorKind::PermissionDenied, format!("it is at {address}, {kind}"))
                }
            })?;
            stream.set_nonblocking(false)?;
            stream.set_nodelay(true)?;
            let socket = sockets.add(stream);
            let stream = socket.stream().clone();
            *connected.lock().unwrap_or_else(PoisonError::into_inner) = Some(socket);
            Ok(stream)
        })
    }

    /// The request as the host gets it.
    fn outgoing(&self, request: &RequestHead<'_>, secrets: &HostSecrets) -> io::Result<Request<()>> {
        let invalid = |error: http::Error| io::Error::new(io::ErrorKind::InvalidData, error);
        let mut target = request.target.to_vec();
        self.log_misplaced(secrets, &target);
        secrets.fill(&mut target);
        let authority = match secure_port(self.port) {
            443 => bracketed(self.host),
            port => format!("{}:{port}", bracketed(self.host)),
        };
        let uri = Uri::builder().scheme("https").authority(authority).path_and_query(&target[..]);
        let mut outgoing = Request::new(());
        *outgoing.uri_mut() = uri.build().map_err(invalid)?;
        *outgoing.method_mut() = Method::from_bytes(request.method).map_err(|error| invalid(error.into()))?;
        for (name, value) in &request.fields {
            let name = HeaderName::from_bytes(name).map_err(|error| invalid(error.into()))?;
            if DROPPED_OF_REQUEST.contains(&name.as_str()) || is_dropped_header(name.as_str(), value) {
                continue;
            }
            let mut value = value.to_vec();
            self.log_misplaced(secrets, &value);
            secrets.fill_header(name.as_str(), &mut value);
            let value = HeaderValue::from_bytes(&value).map_err(|error| invalid(error.into()))?;
            outgoing.headers_mut().append(name, value);
        }
        let takes_body = [Method::POST, Method::PUT, Method::PATCH].contains(outgoing.method());
        let headers = outgoing.headers_mut();
        match request.framing {
            Framing::Chunked => {
                headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
            Framing::Length(length) => drop(headers.insert(header::CONTENT_LENGTH, length.into())),
            Framing::NoBody if takes_body => drop(headers.insert(header::CONTENT_LENGTH, 0_u64.into())),
            Framing::NoBody => {}
        }
        if request.framing != Framing::NoBody {
            // A host that does not read the body must not take it for the next request.
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(outgoing)
    }

    /// Passes an answer on; returns whether another request may follow.
    fn write_answer(
        &self,
        stream: &dyn ClientStream,
        answer: Response<Box<dyn Read + Send>>,
        secrets: &HostSecrets,
        (request, goes_on): (&RequestHead<'_>, bool),
    ) -> io::Result<bool> {
        let (parts, mut body) = answer.into_parts();
        let has_no_body = request.method == b"HEAD"
            || matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let has_length = parts.headers.contains_key(header::CONTENT_LENGTH);
        let is_chunked = !has_no_body && !has_length && request.is_1_1;
        let goes_on = goes_on && (has_no_body || has_length || is_chunked);
        let mut head = format!("HTTP/1.1 {}\r\n", parts.status).into_bytes();
        self.write_headers(&parts.headers, secrets, &mut head);
        if is_chunked {
            head.extend(b"transfer-encoding: chunked\r\n");
        }
        if !goes_on {
            head.extend(b"connection: close\r\n");
        }
        head.extend(b"\r\n");
        self.write(stream, &head)?;
        if has_no_body {
            return Ok(goes_on);
        }
        let mut hiding = secrets.hide_stream();
        let (mut buffer, mut passed) = (vec![0; BUFFER_BYTES], Vec::new());
        loop {
            let count = body.read(&mut buffer)?;
            if count == 0 {
                hiding.finish(&mut passed);
            } else {
                hiding.push(&buffer[..count], &mut passed);
            }
            if !passed.is_empty() {
                self.write_part(stream, &passed, is_chunked)?;
                passed.clear();
            }
            if count == 0 {
                break;
            }
        }
        if is_chunked {
            self.write(stream, b"0\r\n\r\n")?;
        }
        Ok(goes_on)
    }

    /// Appends the headers of an answer as the script gets them.
    fn write_headers(&self, headers: &HeaderMap, secrets: &HostSecrets, head: &mut Vec<u8>) {
        let is_passed = |name: &HeaderName| {
            !DROPPED_OF_ANSWER.contains(&name.as_str()) && !secrets.finds_value(name.as_str().as_bytes())
        };
        for (name, value) in headers.iter().filter(|(name, _)| is_passed(name)) {
            let mut value = value.as_bytes().to_vec();
            secrets.hide(&mut value);
            if *name == header::LOCATION && !self.is_opened {
                value = self.plain_location(value);
            }
            head.extend(name.as_str().bytes());
            head.extend(b": ");
            head.extend(value);
            head.extend(b"\r\n");
        }
    }

    /// A place at this host without encryption, where the script goes on as it came.
    fn plain_location(&self, location: Vec<u8>) -> Vec<u8> {
        let (host, secure) = (bracketed(self.host), secure_port(self.port));
        let own = [format!("https://{host}:{secure}"), format!("https://{host}")];
        let ports = if secure == 443 { &own[..] } else { &own[..1] };
        for prefix in ports {
            let rest =
                location.get(..prefix.len()).filter(|start| start.eq_ignore_ascii_case(prefix.as_bytes()));
            let rest = rest.map(|start| &location[start.len()..]);
            if let Some(rest) = rest.filter(|rest| matches!(rest.first(), None | Some(b'/' | b'?' | b'#'))) {
                let port = if self.port == 80 { String::new() } else { format!(":{}", self.port) };
                return [format!("http://{host}{port}").as_bytes(), rest].concat();
            }
        }
        location
    }

    fn write_part(&self, stream: &dyn ClientStream, bytes: &[u8], is_chunked: bool) -> io::Result<()> {
        if !is_chunked {
            return self.write(stream, bytes);
        }
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend(bytes);
        chunk.extend(b"\r\n");
        self.write(stream, &chunk)
    }

    fn write(&self, stream: &dyn ClientStream, bytes: &[u8]) -> io::Result<()> {
        stream.write_all(bytes)?;
        self.log.count_received(bytes.len());
        Ok(())
    }

    /// Tells the script that its host gave no answer, and ends the connection.
    fn answer_failure(&self, stream: &dyn ClientStream, error: &io::Error) -> io::Result<()> {
        self.log.fail(self.host, self.port, error);
        self.answer_error(stream, &format!("failed to reach {} over TLS: {error}", self.host))
    }

    /// Answers in place of the host, and ends the connection.
    fn answer_error(&self, stream: &dyn ClientStream, reason: &str) -> io::Result<()> {
        let text = format!("metier: {reason}\n");
        let head = format!(
            "HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            text.len()
        );
        self.write(stream, &[head.as_bytes(), text.as_bytes()].concat())?;
        stream.end()
    }

    fn refuse(&self, refusal: &Refusal) -> io::Error {
        self.log.refuse_content(self.host, self.port, refusal);
        io::ErrorKind::InvalidData.into()
    }

    fn log_misplaced(&self, secrets: &HostSecrets, bytes: &[u8]) {
        for name in secrets.misplaced(bytes) {
            self.log.misplace(&name, self.host);
        }
    }
}

/// Whether the script ends the connection after this request.
fn ends_connection(request: &RequestHead<'_>) -> bool {
    let options = request.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"connection"));
    options
        .flat_map(|(_, value)| value.split(|byte| *byte == b','))
        .any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}

/// The body of a request, with the secrets in place of their placeholders.
struct FilledBody<'a, 's> {
    body: BodyReader<'a, 's>,
    filling: StreamReplacement,
    /// What is filled and not read yet.
    filled: Vec<u8>,
    has_ended: bool,
    secrets: &'a HostSecrets,
    proxy: &'a SecretProxy<'a>,
}

impl<'a, 's> FilledBody<'a, 's> {
    fn new(body: BodyReader<'a, 's>, secrets: &'a HostSecrets, proxy: &'a SecretProxy<'a>) -> Self {
        let filling = secrets.fill_stream();
        Self { body, filling, filled: Vec::new(), has_ended: false, secrets, proxy }
    }

    /// Whether it was read to its end.
    fn is_read(&self) -> bool {
        self.body.has_ended()
    }
}

impl Read for FilledBody<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut piece = [0; BUFFER_BYTES];
        while self.filled.is_empty() && !self.has_ended {
            let count = self.body.read(&mut piece)?;
            self.has_ended = count == 0;
            if self.has_ended {
                self.filling.finish(&mut self.filled);
            } else {
                self.proxy.log_misplaced(self.secrets, &piece[..count]);
                self.filling.push(&piece[..count], &mut self.filled);
            }
        }
        let count = self.filled.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.filled[..count]);
        self.filled.drain(..count);
        Ok(count)
    }
}
