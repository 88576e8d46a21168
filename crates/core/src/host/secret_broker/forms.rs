//! The forms in which a secret and its placeholder stand in requests and answers: in addresses, JSON and HTML, and in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use crate::percent_encoding;

/// A character of a secret.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    /// The character; `None` where it is partly of the secret, and any other one stands for it.
    pub(super) value: Option<u8>,
    /// What takes its place.
    pub(super) placeholder: u8,
}

/// Each form of the first text with the same form of the second one, which has the same punctuation.
pub(super) fn pairs(from: &str, to: &str) -> Vec<(String, String)> {
    forms(from).into_iter().zip(forms(to)).collect()
}

/// A text as requests and answers have it: unchanged, in addresses and forms, in JSON, in HTML. Two texts of the same length and
/// punctuation have as many forms, of the same lengths, in the same order.
pub(super) fn forms(text: &str) -> Vec<String> {
    /// The characters besides letters and digits that encoders leave as they are: RFC 3986, JavaScript, Python, HTML forms.
    const UNENCODED: [&str; 4] = ["-._~", "-._~!*'()", "-._~/", "-._*"];
    if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        return vec![text.to_owned()];
    }
    let mut forms = vec![text.to_owned()];
    for plain in UNENCODED {
        let encoded = percent_encoding::encode(text.as_bytes(), plain);
        forms.push(with_small_digits(&encoded));
        forms.push(encoded);
    }
    let in_json = text.replace('\\', "\\\\").replace('"', "\\\"");
    forms.push(in_json.replace('/', "\\/"));
    forms.push(in_json);
    forms.push(text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;"));
    forms
}

/// The same with the digits of encoded bytes in small letters.
fn with_small_digits(encoded: &str) -> String {
    let mut left = 0_u8;
    let small = encoded.chars().map(|c| {
        let is_digit = left > 0;
        left = if c == '%' { 2 } else { left.saturating_sub(1) };
        if is_digit { c.to_ascii_lowercase() } else { c }
    });
    small.collect()
}

/// The characters of base64 that have bits of a secret, at each of the three places that the secret may have there: in the first and the last
/// one there may also be bits of what stands beside it. With those of the forms that the secret has in addresses and JSON.
pub(super) fn base64_patterns(value: &str, placeholder: &str) -> Vec<Vec<Unit>> {
    let mut pairs: Vec<(String, String)> = forms(value).into_iter().zip(forms(placeholder)).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let pairs = pairs.into_iter();
    pairs
        .flat_map(|(value, placeholder)| [0, 1, 2].map(|before| pattern(&value, &placeholder, before)))
        .collect()
}

fn pattern(value: &str, placeholder: &str, before: usize) -> Vec<Unit> {
    let encode = |text: &str| STANDARD_NO_PAD.encode([&vec![0; before], text.as_bytes()].concat());
    let (own, other) = (encode(value), encode(placeholder));
    let bits = (before * 8, (before + value.len()) * 8);
    let units = own.bytes().zip(other.bytes()).enumerate().filter_map(|(at, (own, other))| {
        let (first, last) = (at * 6, at * 6 + 6);
        let is_touched = last > bits.0 && first < bits.1;
        let is_whole = first >= bits.0 && last <= bits.1;
        is_touched.then_some(Unit {
            value: is_whole.then_some(own),
            placeholder: if is_whole { other } else { b'A' },
        })
    });
    units.collect()
}
