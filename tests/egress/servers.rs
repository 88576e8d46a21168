//! Servers on loopback addresses, each with a bounded number of connections.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The longest that a server waits for a client.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// A listener on a free port, and a thread for each of its first `max` connections.
pub fn serve(max: usize, handle: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    serve_at((Ipv4Addr::LOCALHOST, 0).into(), max, handle).unwrap()
}

/// The same at this address; `None` if the machine has none of its kind.
pub fn serve_at(
    address: SocketAddr,
    max: usize,
    handle: impl Fn(TcpStream) + Send + Sync + 'static,
) -> Option<SocketAddr> {
    let listener = TcpListener::bind(address).ok()?;
    let address = listener.local_addr().unwrap();
    let handle = Arc::new(handle);
    thread::spawn(move || {
        for stream in listener.incoming().take(max).flatten() {
            stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
            let handle = handle.clone();
            thread::spawn(move || handle(stream));
        }
    });
    Some(address)
}

/// Everything that an HTTP server received.
#[derive(Clone, Default)]
pub struct Received(Arc<Mutex<Vec<u8>>>);

impl Received {
    /// As text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

/// An HTTP server that answers each request with `body`, and stores what it received.
pub fn http(body: &'static str) -> (SocketAddr, Received) {
    let received = Received::default();
    let stored = received.clone();
    let address = serve(20_000, move |stream| answer_requests(stream, body, &stored));
    (address, received)
}

/// Answers each head of a request; bodies are stored and not looked at.
pub fn answer_requests(mut stream: impl Read + Write, body: &str, stored: &Received) {
    let (mut buffer, mut text) = ([0; 4096], Vec::<u8>::new());
    for _ in 0..1000 {
        let Ok(count @ 1..) = stream.read(&mut buffer) else { return };
        stored.0.lock().unwrap().extend(&buffer[..count]);
        text.extend(&buffer[..count]);
        while let Some(at) = text.windows(4).position(|part| part == b"\r\n\r\n") {
            text.drain(..at + 4);
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// An HTTP server that reads no bodies: what comes after a head is the next request, unless the head ends the connection. It stores
/// the first line of each request.
pub fn http_without_bodies() -> (SocketAddr, Received) {
    let received = Received::default();
    let stored = received.clone();
    let address = serve(1000, move |mut stream| {
        let (mut buffer, mut text) = ([0; 4096], Vec::<u8>::new());
        for _ in 0..1000 {
            let Ok(count @ 1..) = stream.read(&mut buffer) else { return };
            text.extend(&buffer[..count]);
            while let Some(at) = text.windows(4).position(|part| part == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&text[..at]).into_owned();
                text.drain(..at + 4);
                stored.0.lock().unwrap().extend(format!("{}\n", head.lines().next().unwrap_or("")).bytes());
                let is_sent = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_ok();
                if !is_sent || head.lines().any(|line| line.eq_ignore_ascii_case("connection: close")) {
                    return;
                }
            }
        }
    });
    (address, received)
}

/// An HTTP server that says `100 Continue` where it is asked for it, reads the whole body, and answers with its length.
pub fn http_with_uploads() -> (SocketAddr, Received) {
    let received = Received::default();
    let stored = received.clone();
    let address = serve(100, move |mut stream| {
        let (mut buffer, mut text) = (vec![0; 64 << 10], Vec::<u8>::new());
        let end = loop {
            if let Some(at) = text.windows(4).position(|part| part == b"\r\n\r\n") {
                break at + 4;
            }
            let Ok(count @ 1..) = stream.read(&mut buffer) else { return };
            text.extend(&buffer[..count]);
        };
        let head = String::from_utf8_lossy(&text[..end]).to_ascii_lowercase();
        stored.0.lock().unwrap().extend(head.bytes());
        if head.contains("\r\nexpect: 100-continue\r\n") {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        }
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        let (length, mut count) = (length.map_or(0, |text| text.parse().unwrap()), text.len() - end);
        while count < length {
            let Ok(more @ 1..) = stream.read(&mut buffer) else { return };
            count += more;
        }
        let body = count.to_string();
        let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).ok();
    });
    (address, received)
}

/// A server that sends back what it receives.
pub fn echo() -> SocketAddr {
    serve(20_000, |mut stream| {
        let mut buffer = vec![0; 64 << 10];
        for _ in 0..1_000_000 {
            let Ok(count @ 1..) = stream.read(&mut buffer) else { return };
            if stream.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    })
}

/// The certificate authority of the tests, which the server `secure.test` is known to.
pub const AUTHORITY: &str = include_str!("../http/certificates/authority.pem");
const CERTIFICATE: &str = include_str!("../http/certificates/server.pem");
const KEY: &str = include_str!("../http/certificates/server.key.pem");

/// A server over TLS, whose certificate is for `secure.test`.
pub fn tls(handle: impl Fn(StreamOwned<ServerConnection, TcpStream>) + Send + Sync + 'static) -> SocketAddr {
    let chain = vec![CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(builder.with_no_client_auth().with_single_cert(chain, key).unwrap());
    serve(1000, move |stream| {
        let connection = ServerConnection::new(config.clone()).unwrap();
        handle(StreamOwned::new(connection, stream));
    })
}

/// An HTTP server over TLS that answers each request with `body`.
pub fn https(body: &'static str) -> (SocketAddr, Received) {
    let received = Received::default();
    let stored = received.clone();
    (tls(move |stream| answer_requests(stream, body, &stored)), received)
}

/// An HTTP server over TLS that answers each request with the request itself, without what frames its body. How it does so is the first
/// part of the path: `/parts` sends it in chunks of seven bytes, `/later` waits between two of them, `/zip` says that it is compressed,
/// `/away` leads to `http://other.test/` and the rest of the path, `/here` to `/echo` at this host, `/head` has it in a header.
pub fn https_echo() -> (SocketAddr, Received) {
    let received = Received::default();
    let stored = received.clone();
    let address = tls(move |mut stream| {
        for _ in 0..1000 {
            let Some(request) = read_request(&mut stream) else { return };
            stored.0.lock().unwrap().extend(request.bytes());
            let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
            let (kind, rest) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
            let whole = |status: &str, headers: &str, body: &str| {
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
            };
            let answer = match kind.split('?').next().unwrap_or_default() {
                "parts" | "later" => {
                    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
                    if stream.write_all(head.as_bytes()).is_err() {
                        return;
                    }
                    for part in request.as_bytes().chunks(7) {
                        let chunk = [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
                        if stream.write_all(&chunk).and_then(|()| stream.flush()).is_err() {
                            return;
                        }
                    }
                    "0\r\n\r\n".to_owned()
                }
                "zip" => whole("200 OK", "Content-Encoding: gzip\r\n", &request),
                "away" => whole("302 Found", &format!("Location: http://other.test/{rest}\r\n"), ""),
                "here" => whole("302 Found", &format!("Location: https://secure.test/echo/{rest}\r\n"), ""),
                "head" => whole("200 OK", &format!("X-Path: {path}\r\nSet-Cookie: a={rest}\r\n"), "x"),
                _ => whole("200 OK", "", &request),
            };
            if stream.write_all(answer.as_bytes()).and_then(|()| stream.flush()).is_err() {
                return;
            }
        }
    });
    (address, received)
}

/// A request with the content of its body; `None` at the end of the connection.
pub fn read_request(stream: &mut impl Read) -> Option<String> {
    let head = String::from_utf8(read_through(stream, b"\r\n\r\n")?).ok()?;
    let lower = head.to_ascii_lowercase();
    let mut body = Vec::new();
    if lower.contains("transfer-encoding: chunked") {
        loop {
            let line = String::from_utf8(read_through(stream, b"\r\n")?).ok()?;
            let mut chunk = vec![0; usize::from_str_radix(line.trim(), 16).ok()?];
            stream.read_exact(&mut chunk).ok()?;
            read_through(stream, b"\r\n")?;
            if chunk.is_empty() {
                break;
            }
            body.extend(chunk);
        }
    } else if let Some(length) = lower.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()) {
        body = vec![0; length.parse().ok()?];
        stream.read_exact(&mut body).ok()?;
    }
    Some(format!("{head}{}", String::from_utf8_lossy(&body)))
}

fn read_through(stream: &mut impl Read, end: &[u8]) -> Option<Vec<u8>> {
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !text.ends_with(end) {
        stream.read_exact(&mut byte).ok()?;
        text.push(byte[0]);
    }
    Some(text)
}

/// Answers requests for the files below a folder.
pub fn answer_files(mut stream: impl Read + Write, folder: &Path) {
    let (mut buffer, mut text) = ([0; 4096], Vec::<u8>::new());
    for _ in 0..1000 {
        let Ok(count @ 1..) = stream.read(&mut buffer) else { return };
        text.extend(&buffer[..count]);
        while let Some(at) = text.windows(4).position(|part| part == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&text[..at]).into_owned();
            text.drain(..at + 4);
            let path = head.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default();
            let found = std::fs::read(folder.join(path.trim_start_matches('/')));
            let status = if found.is_ok() { "200 OK" } else { "404 Not Found" };
            let body = found.unwrap_or_default();
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
            if stream.write_all(&[head.as_bytes(), &body].concat()).is_err() {
                return;
            }
        }
    }
}
