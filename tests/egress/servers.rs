//! Servers on loopback addresses, each with a bounded number of connections.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The longest that a server waits for a client.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// A listener on a free port, and a thread for each of its first `max` connections.
pub fn serve(max: usize, handle: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let handle = Arc::new(handle);
    thread::spawn(move || {
        for stream in listener.incoming().take(max).flatten() {
            stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
            let handle = handle.clone();
            thread::spawn(move || handle(stream));
        }
    });
    address
}

/// Everything that an HTTP server received.
#[derive(Clone, Default)]
pub struct Received(Arc<Mutex<Vec<u8>>>);

impl Received {
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

/// A server that sends back what it receives.
pub fn echo() -> SocketAddr {
    serve(20_000, |mut stream| {
        let mut buffer = [0; 64 << 10];
        for _ in 0..1_000_000 {
            let Ok(count @ 1..) = stream.read(&mut buffer) else { return };
            if stream.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    })
}
