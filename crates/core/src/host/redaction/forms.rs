//! The forms in which a secret is written: unchanged, and as quoted or escaped by languages, shells and pages.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::Value;

use super::quoting::{backslashed, gnu_shell, html_escaped, javascript_escape, percent_encoded, shell_words};
use crate::unicode::strip_escape_sequences;

/// A secret beyond this many bytes is known as it is and as JSON writes it, and by its first lines.
const LONG_SECRET_BYTES: usize = 64 << 10;

/// A line of a secret is a secret of its own from this many characters.
pub(super) const MIN_SECRET_LINE_CHARS: usize = 8;

/// A shorter secret has no encoded form: other data would look like it by chance.
const MIN_ENCODED_BYTES: usize = 6;

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
    // Texts of processes lose their orders to a terminal before they are searched.
    let stripped = strip_escape_sequences(plain);
    if stripped != plain && is_secret(&stripped) && plain.len() <= LONG_SECRET_BYTES {
        forms.extend(escaped_forms(stripped.trim()));
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

/// How a secret is written as a part of base64, of both alphabets and at each of the three places that it may have there, without the
/// characters that depend on what stands beside it. Also as addresses and JSON write these.
pub(super) fn base64_forms(value: &str) -> Vec<String> {
    let plain = value.trim();
    if !(MIN_ENCODED_BYTES..=LONG_SECRET_BYTES).contains(&plain.len()) {
        return Vec::new();
    }
    let mut forms = Vec::new();
    for text in [plain.to_owned(), json(plain)] {
        for whole in base64_parts(&text) {
            let for_addresses = whole.replace('+', "-").replace('/', "_");
            let percent = whole.replace('+', "%2B").replace('/', "%2F");
            let small_percent = whole.replace('+', "%2b").replace('/', "%2f");
            forms.extend([whole.clone(), for_addresses, percent, small_percent, whole.replace('/', "\\/")]);
        }
    }
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// What base64 makes of a text at each of the three places that it may have there, without the characters that depend on what stands
/// beside it.
fn base64_parts(text: &str) -> [String; 3] {
    [0, 1, 2].map(|before: usize| {
        let padded = [&vec![0; before], text.as_bytes()].concat();
        let written = STANDARD_NO_PAD.encode(&padded);
        // The first character whose six bits are all of the secret, and the one after the last of these.
        written[(before * 8).div_ceil(6)..padded.len() * 8 / 6].to_owned()
    })
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
    let mut forms = vec![
        plain.to_owned(),
        small,
        normalized_path(plain),
        in_json.replace('/', "\\/"),
        ascii.replace('/', "\\/"),
        json(&in_json),
        json(&ascii),
        ascii_json(plain, |unit| format!("\\u{unit:04X}")),
        // JSON that may stand in a page: of Go, PHP and JavaScript, and of .NET.
        coded_json(&in_json, "<>&\u{2028}\u{2029}", |unit| format!("\\u{unit:04x}")),
        coded_json(&ascii, "<>&'", |unit| format!("\\u{unit:04x}")),
        dotnet_json(plain),
        in_json,
        ascii,
        // Rust: `{:?}` of a text, of a letter, and all escaped.
        rust_debug(plain),
        plain.escape_debug().to_string(),
        plain.escape_default().to_string(),
        // Shells.
        plain.replace('\'', "'\\''"),
        plain.replace('\'', "'\"'\"'"),
        shell_words(plain),
        gnu_shell(plain, false),
        gnu_shell(plain, true),
        // Quotes that are doubled: SQL, YAML, CSV and PowerShell.
        plain.replace('\'', "''"),
        plain.replace('"', "\"\""),
        javascript_escape(plain),
        plain.replace('~', "~0").replace('/', "~1"),
        // As filters leave it.
        plain.chars().filter(|c| !c.is_control()).collect(),
        replace_controls(plain, ' '),
        replace_controls(plain, '?'),
        replace_controls(plain, '\u{fffd}'),
        plain.split_whitespace().collect::<Vec<_>>().join(" "),
        plain.replace("\r\n", "\n"),
        plain.replace('\n', "\r\n"),
    ];
    forms.extend(backslashed(plain));
    forms.extend(percent_encoded(plain));
    if plain.contains(['\t', '\n', '\r']) {
        // Browsers drop them from addresses.
        forms.extend(percent_encoded(&plain.replace(['\t', '\n', '\r'], "")));
    }
    forms.extend(html_escaped(plain));
    // Most notations change nothing.
    forms.sort_unstable();
    forms.dedup();
    forms
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

/// As .NET writes it.
fn dotnet_json(text: &str) -> String {
    const LETTERS: [(char, &str); 6] =
        [('\n', "\\n"), ('\r', "\\r"), ('\t', "\\t"), ('\x08', "\\b"), ('\x0c', "\\f"), ('\\', "\\\\")];
    text.chars().fold(String::with_capacity(text.len()), |mut written, c| {
        let is_plain = c == ' ' || (c.is_ascii_graphic() && !"\"&'<>+`".contains(c));
        match LETTERS.iter().find(|(letter, _)| *letter == c) {
            Some((_, letter)) => written.push_str(letter),
            None if is_plain => written.push(c),
            None => written.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04X}"))),
        }
        written
    })
}

/// JSON with these characters as codes too.
fn coded_json(json: &str, coded: &str, code: impl Fn(u32) -> String) -> String {
    json.chars().fold(String::with_capacity(json.len()), |mut written, c| {
        if coded.contains(c) {
            written.push_str(&code(u32::from(c)));
        } else {
            written.push(c);
        }
        written
    })
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

fn replace_controls(text: &str, with: char) -> String {
    text.chars().map(|c| if c.is_control() { with } else { c }).collect()
}
