//! Queries of the domain name system and their answers (RFC 1035): as much of it as a resolver for a fixed set of names needs.
//!
//! A query has one question, whose name is spelled out. Everything else is answered with an error and no content.

use std::net::Ipv4Addr;

use metier_core::policy::is_host_name;

/// The longest query that is read.
pub(super) const MAX_QUERY_BYTES: usize = 1024;

/// What a name is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Address(Ipv4Addr),
    /// The name exists, and has nothing of this type.
    Empty,
    NoSuchName,
    Refused,
}

/// The type of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueryType {
    /// An IPv4 address.
    A,
    /// An IPv6 address.
    Aaaa,
    Other,
}

const HEADER_BYTES: usize = 12;
const CLASS_INTERNET: u16 = 1;
/// How long an answer holds, in seconds: longer than most runs, in each of which it stays the same.
const TIME_TO_LIVE: u32 = 300;

const OK: u8 = 0;
const FORMAT_ERROR: u8 = 1;
const NO_SUCH_NAME: u8 = 3;
const NOT_IMPLEMENTED: u8 = 4;
const REFUSED: u8 = 5;

/// The answer to a query, by what `resolve` returns for its name in lower case; `None` for what is not a query.
pub(super) fn answer_query(query: &[u8], resolve: impl FnOnce(&str, QueryType) -> Answer) -> Option<Vec<u8>> {
    const RESPONSE: u8 = 0x80;
    const OPERATION: u8 = 0x78;
    let header = query.get(..HEADER_BYTES)?;
    if header[2] & RESPONSE != 0 {
        return None;
    }
    if header[2] & OPERATION != 0 {
        return Some(response(header, NOT_IMPLEMENTED, &[], None));
    }
    let Some(Question { name, kind, class, length }) = parse_question(query) else {
        return Some(response(header, FORMAT_ERROR, &[], None));
    };
    let question = query.get(HEADER_BYTES..HEADER_BYTES + length)?;
    let answer = if class == CLASS_INTERNET { resolve(&name, kind) } else { Answer::Refused };
    Some(match answer {
        Answer::Address(address) => response(header, OK, question, Some(address)),
        Answer::Empty => response(header, OK, question, None),
        Answer::NoSuchName => response(header, NO_SUCH_NAME, question, None),
        Answer::Refused => response(header, REFUSED, question, None),
    })
}

struct Question {
    name: String,
    kind: QueryType,
    class: u16,
    length: usize,
}

