//! The requests of a connection without encryption (RFC 9112): each must be for the host that was granted.
//!
//! Where one request ends and the next begins must be beyond doubt, or a server could see a request that was not checked here. So
//! whatever two readers could read differently is refused, even where a lenient server would accept it. A server that does not read a
//! body would take it for the next request, so a request with a body is the last one that a server reads from its connection: it
//! passes with `Connection: close`.

use super::refusal::Refusal;

/// The maximum bytes of a request's lines before its body, and of the lines after a body in chunks.
pub(super) const MAX_HEAD_BYTES: usize = 32 << 10;

/// The maximum bytes of the line before a chunk: its length in hexadecimal digits.
pub(super) const MAX_CHUNK_LINE_BYTES: usize = 18;

/// Checks every request on a connection.
pub(super) struct HttpGuard {
    /// What the header `Host` must be, apart from the port.
    host: String,
    /// The bytes of an unfinished line, or of unfinished lines.
    held: Vec<u8>,
    state: State,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    /// So many bytes of a body.
    Body(u64),
    ChunkLine,
    /// So many bytes of a chunk.
    Chunk(u64),
    ChunkEnd,
    Trailers,
}

/// Bytes up to an end, and the bytes after it.
type SplitBytes<'a> = (Vec<u8>, &'a [u8]);

/// The longest body or chunk: servers keep lengths in signed numbers of 64 bits.
const MAX_LENGTH: u64 = i64::MAX as u64;

/// The methods whose requests have a body, so that every server reads it. Any other method passes without one.
const METHODS_WITH_BODY: [&[u8]; 11] = [
    b"POST",
    b"PUT",
    b"PATCH",
    b"QUERY",
    // WebDAV, as subversion and calendars use it.
    b"ACL",
    b"LOCK",
    b"MKCOL",
    b"PROPFIND",
    b"PROPPATCH",
    b"REPORT",
    b"SEARCH",
];

/// How the end of a request is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    NoBody,
    Length(u64),
    Chunked,
}

/// The lines of a request before its body, which were checked.
pub(super) struct RequestHead<'a> {
    pub(super) method: &'a [u8],
    /// The path and the query.
    pub(super) target: &'a [u8],
    /// Whether the version is 1.1 and not 1.0.
    pub(super) is_1_1: bool,
    /// The headers, in their order.
    pub(super) fields: Vec<(&'a [u8], &'a [u8])>,
    pub(super) framing: Framing,
    /// Whether it waits for an answer before it sends the body.
    pub(super) expects: bool,
}

impl HttpGuard {
    pub(super) fn new(host: &str) -> Self {
        Self { host: bracketed(host), held: Vec::new(), state: State::Head }
    }

    /// Appends to `passed` what may be sent to the server.
    pub(super) fn push(&mut self, mut bytes: &[u8], passed: &mut Vec<u8>) -> Result<(), Refusal> {
        while !bytes.is_empty() {
            bytes = match self.state {
                State::Head => self.push_head(bytes, passed)?,
                State::Body(left) => {
                    let (rest, left) = pass_counted(bytes, left, passed);
                    self.state = if left == 0 { State::Head } else { State::Body(left) };
                    rest
                }
                State::ChunkLine => self.push_chunk_line(bytes, passed)?,
                State::Chunk(left) => {
                    let (rest, left) = pass_counted(bytes, left, passed);
                    self.state = if left == 0 { State::ChunkEnd } else { State::Chunk(left) };
                    rest
                }
                State::ChunkEnd => {
                    let Some((line, rest)) = self.take_until(b"\r\n", bytes, 2)? else { return Ok(()) };
                    if line.len() != 2 {
                        return Err(Refusal::Http("a chunk is longer than its length says"));
                    }
                    passed.extend(line);
                    self.state = State::ChunkLine;
                    rest
                }
                State::Trailers => self.push_trailers(bytes, passed)?,
            };
        }
        Ok(())
    }

    /// Whether it has a part of the lines before a body, or nothing of the first request yet.
    pub(super) fn is_in_head(&self) -> bool {
        !self.held.is_empty()
    }

