//! The first message of a TLS connection (RFC 8446, 4.1.2), read as far as its server name.
//!
//! It may come in any number of segments and records. What is not certainly a greeting for exactly this host is refused.

use super::refusal::Refusal;

/// The maximum bytes of a greeting, with the headers of its records.
const MAX_BYTES: usize = 16 << 10;

/// Holds back a greeting until it is whole.
pub(super) struct TlsHello {
    /// `None` for an address, in whose greeting no name is sent.
    host: Option<String>,
    received: Vec<u8>,
    is_done: bool,
}

/// What the bytes until now are.
#[derive(Debug, PartialEq, Eq)]
enum Progress<'a> {
    Incomplete,
    /// A whole greeting, with the name of the server, if it has one.
    Complete(Option<&'a str>),
    Invalid,
}

impl TlsHello {
    pub(super) fn new(host: &str, is_address: bool) -> Self {
        Self { host: (!is_address).then(|| host.to_owned()), received: Vec::new(), is_done: false }
    }

    /// Appends to `passed` what may be sent to the server.
    pub(super) fn push(&mut self, bytes: &[u8], passed: &mut Vec<u8>) -> Result<(), Refusal> {
        if self.is_done {
            passed.extend(bytes);
            return Ok(());
        }
        self.received.extend(bytes);
        let Some(greeting) = unwrap_records(&self.received) else { return Err(Refusal::NotTls) };
        match parse_hello(&greeting) {
            Progress::Incomplete if self.received.len() > MAX_BYTES => Err(Refusal::NotTls),
            Progress::Incomplete => Ok(()),
            Progress::Complete(name) => {
                let is_same = match (&self.host, name) {
                    (Some(host), Some(name)) => host.eq_ignore_ascii_case(name),
                    (None, None) => true,
                    _ => false,
                };
                if !is_same {
                    return Err(Refusal::OtherServerName);
                }
                self.is_done = true;
                passed.append(&mut self.received);
                Ok(())
            }
            Progress::Invalid => Err(Refusal::NotTls),
        }
    }

    pub(super) fn is_incomplete(&self) -> bool {
        !self.is_done
    }
}

/// The handshake bytes of all records until now; `None` if they are no records of a handshake.
fn unwrap_records(mut bytes: &[u8]) -> Option<Vec<u8>> {
    const HANDSHAKE: u8 = 22;
    const MAJOR_VERSION: u8 = 3;
    const MAX_RECORD_BYTES: usize = 1 << 14;
    let mut content = Vec::new();
    loop {
        // What follows a whole greeting is for the server.
        if is_whole(&content) {
            return Some(content);
        }
        match *bytes {
            [] | [HANDSHAKE] | [HANDSHAKE, MAJOR_VERSION] => return Some(content),
            [HANDSHAKE, MAJOR_VERSION, ref rest @ ..] => {
                let Some(&[_, high, low]) = rest.get(..3) else { return Some(content) };
                let length = usize::from(u16::from_be_bytes([high, low]));
                if length == 0 || length > MAX_RECORD_BYTES {
                    return None;
                }
                let body = &rest[3..];
                let (body, next) = body.split_at(length.min(body.len()));
                content.extend(body);
                bytes = next;
            }
            _ => return None,
        }
    }
}

/// Whether these handshake bytes hold the whole first message.
fn is_whole(content: &[u8]) -> bool {
    content.get(..4).is_some_and(|header| content.len() >= 4 + length24(header))
}

fn length24(header: &[u8]) -> usize {
    header[1..4].iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
}

fn parse_hello(content: &[u8]) -> Progress<'_> {
    const CLIENT_HELLO: u8 = 1;
    match content.first() {
        None => return Progress::Incomplete,
        Some(&CLIENT_HELLO) => {}
        Some(_) => return Progress::Invalid,
    }
    let Some(header) = content.get(..4) else { return Progress::Incomplete };
    let length = length24(header);
    if length > MAX_BYTES {
        return Progress::Invalid;
    }
    match content.get(4..4 + length) {
        None => Progress::Incomplete,
        Some(body) => parse_body(body).unwrap_or(Progress::Invalid),
    }
}

/// A greeting; `None` for what is none, or has more than one name.
fn parse_body(body: &[u8]) -> Option<Progress<'_>> {
    const VERSION_AND_RANDOM_BYTES: usize = 2 + 32;
    const SERVER_NAME: u16 = 0;
    let mut rest = Reader(body);
    rest.take(VERSION_AND_RANDOM_BYTES)?;
    let _session = rest.take_with_length(1)?;
    let _cipher_suites = rest.take_with_length(2)?;
    let _compressions = rest.take_with_length(1)?;
    if rest.0.is_empty() {
        return Some(Progress::Complete(None));
    }
    let mut extensions = Reader(rest.take_with_length(2)?);
    if !rest.0.is_empty() {
        return None;
    }
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number(2)?;
        let content = extensions.take_with_length(2)?;
        if kind == usize::from(SERVER_NAME) && found.replace(host_name(content)?).is_some() {
            return None;
        }
    }
    Some(Progress::Complete(found))
}

/// The only name of the extension.
fn host_name(extension: &[u8]) -> Option<&str> {
    const HOST_NAME: usize = 0;
    let mut rest = Reader(extension);
    let mut list = Reader(rest.take_with_length(2)?);
    let is_host_name = list.number(1)? == HOST_NAME;
    let name = list.take_with_length(2)?;
    let is_alone = rest.0.is_empty() && list.0.is_empty();
    std::str::from_utf8(name).ok().filter(|name| is_host_name && is_alone && !name.is_empty())
}

