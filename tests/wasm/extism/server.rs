//! A server on a loopback port that answers with what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

/// Starts it, for as long as this process lives, and returns its address, `127.0.0.1:PORT`.
pub fn start() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    address
}

/// `/echo` answers with the request, `/status/N` with that status, `/bytes/N` with as many bytes, `/binary` with no text,
/// `/to/PATH` with a redirect.
fn answer(mut stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim_end().is_empty() {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let header = |name: &str| {
        lines.iter().find_map(|line| {
            line.to_ascii_lowercase().strip_prefix(name)?.strip_prefix(": ").map(str::to_owned)
        })
    };
    let length = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut words = lines.first()?.split(' ');
    let (method, path) = (words.next()?, words.next()?);
    let (mut status, mut more, mut content) = (200, String::new(), Vec::new());
    match path.split('/').collect::<Vec<_>>().as_slice() {
        ["", "status", code] => (status, content) = (code.parse().ok()?, b"as asked".to_vec()),
        ["", "bytes", count] => content = vec![b'x'; count.parse().ok()?],
        ["", "binary"] => content = vec![0, 1, 0x7f, 0x80, 0xff],
        ["", "to", rest @ ..] => (status, more) = (302, format!("location: /{}\r\n", rest.join("/"))),
        _ => {
            content = format!("{method} {path} {}\n", header("x-from").unwrap_or_default()).into_bytes();
            content.extend(&body);
        }
    }
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nx-back: here\r\n{more}connection: close\r\n\r\n",
        content.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    if method != "HEAD" {
        stream.write_all(&content).ok()?;
    }
    Some(())
}
