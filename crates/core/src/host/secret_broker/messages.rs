//! What of requests and answers goes between a script and a host of secrets: only answers that can be searched come back.

/// Headers that ask for a part of an answer, or for one that cannot be searched.
const DROPPED_HEADERS: [&str; 6] =
    ["accept-charset", "accept-encoding", "if-range", "range", "request-range", "x-ms-range"];

/// The beginnings of the names of character sets in which ASCII stands for itself.
const ASCII_CHARSETS: [&str; 12] = [
    "utf-8",
    "utf8",
    "us-ascii",
    "ascii",
    "iso-8859-",
    "latin",
    "windows-125",
    "koi8-",
    "gb",
    "big5",
    "euc-",
    "shift_jis",
];

/// Whether a header of a request is not sent to a host of secrets.
pub fn is_dropped_header(name: &str, value: &[u8]) -> bool {
    let is_dropped = DROPPED_HEADERS.iter().any(|dropped| name.eq_ignore_ascii_case(dropped));
    is_dropped
        || name.eq_ignore_ascii_case("accept")
            && value.to_ascii_lowercase().windows(7).any(|part| part == b"charset")
}

/// Why an answer of a host of secrets is none that can be searched, as the end of a sentence; `None` if it can be.
pub fn unsearchable_answer<'h>(
    status: u16,
    headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
) -> Option<&'static str> {
    const PARTIAL: &str = "is a part of one, in which a part of a secret would not be recognised";
    if status == 206 {
        return Some(PARTIAL);
    }
    headers.into_iter().find_map(|(name, value)| {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        let words = String::from_utf8_lossy(value).to_ascii_lowercase();
        let only = |word: &str| words.trim() == word;
        if is("content-range") || is("content-type") && words.trim_start().starts_with("multipart/byteranges")
        {
            Some(PARTIAL)
        } else if is("content-encoding") && !only("identity") {
            Some("is compressed, so it cannot be searched for the secrets of the run")
        } else if is("transfer-encoding") && !only("chunked") {
            Some("is in an unknown transfer coding, so it cannot be searched for the secrets of the run")
        } else if is("content-type") && !has_ascii_charset(&words) {
            Some("is in an unknown character set, so it cannot be searched for the secrets of the run")
        } else {
            None
        }
    })
}

/// Whether a content type, in small letters, names no character set or one of those known.
fn has_ascii_charset(content_type: &str) -> bool {
    let mut charsets = content_type.split(';').filter_map(|part| part.trim().strip_prefix("charset"));
    charsets.all(|charset| {
        let name = charset.trim_start().strip_prefix('=').unwrap_or(charset).trim().trim_matches(['"', '\'']);
        name.is_empty() || ASCII_CHARSETS.iter().any(|known| name.starts_with(known))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_searched_comes_back() {
        for (status, name, value, is_searchable) in [
            (200, "content-type", "application/json", true),
            (404, "Content-Type", "text/html; charset=\"UTF-8\"", true),
            (200, "content-type", "text/plain;charset=iso-8859-1", true),
            (200, "content-type", "text/plain; charset=UTF-16LE", false),
            (200, "content-type", "text/plain; charset = utf-7", false),
            (200, "content-type", "text/plain; charset=cp037", false),
            (206, "content-type", "text/plain", false),
            (200, "content-range", "bytes 0-1/2", false),
            (200, "content-type", "multipart/byteranges; boundary=x", false),
            (200, "content-encoding", "gzip", false),
            (200, "content-encoding", "Identity", true),
            (200, "transfer-encoding", "chunked", true),
            (200, "transfer-encoding", "gzip, chunked", false),
        ] {
            let found = unsearchable_answer(status, [(name, value.as_bytes())]);
            assert_eq!(found.is_none(), is_searchable, "{status} {name}: {value}");
        }
        for (name, value, is_dropped) in [
            ("Range", "bytes=1-", true),
            ("Accept", "*/*", false),
            ("Accept", "text/plain; Charset=UTF-16", true),
            ("Accept-Charset", "x", true),
            ("X-Key", "charset", false),
        ] {
            assert_eq!(is_dropped_header(name, value.as_bytes()), is_dropped, "{name}: {value}");
        }
    }
}