/// The only question of a query.
fn parse_question(query: &[u8]) -> Option<Question> {
    const TYPE_A: u16 = 1;
    const TYPE_AAAA: u16 = 28;
    if number(query, 4)? != 1 || number(query, 6)? != 0 || number(query, 8)? != 0 {
        return None;
    }
    let body = &query[HEADER_BYTES..];
    let (mut name, mut at) = (String::new(), 0);
    loop {
        let length = usize::from(*body.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        // The two upper bits mark a pointer to another place of the message, for which a question has no use.
        let label = body.get(at..at + length).filter(|_| length <= 63)?;
        at += length;
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(std::str::from_utf8(label).ok().filter(|label| !label.contains('.'))?);
        if name.len() > 253 {
            return None;
        }
    }
    name.make_ascii_lowercase();
    if !is_host_name(&name) {
        return None;
    }
    let kind = match number(body, at)? {
        TYPE_A => QueryType::A,
        TYPE_AAAA => QueryType::Aaaa,
        _ => QueryType::Other,
    };
    Some(Question { name, kind, class: number(body, at + 2)?, length: at + 4 })
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

/// A response with this question, if it could be read, and at most one address.
fn response(header: &[u8], code: u8, question: &[u8], address: Option<Ipv4Addr>) -> Vec<u8> {
    const RESPONSE_FLAGS: u8 = 0x84;
    const RECURSION_DESIRED: u8 = 1;
    const RECURSION_AVAILABLE: u8 = 0x80;
    /// A pointer to the name of the question.
    const NAME_OF_QUESTION: [u8; 2] = [0xc0, 12];
    let mut bytes = header[..2].to_vec();
    bytes.extend([RESPONSE_FLAGS | header[2] & RECURSION_DESIRED, RECURSION_AVAILABLE | code]);
    let counts = [u16::from(!question.is_empty()), u16::from(address.is_some()), 0, 0];
    bytes.extend(counts.into_iter().flat_map(u16::to_be_bytes));
    bytes.extend(question);
    if let Some(address) = address {
        bytes.extend(NAME_OF_QUESTION);
        bytes.extend([0, 1, 0, 1]);
        bytes.extend(TIME_TO_LIVE.to_be_bytes());
        bytes.extend([0, 4]);
        bytes.extend(address.octets());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(labels: &[&[u8]], kind: u16) -> Vec<u8> {
        let mut bytes = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in labels {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend(*label);
        }
        bytes.push(0);
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 1]);
        bytes
    }

    fn answer(query: &[u8]) -> Option<(u8, Vec<u8>)> {
        let resolve = |name: &str, kind| match (name, kind) {
            ("api.example.com", QueryType::A) => Answer::Address(Ipv4Addr::new(198, 18, 0, 1)),
            ("api.example.com", _) => Answer::Empty,
            ("refused.example.com", _) => Answer::Refused,
            _ => Answer::NoSuchName,
        };
        answer_query(query, resolve).map(|bytes| (bytes[3] & 15, bytes))
    }

    #[test]
    fn a_granted_name_has_an_address_and_nothing_else() {
        let labels: [&[u8]; 3] = [b"API", b"example", b"com"];
        let (code, bytes) = answer(&query(&labels, 1)).unwrap();
        assert_eq!(
            (code, &bytes[..2], &bytes[4..12]),
            (OK, &[0xab, 0xcd][..], &[0, 1, 0, 1, 0, 0, 0, 0][..])
        );
        assert_eq!(&bytes[bytes.len() - 6..], [0, 4, 198, 18, 0, 1]);
        for kind in [2, 5, 6, 12, 15, 16, 28, 33, 64, 65, 255] {
            let (code, bytes) = answer(&query(&labels, kind)).unwrap();
            assert_eq!((code, &bytes[6..8]), (OK, &[0, 0][..]), "{kind}");
        }
        assert_eq!(answer(&query(&[b"other", b"example"], 1)).unwrap().0, NO_SUCH_NAME);
        assert_eq!(answer(&query(&[b"refused", b"example", b"com"], 1)).unwrap().0, REFUSED);
    }

    #[test]
    fn what_is_no_plain_question_is_answered_with_an_error() {
        let good = query(&[b"api", b"example", b"com"], 1);
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        for (what, bytes) in [
            ("no question", with(5, 0)),
            ("two questions", with(5, 2)),
            ("an answer", with(7, 1)),
            ("an authority", with(9, 1)),
            ("a pointer to itself", [&good[..12], &[0xc0, 12, 0, 1, 0, 1]].concat()),
            ("a pointer forward", [&good[..12], &[0xc0, 14, 1, b'a', 0, 0, 1, 0, 1]].concat()),
            ("a reserved label", with(12, 0x43)),
            ("a label beyond the end", with(12, 63)),
            ("no end", good[..good.len() - 5].to_vec()),
            ("no type", good[..good.len() - 3].to_vec()),
            ("a dot in a label", query(&[b"api.example", b"com"], 1)),
            ("a NUL", query(&[b"a\0b", b"example", b"com"], 1)),
            ("other letters", query(&["grün".as_bytes(), b"com"], 1)),
            ("the root", query(&[], 1)),
            ("a name that is too long", query(&[[b'a'; 63].as_slice(); 4], 1)),
        ] {
            assert_eq!(answer(&bytes).map(|(code, _)| code), Some(FORMAT_ERROR), "{what}");
        }
        assert_eq!(answer(&with(2, 0x81)), None, "a response");
        assert_eq!(answer(&with(2, 0x29)).unwrap().0, NOT_IMPLEMENTED, "an update");
        assert_eq!(answer(&good[..11]), None, "half a header");
        for length in 0..good.len() {
            answer(&good[..length]);
        }
    }
}
