//! Private keys in PEM and in armour of PGP: what begins and ends them is fixed, and the lines between are base64.

use memchr::memmem;

/// What begins the first line.
pub(super) const BEGIN: &str = "-----BEGIN ";

/// Maximum bytes of the words between [`BEGIN`] and the end of its line.
const MAX_LABEL_BYTES: usize = 64;

/// Maximum bytes of a key.
const MAX_KEY_BYTES: usize = 64 << 10;

/// Characters of base64 from which something is a key, and not code that names its first line.
const MIN_KEY_CHARS: usize = 40;

/// Where the key ends that begins there: after its last line, or after the last of its characters where that line is missing. `None` if
/// there is none.
pub(super) fn end_of_key(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let label_start = start + BEGIN.len();
    let label_end = label_start + memmem::find(within(bytes, label_start, MAX_LABEL_BYTES), b"-----")?;
    let label = &text[label_start..label_end];
    let is_label =
        label.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b' ' || byte.is_ascii_digit());
    if !is_label || !label.contains("PRIVATE KEY") {
        return None;
    }
    let body_start = label_end + 5;
    let last = format!("-----END {label}-----");
    let rest = within(bytes, body_start, MAX_KEY_BYTES);
    let body = match memmem::find(rest, last.as_bytes()) {
        Some(length) if key_chars(&rest[..length]) >= MIN_KEY_CHARS => {
            return Some(body_start + length + last.len());
        }
        Some(length) => &rest[..length],
        None => rest,
    };
    let length = key_len(body);
    (key_chars(&body[..length]) >= MIN_KEY_CHARS).then_some(body_start + length)
}

/// Bytes of base64 and line breaks at the beginning, without the blanks at their end.
fn key_len(body: &[u8]) -> usize {
    let is_indent = |at: usize| at > 0 && body[at - 1].is_ascii_whitespace();
    let is_of_key = |(at, byte): &(usize, &u8)| match **byte {
        b' ' | b'\t' => is_indent(*at),
        b'\n' | b'\r' | b'+' | b'/' | b'=' | b'\\' => true,
        byte => byte.is_ascii_alphanumeric(),
    };
    let length = body.iter().enumerate().take_while(is_of_key).count();
    body[..length].trim_ascii_end().len()
}

fn within(bytes: &[u8], start: usize, max: usize) -> &[u8] {
    let rest = &bytes[start.min(bytes.len())..];
    &rest[..rest.len().min(max)]
}

fn key_chars(body: &[u8]) -> usize {
    body.iter().filter(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')).count()
}
