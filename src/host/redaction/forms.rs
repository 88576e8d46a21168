//! The forms in which a secret is written: unchanged, and as quoted or escaped by languages, shells and pages.

use std::fmt::Write as _;

use serde_json::Value;

/// A secret beyond this many bytes is known as it is and as JSON writes it, and by its first lines.
const LONG_SECRET_BYTES: usize = 64 << 10;

/// A line of a secret is a secret of its own from this many characters.
pub(super) const MIN_SECRET_LINE_CHARS: usize = 8;

/// Bytes of a secret's end by which the end of a long one is known.
const TAIL_BYTES: usize = 64;

/// All forms of the value to search for.
pub(super) fn encoded_forms(value: &str) -> Vec<String> {
    let plain = value.trim();
    let mut forms = if plain.len() > LONG_SECRET_BYTES {
        vec![plain.into(), json(plain), tail(plain)]
    } else {
        escaped_forms(plain)
    };
    if plain != value && value.len() <= LONG_SECRET_BYTES {
        forms.extend(escaped_forms(value));
    }
    if plain.contains(['\n', '\r']) {
        let mut left = LONG_SECRET_BYTES;
        let lines = plain.split(['\n', '\r']).map(str::trim).filter(|line| is_secret(line));
        let lines = lines.take_while(|line| {
            left = left.saturating_sub(line.len());
            left > 0
        });
        forms.extend(lines.flat_map(escaped_forms));
    }
    forms.retain(|form| !form.is_empty());
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// Whether a line says anything: what begins and ends a key in PEM is the same in all of them.
fn is_secret(line: &str) -> bool {
    let is_frame = line.starts_with("-----") && line.ends_with("-----");
    !is_frame && super::finder::significant_chars(line) >= MIN_SECRET_LINE_CHARS
}

fn tail(text: &str) -> String {
    let start = (0..=text.len() - TAIL_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[start..].to_owned()
}

fn escaped_forms(plain: &str) -> Vec<String> {
    let is_simple = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    // The names of hosts are compared, and shown, in small letters.
    let small = plain.to_ascii_lowercase();
    let small = if super::finder::significant_chars(&small) >= MIN_SECRET_LINE_CHARS {
        small
    } else {
        plain.to_owned()
    };
    if plain.bytes().all(is_simple) {
        return vec![plain.to_owned(), small];
    }
    let in_json = json(plain);
    let ascii = ascii_json(plain, |unit| format!("\\u{unit:04x}"));
    let ascii_big = ascii_json(plain, |unit| format!("\\u{unit:04X}"));
    vec![
        plain.to_owned(),
        small,
        normalized_path(plain),
        in_json.replace('/', "\\/"),
        ascii.replace('/', "\\/"),
        json(&in_json),
        json(&ascii),
        in_json,
        ascii,
        ascii_big,
        // Rust: `{:?}` of a text, of a letter, and all escaped.
        rust_debug(plain),
        plain.escape_debug().to_string(),
        plain.escape_default().to_string(),
        hex_escaped(plain, false),
        hex_escaped(plain, true),
        lua_quoted(plain),
        percent_encoded(plain, "-_.~", "%20"),
        percent_encoded(plain, "-_.~/", "%20"),
        percent_encoded(plain, "-_.*", "+"),
        percent_encoded(plain, "-_.~!*'();:@&=+$,/?#", "%20"),
        percent_encoded_lowercase(plain),
        plain.replace('\'', "'\\''"),
        plain.replace('\'', "'\"'\"'"),
        html_escaped(plain, "&quot;", "&#39;"),
        html_escaped(plain, "&quot;", "&#x27;"),
        html_escaped(plain, "\"", "'"),
        plain.replace('~', "~0").replace('/', "~1"),
        // As filters leave it.
        plain.chars().filter(|c| !c.is_control()).collect(),
        replace_controls(plain, ' '),
        replace_controls(plain, '?'),
        replace_controls(plain, '\u{fffd}'),
        plain.split_whitespace().collect::<Vec<_>>().join(" "),
        plain.replace("\r\n", "\n"),
        plain.replace('\n', "\r\n"),
    ]
}

/// As it stands between the quotes of a JSON string.
fn json(text: &str) -> String {
    strip_quotes(&Value::from(text).to_string())
}

fn rust_debug(text: &str) -> String {
    strip_quotes(&format!("{text:?}"))
}

fn strip_quotes(quoted: &str) -> String {
    quoted[1..quoted.len() - 1].to_owned()
}

/// As Python and others write it, who escape every letter beyond ASCII.
fn ascii_json(text: &str, escape: impl Fn(u16) -> String) -> String {
    let mut ascii = String::new();
    for letter in json(text).chars() {
        if letter.is_ascii() {
            ascii.push(letter);
        } else {
            ascii.extend(letter.encode_utf16(&mut [0; 2]).iter().map(|unit| escape(*unit)));
        }
    }
    ascii
}

/// As Python's `repr`, C and `$'…'` write it.
fn hex_escaped(text: &str, with_quotes: bool) -> String {
    let mut written = String::new();
    for c in text.chars() {
        match c {
            '\n' => written.push_str("\\n"),
            '\r' => written.push_str("\\r"),
            '\t' => written.push_str("\\t"),
            '\\' => written.push_str("\\\\"),
            '\'' if with_quotes => written.push_str("\\'"),
            c if c.is_control() => drop(write!(written, "\\x{:02x}", u32::from(c))),
            c => written.push(c),
        }
    }
    written
}

/// As `%q` writes it.
fn lua_quoted(text: &str) -> String {
    let mut written = String::new();
    for c in text.chars() {
        match c {
            '"' | '\\' | '\n' => written.extend(['\\', c]),
            '\r' => written.push_str("\\r"),
            '\0' => written.push_str("\\000"),
            c => written.push(c),
        }
    }
    written
}

/// As addresses and forms have it.
fn percent_encoded(text: &str, kept: &str, space: &str) -> String {
    let mut written = String::new();
    for byte in text.bytes() {
        match byte {
            b' ' => written.push_str(space),
            byte if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) => {
                written.push(char::from(byte));
            }
            byte => drop(write!(written, "%{byte:02X}")),
        }
    }
    written
}

fn percent_encoded_lowercase(text: &str) -> String {
    let mut written = String::new();
    for byte in text.bytes() {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) => written.push(char::from(byte)),
            byte => drop(write!(written, "%{byte:02x}")),
        }
    }
    written
}

/// As a path is shown once its parts were resolved; as it is where too little would be left to look for.
fn normalized_path(text: &str) -> String {
    let mut parts = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    if super::finder::significant_chars(&path) >= MIN_SECRET_LINE_CHARS { path } else { text.to_owned() }
}

fn html_escaped(text: &str, quote: &str, apostrophe: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', quote).replace('\'', apostrophe)
}

fn replace_controls(text: &str, with: char) -> String {
    text.chars().map(|c| if c.is_control() { with } else { c }).collect()
}
