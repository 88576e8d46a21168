//! Converts file names to text and back. Names that are not UTF-8 are escaped, and the escaped form opens them again.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

/// A name as text: bytes that are not UTF-8 become `\xFF`, and a backslash that would read as an escape becomes `\x5C`, so two
/// names never look alike. Every other name is unchanged.
pub fn encode(name: &OsStr) -> Cow<'_, str> {
    let bytes = name.as_encoded_bytes();
    match std::str::from_utf8(bytes) {
        Ok(text) if !has_escape(text) => Cow::Borrowed(text),
        _ => Cow::Owned(escape(bytes)),
    }
}

/// The path that [`encode`] wrote. Only its own spelling counts as an escape: `.e\x6Ev` is a name with a backslash, not `.env`.
pub fn decode(path: &str) -> Cow<'_, Path> {
    if has_escape(path) {
        let bytes = unescape(path);
        if escape(&bytes) == path {
            return Cow::Owned(from_bytes(bytes));
        }
    }
    Cow::Borrowed(Path::new(path))
}

fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid();
        for (at, letter) in valid.char_indices() {
            match letter {
                '\\' if escape_at(valid.as_bytes(), at).is_some() => text.push_str("\\x5C"),
                letter => text.push(letter),
            }
        }
        text.extend(
            chunk.invalid().iter().flat_map(|byte| ['\\', 'x', hex_digit(byte >> 4), hex_digit(byte & 15)]),
        );
    }
    text
}

fn unescape(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let (byte, length) = escape_at(bytes, at).map_or((bytes[at], 1), |byte| (byte, 4));
        plain.push(byte);
        at += length;
    }
    plain
}

fn has_escape(text: &str) -> bool {
    let bytes = text.as_bytes();
    text.match_indices('\\').any(|(at, _)| escape_at(bytes, at).is_some())
}

/// The byte that `\xHH` at this position stands for; only with upper case digits.
fn escape_at(bytes: &[u8], at: usize) -> Option<u8> {
    let [b'\\', b'x', high, low] = *bytes.get(at..at + 4)? else { return None };
    Some(hex_value(high)? << 4 | hex_value(low)?)
}

fn hex_digit(half: u8) -> char {
    char::from_digit(half.into(), 16).unwrap_or('0').to_ascii_uppercase()
}

fn hex_value(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(unix)]
fn from_bytes(bytes: Vec<u8>) -> std::path::PathBuf {
    use std::os::unix::ffi::OsStringExt;
    std::ffi::OsString::from_vec(bytes).into()
}

/// On other systems names are Unicode, or have no text form here.
#[cfg(not(unix))]
fn from_bytes(bytes: Vec<u8>) -> std::path::PathBuf {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn every_name_comes_back_and_no_two_look_alike() {
        let names: [&[u8]; 8] = [
            b"plain.txt",
            b"back\\slash",
            b"a\\xFF",
            b"a\xFF",
            b"\\x5CxFF",
            b"\xC3",
            "gr\u{fc}n".as_bytes(),
            b"\\\xFE\\x4\xFD",
        ];
        let mut seen = std::collections::HashSet::new();
        for name in names {
            let shown = encode(OsStr::from_bytes(name)).into_owned();
            assert_eq!(decode(&shown).as_os_str().as_bytes(), name, "{shown}");
            assert!(seen.insert(shown));
        }
    }

    #[test]
    fn an_escape_that_was_not_needed_is_a_plain_name() {
        for disguise in [".e\\x6Ev", "a\\x2Fb", "\\x2E\\x2E", "a\\x00"] {
            assert_eq!(decode(disguise).as_os_str(), disguise);
        }
    }
}
