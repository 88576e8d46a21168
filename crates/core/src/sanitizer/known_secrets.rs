//! Finds secrets that are known by their form: by a prefix, or as a private key in PEM or in armour of PGP, where what begins and
//! ends it is fixed, and the lines between are base64.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};
use memchr::memmem;

use super::edit::Edit;
use crate::secret_family::{BodyEnd, FAMILIES, SecretFamily, Surroundings, begins_word};

/// The search for all prefixes, and the families of each.
struct PrefixSearch {
    prefixes: Option<AhoCorasick>,
    /// Of each prefix; none for that of private keys.
    families: Vec<Vec<&'static SecretFamily>>,
}

static PREFIX_SEARCH: LazyLock<PrefixSearch> = LazyLock::new(|| {
    let mut prefixes: Vec<&str> = vec![BEGIN];
    let mut families: Vec<Vec<&SecretFamily>> = vec![Vec::new()];
    for family in FAMILIES {
        for prefix in family.prefixes {
            let known = prefixes.iter().position(|known| known == prefix);
            if let Some(at) = known {
                families[at].push(family);
            } else {
                prefixes.push(prefix);
                families.push(vec![family]);
            }
        }
    }
    let search = AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .kind(Some(AhoCorasickKind::DFA))
        .build(prefixes);
    // It fails only for more prefixes than a number can count.
    PrefixSearch { prefixes: search.ok(), families }
});

/// The secrets in a text, in its order: each with the name of its family, but for the beginning of one at the end of a cut text, which
/// is removed.
pub(super) fn known_secret_edits(text: &str, around: &Surroundings<'_>) -> Vec<Edit> {
    let search = &*PREFIX_SEARCH;
    let Some(prefixes) = &search.prefixes else { return Vec::new() };
    let (mut edits, mut at) = (Vec::new(), 0);
    while let Some(found) = prefixes.find(Input::new(text).range(at..)) {
        let start = found.start();
        let families = &search.families[found.pattern().as_usize()];
        match secret_edit(text, (start, found.end()), families, around) {
            Some(edit) => {
                at = edit.range.end;
                edits.push(edit);
            }
            // Another prefix may begin within this one.
            None => at = start + 1,
        }
    }
    edits
}

/// The secret whose prefix stands there, if one follows.
fn secret_edit(
    text: &str,
    (start, prefix_end): (usize, usize),
    families: &[&SecretFamily],
    around: &Surroundings<'_>,
) -> Option<Edit> {
    if families.is_empty() {
        let end = end_of_key(text, start)?;
        return Some(Edit::new(start..end, "[secret:private-key]"));
    }
    let bytes = text.as_bytes();
    if !begins_word(bytes, start) && !around.is_junction(start) {
        return None;
    }
    let ends =
        families.iter().filter_map(|family| Some((family, family.body_end(bytes, prefix_end, around)?)));
    // A complete one says more than one that was cut.
    let (family, end) = ends.max_by_key(|(_, end)| matches!(end, BodyEnd::Complete(_)))?;
    Some(match end {
        BodyEnd::Complete(end) => Edit::new(start..end, format!("[secret:{}]", family.name)),
        BodyEnd::Cut(end) => Edit::removal(start..end),
    })
}

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
fn end_of_key(text: &str, start: usize) -> Option<usize> {
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