    fn push_head<'a>(&mut self, bytes: &'a [u8], passed: &mut Vec<u8>) -> Result<&'a [u8], Refusal> {
        let Some((head, rest)) = self.take_until(b"\r\n\r\n", bytes, MAX_HEAD_BYTES)? else { return Ok(&[]) };
        self.state = match RequestHead::parse(&head, &self.host, 80)?.framing {
            Framing::NoBody => {
                passed.extend(head);
                State::Head
            }
            Framing::Length(length) => {
                pass_last_head(&head, passed);
                State::Body(length)
            }
            Framing::Chunked => {
                pass_last_head(&head, passed);
                State::ChunkLine
            }
        };
        Ok(rest)
    }

    fn push_chunk_line<'a>(&mut self, bytes: &'a [u8], passed: &mut Vec<u8>) -> Result<&'a [u8], Refusal> {
        let Some((line, rest)) = self.take_until(b"\r\n", bytes, MAX_CHUNK_LINE_BYTES)? else {
            return Ok(&[]);
        };
        self.state = match parse_chunk_length(&line[..line.len() - 2])? {
            0 => State::Trailers,
            length => State::Chunk(length),
        };
        passed.extend(line);
        Ok(rest)
    }

    /// Takes one line at a time; an empty one ends the request.
    fn push_trailers<'a>(&mut self, bytes: &'a [u8], passed: &mut Vec<u8>) -> Result<&'a [u8], Refusal> {
        let Some((line, rest)) = self.take_until(b"\r\n", bytes, MAX_HEAD_BYTES)? else { return Ok(&[]) };
        if line.len() == 2 {
            self.state = State::Head;
        } else {
            check_trailer(&line[..line.len() - 2])?;
        }
        passed.extend(line);
        Ok(rest)
    }

    /// What is held and these bytes, up to this end, and the bytes after it; `None` if the end is not there yet, and an error if it
    /// cannot come within so many bytes.
    fn take_until<'a>(
        &mut self,
        end: &[u8],
        bytes: &'a [u8],
        max: usize,
    ) -> Result<Option<SplitBytes<'a>>, Refusal> {
        let before = self.held.len();
        let taken = &bytes[..bytes.len().min(max.saturating_sub(before))];
        self.held.extend(taken);
        let from = before.saturating_sub(end.len() - 1);
        let found = self.held[from..].windows(end.len()).position(|part| part == end);
        if let Some(at) = found.map(|at| from + at + end.len()) {
            self.held.truncate(at);
            return Ok(Some((std::mem::take(&mut self.held), &bytes[at - before..])));
        }
        if self.held.len() >= max {
            return Err(Refusal::Http("a line or a head is too long, or does not end as it must"));
        }
        Ok(None)
    }
}

/// A host as a URL and the header `Host` have it.
pub(super) fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// Passes as many of these bytes as are left; returns the others, and how many are still left.
fn pass_counted<'a>(bytes: &'a [u8], left: u64, passed: &mut Vec<u8>) -> (&'a [u8], u64) {
    let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
    let (now, later) = bytes.split_at(count);
    passed.extend(now);
    (later, left - count as u64)
}

/// The fields that say for which host a request is, and where it ends.
const FRAMING_FIELDS: [&[u8]; 3] = [b"host", b"content-length", b"transfer-encoding"];

/// Passes the lines before a body, with `Connection: close` in place of what they say about the connection: a server that does not
/// read the body then does not read it as the next request either.
fn pass_last_head(head: &[u8], passed: &mut Vec<u8>) {
    const REPLACED: [&[u8]; 3] = [b"connection", b"keep-alive", b"proxy-connection"];
    let lines = head.strip_suffix(b"\r\n\r\n").unwrap_or(head);
    for line in split_lines(lines) {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        if !REPLACED.iter().any(|field| name.eq_ignore_ascii_case(field)) {
            passed.extend(line);
            passed.extend(b"\r\n");
        }
    }
    passed.extend(b"Connection: close\r\n\r\n");
}

/// The length in the line before a chunk.
pub(super) fn parse_chunk_length(line: &[u8]) -> Result<u64, Refusal> {
    let digits = std::str::from_utf8(line).unwrap_or_default();
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let length = u64::from_str_radix(digits, 16).ok().filter(|length| is_plain && *length <= MAX_LENGTH);
    length.ok_or(Refusal::Http("the length of a chunk is not a plain number"))
}

