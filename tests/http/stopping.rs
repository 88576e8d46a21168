//! A request ends when its run does, wherever it hangs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use metier::error::ErrorKind::{Cancelled, Io, Timeout};
use metier::error::{Result, SkillError};
use metier::host::{HttpClient, HttpRequest, HttpResponse, WebClient};
use metier::policy::CancelToken;
use metier_core::policy::Watchdog;

use crate::http::server::Server;
use crate::http::{HOME, get, post, run_with_token, with};

const SOON: Duration = Duration::from_millis(100);
const AT_ONCE: Duration = Duration::from_millis(500);

/// A place where a request hangs for ten seconds: the server, and the request to it.
type HangingRequest = (&'static str, Server, HttpRequest);

fn hanging_requests() -> Vec<HangingRequest> {
    let silent = |stream: &mut TcpStream| drop(stream.read_to_end(&mut Vec::new()));
    let drip = |stream: &mut TcpStream, start: &str, drop: &str| {
        let mut sent = stream.write_all(start.as_bytes());
        for _ in 0..500 {
            sent = sent.and_then(|()| stream.write_all(drop.as_bytes()));
            if sent.is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let at = |server: &Server| server.url("127.0.0.1", "/");
    let mut places = Vec::new();
    let server = Server::with_connections(move |stream, _| silent(stream));
    places.push(("no answer", get(at(&server)), server));
    let server = Server::with_connections(move |stream, _| silent(stream));
    places.push(("no handshake", get(at(&server).replace("http:", "https:")), server));
    let server = Server::with_requests(move |_, stream| drip(stream, "HTTP/1.1 200 OK\r\n", "x: y\r\n"));
    places.push(("slow headers", get(at(&server)), server));
    let server = Server::with_requests(move |_, stream| {
        drip(stream, "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 E\r\n\r\n");
    });
    places.push(("endless early answers", get(at(&server)), server));
    let server = Server::with_requests(move |_, stream| drip(stream, "HTTP/1.1 200 OK\r\n\r\n", "x"));
    places.push(("slow body", get(at(&server)), server));
    let server = Server::with_requests(move |_, stream| {
        drip(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "1\r\nx\r\n");
    });
    places.push(("slow chunks", get(at(&server)), server));
    let server = Server::with_requests(move |_, stream| {
        drip(stream, "HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n", "x");
    });
    places.push(("slow bytes of many", get(at(&server)), server));
    let server = Server::with_connections(|_, _| std::thread::sleep(Duration::from_secs(5)));
    places.push(("nobody reads the body", post(at(&server), vec![b'x'; 64 << 20]), server));
    places.into_iter().map(|(name, request, server)| (name, server, request)).collect()
}

#[test]
fn a_cancelled_run_ends_its_request_at_once() {
    for (place, _server, request) in hanging_requests() {
        let token = CancelToken::new();
        let context = run_with_token(HOME, &token);
        let (result, late) = cancel_and_wait(&token, || WebClient::new().send(&context, request));
        assert_eq!(result.unwrap_err().kind(), Cancelled, "{place}");
        assert!(late < AT_ONCE, "{place}: {late:?}");
    }
}

#[test]
fn a_deadline_ends_a_request_at_once() {
    let watchdog = Watchdog::new();
    for (place, _server, request) in hanging_requests() {
        let (token, started) = (CancelToken::new(), Instant::now());
        let _armed = watchdog.arm(started + SOON, &token);
        let error = WebClient::new().send(&run_with_token(HOME, &token), request).unwrap_err();
        assert_eq!(error.kind(), Timeout, "{place}: {error}");
        assert!(started.elapsed() < SOON + AT_ONCE, "{place}: {:?}", started.elapsed());
    }
}

#[test]
fn a_timeout_of_its_own_ends_a_request_in_time_and_is_no_deadline() {
    for (place, _server, request) in hanging_requests() {
        let started = Instant::now();
        let error = send_with_timeout(request, SOON).unwrap_err();
        assert_eq!((error.kind(), error.help()), (Io, Some("raise timeout_ms")), "{place}: {error}");
        assert!(started.elapsed() < SOON + AT_ONCE, "{place}: {:?}", started.elapsed());
    }
}

#[test]
fn redirects_share_one_timeout() {
    let server = Server::with_requests(|_, stream| {
        std::thread::sleep(Duration::from_millis(80));
        drop(stream.write_all(b"HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n"));
    });
    let error = send_with_timeout(get(server.url("127.0.0.1", "/")), Duration::from_millis(200)).unwrap_err();
    assert_eq!(error.help(), Some("raise timeout_ms"), "{error}");
    assert!(server.requests().len() <= 3);
}

#[test]
fn a_lookup_that_hangs_holds_nobody() {
    let (release, hold) = mpsc::channel::<()>();
    let hold = std::sync::Mutex::new(hold);
    let slow = WebClient::new().resolver(move |_| {
        let released = hold.lock().unwrap().recv_timeout(Duration::from_secs(10));
        assert!(released.is_err(), "nobody ever answers");
        Ok(Vec::new())
    });
    let token = CancelToken::new();
    let context = run_with_token(&["net"], &token);
    let (result, late) = cancel_and_wait(&token, || slow.send(&context, get("http://a.test/")));
    assert_eq!(result.unwrap_err().kind(), Cancelled);
    assert!(late < AT_ONCE, "{late:?}");
    drop(release);
}

#[test]
fn a_run_that_was_stopped_before_sends_nothing() {
    let server = Server::with_answer("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let token = CancelToken::new();
    token.cancel();
    let error =
        WebClient::new().send(&run_with_token(HOME, &token), get(server.url("127.0.0.1", "/"))).unwrap_err();
    assert_eq!((error.kind(), server.requests().len()), (Cancelled, 0));
}

/// Cancels a request from another thread, and says how long it went on after that.
fn cancel_and_wait<T>(token: &CancelToken, request: impl FnOnce() -> T) -> (T, Duration) {
    let token = token.clone();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(SOON);
        let now = Instant::now();
        token.cancel();
        now
    });
    let result = request();
    let late = Instant::now();
    (result, late.saturating_duration_since(canceller.join().unwrap()))
}

fn send_with_timeout(request: HttpRequest, timeout: Duration) -> Result<HttpResponse, SkillError> {
    let request = with(request, |request| request.timeout = Some(timeout));
    WebClient::new().send(&run_with_token(HOME, &CancelToken::new()), request)
}
