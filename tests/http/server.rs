//! A server on a loopback port that says whatever a test wants it to, and remembers what it was asked.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Answers one connection at a time, each with one answer, until it is dropped.
pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    is_over: Arc<AtomicBool>,
}

impl Server {
    /// Answers every request with these bytes.
    pub fn with_answer(answer: impl Into<String>) -> Self {
        let answer = answer.into();
        Self::with_requests(move |_, stream| drop(stream.write_all(answer.as_bytes())))
    }

    /// Answers a request with what the function makes of it.
    pub fn with_answers(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self::with_requests(move |request, stream| drop(stream.write_all(answer(request).as_bytes())))
    }

    /// Reads each request and hands it to the function, with the connection.
    pub fn with_requests(act: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        Self::with_connections(move |stream, requests| {
            let request = read_request(stream).unwrap_or_default();
            requests.lock().unwrap().push(request.clone());
            act(&request, stream);
        })
    }

    /// Hands each connection to the function, unread.
    pub fn with_connections(
        act: impl Fn(&mut TcpStream, &Mutex<Vec<String>>) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, is_over) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicBool>::default());
        let (seen, over, act) = (requests.clone(), is_over.clone(), Arc::new(act));
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                if over.load(Ordering::SeqCst) {
                    break;
                }
                let (seen, act) = (seen.clone(), act.clone());
                std::thread::spawn(move || {
                    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                    stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
                    act(&mut stream, &seen);
                });
            }
        });
        Self { address, requests, is_over }
    }

    /// The URL of a path there, by that name.
    pub fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.port())
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The requests so far, as they came in.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the one who waits for the next connection.
        drop(TcpStream::connect(self.address));
    }
}

/// A whole answer with this status line, these header lines and this body.
pub fn answer(status: &str, headers: &[&str], body: &str) -> String {
    let length = format!("content-length: {}", body.len());
    let lines = [&[length.as_str()], headers].concat().join("\r\n");
    format!("HTTP/1.1 {status}\r\n{lines}\r\n\r\n{body}")
}

/// A redirect to that place.
pub fn redirect(status: u16, location: &str) -> String {
    answer(&format!("{status} Over There"), &[&format!("location: {location}")], "moved")
}

/// A whole request with its body; `None` if the connection ends before it begins.
pub fn read_request(stream: &mut impl Read) -> Option<String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
        bytes.push(byte[0]);
    }
    let mut request = String::from_utf8(bytes).ok().filter(|request| !request.is_empty())?;
    let length = request.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    drop(stream.read_exact(&mut body));
    request.push_str(std::str::from_utf8(&body).unwrap());
    Some(request)
}