/// Reads from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of this many bytes.
    fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// Bytes after their length, a number of this many bytes.
    fn take_with_length(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let length = self.number(bytes)?;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_length(bytes: usize, content: &[u8]) -> Vec<u8> {
        let length = content.len().to_be_bytes();
        [&length[length.len() - bytes..], content].concat()
    }

    fn server_name_extension(names: &[&str]) -> Vec<u8> {
        let list: Vec<u8> =
            names.iter().flat_map(|name| [&[0][..], &with_length(2, name.as_bytes())].concat()).collect();
        [&[0, 0][..], &with_length(2, &with_length(2, &list))].concat()
    }

    fn hello_with(extensions: &[u8]) -> Vec<u8> {
        let body = [
            &[3, 3][..],
            &[7; 32],
            &with_length(1, &[9; 32]),
            &with_length(2, &[0x13, 1]),
            &with_length(1, &[0]),
            &with_length(2, extensions),
        ]
        .concat();
        [&[1][..], &with_length(3, &body)].concat()
    }

    fn hello(name: &str) -> Vec<u8> {
        hello_with(&[&[0, 43, 0, 3, 2, 3, 4][..], &server_name_extension(&[name])].concat())
    }

    fn records(hello: &[u8], size: usize) -> Vec<u8> {
        hello.chunks(size).flat_map(|part| [&[22, 3, 1][..], &with_length(2, part)].concat()).collect()
    }

    fn push_all(host: &str, is_address: bool, bytes: &[u8], segment: usize) -> Result<Vec<u8>, Refusal> {
        let (mut guard, mut passed) = (TlsHello::new(host, is_address), Vec::new());
        for part in bytes.chunks(segment) {
            guard.push(part, &mut passed)?;
        }
        if guard.is_incomplete() { Err(Refusal::Slow) } else { Ok(passed) }
    }

    #[test]
    fn a_greeting_for_the_host_passes_in_any_number_of_records_and_segments() {
        for record in [1, 2, 3, 7, 40, 4096] {
            for segment in [1, 2, 5, 64, 4096] {
                let bytes = [records(&hello("API.example.com"), record), b"later".to_vec()].concat();
                assert_eq!(
                    push_all("api.example.com", false, &bytes, segment),
                    Ok(bytes),
                    "{record} {segment}"
                );
            }
        }
        let without_name = records(&hello_with(&[]), 4096);
        assert_eq!(push_all("127.0.0.1", true, &without_name, 9), Ok(without_name));
    }

    #[test]
    fn nothing_passes_before_the_greeting_is_whole() {
        let bytes = records(&hello("api.example.com"), 50);
        let (mut guard, mut passed) = (TlsHello::new("api.example.com", false), Vec::new());
        for byte in &bytes[..bytes.len() - 1] {
            guard.push(&[*byte], &mut passed).unwrap();
            assert!(passed.is_empty() && guard.is_incomplete());
        }
    }

    #[test]
    fn a_greeting_for_another_host_or_none_is_refused() {
        let other = |bytes: Vec<u8>| push_all("api.example.com", false, &records(&bytes, 4096), 4096);
        for name in
            ["other.example.com", "api.example.com.", "xapi.example.com", "api.example.co", "127.0.0.1"]
        {
            assert_eq!(other(hello(name)), Err(Refusal::OtherServerName), "{name}");
        }
        assert_eq!(other(hello_with(&[])), Err(Refusal::OtherServerName), "no name");
        let named = records(&hello("api.example.com"), 4096);
        assert_eq!(
            push_all("127.0.0.1", true, &named, 4096),
            Err(Refusal::OtherServerName),
            "a name for an address"
        );
        let twice = server_name_extension(&["api.example.com"]).repeat(2);
        assert_eq!(other(hello_with(&twice)), Err(Refusal::NotTls), "two extensions");
        let two = server_name_extension(&["api.example.com", "other.example.com"]);
        assert_eq!(other(hello_with(&two)), Err(Refusal::NotTls), "two names");
    }

    #[test]
    fn what_is_no_greeting_is_refused_at_once() {
        let good = hello("api.example.com");
        let with = |at: usize, byte: u8| {
            let mut bytes = records(&good, 4096);
            bytes[at] = byte;
            bytes
        };
        for (what, bytes) in [
            ("plain HTTP", b"GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n".to_vec()),
            ("SSH", b"SSH-2.0-x\r\n".to_vec()),
            ("SSL 2", b"\x80\x2e\x01\x03\x01".to_vec()),
            ("application data", with(0, 23)),
            ("another version", with(1, 2)),
            ("an empty record", vec![22, 3, 1, 0, 0]),
            ("a record that is too long", vec![22, 3, 1, 0x40, 1]),
            ("another message", with(5, 2)),
            ("a message that is too long", with(6, 1)),
            ("a session that is too long", with(5 + 4 + 34, 255)),
            ("a greeting that ends early", with(8, u8::try_from(good.len() - 4 - 1).unwrap())),
        ] {
            assert_eq!(push_all("api.example.com", false, &bytes, 4096), Err(Refusal::NotTls), "{what}");
        }
        let endless = records(&[vec![1, 0, 0x40, 0], vec![0; 20_000]].concat(), 1);
        assert_eq!(push_all("api.example.com", false, &endless, 4096), Err(Refusal::NotTls));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let good = records(&hello("api.example.com"), 30);
        for at in 0..good.len() {
            for byte in [0, 1, 3, 22, 127, 255] {
                let mut bytes = good.clone();
                bytes[at] = byte;
                push_all("api.example.com", false, &bytes, 11).ok();
                push_all("api.example.com", false, &bytes[..at], 11).ok();
            }
        }
    }
}