/// Checks a line after a body in chunks.
pub(super) fn check_trailer(line: &[u8]) -> Result<(), Refusal> {
    let (name, _) = parse_field(line)?;
    if FRAMING_FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field)) {
        let reason = "a line after the body says where the body ends, or for which host it is";
        return Err(Refusal::Http(reason));
    }
    Ok(())
}

impl<'a> RequestHead<'a> {
    /// Checks the lines before a body, which end with an empty one. The host is as the header `Host` must name it.
    pub(super) fn parse(head: &'a [u8], host: &str, port: u16) -> Result<Self, Refusal> {
        let lines = head.strip_suffix(b"\r\n\r\n").unwrap_or(head);
        let mut lines = split_lines(lines);
        let request = parse_request_line(lines.next().unwrap_or_default())?;
        let [mut hosts, mut lengths, mut codings] = [const { Vec::new() }; 3];
        let (mut fields, mut expects) = (Vec::new(), false);
        for line in lines {
            let (name, value) = parse_field(line)?;
            fields.push((name, value));
            let is = |field: &[u8]| name.eq_ignore_ascii_case(field);
            if is(b"host") {
                hosts.push(value);
            } else if is(b"content-length") {
                lengths.push(value);
            } else if is(b"transfer-encoding") {
                codings.push(value);
            } else if is(b"connection") {
                check_connection(value)?;
            } else if is(b"expect") {
                if expects || !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(Refusal::Http("it expects something other than 100-continue (Expect)"));
                }
                expects = true;
            } else if is(b"upgrade") {
                return Err(Refusal::Http("it asks to go on in another protocol (Upgrade)"));
            }
        }
        let own_port = format!(":{port}");
        let is_for_host = |value: &[u8]| {
            let name = value.strip_suffix(own_port.as_bytes()).unwrap_or(value);
            name.eq_ignore_ascii_case(host.as_bytes())
        };
        match hosts.as_slice() {
            [value] if is_for_host(value) => {}
            [_] => return Err(Refusal::OtherHost),
            _ => return Err(Refusal::Http("it must have exactly one header Host")),
        }
        let framing = match (lengths.as_slice(), codings.as_slice()) {
            ([], []) => Framing::NoBody,
            ([length], []) => match parse_length(length)? {
                0 => Framing::NoBody,
                length => Framing::Length(length),
            },
            ([], [coding]) if request.is_1_1 && coding.eq_ignore_ascii_case(b"chunked") => Framing::Chunked,
            _ => {
                return Err(Refusal::Http(
                    "it says in several ways, or in an unknown one, where its body ends",
                ));
            }
        };
        let RequestLine { method, target, is_1_1 } = request;
        match framing {
            Framing::NoBody if expects => Err(Refusal::Http("it has the header Expect, and no body")),
            Framing::Length(_) | Framing::Chunked if !METHODS_WITH_BODY.contains(&method) => {
                Err(Refusal::Http("it has a body, which servers do not read with its method"))
            }
            framing => Ok(Self { method, target, is_1_1, fields, framing, expects }),
        }
    }
}

/// Refuses a request whose next reader is to drop what says where the request ends.
fn check_connection(value: &[u8]) -> Result<(), Refusal> {
    let mut options = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let is_framing = |option: &[u8]| FRAMING_FIELDS.iter().any(|field| option.eq_ignore_ascii_case(field));
    if options.any(is_framing) {
        return Err(Refusal::Http("its header Connection names a header that says where it ends"));
    }
    Ok(())
}

/// What the first line says.
struct RequestLine<'a> {
    method: &'a [u8],
    target: &'a [u8],
    is_1_1: bool,
}

/// The lines, without their ends; a line break of any other form stays in its line, where no field may have it.
fn split_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        match text.windows(2).position(|pair| pair == b"\r\n") {
            Some(at) => {
                rest = Some(&text[at + 2..]);
                Some(&text[..at])
            }
            None => rest.take(),
        }
    })
}

