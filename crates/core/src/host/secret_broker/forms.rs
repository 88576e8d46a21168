//! The forms in which a secret and its placeholder stand in requests and answers.

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
