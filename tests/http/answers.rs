//! Requests as they are sent, and answers as hostile servers give them.

use std::io::Write;

use metier::error::ErrorKind::{InvalidArgument, Io, Output};
use metier::host::HttpRequest;

use crate::http::server::{Server, answer};
use crate::http::{get, header, post, refused, send, with};

#[test]
fn a_request_says_no_more_than_it_must() {
    let server = Server::with_answer(answer("200 OK", &[], "x"));
    send(get(server.url("127.0.0.1", "/a?b=c#d"))).unwrap();
    let request = server.requests().pop().unwrap();
    let mut lines: Vec<&str> = request.trim_end().split("\r\n").collect();
    assert_eq!(lines.remove(0), "GET /a?b=c HTTP/1.1");
    lines.sort_unstable();
    let host = format!("host: 127.0.0.1:{}", server.port());
    let agent = format!("user-agent: metier/{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(lines, ["accept: */*", &host, &agent]);
}

#[test]
fn a_body_goes_with_its_length_and_a_post_without_one_says_so() {
    let server = Server::with_answer(answer("200 OK", &[], "x"));
    for (method, body) in [("POST", "a"), ("PUT", "b"), ("PATCH", "c"), ("DELETE", "d"), ("POST", "")] {
        let request =
            with(post(server.url("127.0.0.1", "/"), body), |request| request.method = method.into());
        send(request).unwrap();
        let request = server.requests().pop().unwrap();
        assert!(request.starts_with(method), "{request}");
        assert!(request.contains(&format!("content-length: {}\r\n", body.len())), "{request}");
        assert!(request.ends_with(&format!("\r\n\r\n{body}")), "{request}");
    }
    send(with(post(server.url("127.0.0.1", "/"), ""), |request| request.body = None)).unwrap();
    assert!(server.requests().pop().unwrap().contains("content-length: 0\r\n"));
    send(with(get(server.url("127.0.0.1", "/")), |request| {
        request.headers = vec![header("User-Agent", "mine")];
    }))
    .unwrap();
    assert!(server.requests().pop().unwrap().contains("user-agent: mine\r\n"));
}

#[test]
fn every_status_is_an_answer() {
    for status in ["404 Not Found", "500 Oh No", "204 No Content", "101 Switching Protocols"] {
        let server = Server::with_answer(answer(status, &["X-Why: because"], ""));
        let response = send(get(server.url("127.0.0.1", "/"))).unwrap();
        assert_eq!(response.status.to_string(), status[..3]);
        assert!(response.headers.contains(&header("x-why", "because")), "{:?}", response.headers);
    }
    let server = Server::with_requests(|_, stream| {
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"));
    });
    let head = with(get(server.url("127.0.0.1", "/")), |request| request.method = "HEAD".into());
    assert_eq!(send(head).unwrap().body, b"");
}

#[test]
fn headers_cannot_be_smuggled_into_a_request() {
    let server = Server::with_answer(answer("200 OK", &[], "x"));
    for (name, value) in [
        ("x-a", "1\r\nx-b: 2"),
        ("x-a\r\nx-b", "1"),
        ("host", "evil.test"),
        ("Content-Length", "0"),
        ("transfer-encoding", "chunked"),
        ("connection", "upgrade"),
        ("proxy-authorization", "x"),
    ] {
        let request =
            with(get(server.url("127.0.0.1", "/")), |request| request.headers = vec![header(name, value)]);
        refused(send(request), InvalidArgument, &[]);
    }
    let method = HttpRequest::new("GET / HTTP/1.1\r\nx: y\r\n\r\nPOST", server.url("127.0.0.1", "/"), 9);
    refused(send(method), InvalidArgument, &[]);
    for path in ["/\r\nx: y", "/ HTTP/1.1\r\nx: y", "/\n"] {
        refused(send(get(server.url("127.0.0.1", path))), InvalidArgument, &[]);
    }
    assert!(server.requests().is_empty());
}

#[test]
fn a_body_without_end_is_cut_off_by_its_bytes() {
    let chunked = "transfer-encoding: chunked";
    for head in ["x: y", chunked, "content-length: 999999999999"] {
        let server = Server::with_requests(move |_, stream| {
            drop(stream.write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n").as_bytes()));
            let block = if head == chunked {
                format!("1000\r\n{}\r\n", "x".repeat(0x1000))
            } else {
                "x".repeat(0x1000)
            };
            // It ends when nobody reads any more, or after far too much.
            drop((0..10_000).try_for_each(|_| stream.write_all(block.as_bytes())));
        });
        let request = with(get(server.url("127.0.0.1", "/")), |request| request.max_bytes = 100_000);
        refused(send(request), Output, &["more than 100000 bytes"]);
    }
    let server = Server::with_answer(answer("200 OK", &[], "12345"));
    let exact =
        |max_bytes| send(with(get(server.url("127.0.0.1", "/")), |request| request.max_bytes = max_bytes));
    assert_eq!(exact(5).unwrap().body, b"12345");
    refused(exact(4), Output, &["127.0.0.1"]);
}

#[test]
fn headers_without_end_are_cut_off_by_their_bytes() {
    for line in ["x-more: yes\r\n", "x"] {
        let server = Server::with_requests(move |_, stream| {
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\n"));
            drop((0..1_000_000).try_for_each(|_| stream.write_all(line.repeat(100).as_bytes())));
        });
        let error = send(get(server.url("127.0.0.1", "/"))).unwrap_err();
        assert!(matches!(error.kind(), Output | Io), "{error}");
    }
    let server = Server::with_answer(answer("200 OK", &[&format!("x: {}", "y".repeat(70 << 10))], "x"));
    refused(send(get(server.url("127.0.0.1", "/"))), Output, &["headers", "65536"]);
}

#[test]
fn an_answer_that_lies_about_itself_is_an_error_and_never_a_part() {
    for lie in [
        "",
        "\r\n\r\n",
        "SSH-2.0-OpenSSH_9.6\r\n",
        "HTTP/1.1 999999 No\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx",
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\nx",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nx\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabcd\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-1\r\nx",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\nx",
        "HTTP/1.1 200 OK\r\nno colon here\r\n\r\nx",
        "HTTP/1.1 200 OK\r\n: nameless\r\n\r\nx",
    ] {
        let server = Server::with_answer(lie);
        let result = send(get(server.url("127.0.0.1", "/")));
        assert_eq!(result.map(|got| got.body).map_err(|error| error.kind()), Err(Io), "{lie:?}");
    }
}

#[test]
fn a_broken_answer_is_an_error_wherever_it_breaks() {
    const WHOLE: &str =
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nt: u\r\n\r\n";
    const TURN: &[&str] = &["", "\0", "\r\n", "f", "9", ";", "HTTP/1.1 103 E\r\n\r\n"];
    let at = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::with_answers(move |_| {
        let turn = at.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let (start, end) = WHOLE.split_at(turn / (TURN.len() + 1) % WHOLE.len());
        match TURN.get(turn % (TURN.len() + 1)) {
            Some(other) => format!("{start}{other}{}", &end[1..]),
            None => start.to_owned(),
        }
    });
    for turn in 0..WHOLE.len() * (TURN.len() + 1) {
        match send(get(server.url("127.0.0.1", "/"))) {
            Ok(response) => assert!(response.body.len() <= WHOLE.len(), "{turn}"),
            Err(error) => assert_eq!(error.kind(), Io, "{turn}: {error}"),
        }
    }
}

#[test]
fn bytes_of_headers_are_kept_whatever_they_are() {
    let server = Server::with_requests(|_, stream| {
        drop(stream.write_all(
            b"HTTP/1.1 200 OK\r\nx-latin: gr\xfcn\r\nx-utf: gr\xc3\xbcn\r\ncontent-length: 0\r\n\r\n",
        ));
    });
    let headers = send(get(server.url("127.0.0.1", "/"))).unwrap().headers;
    assert_eq!(headers[..2], [header("x-latin", "grün"), header("x-utf", "grün")]);
}

#[test]
fn a_refused_connection_is_a_sentence() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = refused(send(get(format!("http://127.0.0.1:{port}/?hunter2"))), Io, &["Connection refused"]);
    assert_eq!(error.message(), "failed to reach 127.0.0.1: Connection refused");
}