fn parse_request_line(line: &[u8]) -> Result<RequestLine<'_>, Refusal> {
    let parts: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [method, target, version] = parts.as_slice() else {
        return Err(Refusal::Http("its first line is not a method, a path and a version"));
    };
    if method.eq_ignore_ascii_case(b"CONNECT") {
        return Err(Refusal::Http("it asks for a tunnel (CONNECT)"));
    }
    let is_path = target.starts_with(b"/") || (*target == b"*" && *method == b"OPTIONS");
    let is_plain = !method.is_empty()
        && method.iter().all(|byte| is_token(*byte))
        && target.iter().all(u8::is_ascii_graphic);
    if !is_path || !is_plain {
        return Err(Refusal::Http("its first line must name a path, not a whole address"));
    }
    match *version {
        b"HTTP/1.1" => Ok(RequestLine { method, target, is_1_1: true }),
        b"HTTP/1.0" => Ok(RequestLine { method, target, is_1_1: false }),
        _ => Err(Refusal::Http("its version is not HTTP/1.1 or HTTP/1.0")),
    }
}

/// The name and the value of a header.
fn parse_field(line: &[u8]) -> Result<(&[u8], &[u8]), Refusal> {
    let invalid = || Refusal::Http("a header is not a name, a colon and a value");
    let at = line.iter().position(|byte| *byte == b':').ok_or_else(invalid)?;
    let (name, value) = (&line[..at], line[at + 1..].trim_ascii());
    let is_text = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
    let is_valid = !name.is_empty() && name.iter().all(|byte| is_token(*byte)) && line.iter().all(is_text);
    if is_valid { Ok((name, value)) } else { Err(invalid()) }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn parse_length(value: &[u8]) -> Result<u64, Refusal> {
    // Some read a number that begins with 0 as octal.
    let is_number = value.iter().all(u8::is_ascii_digit) && (value.len() == 1 || !value.starts_with(b"0"));
    let number = std::str::from_utf8(value).ok().filter(|_| is_number).and_then(|text| text.parse().ok());
    number
        .filter(|length| *length <= MAX_LENGTH)
        .ok_or(Refusal::Http("its Content-Length is not a plain number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(bytes: &[u8], segment: usize) -> Result<Vec<u8>, Refusal> {
        let (mut guard, mut passed) = (HttpGuard::new("api.example.com"), Vec::new());
        for part in bytes.chunks(segment) {
            guard.push(part, &mut passed)?;
        }
        Ok(passed)
    }

    fn request(lines: &str) -> Vec<u8> {
        format!("{}\r\n\r\n", lines.replace('\n', "\r\n")).into_bytes()
    }

    #[test]
    fn requests_for_the_host_pass_one_after_the_other_in_any_segments() {
        let several = [
            request("GET /a?b HTTP/1.1\nHost: API.example.com\nAccept: */*"),
            request("POST / HTTP/1.1\nhost:api.example.com:80\nContent-Length: 5\nConnection: close"),
            b"a\r\n\r\n".to_vec(),
            request("DELETE /a HTTP/1.1\nHost: api.example.com\nContent-Length: 0"),
            request("PUT / HTTP/1.1\nHost: api.example.com\nTransfer-Encoding: chunked\nConnection: close"),
            b"A\r\n0123456789\r\n1\r\nx\r\n0\r\nExpires: 0\r\n\r\n".to_vec(),
            request("OPTIONS * HTTP/1.0\nHost: api.example.com"),
            request("GET /last HTTP/1.1\nHost: api.example.com"),
        ]
        .concat();
        for segment in [1, 2, 3, 7, 64, 4096] {
            assert_eq!(push(&several, segment), Ok(several.clone()), "{segment}");
        }
    }

    #[test]
    fn a_later_request_for_another_host_is_refused_and_nothing_of_it_passes() {
        let first = request("GET / HTTP/1.1\nHost: api.example.com");
        let second = request("GET / HTTP/1.1\nHost: other.example.com");
        let (mut guard, mut passed) = (HttpGuard::new("api.example.com"), Vec::new());
        assert_eq!(guard.push(&[&first[..], &second].concat(), &mut passed), Err(Refusal::OtherHost));
        assert_eq!(passed, first);
    }

    #[test]
    fn a_request_with_a_body_is_the_last_that_a_server_reads() {
        let body = "GET /inside HTTP/1.1\r\nHost: other.example.com\r\n\r\n";
        let length = body.len();
        for said in [
            "",
            "\nConnection: keep-alive\nKeep-Alive: timeout=9",
            "\nconnection: x, Keep-Alive",
            "\nProxy-Connection: x",
        ] {
            for (framing, body) in [
                (format!("Content-Length: {length}"), body.to_owned()),
                ("Transfer-Encoding: chunked".to_owned(), format!("{length:x}\r\n{body}\r\n0\r\n\r\n")),
                (format!("Expect: 100-continue\nContent-Length: {length}"), body.to_owned()),
            ] {
                let start = format!("POST / HTTP/1.1\nHost: api.example.com\n{framing}");
                let sent = [request(&format!("{start}{said}")), body.clone().into_bytes()].concat();
                let expected = [request(&format!("{start}\nConnection: close")), body.into_bytes()].concat();
                for segment in [1, 7, 4096] {
                    assert_eq!(push(&sent, segment), Ok(expected.clone()), "{start}{said}");
                }
            }
        }
    }

    #[test]
    fn no_body_passes_with_a_method_whose_bodies_servers_do_not_read() {
        for method in ["GET", "HEAD", "OPTIONS", "TRACE", "DELETE", "get", "Post", "COPY", "BREW"] {
            for framing in ["Content-Length: 5", "Transfer-Encoding: chunked", "Expect: 100-continue"] {
                let lines = format!("{method} / HTTP/1.1\nHost: api.example.com\n{framing}");
                assert!(push(&request(&lines), 4096).is_err(), "{lines:?}");
            }
            let lines = format!("{method} / HTTP/1.1\nHost: api.example.com\nContent-Length: 0");
            assert_eq!(push(&request(&lines), 4096), Ok(request(&lines)));
        }
    }

    #[test]
    fn what_another_reader_could_read_differently_is_refused() {
        let host = "Host: api.example.com";
        for lines in [
            "GET / HTTP/1.1".to_owned(),
            format!("GET / HTTP/1.1\n{host}\n{host}"),
            "GET / HTTP/1.1\nHost: other.example.com".into(),
            "GET / HTTP/1.1\nHost: api.example.com:81".into(),
            "GET / HTTP/1.1\nHost: api.example.com, other.example.com".into(),
            "GET / HTTP/1.1\nHost: api.example.com@other.example.com".into(),
            "GET / HTTP/1.1\nHost : api.example.com".into(),
            "GET / HTTP/1.1\n Host: api.example.com".into(),
            format!("GET http://other.example.com/ HTTP/1.1\n{host}"),
            format!("GET http://api.example.com/ HTTP/1.1\n{host}"),
            format!("GET //other HTTP/1.1 x\n{host}"),
            format!("GET  / HTTP/1.1\n{host}"),
            format!("GET\t/ HTTP/1.1\n{host}"),
            format!("\nGET / HTTP/1.1\n{host}"),
            format!("CONNECT other.example.com:443 HTTP/1.1\n{host}"),
            format!("CONNECT / HTTP/1.1\n{host}"),
            format!("connect / HTTP/1.1\n{host}"),
            format!("GET / HTTP/2.0\n{host}"),
            format!("PRI * HTTP/2.0\n{host}"),
            format!("GET / HTTP/0.9\n{host}"),
            format!("GET / HTTP/1.1\n{host}\nUpgrade: h2c"),
            format!("GET / HTTP/1.1\n{host}\nConnection: Upgrade\nupgrade: websocket"),
            format!("POST / HTTP/1.1\n{host}\nContent-Length: 5\nTransfer-Encoding: chunked"),
            format!("POST / HTTP/1.1\n{host}\nContent-Length: 5\nContent-Length: 5"),
            format!("POST / HTTP/1.1\n{host}\nContent-Length: 5, 5"),
            format!("POST / HTTP/1.1\n{host}\nContent-Length: +5"),
            format!("POST / HTTP/1.1\n{host}\nContent-Length: 0x5"),
            format!("POST / HTTP/1.1\n{host}\nContent-Length: -1"),
            format!("POST / HTTP/1.1\n{host}\nContent-Length:"),
            format!("POST / HTTP/1.1\n{host}\nContent-Length: 99999999999999999999"),
            format!("POST / HTTP/1.1\n{host}\nContent-Length: 9223372036854775808"),
            format!("POST / HTTP/1.1\n{host}\nContent-Length: 18446744073709551615"),
            format!("POST / HTTP/1.1\n{host}\nContent-Length: 010"),
            format!("POST / HTTP/1.1\n{host}\nContent-Length: 00"),
            format!("POST / HTTP/1.1\n{host}\nContent-Length: 5\nConnection: close, content-Length"),
            format!("GET / HTTP/1.1\n{host}\nConnection: Host"),
            format!("POST / HTTP/1.1\n{host}\nContent-Length: 5\nExpect: 200-ok"),
            format!("POST / HTTP/1.1\n{host}\nContent-Length: 5\nExpect: 100-continue, x"),
            format!("POST / HTTP/1.1\n{host}\nContent-Length: 5\nExpect: 100-continue\nExpect: 100-continue"),
            format!("POST / HTTP/1.1\n{host}\nTransfer-Encoding: gzip, chunked"),
            format!("POST / HTTP/1.1\n{host}\nTransfer-Encoding: chunked\nTransfer-Encoding: identity"),
            format!("POST / HTTP/1.1\n{host}\nTransfer-Encoding: xchunked"),
            format!("POST / HTTP/1.1\n{host}\nTransfer-Encoding: \x0bchunked"),
            format!("POST / HTTP/1.0\n{host}\nTransfer-Encoding: chunked"),
            format!("GET / HTTP/1.1\n{host}\nX: a\rHost: other.example.com"),
            format!("GET / HTTP/1.1\n{host}\nX: a\0b"),
            format!("GET / HTTP/1.1\n{host}\nX"),
            format!("GET / HTTP/1.1\n{host}\n: x"),
            format!("GET / HTTP/1.1\n{host}\nX\u{a0}Y: x"),
        ] {
            assert!(push(&request(&lines), 4096).is_err(), "{lines:?}");
            assert!(push(&request(&lines), 1).is_err(), "{lines:?}");
        }
        // The second line ends with a line feed alone.
        let bare = b"GET / HTTP/1.1\r\nX: a\nHost: other.example.com\r\nHost: api.example.com\r\n\r\n";
        assert!(push(bare, 4096).is_err());
        let only_feeds = b"GET / HTTP/1.1\nHost: api.example.com\n\n".repeat(1000);
        assert!(push(&only_feeds, 4096).is_err());
    }

    #[test]
    fn chunks_are_counted_exactly() {
        let head = request("POST / HTTP/1.1\nHost: api.example.com\nTransfer-Encoding: chunked");
        for chunks in [
            "5\r\nabcdefGET / HTTP/1.1\r\nHost: other\r\n\r\n",
            "5;x=y\r\nabcde\r\n0\r\n\r\n",
            " 5\r\nabcde\r\n0\r\n\r\n",
            "5 \r\nabcde\r\n0\r\n\r\n",
            "+5\r\nabcde\r\n0\r\n\r\n",
            "0x5\r\nabcde\r\n0\r\n\r\n",
            "\r\nabcde\r\n0\r\n\r\n",
            "11111111111111111\r\n",
            "8000000000000000\r\n",
            "FFFFFFFFFFFFFFFF\r\n",
            "5\nabcde\r\n0\r\n\r\n",
            "5\r\nabcde\n0\r\n\r\n",
            "0\r\nHost: other\r\n\r\n",
            "0\r\nContent-Length: 5\r\n\r\n",
            "0\r\n x: y\r\n\r\n",
            "0\r\nx\nHost: other\r\n\r\n",
        ] {
            let bytes = [&head, chunks.as_bytes()].concat();
            assert!(push(&bytes, 4096).is_err() && push(&bytes, 1).is_err(), "{chunks:?}");
        }
    }

    #[test]
    fn a_head_without_an_end_is_refused_when_it_is_too_long() {
        let endless = [b"GET / HTTP/1.1\r\n".to_vec(), b"X: y\r\n".repeat(10_000)].concat();
        assert!(push(&endless, 4096).is_err());
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let good = [
            request("POST / HTTP/1.1\nHost: api.example.com\nTransfer-Encoding: chunked"),
            b"3\r\nabc\r\n0\r\n\r\n".to_vec(),
        ]
        .concat();
        for at in 0..good.len() {
            for byte in [0, b'\r', b'\n', b' ', b'0', b':', 255] {
                let mut bytes = good.clone();
                bytes[at] = byte;
                push(&bytes, 5).ok();
                push(&bytes[..at], 3).ok();
            }
        }
    }
}
